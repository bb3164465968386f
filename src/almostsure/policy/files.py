"""Policies as safetensors files; see :mod:`almostsure.files`.

The string is ``budget``, empty for a stationary policy; the arrays are ``choice`` or ``probability``, and
``rest_probability`` and ``rest_choice`` where the policy comes to rest.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy.typing as npt

from almostsure.errors import CorruptFile, PolicyError
from almostsure.files import load_tensors, save_tensors
from almostsure.model.mdp import MDP
from almostsure.policy.policy import Policy
from almostsure.policy.rows import Rest

ARRAYS = {"choice": "i", "probability": "f", "rest_probability": "f", "rest_choice": "i"}


def save(policy: Policy, path: str | PathLike[str]) -> None:
    """Write ``policy`` to ``path``, atomically."""
    arrays = {"choice": policy.choice, "probability": policy.probability}
    if policy.rest is not None:
        arrays |= {"rest_probability": policy.rest.probability, "rest_choice": policy.rest.choice}
    there = {name: array for name, array in arrays.items() if array is not None}
    budget = "" if policy.budget is None else str(policy.budget)
    save_tensors(path, kind="policy", model=policy.mdp.fingerprint, arrays=there, strings={"budget": budget})


def load(path: str | PathLike[str], mdp: MDP) -> Policy:
    """Read a policy of ``mdp`` from ``path``; what it says is checked as if a user had given it."""
    arrays, strings = load_tensors(path, kind="policy", model=mdp.fingerprint)
    try:
        return _build(mdp, strings.get("budget", ""), arrays)
    except (ValueError, KeyError) as error:
        raise CorruptFile(f"{os.fspath(path)!r} does not hold a policy of its model: {error}", path=path) from error


def _build(mdp: MDP, budget: str, arrays: dict[str, npt.NDArray[Any]]) -> Policy:
    unknown = set(arrays) - set(ARRAYS)
    if unknown:
        raise PolicyError(f"it has an unknown array {min(unknown)!r}")
    for name, array in arrays.items():
        if array.dtype.kind != ARRAYS[name] or array.dtype.itemsize not in (4, 8):
            raise PolicyError(f"{name} has type {array.dtype}")
    rest = None
    if "rest_probability" in arrays or "rest_choice" in arrays:
        rest = Rest(probability=arrays["rest_probability"], choice=arrays["rest_choice"])
    return Policy(
        mdp,
        choice=arrays.get("choice"),
        probability=arrays.get("probability"),
        budget=int(budget) if budget else None,
        rest=rest,
    )
