"""Solving for a horizon: whole sweeps of the operator on small models, compiled ones on large models.

:mod:`almostsure.budget.horizon` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from almostsure.arguments import count
from almostsure.budget.horizon import HorizonBudget, Rises, Values, first_values, horizon_budget
from almostsure.budget.minimal import INFINITE, NO_CAP
from almostsure.model.arrays import grouped
from almostsure.model.mdp import MDP, Ints, Support

_NONE: tuple[Ints, Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
SMALL_WORK = 2_000_000  # outcomes times steps below which NumPy is quicker than loading a compiled loop


def forced_within(mdp: MDP, horizon: int, cap: int | None) -> HorizonBudget:
    """The least damage that can be forced within ``horizon`` steps, for that many and for every smaller number."""
    steps, limit = count("horizon", horizon, least=0), NO_CAP if cap is None else cap
    start = first_values(mdp)
    iterate = iterate_plain if mdp.num_outcomes * steps <= SMALL_WORK else _compiled()
    state, step, value, done = iterate(mdp.support, start, steps, limit)
    never = np.flatnonzero(start)
    state = np.concatenate([never, state])
    ptr, order = grouped(state, mdp.num_states)
    step = np.concatenate([np.zeros(never.size, np.int32), step])[order]
    value = np.concatenate([start[never], value])[order]
    rises = Rises(ptr, step.astype(np.int32), value.astype(np.int32))
    return horizon_budget(mdp, rises, steps, cap, done if done < steps else None).verified()


def iterate_plain(support: Support, start: Values, steps: int, cap: int) -> tuple[Ints, Ints, Ints, int]:
    """The plain twin: whole sweeps; returns state, step and value of every rise, and the steps that were done."""
    values, found = start.copy(), [_NONE]
    for step in range(1, steps + 1):
        cost = np.minimum(values[support.successor].astype(np.int64) + support.damage, INFINITE)
        of_choice = np.maximum.reduceat(cost, support.outcome_ptr[:-1].astype(np.int64))
        new = np.minimum.reduceat(of_choice, support.choice_ptr[:-1].astype(np.int64))
        new = np.maximum(np.where(new > cap, INFINITE, new), values)  # what is forbidden stays so
        risen = np.flatnonzero(new > values)
        if not risen.size:
            return _joined(found, step - 1)
        found.append((risen, np.full(risen.size, step), new[risen]))
        values = new.astype(np.int32)
    return _joined(found, steps)


def _joined(found: list[tuple[Ints, Ints, Ints]], done: int) -> tuple[Ints, Ints, Ints, int]:
    states, steps, values = (np.concatenate(column) for column in zip(*found, strict=True))
    return states, steps, values, done


def _compiled() -> Callable[..., tuple[Ints, Ints, Ints, int]]:
    from almostsure.budget.horizon_kernel import iterate_compiled

    return cast(Callable[..., tuple[Ints, Ints, Ints, int]], iterate_compiled)
