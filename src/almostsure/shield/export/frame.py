"""What all exported modules begin with: their errors, their table, and how arguments are read.

An export writes this in place of the line that imports it (:mod:`almostsure.shield.export.write`), so that the module
stands alone.
"""

from __future__ import annotations

import functools
import hashlib
import io
import operator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MODEL = ""  # the fingerprint of the model that this is a shield of
TABLE = ""  # SHA-256 of the table that belongs to this file

Actions = np.ndarray[Any, np.dtype[np.int64]]


class NoSafeAction(Exception):
    """No action of the state is safe with what is left."""


class UnknownState(LookupError):
    """The model has no such state."""


class DamagedTable(Exception):
    """The table beside this file is missing, damaged, or another one's."""


@functools.cache
def read_table() -> Any:
    """The arrays of the table by name; single numbers as integers."""
    path = Path(__file__).with_suffix(".npz")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedTable(f"cannot read the table {path.name!r}: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != TABLE:
        raise DamagedTable(f"{path.name!r} is damaged, or not the table that this file was written with")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        numbers = ("budget", "horizon")
        return SimpleNamespace(**{name: int(x) if name in numbers else x for name, x in arrays.items()})


def whole(name: str, value: object) -> int:
    """An integer that is not a truth value."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r}") from None


def known_state(name: str, value: object) -> int:
    """A state of the table."""
    state, count = whole(name, value), len(read_table().start) - 1
    if not 0 <= state < count:
        raise UnknownState(f"unknown state {state}. States are 0 … {count - 1}.")
    return state
