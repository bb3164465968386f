"""Compiled: single pairs and small components, settled inside one compiled call, with bounds.

Where every step costs, sweeps find the values of even a few thousand pairs.  Other small components are solved
directly: free end components are collapsed, and policies are evaluated by elimination.  If some steps are free, but
every policy leaves a tiny component, there is nothing to collapse, and no policy to be avoided.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.component.approach import approach, eliminate, iterate, narrow, relax
from almostsure.plan.assured.component.parts import (
    cut,
    first_policy,
    fitted,
    guess,
    leave_surely,
    leaves,
    write,
)
from almostsure.plan.assured.component.places import collapse, inner_graph, lead_out, may_gain
from almostsure.plan.assured.steps import NOWHERE, Part, prove, read_ahead, step_back, width
from almostsure.plan.assured.sums import EPSILON

ELIMINATED = 40  # the most pairs of a component in which all equations are solved by elimination
ROUNDS_BETWEEN = 4  # sweeps between two eliminations
ELIMINATIONS = 20  # the most eliminations
MEDIUM = 2_000  # the most pairs of a component in which some steps are free
DEAR = 2e7  # multiplications of an elimination from which other methods are tried
FIRST_ROUNDS = 24  # sweeps for a first policy
COST = 2.0  # of a step, where expected steps need not be exact
NEAR = 4.0  # choices whose value is less by at most this many times half the tolerance may be optimal
ROUNDING = 8.0 * EPSILON  # of a step, relative to the largest value


@njit(cache=True, error_model="numpy", borrows=True)
def settle(game, bounds, order, begin, small, part, scratch, half):
    """Settle components in order, up to the first that needs another method; returns its index.

    ``small`` is the most pairs of a component that is looked at.
    """
    start, member = order
    i = begin
    while i < start.size - 1:
        i = step_back(game, bounds, order, i)
        while i < start.size - 1 and start[i + 1] - start[i] > 1:
            if start[i + 1] - start[i] > small:
                return i
            members = member[start[i] : start[i + 1]]
            _place(game, bounds, order, i)
            done = _sweep(game, bounds, members, part, scratch, half)
            if not done and members.size <= MEDIUM:
                done = _settle_directly(game, bounds, members, part, scratch[-1], half)
            _forget(bounds, members)
            if not done:
                return i
            i += 1
    return i


@njit(cache=True, error_model="numpy")
def _settle_directly(game, bounds, members, part, known_values, half):
    """Settle a component by elimination; False if it needs another method."""
    sizes, known = cut(game, bounds, members, np.zeros(0, np.bool_), part)
    done = known[1] < np.inf and _solve(game, bounds, members, part, known_values, half, (sizes, known))
    return done and (game.discount < 1.0 or width(bounds, members) <= half)


@njit(cache=True, error_model="numpy", borrows=True, inline="always")
def _place(game, bounds, order, i):
    """Give the pairs of a component their positions."""
    start, member = order
    begin = np.int64(start[i])
    for j in range(begin, np.int64(start[i + 1])):
        read_ahead(game, bounds, member, j)
        bounds.place[member[j]] = j - begin


@njit(cache=True, error_model="numpy", borrows=True, inline="always")
def _forget(bounds, members):
    """Clear the positions of a component's pairs."""
    for x in members:
        bounds.place[x] = NOWHERE


@njit(cache=True, error_model="numpy", borrows=True, inline="always")
def _sweep(game, bounds, members, part, scratch, half):
    """Settle a component by sweeps; False if it fails, or if neither every step costs nor every policy leaves."""
    state, ptr, origin, chosen = game.graph.state, game.graph.ptr, part.origin, bounds.policy
    value, usable, queue, policy, height, (worth, left) = scratch
    sizes, (most, top, error, relative, all_leave) = cut(game, bounds, members, usable[:0], part)
    if not (top < np.inf and game.discount == 1.0):
        return False
    costs = most < 0.0
    if not costs and not (all_leave and _all_policies_leave(game, members, part, sizes, usable)):
        return False
    order = queue[: _begin(game, members, part, scratch, all_leave and members.size <= ELIMINATED)]
    if costs:
        change = _values(part, usable, order, value, policy, -0.5 * half * most)
    else:
        relax(part, usable, order, value, policy)
        change = 0.0 if iterate(part, usable, order, policy, value) else np.inf
    for i in order:
        if not np.isfinite(value[i]):  # diverged; −∞ would be taken for a lost pair
            change = np.inf
    if change == np.inf:
        return False
    for i in range(members.size):
        x = members[i]
        chosen[x] = origin[policy[i]] if value[i] > -np.inf else ptr[x]
        worth[state[x]], left[state[x]] = value[i], game.graph.remaining[x]
        top = max(top, value[i])
        if value[i] > -np.inf:
            change = max(change, (ROUNDING if costs else 0.5 * EPSILON) * abs(value[i]))
    if costs:
        for i in range(members.size):
            height[i] = 1.0 + (top - value[i]) / -most
    else:
        part.constant[: sizes[1]] = 1.0  # the most expected steps of any policy
        if not iterate(part, usable, order, policy, height):
            return False
    exits = (error, relative, -most, change)
    return prove(game, bounds, members, value, height, exits, False) and (costs or width(bounds, members) <= half)


@njit(cache=True, error_model="numpy", borrows=True)
def _all_policies_leave(game, members, part, sizes, found):
    """Whether every policy leaves a tiny component almost surely; False for larger components.

    That is so if each choice leads to an exit or to a position found before.  Choices that never leave their position
    are not in ``part``.
    """
    size, choices = sizes[0], 0
    for x in members:
        choices += np.int64(game.graph.ptr[x + 1]) - np.int64(game.graph.ptr[x])
    if size > ELIMINATED or choices != sizes[1]:
        return False
    found[:size] = False
    count, before = 0, -1
    while before < count < size:
        before = count
        for x in range(size):
            is_found = not found[x]
            for k in range(part.ptr[x], part.ptr[x + 1]):
                leads = part.leak[k] > 0.0
                for e in range(part.entry_ptr[k], part.entry_ptr[k + 1]):
                    leads = leads or found[part.column[e]]
                is_found = is_found and leads
            if is_found:
                found[x] = True
                count += 1
    return count == size


@njit(cache=True, error_model="numpy", inner=True)
def _solve(game, bounds, members, room, known_values, half, cut_before):
    """Settle a component by policy iteration with elimination; False if gains may go on for ever, or if it fails."""
    sizes, known = cut_before
    surely = game.discount == 1.0
    if surely and known[0] > 0.0 and may_gain(game, bounds, members):
        return False
    if surely:
        members, can_stay, inside, local = collapse(game, bounds, members)
    else:
        can_stay, local, inside = np.zeros(0, np.bool_), members, inner_graph(game, bounds, members[:0], True)
    if can_stay.any():
        sizes, known = cut(game, bounds, members, can_stay, room)
    part, merged = fitted(room, sizes), can_stay.any()
    most, top, error, relative, _ = known
    size = sizes[0]
    usable, order = np.ones(sizes[1], np.bool_), np.arange(size).astype(np.uint32)
    if surely:
        order = order[: leave_surely(part, size, usable, order)]
    value, policy = np.full(size, -np.inf), part.ptr[:-1].copy()
    guess(part, usable, order, value)
    if order.size > ELIMINATED:
        order, reach = narrow(part, order)
        if order.size * reach**2 > DEAR:
            return False
    if not _best_policy(part, usable, order, value, policy, half, surely):
        return False
    for x in order:
        if merged and can_stay[x] and value[x] < 0.0:  # staying is worth 0, and the proof does not check this choice
            value[x], policy[x] = 0.0, part.ptr[x]
    height = _height(game, part, usable, order, value, policy, half, (most, top))
    largest = 0.0
    chosen = np.full(size, NOWHERE)
    for x in order:
        if not (np.isfinite(value[x]) and np.isfinite(height[x])):
            return False
        largest, chosen[x] = max(largest, abs(value[x])), part.origin[policy[x]]
    write(game.graph, bounds, members, chosen, value, known_values)
    if merged:
        lead_out(game.graph, bounds, members, chosen, inside, local)
    return prove(game, bounds, members, value, height, (error, relative, -most, 0.5 * EPSILON * largest), merged)


@njit(cache=True, error_model="numpy", inner=True)
def _best_policy(part, usable, order, value, policy, half, surely):
    """Fill in the best policy and its values, given first ones; False if they were not found."""
    for _ in range(FIRST_ROUNDS):
        if relax(part, usable, order, value, policy) <= half:
            break
    if surely and not leaves(part, order, policy):
        first_policy(part, usable, order, policy)
    return iterate(part, usable, order, policy, value)


@njit(cache=True, error_model="numpy", inner=True)
def _height(game, part, usable, order, value, policy, half, known):
    """At most the effect on each value of an error of 1 per step, over choices that may be optimal; ∞: unknown."""
    most, top = known
    height = np.zeros(value.size)
    if game.discount < 1.0:
        height[:] = 1.0 / (1.0 - game.discount)
    elif most < 0.0 and top > -np.inf:
        for x in order:
            top = max(top, value[x])
        for x in order:
            height[x] = 1.0 + (top - value[x]) / -most
    elif not leaves(part, order, policy):
        height[:] = np.inf
    else:
        near = np.zeros(usable.size, np.bool_)
        for x in order:
            for k in range(part.ptr[x], part.ptr[x + 1]):
                worth = part.constant[k]
                for e in range(part.entry_ptr[k], part.entry_ptr[k + 1]):
                    worth += part.factor[e] * value[part.column[e]]
                near[k] = usable[k] and worth >= value[x] - NEAR * half * max(1.0, abs(value[x]))
            near[policy[x]] = True
        steps = Part(
            part.ptr, part.entry_ptr, part.column, part.factor, np.full(usable.size, COST), part.origin, part.leak,
            part.pred_ptr, part.pred,
        )  # fmt: skip
        is_tiny = order.size <= ELIMINATED
        if is_tiny or approach(steps, near, order, height, policy.copy(), COST - 1.1) == np.inf:
            height[:] = 0.0
            if not iterate(steps, near, order, policy.copy(), height):
                height[:] = np.inf
    return height


@njit(cache=True, error_model="numpy", borrows=True, inline="always")
def _begin(game, members, part, scratch, all_leave):
    """Fill in first values of the members that can leave almost surely, and an order of them; returns their number.

    Where every policy of all members leaves almost surely, each comes after an exit or one of its successors.
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
        usable[: part.ptr[size]] = True
        count = leave_surely(part, size, usable, queue)
        value[:size] = -np.inf
        guess(part, usable, queue[:count], value)
        for i in queue[:count]:
            known = worth[state[members[i]]]
            value[i] = known if known > -np.inf else value[i]
    return count


@njit(cache=True, error_model="numpy", borrows=True, inline="always")
def _values(part, usable, order, value, policy, threshold):
    """Iterate until values change by at most the threshold; returns the last change, ∞ if that is never reached."""
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
def largest(graph, order, small):
    """Upper bounds of the pairs, choices and entries of any component with at most ``small`` pairs."""
    start, ptr, entry_ptr = order[0], graph.ptr, graph.entry_ptr
    pairs, choices, entries = 0, 0, 0
    for i in range(start.size - 1):
        size = np.int64(start[i + 1]) - np.int64(start[i])
        pairs = max(pairs, size if 1 < size <= small else 0)
    for x in range(ptr.size - 1 if pairs > 0 else 0):
        choices = max(choices, np.int64(ptr[x + 1]) - np.int64(ptr[x]))
        entries = max(entries, np.int64(entry_ptr[ptr[x + 1]]) - np.int64(entry_ptr[ptr[x]]))
    return pairs, min(pairs * choices, graph.origin.size), min(pairs * entries, graph.target.size)
