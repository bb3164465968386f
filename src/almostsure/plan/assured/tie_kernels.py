"""Compiled: the choices that keep proved lower bounds and where they lead, and what a policy falls short by."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.steps import change, read_ahead

LITTLE = 1e-10  # damage that decides nothing
ALIKE = 1.0 + 1e-12  # what costs may differ by and still be the same
SWEEPS = 4  # over every component at least
VISITS = 1 << 18  # of the pairs of a component


class Tied(NamedTuple):
    """Which choices of a graph are tied, and where they lead."""

    is_tied: np.ndarray  # [choices]
    pair: np.ndarray  # [pairs], those that are reached, in order
    number: np.ndarray  # [pairs], which of them each is plus 1, or 0


@njit(cache=True, error_model="numpy", borrows=True)
def tied(game, bounds, slack, starts, grows, found):
    """Find the choices that keep the lower bounds of their pairs in one step, but for the slack, if they are reached.

    The policy's choices do.  Where the return is −∞ all do, where it is +∞ no others.  Choices are followed from some
    pairs on, and not at pairs that do not grow.  Returns how many pairs, choices and entries were found.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, discount = game
    low, _, play, _, rival = bounds
    is_tied, pair, number = found
    pairs, choices, entries, done = 0, 0, 0, 0
    for x in starts:
        if number[x] == 0:
            pair[pairs] = x
            pairs += 1
            number[x] = pairs
    while done < pairs:
        x = pair[done]
        done += 1
        alone = low[x] == np.inf or rival[x] > slack
        for k in range(ptr[x], ptr[x + 1] if grows[x] else ptr[x]):
            first, last = np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])
            if k != play[x]:
                if alone:
                    continue
                span = (first, last, np.int64(outcome_ptr[origin[k]]) - first)
                _, least, away = change(gains[origin[k]], low, x, span, (discount, False), target, probability, play)
                if low[x] > -np.inf and not (away > 0.0 and least >= -slack):
                    continue
            is_tied[k] = True
            choices += 1
            entries += last - first
            for e in range(first, last):
                if number[target[e]] == 0:
                    pair[pairs] = target[e]
                    pairs += 1
                    number[target[e]] = pairs
    pairs = 0
    for x in range(number.size):  # numbered side by side again
        if number[x] > 0:
            pair[pairs] = x
            pairs += 1
            number[x] = pairs
    return pairs, choices, entries


@njit(cache=True, error_model="numpy", borrows=True)
def fill_graph(graph, found, grows, tied_graph, via):
    """Fill in the graph of the tied choices, and the numbers that these have in the given one.

    Pairs that do not grow have no choices at all.
    """
    ptr, entry_ptr, target = graph.ptr, graph.entry_ptr, graph.target
    state, remaining, new_ptr, origin, new_entry_ptr, new_target = tied_graph
    is_tied, pair, number = found
    j, z = 0, 0
    new_ptr[0], new_entry_ptr[0] = 0, 0
    for i in range(state.size):
        x = pair[i]
        state[i], remaining[i] = graph.state[x], graph.remaining[x]
        for k in range(ptr[x], ptr[x + 1] if grows[x] else ptr[x]):
            if is_tied[k]:
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    new_target[z] = number[target[e]] - 1
                    z += 1
                origin[j], via[j] = graph.origin[k], k
                j += 1
                new_entry_ptr[j] = z
        new_ptr[i + 1] = j


@njit(cache=True, error_model="numpy")
def cost_of_steps(ptr, gain, over):
    """What every step costs at least, if that is the same until the end but for rounding; otherwise 0.

    Costs of 1 and chances of .1, .2 and .7 make an expected cost that may be the number beside 1.
    """
    least, most = np.inf, 0.0
    for x in range(over.size):
        for k in range(ptr[x], ptr[x + 1]):
            if over[x]:
                if gain[k] != 0.0:
                    return 0.0
                continue
            least, most = min(least, -gain[k]), max(most, -gain[k])
            if not 0.0 < most <= least * ALIKE:
                return 0.0
    return least if most > 0.0 else 0.0


@njit(cache=True, error_model="numpy")
def charges(game, graph, damages, over, per, charge):
    """Fill in what each choice of the model is charged, for itself and per unit of damage that it is expected to do.

    It is given as zeros, filled in where the graph has choices, and stays 0 after the end, where no step is taken.
    """
    outcome_ptr, probability, (per_step, per_damage) = game.outcome_ptr, game.probability, per
    for i in range(graph.state.size):
        for k in range(graph.ptr[i], graph.ptr[i] if over[graph.state[i]] else graph.ptr[i + 1]):
            c = graph.origin[k]
            if charge[c] == 0.0:  # or nothing, again
                hurt = 0.0
                for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                    hurt += probability[o] * damages[o]
                charge[c] = per_step + per_damage * hurt


@njit(cache=True, error_model="numpy")
def spend_little(game, bounds, order, play):
    """Change choices of a graph, all of whose policies surely end, to those that are expected to hurt least on the way.

    The game's gains are the damage that choices are expected to do.  Components are swept forth and back until nothing
    changes, large ones only some times.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    outcome_ptr, probability, hurt, (start, member) = game.outcome_ptr, game.probability, game.gain, order
    ahead = bounds.low  # the damage that is expected from each pair on; 0 before
    for i in range(start.size - 1):
        first, size = np.int64(start[i]), np.int64(start[i + 1]) - np.int64(start[i])
        for sweep in range(1 if size == 1 else SWEEPS + VISITS // size):
            most = 0.0
            for j in range(size):
                if sweep == 0:
                    read_ahead(game, bounds, member, first + j)
                x = member[first + j if sweep % 2 == 0 else first + size - 1 - j]
                old, best = play[x], np.inf
                for k in range(ptr[x], ptr[x + 1]):
                    worth, away, c = 0.0, 0.0, origin[k]
                    shift = np.int64(outcome_ptr[c]) - np.int64(entry_ptr[k])
                    for e in range(np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])):
                        if target[e] != x:
                            worth += probability[e + shift] * ahead[target[e]]
                            away += probability[e + shift]
                    worth = (hurt[c] + worth) / away if away > 0.0 else 0.0  # the end
                    if worth < best - LITTLE or (k == old and worth <= best + LITTLE):
                        best, play[x] = worth, k
                if best < np.inf:
                    most = max(most, abs(best - ahead[x]))
                    ahead[x] = best
            if most <= LITTLE:
                break


@njit(cache=True, error_model="numpy", borrows=True)
def take(graph, pairs, via, play, result):
    """Write the choices of a graph of tied ones where they are among the others."""
    for i in range(pairs.size):
        if graph.ptr[i] < graph.ptr[i + 1]:
            result[pairs[i]] = via[play[i]]


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
