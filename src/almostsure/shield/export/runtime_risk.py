"""A shield with a stated risk that only needs NumPy.

``begin(state)`` returns the budget and the risk with which a run begins, ``allowed(state, remaining, risk)`` the
actions that keep the risk, and ``risk_after(…)`` the risk left after a step; with a horizon, the latter two also take
the number of steps left before the step.  If no action is allowed, or an argument is invalid or unknown, they raise an
error; they never return a default.  The table is next to this file, under the same name with ``.npz``, and is read on
first use.

``state_number("its name")``, or with the values of its variables, ``state_number(x=1, y=2)``, is the number of a state;
``names()`` has all names.

The table has for each state the entries ``start[s]`` … ``start[s + 1] − 1``, each with an ``action``, ascending.  It
has one row per remaining budget, up to ``budget`` (more makes no difference), and per number of steps left, up to
``horizon`` (0 without one).  ``used``, [rows, entries], is the risk that an entry takes, and ``least``, [rows, states],
the least risk of a state, both rounded up.  Runs begin in the states ``initial``, each with its ``share`` of the risk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from almostsure.shield.export.frame import Actions, NoSafeAction, UnknownState, known_state, read_table, whole


def _place(state: int, remaining: int, risk: float, steps_left: int | None) -> tuple[Any, int, int, float, int]:
    """The table, and the validated state, remaining budget, risk and steps left."""
    table, s, left, rho = read_table(), known_state("state", state), whole("remaining", remaining), float(risk)
    if not 0 <= rho <= 1:
        raise ValueError(f"risk must be a probability, 0 … 1; got {risk!r}")
    if (steps_left is None) != (table.horizon == 0):
        raise ValueError("steps_left must be given exactly if the table has a horizon")
    steps = 1 if steps_left is None else whole("steps_left", steps_left)
    if table.horizon and not 1 <= steps <= table.horizon:
        raise ValueError(f"steps_left must lie in 1 … {table.horizon}, the horizon of this table; got {steps}")
    return table, s, left, rho, steps


def _row(table: Any, left: int, steps: int) -> int:
    return int(min(left, table.budget) + (steps * (table.budget + 1) if table.horizon else 0))


def _used(table: Any, s: int, left: int, steps: int) -> Any:
    entries = slice(int(table.start[s]), int(table.start[s + 1]))
    if left < 0:
        return np.ones(entries.stop - entries.start)
    return table.used[_row(table, left, steps - 1 if table.horizon else 0), entries]


def begin(state: int) -> tuple[int, float]:
    """The budget and the risk with which a run begins in an initial state."""
    table, s = read_table(), whole("state", state)
    at = np.flatnonzero(table.initial == s)
    if not at.size:
        raise UnknownState(f"runs do not begin in state {s}")
    return table.budget, float(table.share[at[0]])


def allowed(state: int, remaining: int, risk: float, steps_left: int | None = None) -> Actions:
    """The ids of the allowed actions of ``state`` with the remaining budget and risk, ascending; at least one."""
    table, s, left, rho, steps = _place(state, remaining, risk, steps_left)
    actions = table.action[int(table.start[s]) : int(table.start[s + 1])][_used(table, s, left, steps) <= rho]
    if not len(actions):
        raise NoSafeAction(f"no action of state {s} keeps the risk at {rho} with {left} left")
    return np.asarray(actions, np.int64)


def risk_after(
    state: int, remaining: int, risk: float, action: int, next_state: int, damage: int, steps_left: int | None = None
) -> float:
    """The remaining risk after an allowed action led to a state and did some damage."""
    table, s, left, rho, steps = _place(state, remaining, risk, steps_left)
    reached, after = known_state("next_state", next_state), left - whole("damage", damage)
    actions = table.action[int(table.start[s]) : int(table.start[s + 1])]
    at = np.flatnonzero(actions == whole("action", action))
    if not at.size or _used(table, s, left, steps)[at[0]] > rho:
        raise NoSafeAction(f"action {action} of state {s} was not allowed with a risk of {rho} and {left} left")
    if rho >= 1:
        return 1.0
    used = float(_used(table, s, left, steps)[at[0]])
    least = 1.0 if after < 0 else float(table.least[_row(table, after, steps - 1), reached])
    below = np.nextafter
    share = below(below(rho - used, 0.0) / below(1.0 - used, 2.0), 0.0)
    extra = below(below(1.0 - least, 0.0) * min(max(share, 0.0), 1.0), 0.0)
    return float(max(below(least + extra, 0.0), least))
