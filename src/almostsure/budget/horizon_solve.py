"""Solving for a horizon: full sweeps in NumPy for small models, a compiled iteration for large ones.

:mod:`almostsure.budget.horizon` has the mathematics.  The compiled iteration, whose plain twin is ``iterate_plain``,
only examines a state if the value of one of its successors rose in the step before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from almostsure.arguments import check_horizon
from almostsure.budget.horizon import HorizonBudget, Rises, Values, first_values, horizon_budget, worst_of_choices
from almostsure.budget.minimal import INFINITE, cap_limit
from almostsure.kernels import njit
from almostsure.memory import require
from almostsure.model.arrays import grouped
from almostsure.model.mdp import MDP, Ints, Support
from almostsure.progress import Bar

_NONE: tuple[Ints, Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
AT_ONCE = 1 << 16  # sweeps per call of the compiled loop
SMALL_WORK = 2_000_000  # below this many outcomes times steps NumPy is faster than loading the compiled loop


def forced_within(mdp: MDP, horizon: int, cap: int | None) -> HorizonBudget:
    """The least damage that can be forced within ``horizon`` steps, and within any smaller number of steps."""
    steps, start = check_horizon(horizon, least=0), first_values(mdp)
    iterate = iterate_plain if mdp.num_outcomes * steps <= SMALL_WORK else iterate_compiled
    state, step, value, done = iterate(mdp.support, start, steps, cap_limit(cap))
    never = np.flatnonzero(start)
    state = np.concatenate([never, state])
    ptr, order = grouped(state, mdp.num_states)
    step = np.concatenate([np.zeros(never.size, np.int32), step])[order]
    value = np.concatenate([start[never], value])[order]
    rises = Rises(ptr, step.astype(np.int32), value.astype(np.int32))
    return horizon_budget(mdp, rises, steps, cap, done if done < steps else None).verified()


def iterate_plain(support: Support, start: Values, steps: int, cap: int) -> tuple[Ints, Ints, Ints, int]:
    """The plain twin: full sweeps; returns state, step and value of all rises, and the number of steps done."""
    values, found, done = start.copy(), [_NONE], steps
    for step in range(1, steps + 1):
        new = np.minimum.reduceat(worst_of_choices(support, values), support.choice_ptr[:-1].astype(np.int64))
        new = np.maximum(np.where(new > cap, INFINITE, new), values)  # ∞ stays ∞
        risen = np.flatnonzero(new > values)
        if not risen.size:
            done = step - 1
            break
        found.append((risen, np.full(risen.size, step), new[risen]))
        values = new.astype(np.int32)
    state, at, value = (np.concatenate(column) for column in zip(*found, strict=True))
    return state, at, value, done


# ---------------------------------------------------------------------- compiled


def iterate_compiled(support: Any, start: Any, steps: int, cap: int) -> tuple[Any, Any, Any, int]:
    """State, step and value of all rises, and the number of steps done."""
    from scipy.sparse import csr_array

    size, nothing = support.num_states, np.zeros(support.num_outcomes, np.bool_)
    graph = csr_array((nothing, support.successor, support.outcome_ptr[support.choice_ptr]), shape=(size, size))
    before = graph.tocsc()  # the states that may lead to each state, with repetitions
    model = (support.choice_ptr, support.outcome_ptr, support.successor, support.damage)
    values, found, done = start.copy(), [np.zeros((0, 3), np.int64)], 0
    with Bar("budgets for every number of steps", steps) as bar:
        for first in range(0, steps, AT_ONCE):  # Ctrl-C works between calls, and memory is checked
            some, more = iterate(model, (before.indptr, before.indices), values, min(AT_ONCE, steps - first), cap)
            some[:, 1] += done
            found.append(some)
            done += more
            if more < AT_ONCE:
                break
            kept = sum(part.nbytes for part in found)
            require(3 * kept, f"the next of {steps:,} steps", "Take a shorter horizon, or a cap.")
            bar.update(done)
    state, step, value = np.concatenate(found).T
    return state, step, value, done


@njit(cache=True)
def iterate(model: Any, graph: Any, values: Any, steps: int, cap: int) -> Any:
    """Jacobi sweeps over the states that may rise; returns the rises, as (state, step, value), and the steps done."""
    ptr, before = graph
    size = values.size
    found, count = np.empty((max(size, 16), 3), np.int64), 0
    active, number = np.arange(size).astype(np.int32), size
    stamp = np.zeros(size, np.int32)
    for step in range(1, steps + 1):
        first = count
        for i in range(number):
            s = active[i]
            new = value_of(model, values, s, cap)
            if new > values[s]:
                if count == found.shape[0]:
                    larger = np.empty((2 * count, 3), np.int64)
                    larger[:count] = found
                    found = larger
                found[count, 0], found[count, 1], found[count, 2] = s, step, new
                count += 1
        if count == first:
            return found[:count], step - 1
        number = 0
        for i in range(first, count):
            s = found[i, 0]
            values[s] = found[i, 2]
            for j in range(ptr[s], ptr[s + 1]):
                if stamp[before[j]] != step:
                    stamp[before[j]] = step
                    active[number] = before[j]
                    number += 1
    return found[:count], steps


@njit(cache=True, inner=True)
def value_of(model: Any, values: Any, s: int, cap: int) -> Any:
    """Min over choices of max over outcomes of d + v(s'); INFINITE above the cap."""
    choice_ptr, outcome_ptr, successor, damage = model
    best = np.int64(INFINITE)
    for c in range(choice_ptr[s], choice_ptr[s + 1]):
        worst = np.int64(0)
        for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
            worst = max(worst, np.int64(values[successor[o]]) + np.int64(damage[o]))
            if worst >= best:
                break
        best = min(best, worst)
    return INFINITE if best > cap else best
