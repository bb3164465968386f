"""Compiled: small components in which every step costs, and single pairs, settled where they stand, with bounds."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.component.approach import approach, eliminate, relax
from almostsure.plan.assured.component.parts import NO_STAY, cut, guess, leave_surely
from almostsure.plan.assured.steps import NOWHERE, prove, read_ahead, step_back
from almostsure.plan.assured.sums import EPSILON

ELIMINATED = 40  # pairs of a component in which a policy is evaluated by elimination
ROUNDS_BETWEEN = 4  # eliminations
ELIMINATIONS = 20
ROUNDING = 8.0 * EPSILON  # of a step, relative to the largest value


@njit(cache=True, error_model="numpy", borrows=True)
def settle_small(game, bounds, members, part, scratch, half):
    """Settle a small component in which staying costs; False where another method is needed."""
    state, ptr, origin, place, chosen = game.graph.state, game.graph.ptr, part.origin, bounds.place, bounds.policy
    for i in range(members.size):
        place[members[i]] = i
    _, (most, top, error, relative, all_leave) = cut(game, bounds, members, NO_STAY, part)
    done = False
    if most < 0.0 and top < np.inf and game.discount == 1.0:
        value, usable, queue, policy, height, (worth, left) = scratch
        order = queue[: _begin(game, members, part, scratch, all_leave and members.size <= ELIMINATED)]
        change = _values(part, usable, order, value, policy, -0.5 * half * most)
        for i in order:
            if not np.isfinite(value[i]):  # a guess that went astray is no value: −∞ would be taken as lost
                change = np.inf
        if change < np.inf:
            for i in range(members.size):
                x = members[i]
                chosen[x] = origin[policy[i]] if value[i] > -np.inf else ptr[x]
                worth[state[x]], left[state[x]] = value[i], game.graph.remaining[x]
                top = max(top, value[i])
                if value[i] > -np.inf:
                    change = max(change, ROUNDING * abs(value[i]))
            for i in range(members.size):
                height[i] = 1.0 + (top - value[i]) / -most
            done = prove(game, bounds, members, value, height, (error, relative, -most, change), False)
    for x in members:
        place[x] = NOWHERE
    return done


@njit(cache=True, error_model="numpy", borrows=True)
def _begin(game, members, part, scratch, all_leave):
    """First values of those who surely leave, and an order of them; returns how many they are.

    Where all of them surely leave, by any choices, each follows those that it may lead to, or an exit.
    """
    state, (value, usable, queue, _, _, (worth, _)), size = game.graph.state, scratch, members.size
    for i in range(size):
        known = worth[state[members[i]]]
        value[i] = known if known > -np.inf else -np.inf
    count, before = 0, -1
    if all_leave:
        usable[: part.ptr[size]] = True
    while all_leave and before < count < size:
        before, count = count, 0
        for i in range(size):
            queue[count] = i
            if value[i] == -np.inf:
                guess(part, usable, queue[count : count + 1], value)
            count += value[i] > -np.inf
    if count < size:
        count = leave_surely(part, size, usable, queue)
        value[:size] = -np.inf
        guess(part, usable, queue[:count], value)
        for i in queue[:count]:
            known = worth[state[members[i]]]
            value[i] = known if known > -np.inf else value[i]
    return count


@njit(cache=True, error_model="numpy", borrows=True)
def _values(part, usable, order, value, policy, threshold):
    """Values that change by at most the threshold; returns the last change, or ∞ if they were not found."""
    if order.size > ELIMINATED:
        return approach(part, usable, order, value, policy, threshold)
    for _ in range(ELIMINATIONS):
        for _again in range(ROUNDS_BETWEEN):
            change = relax(part, usable, order, value, policy)
            if change <= threshold:
                return change
        if not eliminate(part, order, policy, value):
            return np.inf
    return np.inf


@njit(cache=True, error_model="numpy", borrows=True)
def settle(game, bounds, order, begin, small, part, scratch, half):
    """Settle components one by one, until one is too large or needs another method; returns its number."""
    start, member = order
    i = begin
    while i < start.size - 1:
        i = step_back(game, bounds, order, i)
        while i < start.size - 1 and start[i + 1] - start[i] > 1:
            if start[i + 1] - start[i] > small:
                return i
            for j in range(np.int64(start[i]), np.int64(start[i + 1])):
                read_ahead(game, bounds, member, j)
            if not settle_small(game, bounds, member[start[i] : start[i + 1]], part, scratch, half):
                return i
            i += 1
    return i


@njit(cache=True, error_model="numpy", borrows=True)
def largest(graph, order, small):
    """The most pairs, choices and entries that a component has, at most, that is settled where it stands."""
    start, ptr, entry_ptr = order[0], graph.ptr, graph.entry_ptr
    pairs, choices, entries = 0, 0, 0
    for i in range(start.size - 1):
        size = np.int64(start[i + 1]) - np.int64(start[i])
        pairs = max(pairs, size if 1 < size <= small else 0)
    for x in range(ptr.size - 1 if pairs > 0 else 0):
        choices = max(choices, np.int64(ptr[x + 1]) - np.int64(ptr[x]))
        entries = max(entries, np.int64(entry_ptr[ptr[x + 1]]) - np.int64(entry_ptr[ptr[x]]))
    return pairs, min(pairs * choices, graph.origin.size), min(pairs * entries, graph.target.size)
