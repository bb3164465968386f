"""A shield that needs NumPy and nothing else.

``allowed(state, remaining)`` says which actions keep the remaining damage budget in a state.  It raises where there is
none, and where it is asked about something that it does not know; it never answers with a default.  The table lies
beside this file, under the same name with ``.npz``, and is read when it is first needed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import operator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODEL = ""  # the fingerprint of the model that this is a shield of
TABLE = ""  # SHA-256 of the table that belongs to this file


class NoSafeAction(Exception):
    """No action of the state keeps the remaining budget."""


class UnknownState(LookupError):
    """The model has no such state."""


class DamagedTable(Exception):
    """The table beside this file is missing, damaged, or another one's."""


class _Table(NamedTuple):
    start: Any  # [num_states + 1] where each state's entries begin
    action: Any  # the actions of each state, ascending
    needed: Any  # the least remaining budget with which each is safe
    budget: int  # the largest remaining budget that the table knows about


@functools.cache
def _table() -> _Table:
    path = Path(__file__).with_suffix(".npz")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedTable(f"cannot read the table {path.name!r}: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != TABLE:
        raise DamagedTable(f"{path.name!r} is damaged, or not the table that this file was written with")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return _Table(arrays["start"], arrays["action"], arrays["needed"], int(arrays["budget"]))


def _whole(name: str, value: object) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r}") from None


def allowed(state: int, remaining: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ids of the actions that are safe in ``state`` with ``remaining`` left, ascending; at least one."""
    table, s, left = _table(), _whole("state", state), _whole("remaining", remaining)
    if not 0 <= s < len(table.start) - 1:
        raise UnknownState(f"unknown state {s}. States are 0 … {len(table.start) - 2}.")
    if left > table.budget:
        raise ValueError(f"remaining must be at most {table.budget}, what this table was made for; got {left}")
    entries = slice(int(table.start[s]), int(table.start[s + 1]))
    actions = table.action[entries][table.needed[entries] <= left] if left >= 0 else ()
    if not len(actions):
        raise NoSafeAction(f"no action of state {s} is safe with {left} left")
    return np.asarray(actions, np.int64)
