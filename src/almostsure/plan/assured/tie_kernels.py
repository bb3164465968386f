"""Compiled: the choices that keep proved lower bounds and where they lead, and what a policy falls short by."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.steps import change


@njit(cache=True, error_model="numpy")
def tied(game, low, play, rival, slack):
    """Whether each choice keeps its pair's lower bound in one step, but for the slack.

    The policy's choices do.  Where the return is −∞ all do, where it is +∞ no others.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, discount = game
    result = np.zeros(origin.size, np.bool_)
    for x in range(ptr.size - 1):
        result[play[x]] = True
        if low[x] == np.inf or rival[x] > slack:
            continue
        for k in range(ptr[x], ptr[x + 1]):
            c = origin[k]
            first, last = np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])
            entries = (first, last, np.int64(outcome_ptr[c]) - first)
            _, least, away = change(gains[c], low, x, entries, (discount, False), target, probability, play)
            result[k] = result[k] or low[x] == -np.inf or (away > 0.0 and least >= -slack)
    return result


@njit(cache=True, error_model="numpy")
def tied_graph(game, is_tied, starts, grows):
    """The graph of the tied choices, as far as it is reached from some pairs.

    Returns it with the numbers that its pairs and its choices have in the given one.  Pairs that do not grow have no
    choices at all.
    """
    ptr, entry_ptr, target = game.graph.ptr, game.graph.entry_ptr, game.graph.target
    size = ptr.size - 1
    number, pair = np.zeros(size, np.uint32), np.empty(size, np.uint32)
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
        for k in range(ptr[x], ptr[x + 1] if grows[x] else ptr[x]):
            if is_tied[k]:
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
        for k in range(ptr[x], ptr[x + 1] if grows[x] else ptr[x]):
            if is_tied[k]:
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    new_target[z] = number[target[e]] - 1
                    z += 1
                origin[j], via[j] = game.graph.origin[k], k
                j += 1
                new_entry_ptr[j] = z
        new_ptr[i + 1] = j
    return Graph(state, remaining, new_ptr, origin, new_entry_ptr, new_target), pair[:pairs].copy(), via


@njit(cache=True, error_model="numpy")
def count(choice_ptr, game, damages, ends, weight):
    """What a step costs, by the model's choice: −1, and some more for each unit of damage; 0 after the end."""
    outcome_ptr, probability = game.outcome_ptr, game.probability
    costs = np.zeros(outcome_ptr.size - 1)
    for s in range(ends.size):
        for c in range(choice_ptr[s], choice_ptr[s] if ends[s] else choice_ptr[s + 1]):
            hurt = 0.0
            for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                hurt += probability[o] * damages[o]
            costs[c] = -1.0 - weight * hurt
    return costs


@njit(cache=True, error_model="numpy")
def shortfall(game, low, play, pairs):
    """By how much the policy's choices fall short of lower bounds at most, at some pairs."""
    _, _, _, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, discount = game
    most = 0.0
    for x in pairs:
        if low[x] > -np.inf and low[x] < np.inf:
            c, first, last = origin[play[x]], np.int64(entry_ptr[play[x]]), np.int64(entry_ptr[play[x] + 1])
            entries = (first, last, np.int64(outcome_ptr[c]) - first)
            _, least, away = change(gains[c], low, x, entries, (discount, False), target, probability, play)
            most = max(most, -least if away > 0.0 else np.inf)
    return most
