"""Compiled: the choices that keep proved lower bounds and where they lead, and what a policy falls short by."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.steps import change


@njit(cache=True, error_model="numpy")
def falls_short(game, low, x, k):
    """By how much a choice of a pair may fall short of the pair's lower bound in one step; ∞ if it never leaves."""
    _, least, away = change(game, low, x, k, game.graph.state, False)
    return -least if away > 0.0 else np.inf


@njit(cache=True, error_model="numpy")
def tied_graph(game, low, play, slack, starts, grows):
    """The graph of the choices that keep the lower bounds but for the slack, as far as it is reached from some pairs.

    Returns it with the numbers that its pairs and its choices have in the given one.  Where the return is −∞ all
    choices are tied, where it is +∞ only the policy's; pairs that do not grow have none at all.
    """
    ptr, entry_ptr, target = game.graph.ptr, game.graph.entry_ptr, game.graph.target
    number, pair = np.zeros(play.size, np.uint32), np.empty(play.size, np.uint32)
    tied = np.zeros(game.graph.origin.size, np.bool_)
    pairs, choices, entries = 0, 0, 0
    for x in starts:
        if number[x] == 0:
            pair[pairs] = x
            pairs += 1
            number[x] = pairs
    done = 0
    while done < pairs:
        x = pair[done]
        done += 1
        if not grows[x]:
            continue
        for k in range(ptr[x], ptr[x + 1]):
            tied[k] = k == play[x] or low[x] == -np.inf or (low[x] < np.inf and falls_short(game, low, x, k) <= slack)
            if tied[k]:
                choices += 1
                entries += np.int64(entry_ptr[k + 1]) - np.int64(entry_ptr[k])
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    if number[target[e]] == 0:
                        pair[pairs] = target[e]
                        pairs += 1
                        number[target[e]] = pairs
    state, remaining = np.empty(pairs, np.uint32), np.empty(pairs, np.uint32)
    new_ptr, origin, via = np.zeros(pairs + 1, np.uint32), np.empty(choices, np.uint32), np.empty(choices, np.uint32)
    new_entry_ptr, new_target = np.zeros(choices + 1, np.uint32), np.empty(entries, np.uint32)
    j, z = 0, 0
    for i in range(pairs):
        x = pair[i]
        state[i], remaining[i] = game.graph.state[x], game.graph.remaining[x]
        for k in range(ptr[x], ptr[x + 1]):
            if tied[k]:
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    new_target[z] = number[target[e]] - 1
                    z += 1
                origin[j], via[j] = game.graph.origin[k], k
                j += 1
                new_entry_ptr[j] = z
        new_ptr[i + 1] = j
    return Graph(state, remaining, new_ptr, origin, new_entry_ptr, new_target), pair[:pairs].copy(), via


@njit(cache=True, error_model="numpy")
def count(game, ends, damage, costs):
    """Fill in what a step costs, by the model's choice: −1, and some more for each unit of damage; 0 after the end."""
    state, remaining, ptr, origin, entry_ptr, target = game.graph
    for x in range(state.size):
        if ends[state[x]]:
            continue
        for k in range(ptr[x], ptr[x + 1]):
            c, hurt = origin[k], 0.0
            shift = np.int64(game.outcome_ptr[c]) - np.int64(entry_ptr[k])
            for e in range(np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])):
                hurt += game.probability[e + shift] * (remaining[x] - remaining[target[e]])
            costs[c] = -1.0 - damage * hurt


@njit(cache=True, error_model="numpy")
def shortfall(game, low, play, pairs):
    """By how much the policy's choices fall short of lower bounds at most, at some pairs."""
    most = 0.0
    for x in pairs:
        if low[x] > -np.inf and low[x] < np.inf:
            most = max(most, falls_short(game, low, x, play[x]))
    return most
