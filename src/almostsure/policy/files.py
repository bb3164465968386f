"""Policies as safetensors files; see :mod:`almostsure.files`.

The strings are ``budget``, empty for a stationary policy, and ``assured``; the arrays are ``choice`` or
``probability``, ``rest_probability`` and ``rest_choice`` if the policy comes to rest, and ``block`` if it has a
horizon.

A policy is *assured* if it has a budget, is undefined once overspent, and never overspends.  Unless a file says that
its policy is not assured, the worst damage is computed again when it is read.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy.typing as npt

from almostsure.errors import CorruptFile, NoSafeAction, PolicyError
from almostsure.files import load_tensors, must_hold, save_tensors
from almostsure.model.mdp import MDP
from almostsure.policy.evaluation.worst import worst_damage
from almostsure.policy.policy import Policy
from almostsure.policy.rows import Rest

ARRAYS = {"choice": "i", "probability": "f", "rest_probability": "f", "rest_choice": "i", "block": "i"}


def save(policy: Policy, path: str | PathLike[str]) -> None:
    """Write ``policy`` to ``path``, atomically."""
    arrays: dict[str, Any] = {"choice": policy.choice, "probability": policy.probability, "block": policy.block}
    if policy.rest is not None:
        arrays |= {"rest_probability": policy.rest.probability, "rest_choice": policy.rest.choice}
    there = {name: array for name, array in arrays.items() if array is not None}
    strings = {"budget": "" if policy.budget is None else str(policy.budget), "assured": _assured(policy)}
    save_tensors(path, kind="policy", model=policy.mdp.fingerprint, arrays=there, strings=strings)


def _assured(policy: Policy) -> str:
    """Whether the policy never overspends its budget: "yes", "no", or "" if it is defined for that case too."""
    if policy.budget is None or policy.knows_overspent:
        return ""
    try:
        return "yes" if worst_damage(policy.mdp, policy) <= policy.budget else "no"
    except NoSafeAction:  # it overspends, or reaches a pair at which it is undefined
        return "no"


def load(path: str | PathLike[str], mdp: MDP) -> Policy:
    """Read a policy of ``mdp`` from ``path``; its contents are validated like those of any policy."""
    arrays, strings = load_tensors(path, kind="policy", model=mdp.fingerprint)
    with must_hold(path, "a policy of its model"):
        policy = _build(mdp, strings.get("budget", ""), arrays)
    if strings.get("assured") != "no" and _assured(policy) == "no":
        raise CorruptFile(
            f"the policy in {os.fspath(path)!r} must never overspend its budget of {policy.budget}; it may. "
            "Solve the model again, and save the result.",
            path=path,
        )
    return policy


def _build(mdp: MDP, budget: str, arrays: dict[str, npt.NDArray[Any]]) -> Policy:
    unknown = set(arrays) - set(ARRAYS)
    if unknown:
        raise PolicyError(f"it has an unknown array {min(unknown)!r}")
    for name, array in arrays.items():
        if array.dtype.kind != ARRAYS[name] or array.dtype.itemsize not in (4, 8):
            raise PolicyError(f"{name} has type {array.dtype}")
    rest = None
    if "rest_probability" in arrays or "rest_choice" in arrays:
        rest = Rest(probability=arrays.pop("rest_probability"), choice=arrays.pop("rest_choice"))
    return Policy(mdp, budget=int(budget) if budget else None, rest=rest, **arrays)
