"""Files of arrays that belong to a model: budgets, shields, policies.

They are safetensors files: arrays and a few strings, nothing that could run when it is read.  Each carries what
it holds (``format``), a ``version`` and the fingerprint of its ``model``.  Writing is atomic.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import CorruptFile, FileError, ModelMismatch
from almostsure.model.atomic import atomic_write
from almostsure.model.mdp import MDP

VERSION = "1"


def save_tensors(
    path: str | PathLike[str],
    *,
    kind: str,
    mdp: MDP,
    arrays: Mapping[str, npt.NDArray[Any]],
    strings: Mapping[str, str],
) -> None:
    """Write ``arrays`` and ``strings`` as a file of the given kind ("budget", "shield", "policy")."""
    from safetensors.numpy import save

    header = {"format": f"almostsure {kind}", "version": VERSION, "model": mdp.fingerprint, **strings}
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, header)
    with atomic_write(path) as file:
        file.write(content)


def tensors_kind(path: str | PathLike[str]) -> str | None:
    """What a file of :func:`save_tensors` holds ("budget", "shield", "policy"); None for any other file."""
    from safetensors import SafetensorError, safe_open

    try:
        with open(path, "rb") as file:
            if file.read(9)[8:] != b"{":  # a header follows its length
                return None
        with safe_open(os.fspath(path), framework="np") as tensors:
            package, _, kind = (tensors.metadata() or {}).get("format", "").partition(" ")
    except (SafetensorError, OSError):
        return None
    return kind if package == "almostsure" else None


def load_tensors(
    path: str | PathLike[str], *, kind: str, mdp: MDP
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Read arrays and strings of a file of the given kind that belongs to ``mdp``."""
    shown = os.fspath(path)
    arrays, strings = _read(path, kind)
    if strings.get("format") != f"almostsure {kind}":
        raise CorruptFile(f"{shown!r} is not a {kind} file; it says {strings.get('format')!r}", path=path)
    if strings.get("version") != VERSION:
        raise FileError(
            f"{shown!r} has format version {strings.get('version')!r}; this release reads {VERSION!r}. "
            "Use the release that wrote it, or a newer one.",
            path=path,
        )
    if strings.get("model") != mdp.fingerprint:
        raise ModelMismatch(
            f"the {kind} in {shown!r} belongs to another model ({str(strings.get('model'))[:16]}) "
            f"than the one given ({mdp.fingerprint[:16]}). Load the model that it was made for, or make it anew."
        )
    return arrays, strings


def _read(path: str | PathLike[str], kind: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError) as error:  # the latter two: a type that NumPy does not have
        raise CorruptFile(f"{os.fspath(path)!r} is damaged or not a {kind} file: {error}", path=path) from error
    except OSError as error:
        raise FileError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}", path=path) from error
