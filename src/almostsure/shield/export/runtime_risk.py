"""A shield with a stated risk that needs NumPy and nothing else.

``begin(state)`` says with which budget and risk a run begins, ``allowed(state, remaining, risk)`` which actions keep
the risk, and ``risk_after(…)`` what is left of it after a step; with a horizon, these two also take the steps that are
left before the step.  They raise where nothing is allowed, and where they are asked about something that they do not
know; they never answer with a default.  The table lies beside this file, under the same name with ``.npz``, and is read
when it is first needed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import operator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODEL = ""  # the fingerprint of the model that this is a shield of
TABLE = ""  # SHA-256 of the table that belongs to this file


class NoSafeAction(Exception):
    """No action of the state keeps the risk."""


class UnknownState(LookupError):
    """The model has no such state."""


class DamagedTable(Exception):
    """The table beside this file is missing, damaged, or another one's."""


class _Table(NamedTuple):
    start: Any  # [num_states + 1] where each state's entries begin
    action: Any  # the actions of each state, ascending
    used: Any  # [rows, entries] the risk that each entry takes, rounded up
    least: Any  # [rows, num_states] the least risk of each state, rounded up
    budget: int  # the remaining budget from which on more makes no difference
    horizon: int  # the most steps that the table knows about; 0 if it does not look at steps
    initial: Any  # the states in which runs begin
    share: Any  # the risk with which they begin in each


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
        start, action, used, least = (arrays[name] for name in ("start", "action", "used", "least"))
        budget, horizon = int(arrays["budget"]), int(arrays["horizon"])
        return _Table(start, action, used, least, budget, horizon, arrays["initial"], arrays["share"])


def _whole(name: str, value: object) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r}") from None


def _place(state: int, remaining: int, risk: float, steps_left: int | None) -> tuple[_Table, int, int, float, int]:
    """The table, state, what remains, the risk and the steps left, checked."""
    table, s, left, rho = _table(), _whole("state", state), _whole("remaining", remaining), float(risk)
    if not 0 <= s < len(table.start) - 1:
        raise UnknownState(f"unknown state {s}. States are 0 … {len(table.start) - 2}.")
    if not 0 <= rho <= 1:
        raise ValueError(f"risk must be a probability, 0 … 1; got {risk!r}")
    if (steps_left is None) != (table.horizon == 0):
        raise ValueError("steps_left must be given exactly where the table is for a horizon")
    steps = 1 if steps_left is None else _whole("steps_left", steps_left)
    if table.horizon and not 1 <= steps <= table.horizon:
        raise ValueError(f"steps_left must lie in 1 … {table.horizon}, what this table was made for; got {steps}")
    return table, s, left, rho, steps


def _row(table: _Table, left: int, steps: int) -> int:
    return min(left, table.budget) + (steps * (table.budget + 1) if table.horizon else 0)


def _used(table: _Table, s: int, left: int, steps: int) -> Any:
    entries = slice(int(table.start[s]), int(table.start[s + 1]))
    if left < 0:
        return np.ones(entries.stop - entries.start)
    return table.used[_row(table, left, steps - 1 if table.horizon else 0), entries]


def begin(state: int) -> tuple[int, float]:
    """The budget and the risk with which a run begins in one of the initial states."""
    table, s = _table(), _whole("state", state)
    at = np.flatnonzero(table.initial == s)
    if not at.size:
        raise UnknownState(f"runs do not begin in state {s}")
    return table.budget, float(table.share[at[0]])


def allowed(
    state: int, remaining: int, risk: float, steps_left: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ids of the actions that are allowed in ``state`` with what remains of budget and risk; at least one."""
    table, s, left, rho, steps = _place(state, remaining, risk, steps_left)
    actions = table.action[int(table.start[s]) : int(table.start[s + 1])][_used(table, s, left, steps) <= rho]
    if not len(actions):
        raise NoSafeAction(f"no action of state {s} keeps the risk at {rho} with {left} left")
    return np.asarray(actions, np.int64)


def risk_after(
    state: int,
    remaining: int,
    risk: float,
    action: int,
    next_state: int,
    damage: int,
    steps_left: int | None = None,
) -> float:
    """The risk that is left after an allowed action led to a state and did some damage."""
    table, s, left, rho, steps = _place(state, remaining, risk, steps_left)
    reached, after = _whole("next_state", next_state), left - _whole("damage", damage)
    if not 0 <= reached < len(table.start) - 1:
        raise UnknownState(f"unknown state {reached}. States are 0 … {len(table.start) - 2}.")
    actions = table.action[int(table.start[s]) : int(table.start[s + 1])]
    at = np.flatnonzero(actions == _whole("action", action))
    if not at.size or _used(table, s, left, steps)[at[0]] > rho:
        raise NoSafeAction(f"action {action} of state {s} was not allowed with a risk of {rho} and {left} left")
    if rho >= 1:
        return 1.0
    used = float(_used(table, s, left, steps)[at[0]])
    least = 1.0 if after < 0 else float(table.least[_row(table, after, steps - 1), reached])
    below = math.nextafter
    share = below(below(rho - used, 0.0) / below(1.0 - used, 2.0), 0.0)
    extra = below(below(1.0 - least, 0.0) * min(max(share, 0.0), 1.0), 0.0)
    return max(below(least + extra, 0.0), least)
