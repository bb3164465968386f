"""Compiled search for the pairs (state, remaining) that a start can reach inside the shield, and their components.

A *pair* is a state with what is left of the budget.  Its choices are those with k* ≤ remaining, and an outcome with
damage d leads to a pair with d less left.  The pairs that can be reached make an MDP of their own, without damage; it
is stored once, as offsets and targets, and takes its probabilities and rewards from the model's choices.

Its strongly connected *components* (Tarjan) are listed so that each comes after all those it leads to.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit

ROOM = 1 << 23  # choices and targets for which there is room at first
KNOWN = np.uint32(2**32 - 1)  # lower than nothing: the component is known


class Moves(NamedTuple):
    """What the search reads of a model; indices are uint32."""

    choice_ptr: np.ndarray  # [num_states + 1]
    outcome_ptr: np.ndarray  # [num_choices + 1]
    successor: np.ndarray  # [num_outcomes]
    damage: np.ndarray  # [num_outcomes], uint8
    of_choice: np.ndarray  # [num_choices], k*


class Graph(NamedTuple):
    """The reachable pairs: the choices of pair x are ``ptr[x] … ptr[x+1] − 1``, and so on."""

    state: np.ndarray  # [pairs]
    remaining: np.ndarray  # [pairs]
    ptr: np.ndarray  # [pairs + 1], offsets of choices
    origin: np.ndarray  # [choices], the model's choice
    entry_ptr: np.ndarray  # [choices + 1], offsets of targets
    target: np.ndarray  # [entries], the pairs that outcomes lead to, in the order of the model's outcomes


@njit(cache=True, error_model="numpy")
def _larger(array, used, extra):
    """A copy with room for more; twice as much as is needed now."""
    larger = np.empty(2 * (used + extra), np.uint32)
    larger[:used] = array[:used]
    return larger


@njit(cache=True, error_model="numpy")
def explore(moves, starts, number):
    """The pairs that can be reached from some of them, given as remaining · states + state, and their components.

    Both are found at once, depth first (Tarjan, without recursion), so that pairs of one component have numbers close
    to each other.  ``number`` holds one zero for each pair of the model, and is filled with the number of the pair
    plus 1.  Components are listed as by :func:`components`.
    """
    choice_ptr, outcome_ptr, successor, damage, of_choice = moves
    num_states, size = choice_ptr.size - 1, number.size  # memory that nobody writes to is not taken
    state, remaining, ptr = np.empty(size, np.uint32), np.empty(size, np.uint32), np.empty(size + 1, np.uint32)
    origin, entry_ptr, target = np.empty(ROOM, np.uint32), np.empty(ROOM, np.uint32), np.empty(ROOM, np.uint32)
    low, at = np.empty(size, np.uint32), np.empty(size, np.uint32)  # at: the next entry of each pair on the path
    path, stack, member = np.empty(size, np.uint32), np.empty(size, np.uint32), np.empty(size, np.uint32)
    start = np.empty(size + 1, np.uint32)
    pairs, choices, entries, count, listed, waiting = 0, 0, 0, 0, 0, 0
    ptr[0], entry_ptr[0], start[0] = 0, 0, 0
    for root in starts:
        fresh, depth = np.int64(root), 0
        if number[root] != 0:
            continue
        while True:
            if fresh >= 0:  # a pair not met yet: list its choices; their targets are replaced by numbers when visited
                x, s, left = pairs, fresh % num_states, fresh // num_states
                first, last = np.int64(choice_ptr[s]), np.int64(choice_ptr[s + 1])
                more = np.int64(outcome_ptr[last]) - np.int64(outcome_ptr[first])
                if choices + last - first >= origin.size:
                    origin = _larger(origin, choices, last - first + 1)
                    entry_ptr = _larger(entry_ptr, choices + 1, last - first + 1)
                if entries + more > target.size:
                    target = _larger(target, entries, more)
                state[x], remaining[x], low[x], at[x] = s, left, x + 1, entries
                path[depth], pairs, depth, number[fresh], fresh = x, x + 1, depth + 1, x + 1, -1
                for c in range(first, last):
                    if of_choice[c] <= left:
                        for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                            target[entries] = (left - np.int64(damage[o])) * num_states + np.int64(successor[o])
                            entries += 1
                        origin[choices], entry_ptr[choices + 1], choices = c, entries, choices + 1
                ptr[pairs] = choices
            x = np.int64(path[depth - 1])
            least, e, end = low[x], at[x], entry_ptr[ptr[x + 1]]
            while e < end and fresh < 0:
                y = number[target[e]]
                if y == 0:
                    fresh, y = np.int64(target[e]), np.uint32(pairs + 1)
                else:
                    least = min(least, low[y - 1])
                target[e] = y - 1
                e += 1
            low[x], at[x] = least, e
            if fresh >= 0:
                continue
            depth -= 1
            if least <= x:
                stack[waiting], waiting = x, waiting + 1
                low[path[depth - 1]] = min(low[path[depth - 1]], least)
                continue
            member[listed], low[x], listed = x, KNOWN, listed + 1
            while waiting > 0 and stack[waiting - 1] > x:
                waiting -= 1
                member[listed], low[stack[waiting]], listed = stack[waiting], KNOWN, listed + 1
            count += 1
            start[count] = listed
            if depth == 0:
                break
    graph = Graph(
        state[:pairs], remaining[:pairs], ptr[: pairs + 1], origin[:choices], entry_ptr[: choices + 1], target[:entries]
    )
    return graph, (start[: count + 1], member[:pairs])


@njit(cache=True, error_model="numpy")
def components(graph):
    """The strongly connected components, each after all that it leads to: offsets, and the pairs in them.

    Tarjan's algorithm without recursion.  ``low`` is 0 for a pair not met yet, and larger than everything once its
    component is known.
    """
    ptr, entry_ptr, target = graph.ptr, graph.entry_ptr, graph.target
    size = ptr.size - 1
    low = np.zeros(size, np.uint32)
    at = np.empty(size, np.uint32)  # the next entry of each pair on the path
    path, own = np.empty(size, np.uint32), np.empty(size, np.uint32)  # pairs, and when they were met
    stack, waiting = np.empty(size, np.uint32), 0
    member, start = np.empty(size, np.uint32), np.zeros(size + 1, np.uint32)
    count, listed, met = 0, 0, 0
    for root in range(size):
        if low[root] != 0:
            continue
        met += 1
        path[0], own[0], low[root] = root, met, met
        at[root] = entry_ptr[ptr[root]]
        depth = 1
        while depth > 0:
            x = path[depth - 1]
            least, e, end = low[x], at[x], entry_ptr[ptr[x + 1]]
            fresh = False
            while e < end and not fresh:
                y = target[e]
                e += 1
                fresh = low[y] == 0
                if low[y] < least and not fresh:
                    least = low[y]
            low[x], at[x] = least, e
            if fresh:
                met += 1
                path[depth], own[depth], low[y] = y, met, met
                at[y] = entry_ptr[ptr[y]]
                depth += 1
                continue
            depth -= 1
            if least < own[depth]:
                stack[waiting] = x
                waiting += 1
                low[path[depth - 1]] = min(low[path[depth - 1]], least)
                continue
            member[listed], low[x] = x, KNOWN
            listed += 1
            while waiting > 0 and low[stack[waiting - 1]] >= own[depth]:
                waiting -= 1
                member[listed], low[stack[waiting]] = stack[waiting], KNOWN
                listed += 1
            count += 1
            start[count] = listed
    return start[: count + 1], member
