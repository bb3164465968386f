"""Compiled: the pairs (state, remaining) that are reachable inside the shield, and their components.

A *pair* is a state with the remaining budget.  Its choices are those with k* ≤ remaining, and an outcome with damage d
leads to a pair with d less remaining.  The reachable pairs form an MDP without damage.  Its graph is stored as offsets
and targets; probabilities and rewards are read from the model's choices.

The search is breadth first: most models number their states in about this order, so that neighbours are adjacent in
memory.  Where they are not, pairs are renumbered, layer by layer, in the order of the states.
The strongly connected *components* (Tarjan) are listed so that each comes after all of its successors.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit, prefetch
from almostsure.memory import side_by_side

ROOM = 1 << 26  # the most choices, and targets, for which memory is reserved at first
index = np.uint64  # unsigned: compiled code need not test for negative indices; sums must not mix it with signed types
ONE = index(1)
SOON, LATER, NEXT = index(12), index(8), index(4)  # how many pairs ahead memory is prefetched
KNOWN = np.uint32(2**32 - 1)  # larger than all others: the component is known
NO_LAYERS = np.zeros((0, 0), np.uint32)
Span = tuple[int, int]  # see ``span``


class Moves(NamedTuple):
    """The arrays of a model that the search reads; indices are uint32."""

    choice_ptr: np.ndarray  # [num_states + 1]
    outcome_ptr: np.ndarray  # [num_choices + 1]
    successor: np.ndarray  # [num_outcomes]
    damage: np.ndarray  # [num_outcomes], uint8
    of_choice: np.ndarray  # [num_choices], k*


class Graph(NamedTuple):
    """The reachable pairs: the choices of pair x are ``ptr[x] … ptr[x+1] − 1``; targets are stored in the same way."""

    state: np.ndarray  # [pairs]
    remaining: np.ndarray  # [pairs]
    ptr: np.ndarray  # [pairs + 1], offsets of choices
    origin: np.ndarray  # [choices], the model's choice
    entry_ptr: np.ndarray  # [choices + 1], offsets of targets
    target: np.ndarray  # [entries], the pairs that outcomes lead to, in the order of the model's outcomes


def room_to_explore(moves: Moves, pairs: int) -> Graph:
    """Uninitialised arrays for all pairs of a model, up to ``ROOM``: memory never written to is never allocated."""
    budgets = pairs // (moves.choice_ptr.size - 1)
    choices, entries = (min(budgets * array.size, ROOM) for array in (moves.of_choice, moves.successor))
    return Graph(*side_by_side(np.uint32, pairs, pairs, pairs + 1, choices + 1, choices + 2, entries))


def with_more_room(room: Graph) -> Graph:
    """Copies with space for twice as many choices and targets."""
    larger = (np.concatenate([array, np.empty(array.size + 1, np.uint32)]) for array in room[3:])
    return Graph(*room[:3], *larger)


@njit(cache=True, error_model="numpy")
def explore(moves, starts, number, room, progress):
    """Find the pairs that are reachable from ``starts`` (remaining · states + state), nearest first.

    The result is written to ``room``.  ``number`` is given as zeros, one for each pair of the model, and is filled with
    the numbers of the pairs plus 1.  ``progress`` counts pairs found, pairs expanded, choices and entries, and ends
    with the range of :func:`span`, which costs nothing here.  Returns False if ``room`` is too small: then the call is
    repeated with a larger copy and the same progress.
    """
    choice_ptr, outcome_ptr, successor, damage, of_choice = moves
    state, remaining, ptr, origin, entry_ptr, target = room
    num_states = index(choice_ptr.size - 1)
    pairs, done, choices, entries = index(progress[0]), index(progress[1]), index(progress[2]), index(progress[3])
    lowest, highest = index(progress[4]), index(progress[5])
    ptr[0], entry_ptr[0] = 0, 0
    for code in starts:
        if number[code] == 0:
            state[pairs], remaining[pairs], pairs = code % num_states, code // num_states, pairs + ONE
            number[code] = pairs
    fits = True
    while done < pairs:
        if done + SOON < pairs:
            prefetch(choice_ptr, state[done + SOON])
            prefetch(outcome_ptr, choice_ptr[state[done + LATER]])
            prefetch(of_choice, choice_ptr[state[done + LATER]])
            prefetch(successor, outcome_ptr[choice_ptr[state[done + NEXT]]])
            prefetch(damage, outcome_ptr[choice_ptr[state[done + NEXT]]])
        left = index(remaining[done])
        first, last = index(choice_ptr[state[done]]), index(choice_ptr[state[done] + ONE])
        o = index(outcome_ptr[first])
        fits = choices + last - first < origin.size and entries + index(outcome_ptr[last]) - o <= target.size
        if not fits:
            break
        least = done
        for c in range(first, last):
            end = index(outcome_ptr[c + ONE])
            if of_choice[c] > left:
                o = end
                continue
            while o < end:
                t, after = index(successor[o]), left - index(damage[o])
                code = after * num_states + t
                y = index(number[code])
                if y == 0:
                    state[pairs], remaining[pairs], pairs = t, after, pairs + ONE
                    number[code] = y = pairs
                least = min(least, y - ONE)
                target[entries], entries, o = y - ONE, entries + ONE, o + ONE
            origin[choices], choices = c, choices + ONE
            entry_ptr[choices] = entries
        done += ONE
        ptr[done] = choices
        if least + ONE < done:
            lowest, highest = min(lowest, least), done
    progress[0], progress[1], progress[2], progress[3] = pairs, done, choices, entries
    progress[4], progress[5] = lowest, highest
    return fits


def explored(room: Graph, progress: np.ndarray) -> tuple[Graph, Span]:
    """The part of the arrays that was written to, and its span."""
    pairs, _, choices, entries, first, last = progress.tolist()
    sizes = (pairs, pairs, pairs + 1, choices, choices + 1, entries)
    return Graph(*(array[:size] for array, size in zip(room, sizes, strict=True))), (min(first, last), last)


def in_order(number: np.ndarray, num_states: int) -> np.ndarray:
    """The numbered pairs, as remaining · states + state: largest budget first, each layer in the order of the states.

    Their numbers are cleared, so that they can be numbered again.
    """
    codes = np.flatnonzero(number)
    number[codes] = 0
    layers = np.arange(num_states, number.size, num_states)
    return np.concatenate(np.split(codes, np.searchsorted(codes, layers))[::-1])


@njit(cache=True, error_model="numpy", borrows=True)
def tabulate(graph, play, table):
    """Write the policy's choices (the model's) into a table, one row per remaining budget."""
    for x in range(play.size):
        table[graph.remaining[x], graph.state[x]] = graph.origin[play[x]]


@njit(cache=True, error_model="numpy", borrows=True)
def tabulate_bounds(graph, low, high, lower, upper):
    """Write bounds of pairs into tables, one row per remaining budget."""
    for x in range(low.size):
        at = graph.remaining[x], graph.state[x]
        lower[at], upper[at] = low[x], high[x]


class Search(NamedTuple):
    """The arrays of Tarjan's algorithm."""

    low: np.ndarray  # [pairs], the low-link: 0 for a pair not met yet, KNOWN once its component is known
    at: np.ndarray  # [pairs], the next entry of a pair on the path
    path: np.ndarray  # [pairs], the depth-first path; from its end, Tarjan's stack of pairs without a component yet
    met: np.ndarray  # [path], when each pair on the path was met
    member: np.ndarray  # [pairs], the pairs, component by component
    begin: np.ndarray  # [pairs + 1], offsets of a pair's entries
    start: np.ndarray  # [components + 1], offsets of the components' members


def room_for(size: int) -> Search:
    """The arrays of the search among this many pairs."""
    search = Search(*side_by_side(np.uint32, *[size] * 5, size + 1, size + 1))
    search.low.fill(0)
    search.start[0] = 0
    return search


@njit(cache=True, error_model="numpy", borrows=True)
def span(graph):
    """The range [first, last) of pairs that may be in a cycle of several; 0 and 0 if there is none.

    Every cycle has a transition from its last pair to a lower number, and one to its first pair from a higher number.
    So it lies between the lowest target and the highest source of such transitions, and many pairs, numbered breadth
    first, do not.
    """
    ptr, entry_ptr, target = graph.ptr, graph.entry_ptr, graph.target
    first, last, begin = ptr.size - 1, 0, np.int64(0)
    for x in range(ptr.size - 1):
        end, least = np.int64(entry_ptr[ptr[x + 1]]), np.uint32(x)
        for e in range(begin, end):
            least = min(least, target[e])
        if least < x:
            first, last = min(first, np.int64(least)), x + 1
        begin = end
    return min(first, last), last


@njit(cache=True, error_model="numpy", borrows=True)
def peel(target, search, first, last):
    """List the pairs of a span all of whose predecessors are listed (Kahn), at the end of ``member``, last first.

    They are in no cycle, so the search for components can skip them.  Returns their number.
    """
    count, begin, member = search.low, search.begin, search.member
    for x in range(first, last):
        for e in range(begin[x], begin[x + 1]):
            if target[e] != x:
                count[target[e]] += 1
    place = count.size - first
    done = place
    for root in range(first, last):  # ascending where possible: pairs found together are listed together
        if count[root] == 0:
            place -= 1
            member[place] = root
        while done > place:
            done -= 1
            x = member[done]
            for e in range(begin[x], begin[x + 1]):
                y = target[e]
                if y != x:
                    count[y] -= 1
                    if count[y] == 0 and y < root:
                        place -= 1
                        member[place] = y
    for x in range(first, count.size):
        count[x] = KNOWN if count[x] == 0 or x >= last else 0
    return count.size - first - place


@njit(cache=True, error_model="numpy")
def components(graph, search, within, number):
    """The strongly connected components, each after all of its successors: offsets, and the pairs in them.

    Tarjan's algorithm, for pairs that may be in cycles (``within`` is their span) and cannot be peeled off.  ``number``
    is a table of the pairs' numbers plus 1, by remaining budget and state, if choices allowed with a smaller budget are
    allowed with a larger one, and pairs are numbered from the largest budget down; otherwise it is empty.
    """
    ptr, entry_ptr, member, begin, start = graph.ptr, graph.entry_ptr, search.member, search.begin, search.start
    size, (first, last) = ptr.size - 1, within
    for i in range(size - last):
        member[i], start[i + 1] = size - 1 - i, i + 1
    count = size - last
    if first < last:
        for x in range(first, last + 1):
            begin[x] = entry_ptr[ptr[x]]
        peeled = 0
        if first > 0:
            peeled = peel(graph.target, search, first, last)
        else:  # a transition leads back to the first pair: there is little to peel
            search.low[last:] = KNOWN
        count = find_cycles(graph, search, (first, last), number)
        for i in range(size - first - peeled, size - first):
            count += 1
            start[count] = i + 1
    for i in range(size - first, size):
        count += 1
        member[i], start[count] = size - 1 - i, i + 1
    return start[: count + 1], member


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def find_cycles(graph, search, within, number):
    """List the components of a span; returns the number of components so far, including those behind the span.

    If ``number`` is given, layers are searched from the lowest remaining budget up.  The states of a component are
    strongly connected with a larger budget too, so the largest component is known and need not be searched again.
    """
    low, remaining, target, size = search.low, graph.remaining, graph.target, search.low.size
    first, end = within
    progress, largest = (size - end, size - end, size, np.uint32(0)), (0, 0)
    while first < end:
        layer, before = first, progress[0]
        if number.size > 0:
            layer = end - 1
            while layer > first and remaining[layer - 1] == remaining[layer]:
                layer -= 1
            if largest[1] - largest[0] > 1:
                progress = _know(graph, search, number, (layer, end), largest, progress)
        for root in range(layer, end):
            if low[root] == 0:
                progress = _dive(target, search, root, progress)
        largest, end = _largest(search.start, before, progress[0]), layer
    return progress[0]


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def _largest(start, begin, end):
    """The first and the last offset of the largest of some components."""
    first, last = 0, 0
    for i in range(begin, end):
        if np.int64(start[i + 1]) - np.int64(start[i]) > last - first:
            first, last = np.int64(start[i]), np.int64(start[i + 1])
    return first, last


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def _know(graph, search, number, layer, known, progress):
    """List a layer's component that contains the states of a component of the layer below, after its successors.

    Either all of these pairs are reachable or none.  They count as one vertex, met first.
    """
    low, at, path, _, member, begin, start = search
    state, target, size, (first, end), left = graph.state, graph.target, low.size, layer, graph.remaining[layer[0]]
    if number[left, state[member[known[0]]]] == 0:
        return progress
    count, listed, waiting, time = progress
    time = np.uint32(time + 1)
    for i in range(known[0], known[1]):
        x = number[left, state[member[i]]] - 1
        low[x], at[x] = time, KNOWN
    progress = (count, listed, waiting, time)
    for x in range(first, end):
        if low[x] == time and at[x] == KNOWN:
            for e in range(begin[x], begin[x + 1]):
                if low[target[e]] == 0:
                    progress = _dive(target, search, np.int64(target[e]), progress)
    count, listed, waiting, last = progress
    for x in range(first, end):
        if low[x] == time and at[x] == KNOWN:
            member[listed], low[x] = x, KNOWN
            listed += 1
    while waiting < size:
        member[listed], low[path[waiting]] = path[waiting], KNOWN
        listed, waiting = listed + 1, waiting + 1
    start[count + 1] = listed
    return count + 1, listed, waiting, last


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def _dive(target, search, root, progress):
    """Tarjan's depth-first search from a pair, without recursion: list all components that are complete.

    ``progress`` holds the numbers of components and of pairs listed, where Tarjan's stack begins in ``path``, and the
    number of pairs met.
    """
    low, at, path, met, member, begin, start = search
    count, listed, waiting, time = progress
    size, time = low.size, np.uint32(time + 1)
    path[0], met[0], low[root] = root, time, time
    at[root] = begin[root]
    depth = 1
    while depth > 0:
        x = path[depth - 1]
        least, e, end = low[x], at[x], begin[x + 1]
        fresh = False
        while e < end:
            y = target[e]
            e += 1
            its = low[y]
            if its == 0:
                fresh = True
                break
            least = its if its < least else least  # a conditional move: a branch would be unpredictable
        low[x], at[x] = least, e
        if fresh:
            time = np.uint32(time + 1)
            path[depth], met[depth], low[y] = y, time, time
            at[y] = begin[y]
            depth += 1
            continue
        depth -= 1
        if least < met[depth]:
            waiting -= 1
            path[waiting] = x
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], least)
            continue
        member[listed], low[x] = x, KNOWN
        listed += 1
        while waiting < size and low[path[waiting]] >= met[depth]:
            member[listed], low[path[waiting]] = path[waiting], KNOWN
            listed += 1
            waiting += 1
        count += 1
        start[count] = listed
    return count, listed, waiting, time
