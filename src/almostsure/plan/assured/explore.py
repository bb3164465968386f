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
    for i in range(used):
        larger[i] = array[i]
    return larger


@njit(cache=True, error_model="numpy")
def explore(moves, starts, number):
    """The pairs that can be reached from some of them, breadth first; they are given as remaining · states + state.

    ``number`` holds one zero for each pair of the model, and is filled with the number of the pair plus 1.
    """
    choice_ptr, outcome_ptr, successor, damage, of_choice = (
        moves.choice_ptr,
        moves.outcome_ptr,
        moves.successor,
        moves.damage,
        moves.of_choice,
    )
    num_states = choice_ptr.size - 1
    room = starts.size + 4096
    state, remaining = np.empty(room, np.uint32), np.empty(room, np.uint32)
    ptr, origin = np.zeros(room, np.uint32), np.empty(room, np.uint32)
    entry_ptr, target = np.zeros(room, np.uint32), np.empty(room, np.uint32)
    pairs, choices, entries = 0, 0, 0
    for at in starts:
        if number[at] == 0:
            state[pairs], remaining[pairs] = at % num_states, at // num_states
            pairs += 1
            number[at] = pairs
    done = 0
    while done < pairs:
        s, left = state[done], np.int64(remaining[done])
        first, last = np.int64(choice_ptr[s]), np.int64(choice_ptr[s + 1])
        fresh = np.int64(outcome_ptr[last]) - np.int64(outcome_ptr[first])
        if pairs + fresh > state.size:
            state, remaining = _larger(state, pairs, fresh), _larger(remaining, pairs, fresh)
        if done + 2 > ptr.size:
            ptr = _larger(ptr, done + 1, 1)
        if choices + last - first + 1 > origin.size:
            origin = _larger(origin, choices, last - first + 1)
            entry_ptr = _larger(entry_ptr, choices + 1, last - first + 1)
        if entries + fresh > target.size:
            target = _larger(target, entries, fresh)
        for c in range(first, last):
            if of_choice[c] > left:
                continue
            for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                t, rest = successor[o], left - np.int64(damage[o])
                at = rest * num_states + np.int64(t)
                if number[at] == 0:
                    state[pairs], remaining[pairs] = t, rest
                    pairs += 1
                    number[at] = pairs
                target[entries] = number[at] - 1
                entries += 1
            origin[choices] = c
            choices += 1
            entry_ptr[choices] = entries
        done += 1
        ptr[done] = choices
    return Graph(
        state[:pairs], remaining[:pairs], ptr[: pairs + 1], origin[:choices], entry_ptr[: choices + 1], target[:entries]
    )


@njit(cache=True, error_model="numpy")
def components(graph):
    """The strongly connected components, each after all that it leads to: offsets, and the pairs in them.

    Tarjan's algorithm without recursion.  ``low`` is 0 for a pair not met yet, and larger than everything once its
    component is known.
    """
    ptr, entry_ptr, target = graph.ptr, graph.entry_ptr, graph.target
    size = ptr.size - 1
    known = np.uint32(2**32 - 1)
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
            member[listed], low[x] = x, known
            listed += 1
            while waiting > 0 and low[stack[waiting - 1]] >= own[depth]:
                waiting -= 1
                member[listed], low[stack[waiting]] = stack[waiting], known
                listed += 1
            count += 1
            start[count] = listed
    return start[: count + 1], member
