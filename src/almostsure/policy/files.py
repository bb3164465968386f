"""Policies as safetensors files: arrays and a few strings, nothing that could run.

The strings are ``format``, ``version``, ``model`` (the fingerprint of the model) and ``total`` (empty for a
stationary policy); the arrays are ``choice`` or ``probability``, and ``rest_probability`` and ``rest_choice`` where
the policy comes to rest.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import CorruptFile, FileError, ModelMismatch, PolicyError
from almostsure.model.atomic import atomic_write
from almostsure.model.mdp import MDP
from almostsure.policy.policy import Policy, Rest

FORMAT = "almostsure policy"
VERSION = "1"
ARRAYS = {"choice": "i", "probability": "f", "rest_probability": "f", "rest_choice": "i"}


def save(policy: Policy, path: str | PathLike[str]) -> None:
    """Write ``policy`` to ``path``, atomically."""
    from safetensors.numpy import save as to_bytes

    arrays = {"choice": policy.choice, "probability": policy.probability}
    if policy.rest is not None:
        arrays |= {"rest_probability": policy.rest.probability, "rest_choice": policy.rest.choice}
    strings = {
        "format": FORMAT,
        "version": VERSION,
        "model": policy.mdp.fingerprint,
        "total": "" if policy.total is None else str(policy.total),
    }
    content = to_bytes({name: np.ascontiguousarray(a) for name, a in arrays.items() if a is not None}, strings)
    with atomic_write(path) as file:
        file.write(content)


def load(path: str | PathLike[str], mdp: MDP) -> Policy:
    """Read a policy of ``mdp`` from ``path``."""
    strings, arrays = _read(path)
    if strings.get("format") != FORMAT:
        raise CorruptFile(f"{os.fspath(path)!r} is not a policy file", path=path)
    if strings.get("version") != VERSION:
        raise FileError(
            f"{os.fspath(path)!r} has format version {strings.get('version')!r}; this release reads {VERSION!r}. "
            "Use the release that wrote it, or a newer one.",
            path=path,
        )
    if strings.get("model") != mdp.fingerprint:
        raise ModelMismatch(
            f"the policy in {os.fspath(path)!r} belongs to another model ({str(strings.get('model'))[:12]}) "
            f"than the one given ({mdp.fingerprint[:12]})."
        )
    try:
        return _build(mdp, strings.get("total", ""), arrays)
    except (PolicyError, ValueError, KeyError) as error:
        raise CorruptFile(f"{os.fspath(path)!r} does not hold a policy of its model: {error}", path=path) from error


def _read(path: str | PathLike[str]) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="np") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise CorruptFile(f"{os.fspath(path)!r} is damaged or not a policy file: {error}", path=path) from error
    except OSError as error:
        raise FileError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}", path=path) from error


def _build(mdp: MDP, total: str, arrays: dict[str, npt.NDArray[Any]]) -> Policy:
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
        total=int(total) if total else None,
        rest=rest,
    )
