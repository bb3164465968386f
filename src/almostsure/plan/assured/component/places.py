"""Compiled: end components without reward, and the quotient in which each is one position.

An *end component* is a set of pairs with choices that never leave it and by which every pair reaches every other.  In
one whose choices all have reward 0, a run can stay for ever at no cost or leave by any exit.  So it is collapsed into
one position, with all exits of its members and one more choice: to stay, with value 0.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.explore import Graph, Search, components, span
from almostsure.plan.assured.steps import NOWHERE


@njit(cache=True, error_model="numpy")
def inner_graph(game, bounds, members, free_only):
    """The graph of the choices that never leave the component, or of those without reward, between members."""
    graph = game.graph
    choices, entries = 0, 0
    for x in members:
        choices += np.int64(graph.ptr[x + 1]) - np.int64(graph.ptr[x])
        entries += np.int64(graph.entry_ptr[graph.ptr[x + 1]]) - np.int64(graph.entry_ptr[graph.ptr[x]])
    ptr, origin = np.zeros(members.size + 1, np.uint32), np.empty(choices, np.uint32)
    entry_ptr, target = np.zeros(choices + 1, np.uint32), np.empty(entries, np.uint32)
    k, z = 0, 0
    for i in range(members.size):
        x = members[i]
        for j in range(graph.ptr[x], graph.ptr[x + 1]):
            start = z
            inside = not free_only or game.gain[graph.origin[j]] == 0.0
            for e in range(graph.entry_ptr[j], graph.entry_ptr[j + 1]):
                there = bounds.place[graph.target[e]]
                inside = inside and there != NOWHERE
                if inside:
                    target[z] = there
                    z += 1
            if not inside:
                z = start
                continue
            origin[k] = j
            k += 1
            entry_ptr[k] = z
        ptr[i + 1] = k
    none = np.empty(0, np.uint32)
    return Graph(none, none, ptr, origin[:k], entry_ptr[: k + 1], target[:z])


@njit(cache=True, error_model="numpy")
def end_components(graph):
    """The maximal end components: the label of each vertex (NOWHERE if in none) and the graph of their choices."""
    size = graph.ptr.size - 1
    label, kept = np.full(size, NOWHERE), np.ones(graph.origin.size, np.bool_)
    while True:
        strand(graph, kept)
        if not kept.all():
            graph = with_choices(graph, kept)
        if graph.origin.size == 0:
            label[:] = NOWHERE
            return label, graph
        search = Search(
            np.zeros(size, np.uint32), np.empty(size, np.uint32), np.empty(size, np.uint32), np.empty(size, np.uint32),
            np.empty(size, np.uint32), np.empty(size + 1, np.uint32), np.zeros(size + 1, np.uint32),
        )  # fmt: skip
        start, member = components(graph, search, span(graph), np.zeros((0, 0), np.uint32))
        for i in range(start.size - 1):
            for m in range(start[i], start[i + 1]):
                label[member[m]] = i
        kept = np.ones(graph.origin.size, np.bool_)
        for x in range(size):
            for j in range(graph.ptr[x], graph.ptr[x + 1]):
                for e in range(graph.entry_ptr[j], graph.entry_ptr[j + 1]):
                    kept[j] = kept[j] and label[graph.target[e]] == label[x]
        if kept.all():
            for x in range(size):
                if graph.ptr[x] == graph.ptr[x + 1]:
                    label[x] = NOWHERE
            return label, graph


@njit(cache=True, error_model="numpy")
def strand(graph, kept):
    """Drop choices that may lead to another vertex without choices (self-loops aside), and repeat this backward."""
    ptr, entry_ptr, target, size = graph.ptr, graph.entry_ptr, graph.target, graph.ptr.size - 1
    begin, left = np.zeros(size + 1, np.uint32), np.zeros(size, np.uint32)
    for y in target:
        begin[y + 1] += 1
    begin = np.cumsum(begin).astype(np.uint32)
    at, owner, choice = begin.copy(), np.empty(target.size, np.uint32), np.empty(target.size, np.uint32)
    queue, count, done = np.empty(size, np.uint32), 0, 0
    for x in range(size):
        for j in range(ptr[x], ptr[x + 1]):
            moves = False
            for e in range(entry_ptr[j], entry_ptr[j + 1]):
                y = target[e]
                moves = moves or y != x
                owner[at[y]], choice[at[y]] = x, j
                at[y] += 1
            left[x] += kept[j] and moves
        if left[x] == 0:
            queue[count] = x
            count += 1
    while done < count:
        y = queue[done]
        done += 1
        for q in range(begin[y], begin[y + 1]):
            x = owner[q]
            if x != y and kept[choice[q]]:
                kept[choice[q]] = False
                left[x] -= 1
                if left[x] == 0:
                    queue[count] = x
                    count += 1


@njit(cache=True, error_model="numpy", inner=True)
def with_choices(graph, kept):
    """The graph restricted to some of its choices (a mask)."""
    ptr, origin = np.zeros(graph.ptr.size, np.uint32), np.empty(graph.origin.size, np.uint32)
    entry_ptr, target = np.zeros(graph.entry_ptr.size, np.uint32), np.empty(graph.target.size, np.uint32)
    k, z = 0, 0
    for x in range(ptr.size - 1):
        for j in range(graph.ptr[x], graph.ptr[x + 1]):
            if kept[j]:
                for e in range(graph.entry_ptr[j], graph.entry_ptr[j + 1]):
                    target[z] = graph.target[e]
                    z += 1
                origin[k] = graph.origin[j]
                k += 1
                entry_ptr[k] = z
        ptr[x + 1] = k
    return Graph(graph.state, graph.remaining, ptr, origin[:k], entry_ptr[: k + 1], target[:z])


@njit(cache=True, error_model="numpy")
def lead_to(graph, goals, way):
    """Fill in, for each vertex that reaches a goal in the graph, a choice that may come nearer to one.

    Inside an end component, following these choices reaches a goal almost surely.  ``way`` is given as NOWHERE.
    """
    size = graph.ptr.size - 1
    ptr = np.zeros(size + 1, np.uint32)
    for e in range(graph.target.size):
        ptr[graph.target[e] + 1] += 1
    for x in range(size):
        ptr[x + 1] += ptr[x]
    at, source, via = ptr.copy(), np.empty(graph.target.size, np.uint32), np.empty(graph.target.size, np.uint32)
    for x in range(size):
        for j in range(graph.ptr[x], graph.ptr[x + 1]):
            for e in range(graph.entry_ptr[j], graph.entry_ptr[j + 1]):
                y = graph.target[e]
                source[at[y]], via[at[y]] = x, graph.origin[j]
                at[y] += 1
    seen, queue = np.zeros(size, np.bool_), np.empty(size, np.uint32)
    count = 0
    for x in goals:
        if not seen[x]:
            seen[x] = True
            queue[count] = x
            count += 1
    done = 0
    while done < count:
        y = queue[done]
        done += 1
        for q in range(ptr[y], ptr[y + 1]):
            x = source[q]
            if not seen[x]:
                seen[x] = True
                way[x] = via[q]
                queue[count] = x
                count += 1


@njit(cache=True, error_model="numpy", inner=True)
def may_gain(game, bounds, members):
    """Whether an end component of the members has a choice with positive reward."""
    _, inside = end_components(inner_graph(game, bounds, members, False))
    most = 0.0
    for k in inside.origin:
        most = max(most, game.gain[game.graph.origin[k]])
    return most > 0.0


@njit(cache=True, error_model="numpy")
def collapse(game, bounds, members):
    """Collapse each end component without reward into one position.

    Returns the members in the order of their positions, a mask of the positions that can stay, the graph of the
    choices inside them, and the vertex of each member in it.
    """
    label, inside = end_components(inner_graph(game, bounds, members, True))
    size, count = members.size, 0
    if inside.origin.size == 0:
        return members, np.zeros(size, np.bool_), inside, np.arange(size).astype(np.uint32)
    known, position = np.full(size, NOWHERE), np.empty(size, np.uint32)
    for i in range(size):
        if label[i] == NOWHERE or known[label[i]] == NOWHERE:
            position[i] = count
            count += 1
        if label[i] != NOWHERE:
            known[label[i]] = position[i] if known[label[i]] == NOWHERE else known[label[i]]
            position[i] = known[label[i]]
    at, can_stay = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    for i in range(size):
        at[position[i] + 1] += 1
        can_stay[position[i]] = label[i] != NOWHERE
    at = np.cumsum(at)
    local, ordered = np.empty(size, np.uint32), np.empty(size, np.uint32)
    for i in range(size):
        z = at[position[i]]
        at[position[i]] += 1
        local[z], ordered[z] = i, members[i]
        bounds.place[members[i]] = position[i]
    return ordered, can_stay, inside, local


@njit(cache=True, error_model="numpy")
def lead_out(graph, bounds, members, chosen, inside, local):
    """Write the choices of the members of collapsed positions: towards the member that leaves, or to stay.

    ``chosen`` is the choice of each position, which one of its members has; NOWHERE: to stay.
    """
    ptr, place, policy = graph.ptr, bounds.place, bounds.policy
    goals, count, way = np.empty(members.size, np.uint32), 0, np.full(inside.ptr.size - 1, NOWHERE)
    for i in range(members.size):
        x = members[i]
        if chosen[place[x]] != NOWHERE and ptr[x] <= chosen[place[x]] < ptr[x + 1]:
            goals[count] = local[i]
            count += 1
    lead_to(inside, goals[:count], way)
    for i in range(members.size):
        x, here, k = members[i], local[i], chosen[place[members[i]]]
        if k != NOWHERE and ptr[x] <= k < ptr[x + 1]:
            policy[x] = k
        elif k != NOWHERE:
            policy[x] = way[here] if way[here] != NOWHERE else ptr[x]
        else:
            policy[x] = inside.origin[inside.ptr[here]] if inside.ptr[here] < inside.ptr[here + 1] else ptr[x]
