"""A shield for a number of steps that needs NumPy and nothing else.

``allowed(state, remaining, steps_left)`` says which actions keep the remaining damage budget until the steps are over.
It raises where there is none, and where it is asked about something that it does not know; it never answers with a
default.  The table lies beside this file, under the same name with ``.npz``, and is read when it is first needed.
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
NEVER = 2**31 - 1


class NoSafeAction(Exception):
    """No action of the state keeps the remaining budget."""


class UnknownState(LookupError):
    """The model has no such state."""


class DamagedTable(Exception):
    """The table beside this file is missing, damaged, or another one's."""


class _Table(NamedTuple):
    start: Any  # [num_states + 1] where each state's entries begin
    action: Any  # the actions of each state, ascending
    begin: Any  # [entries + 1] where the rises of each entry begin
    since: Any  # the steps left from which on an entry needs more, ascending
    needed: Any  # the least remaining budget with which it is then safe; NEVER if none is
    horizon: int  # the most steps that the table knows about


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
        start, action, begin, since, needed = (arrays[name] for name in _Table._fields[:5])
        return _Table(start, action, begin, since, needed, int(arrays["horizon"]))


def _whole(name: str, value: object) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r}") from None


def allowed(state: int, remaining: int, steps_left: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ids of the actions that are safe in ``state`` for the steps that are left, ascending; at least one."""
    table, s, left = _table(), _whole("state", state), _whole("remaining", remaining)
    steps = _whole("steps_left", steps_left)
    if not 0 <= s < len(table.start) - 1:
        raise UnknownState(f"unknown state {s}. States are 0 … {len(table.start) - 2}.")
    if not 1 <= steps <= table.horizon:
        raise ValueError(f"steps_left must lie in 1 … {table.horizon}, what this table was made for; got {steps}")
    actions = []
    for entry in range(int(table.start[s]), int(table.start[s + 1])):
        begin, end = int(table.begin[entry]), int(table.begin[entry + 1])
        at = begin + int(np.searchsorted(table.since[begin:end], steps, side="right")) - 1
        if table.needed[at] <= min(left, NEVER - 1):
            actions.append(int(table.action[entry]))
    if not actions:
        raise NoSafeAction(f"no action of state {s} is safe for {steps} steps with {left} left")
    return np.array(actions, np.int64)
