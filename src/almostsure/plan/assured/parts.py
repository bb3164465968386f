"""Compiled: one component as compact arrays, who surely leaves it, and first values."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.steps import NOWHERE, Part, read_ahead

STAY = NOWHERE  # the origin of the choice to rest
NO_STAY = np.empty(0, np.bool_)
NO_STAY.flags.writeable = False
LATE = 0.999999  # the largest probability of outcomes that are not known yet that a first value believes


@njit(cache=True, error_model="numpy", borrows=True)
def spread(graph, members):
    """How many choices and entries some pairs have."""
    ptr, entry_ptr = graph.ptr, graph.entry_ptr
    choices, entries = 0, 0
    for x in members:
        choices += np.int64(ptr[x + 1]) - np.int64(ptr[x])
        entries += np.int64(entry_ptr[ptr[x + 1]]) - np.int64(entry_ptr[ptr[x]])
    return choices, entries


@njit(cache=True, error_model="numpy", borrows=True)
def cut(game, bounds, members, can_stay, part):
    """Fill the compact arrays of a component; members of one position follow one another.

    Left out are choices that may lead to pairs without a finite return, or that never leave their own position; one
    that ``can_stay`` gets the choice to rest, for 0.  Returns how many positions, choices and entries there are; the
    largest reward of a choice that may stay in the component (−∞: none); the largest value of an exit (NaN: not known),
    its largest error and the largest relative one (∞: something is above 0); and whether clearly all can always leave.
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
            leak = discount * out + (1.0 - discount) * (away + stay)
            away += (1.0 - discount) * stay
            leaves, losing = leaves or leak > 0.0, losing or lost
            if lost or away == 0.0:
                z = start
                continue
            if away != 1.0:
                for e in range(start, z):
                    factor[e] /= away
            constant[k] = (gains[c] + discount * worth_out) / away
            part_origin[k], leaks[k], part_entry_ptr[k] = j, leak / away, start
            k += 1
    part_ptr[last + 1], part_entry_ptr[k] = k, z
    relative = np.inf if top > 0.0 or error == np.inf else relative
    top = np.nan if top == np.inf and not is_endless else top
    return (last + 1, k, z), (most, top, error, relative, leaves and not losing)


@njit(cache=True, error_model="numpy", borrows=True)
def _widest(below, above, error, relative):
    """The largest error so far, and the largest relative one, with one more pair of bounds."""
    wide, size = 0.5 * above - 0.5 * below, 0.5 * abs(above) + 0.5 * abs(below)
    if wide > relative * size:
        relative = wide / size
    return wide if wide > error else error, relative  # not max: NaN is no error


@njit(cache=True, error_model="numpy", borrows=True)
def list_predecessors(part, size):
    """Fill in who leads to each position."""
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


@njit(cache=True, error_model="numpy", borrows=True)
def search_back(part, alive, usable, found, queue, is_first):
    """List who of those alive may leave by usable choices, nearest to an exit first; returns how many they are.

    In the first search everybody is alive and everything usable.
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
    """List the positions from which some policy surely leaves, nearest to an exit first; returns how many they are.

    Makes the choices unusable that may lead elsewhere.  Repeats two steps until nothing changes: search backward from
    the exits along usable choices; drop what was not found, and with it every choice that may lead there.
    """
    ptr, entry_ptr, column = part.ptr, part.entry_ptr, part.column
    choices = np.int64(ptr[size])
    for k in range(choices):
        usable[k] = True
    found, alive, lost = np.zeros(size, np.bool_), np.ones(size, np.bool_), False
    while True:
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


@njit(cache=True, error_model="numpy", borrows=True)
def guess(part, usable, order, value):
    """First values, in the given order: outcomes that are not known yet count as if they led back."""
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


@njit(cache=True, error_model="numpy")
def hints(game, members, known):
    """What the members' states are known to be worth; where that is not known, the best that may follow; or −∞."""
    state, _, ptr, _, entry_ptr, target = game.graph
    result = np.empty(members.size)
    for i in range(members.size):
        x = members[i]
        result[i] = known[state[x]]
        if not result[i] > -np.inf:
            result[i] = -np.inf
            for e in range(entry_ptr[ptr[x]], entry_ptr[ptr[x + 1]]):
                if known[state[target[e]]] > result[i]:
                    result[i] = known[state[target[e]]]
    return result


@njit(cache=True, error_model="numpy")
def reorder(part, order, usable):
    """The component with positions in the given order, and only usable choices; other positions are gone."""
    ptr, entry_ptr, column, factor, constant, origin, leak, _, _ = part
    size = order.size
    position = np.empty(ptr.size - 1, np.uint32)
    choices, entries = 0, 0
    for i in range(size):
        x = order[i]
        position[x] = i
        for k in range(ptr[x], ptr[x + 1]):
            if usable[k]:
                choices += 1
                entries += np.int64(entry_ptr[k + 1]) - np.int64(entry_ptr[k])
    result = Part(
        np.zeros(size + 1, np.uint32), np.zeros(choices + 1, np.uint32), np.empty(entries, np.uint32),
        np.empty(entries), np.empty(choices), np.empty(choices, np.uint32), np.empty(choices),
        np.zeros(size + 1, np.uint32), np.empty(entries, np.uint32),
    )  # fmt: skip
    new_ptr, new_entry_ptr, new_column, new_factor, new_constant, new_origin, new_leak, _, _ = result
    j, z = 0, 0
    for i in range(size):
        x = order[i]
        for k in range(ptr[x], ptr[x + 1]):
            if not usable[k]:
                continue
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                new_column[z], new_factor[z] = position[column[e]], factor[e]
                z += 1
            new_constant[j], new_origin[j], new_leak[j] = constant[k], origin[k], leak[k]
            j += 1
            new_entry_ptr[j] = z
        new_ptr[i + 1] = j
    return result


@njit(cache=True, error_model="numpy", borrows=True)
def write(graph, bounds, members, chosen, value, hint):
    """Give members the choices of their positions, or their first ones, and remember what their states are worth."""
    state, ptr, policy, place = graph.state, graph.ptr, bounds.policy, bounds.place
    for x in members:
        i = place[x]
        policy[x], hint[state[x]] = chosen[i] if chosen[i] != NOWHERE else ptr[x], value[i]


@njit(cache=True, error_model="numpy")
def first_policy(part):
    """A policy that surely leaves, where positions are in an order in which each has a choice that comes nearer."""
    policy = np.empty(part.ptr.size - 1, np.uint32)
    for x in range(policy.size):
        policy[x] = part.ptr[x]
        for k in range(part.ptr[x], part.ptr[x + 1]):
            nearer = part.leak[k] > 0.0
            for e in range(part.entry_ptr[k], part.entry_ptr[k + 1]):
                nearer = nearer or part.column[e] < x
            if nearer:
                policy[x] = k
                break
    return policy


@njit(cache=True, error_model="numpy")
def leaves(part, policy):
    """Whether the policy surely leaves the component, from every position."""
    size, usable = policy.size, np.zeros(part.leak.size, np.bool_)
    for x in range(size):
        usable[policy[x]] = True
    found, alive, queue = np.zeros(size, np.bool_), np.ones(size, np.bool_), np.empty(size, np.uint32)
    return search_back(part, alive, usable, found, queue, False) == size
