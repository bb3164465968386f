"""Compiled: one component as compact arrays, the positions that can leave it almost surely, and first values."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.steps import NOWHERE, Part, read_ahead

STAY = NOWHERE  # the origin of the choice to stay
NO_STAY = np.empty(0, np.bool_)
SEARCHES = 64  # backward searches with some unusable choices, before giving up
LATE = 0.999999  # a cap on the probability of outcomes without a value yet, in first values


@njit(cache=True, error_model="numpy", borrows=True)
def spread(graph, members):
    """The numbers of choices and of entries of some pairs."""
    ptr, entry_ptr = graph.ptr, graph.entry_ptr
    choices, entries = 0, 0
    for x in members:
        choices += np.int64(ptr[x + 1]) - np.int64(ptr[x])
        entries += np.int64(entry_ptr[ptr[x + 1]]) - np.int64(entry_ptr[ptr[x]])
    return choices, entries


@njit(cache=True, error_model="numpy")
def fitted(room, sizes):
    """The filled part of the arrays of a component."""
    positions, choices, entries = sizes
    return Part(
        room.ptr[: positions + 1], room.entry_ptr[: choices + 1], room.column[:entries], room.factor[:entries],
        room.constant[:choices], room.origin[:choices], room.leak[:choices], room.pred_ptr[: positions + 1],
        room.pred[:entries],
    )  # fmt: skip


@njit(cache=True, error_model="numpy", borrows=True)
def cut(game, bounds, members, can_stay, part):
    """Fill the compact arrays of a component, given its members with those of each position side by side.

    Choices that may lead to pairs with value −∞, or that never leave their own position, are left out.  A position
    that ``can_stay`` gets the choice to stay, for reward 0.

    Returns the numbers of positions, choices and entries, and a tuple: the largest reward of a choice that may stay in
    the component (−∞: none), the largest value of an exit (NaN: not known), its largest error, the largest relative
    one (∞: an exit or a reward is above 0), and whether all members can leave almost surely (False: not known).
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, discount = game
    low, high, _, place, _ = bounds
    part_ptr, part_entry_ptr, column, factor, constant, part_origin, leaks, _, _ = part
    most, top, error, relative = -np.inf, -np.inf, 0.0, 0.0
    k, z, last, leaves, losing, is_endless = 0, 0, -1, False, False, False
    for i in range(members.size):
        read_ahead(game, bounds, members, i)
        x, here = members[i], np.int64(place[members[i]])
        if here != last:
            part_ptr[here], last = k, here
            if can_stay.size > 0 and can_stay[here]:
                constant[k], part_origin[k], leaks[k], part_entry_ptr[k] = 0.0, STAY, 1.0, z
                k += 1
        for j in range(ptr[x], ptr[x + 1]):
            c = origin[j]
            shift = np.int64(outcome_ptr[c]) - np.int64(entry_ptr[j])
            away, stay, out, worth_out, lost, start = 0.0, 0.0, 0.0, 0.0, False, z
            for e in range(np.int64(entry_ptr[j]), np.int64(entry_ptr[j + 1])):
                y, p = target[e], probability[e + shift]
                there = np.int64(place[y])
                if there == here:
                    stay += p
                elif there != NOWHERE:
                    away += p
                    column[z], factor[z] = there, discount * p
                    z += 1
                else:
                    out += p
                    below, above = low[y], high[y]
                    worth_out += p * (0.5 * below + 0.5 * above)
                    lost, is_endless = lost or above == -np.inf, is_endless or below == np.inf
                    top, (error, relative) = max(top, above), _widest(below, above, error, relative)
            most = max(most, gains[c]) if stay > 0.0 or z > start else most
            relative = np.inf if gains[c] > 0.0 else relative
            away += out
            leak, away = discount * out + (1.0 - discount) * (away + stay), away + (1.0 - discount) * stay
            leaves, losing = leaves or leak > 0.0, losing or lost
            if lost or away == 0.0:
                z = start
                continue
            if away != 1.0:
                for e in range(start, z):
                    factor[e] /= away
            constant[k] = (gains[c] + discount * worth_out) / away
            part_origin[k], leaks[k], part_entry_ptr[k], k = j, leak / away, start, k + 1
    part_ptr[last + 1], part_entry_ptr[k] = k, z
    relative = np.inf if top > 0.0 or error == np.inf else relative
    top = np.nan if top == np.inf and not is_endless else top
    return (last + 1, k, z), (most, top, error, relative, leaves and not losing)


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def _widest(below, above, error, relative):
    """Update the largest error and the largest relative error with one more pair of bounds."""
    wide, size = 0.5 * above - 0.5 * below, 0.5 * abs(above) + 0.5 * abs(below)
    if wide > relative * size:
        relative = wide / size
    return wide if wide > error else error, relative  # not max: NaN is no error


@njit(cache=True, error_model="numpy", borrows=True)
def list_predecessors(part, size):
    """Fill in the predecessors of each position."""
    ptr, entry_ptr, column, pred_ptr, pred = part.ptr, part.entry_ptr, part.column, part.pred_ptr, part.pred
    for x in range(size + 1):
        pred_ptr[x] = 0
    entries = entry_ptr[ptr[size]]
    for e in range(entries):
        pred_ptr[column[e] + 1] += 1
    for x in range(size):
        pred_ptr[x + 1] += pred_ptr[x]
    for x in range(size):
        for e in range(entry_ptr[ptr[x]], entry_ptr[ptr[x + 1]]):
            y = column[e]
            pred[pred_ptr[y]] = x
            pred_ptr[y] += 1
    for x in range(size, 0, -1):
        pred_ptr[x] = pred_ptr[x - 1]
    pred_ptr[0] = 0


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def search_back(part, alive, usable, found, queue, is_first):
    """List the alive positions that reach an exit by usable choices, nearest to an exit first; returns their number.

    In the first search all positions are alive and all choices usable.
    """
    ptr, entry_ptr, column, leak = part.ptr, part.entry_ptr, part.column, part.leak
    pred_ptr, pred, count, done = part.pred_ptr, part.pred, 0, 0
    for x in range(alive.size):
        found[x] = False
        for k in range(ptr[x], ptr[x + 1]):
            if alive[x] and usable[k] and leak[k] > 0.0:
                found[x] = True
        if found[x]:
            queue[count] = x
            count += 1
    while done < count:
        y = queue[done]
        done += 1
        for q in range(pred_ptr[y], pred_ptr[y + 1]):
            x = pred[q]
            if found[x] or not alive[x]:
                continue
            found[x] = is_first
            for k in range(ptr[x], ptr[x] if is_first else ptr[x + 1]):
                if usable[k] and not found[x]:
                    for e in range(entry_ptr[k], entry_ptr[k + 1]):
                        if column[e] == y:
                            found[x] = True
            if found[x]:
                queue[count] = x
                count += 1
    return count


@njit(cache=True, error_model="numpy")
def leave_surely(part, size, usable, queue):
    """List the positions from which some policy of usable choices leaves almost surely, nearest to an exit first.

    Returns their number, and marks the choices that may lead to other positions as unusable.  Two steps are repeated
    until nothing changes: search backward from the exits along usable choices; drop the positions not found, and with
    them every choice that may lead there.  If some choices are unusable from the beginning, it gives up after
    ``SEARCHES`` rounds and returns 0.
    """
    ptr, entry_ptr, column = part.ptr, part.entry_ptr, part.column
    list_predecessors(part, size)
    found, alive, lost = np.zeros(size, np.bool_), np.ones(size, np.bool_), not usable[: np.int64(ptr[size])].all()
    rounds = SEARCHES if lost else size + 1
    for _ in range(rounds):
        count = search_back(part, alive, usable, found, queue, not lost)
        lost = False
        for x in range(size):
            if alive[x] and not found[x]:
                alive[x] = False
                lost = True
        if not lost:
            return count
        for x in range(size):
            for k in range(ptr[x], ptr[x + 1]):
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    if not alive[column[e]]:
                        usable[k] = False
    return 0


@njit(cache=True, error_model="numpy", borrows=True)
def guess(part, usable, order, value):
    """Fill in first values, in the given order: outcomes without a value yet count as self-loops."""
    ptr, entry_ptr, column, factor, constant, leak = (
        part.ptr,
        part.entry_ptr,
        part.column,
        part.factor,
        part.constant,
        part.leak,
    )
    for x in order:
        best = -np.inf
        for k in range(ptr[x], ptr[x + 1]):
            if not usable[k]:
                continue
            worth, later, leaves = constant[k], 0.0, leak[k] > 0.0
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                if value[column[e]] == -np.inf:
                    later += factor[e]
                else:
                    leaves = True
                    worth += factor[e] * value[column[e]]
            if leaves:
                best = max(best, worth / (1.0 - min(later, LATE)))
        value[x] = best


@njit(cache=True, error_model="numpy", borrows=True)
def hints(game, members, known, hint, sure):
    """Fill in the known values of the members' states; elsewhere the best known value of a successor, or −∞.

    ``sure`` is where the state left almost surely with the same budget or less.
    """
    state, remaining, ptr, _, entry_ptr, target = game.graph
    worth, left = known
    for i in range(members.size):
        x = members[i]
        hint[i] = worth[state[x]]
        sure[i] = hint[i] > -np.inf and left[state[x]] <= remaining[x]
        if not hint[i] > -np.inf:
            hint[i] = -np.inf
            for e in range(entry_ptr[ptr[x]], entry_ptr[ptr[x + 1]]):
                if worth[state[target[e]]] > hint[i]:
                    hint[i] = worth[state[target[e]]]


@njit(cache=True, error_model="numpy")
def by_worth(members, hint, sure, worths):
    """Sort members, hints and ``sure`` into this many buckets by hint, the best first; stable within a bucket.

    So members that are adjacent in memory and have about the same value stay adjacent.
    """
    top, bottom = -np.inf, np.inf
    for worth in hint:
        top = max(top, worth)
        bottom = min(bottom, worth) if worth > -np.inf else bottom
    scale = worths / max(top - bottom, 1e-300)
    at, start = np.empty(hint.size, np.uint32), np.zeros(worths + 3, np.int64)
    for i in range(hint.size):
        at[i] = np.uint32(min((top - hint[i]) * scale, worths)) if hint[i] > -np.inf else np.uint32(worths + 1)
        start[at[i] + 1] += 1
    start = np.cumsum(start)
    result = np.empty_like(members), np.empty_like(hint), np.empty_like(sure)
    for i in range(hint.size):
        j = start[at[i]]
        result[0][j], result[1][j], result[2][j] = members[i], hint[i], sure[i]
        start[at[i]] += 1
    return result


@njit(cache=True, error_model="numpy", borrows=True)
def reorder(part, order, usable, room):
    """Copy the given positions, in that order and with their usable choices only, to ``room``.

    ``room`` may be the component itself if the order is ascending.  Returns the numbers of choices and entries copied.
    """
    ptr, entry_ptr, column, factor, constant, origin, leak, _, _ = part
    new_ptr, new_entry_ptr, new_column, new_factor, new_constant, new_origin, new_leak, position, _ = room
    j, z, last, end = 0, 0, -2, np.int64(0)
    for i in range(order.size):
        position[order[i]] = i
    new_ptr[0], new_entry_ptr[0] = 0, 0
    for i in range(order.size):
        x = np.int64(order[i])
        begin = end if x == last + 1 else np.int64(ptr[x])  # which may have been overwritten
        last, end = x, np.int64(ptr[x + 1])
        for k in range(begin, end):
            if not usable[k]:
                continue
            for e in range(np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])):
                new_column[z], new_factor[z] = position[column[e]], factor[e]
                z += 1
            new_constant[j], new_origin[j], new_leak[j] = constant[k], origin[k], leak[k]
            j += 1
            new_entry_ptr[j] = z
        new_ptr[i + 1] = j
    return j, z


@njit(cache=True, error_model="numpy", borrows=True)
def write(graph, bounds, members, chosen, value, known):
    """Write the members' choices (those of their positions, or else their first) and their states' values as hints."""
    state, remaining, ptr, policy, place = graph.state, graph.remaining, graph.ptr, bounds.policy, bounds.place
    worth, left = known
    for x in members:
        i = place[x]
        policy[x] = chosen[i] if chosen[i] != NOWHERE else ptr[x]
        worth[state[x]], left[state[x]] = value[i], remaining[x]


@njit(cache=True, error_model="numpy")
def first_policy(part, usable, order, policy):
    """Fill in a policy that leaves almost surely: usable choices that may lead to an exit or earlier in the order."""
    rank = np.full(part.ptr.size, part.ptr.size)
    for i in range(order.size):
        x = order[i]
        rank[x] = i
        for k in range(part.ptr[x + 1] - 1, np.int64(part.ptr[x]) - 1, -1):
            nearer = part.leak[k] > 0.0
            for e in range(part.entry_ptr[k], part.entry_ptr[k + 1]):
                nearer = nearer or rank[part.column[e]] < i
            if usable[k] and nearer:
                policy[x] = k


@njit(cache=True, error_model="numpy")
def leaves(part, order, policy):
    """Whether the policy leaves the component almost surely from the given positions, a set closed under it."""
    size, usable = part.ptr.size - 1, np.zeros(part.leak.size, np.bool_)
    found, alive, queue = np.zeros(size, np.bool_), np.zeros(size, np.bool_), np.empty(size, np.uint32)
    for x in order:
        usable[policy[x]], alive[x] = True, True
    list_predecessors(part, size)
    return search_back(part, alive, usable, found, queue, False) == order.size
