"""Compiled: tied choices and the graph of them, charges for steps and damage, and the shortfall of a policy."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.steps import change, read_ahead

LITTLE = 1e-10  # differences in expected damage below this are ignored
ALIKE = 1.0 + 1e-12  # costs count as equal up to this factor
SWEEPS = 4  # the least number of sweeps over a component
VISITS = 1 << 18  # visits of pairs that a small component may have on top


class Tied(NamedTuple):
    """The tied choices of a graph, and the pairs reached by them."""

    is_tied: np.ndarray  # [choices]
    pair: np.ndarray  # [pairs], the pairs that are reached, in ascending order
    number: np.ndarray  # [pairs], the index of each among them plus 1; 0: not reached


@njit(cache=True, error_model="numpy", borrows=True)
def tied(game, bounds, slack, starts, grows, found):
    """Find the tied choices of the pairs that are reached from ``starts`` by tied choices.

    A choice is tied if one backup of it keeps the pair's lower bound up to the slack.  The policy's choices are always
    tied; all choices are where the bound is −∞, and no others where it is +∞.  Pairs not in ``grows`` have no choices.
    Returns the numbers of pairs, choices and entries found.
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
    for x in range(number.size):  # renumber in ascending order
        if number[x] > 0:
            pair[pairs] = x
            pairs += 1
            number[x] = pairs
    return pairs, choices, entries


@njit(cache=True, error_model="numpy", borrows=True)
def fill_graph(graph, found, grows, tied_graph, via):
    """Fill in the graph of the tied choices, and ``via``, the index of each in the given graph."""
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
    """The least cost of a step, if all steps before the end cost the same up to rounding; otherwise 0.

    Rounding: costs of 1 with probabilities .1, .2 and .7 may have an expected cost one float away from 1.
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
    """Fill in the charge of each of the model's choices in the graph: per step, and per unit of expected damage.

    ``charge`` is given as zeros and stays 0 in terminal states, where no step is taken.
    """
    outcome_ptr, probability, (per_step, per_damage) = game.outcome_ptr, game.probability, per
    for i in range(graph.state.size):
        for k in range(graph.ptr[i], graph.ptr[i] if over[graph.state[i]] else graph.ptr[i + 1]):
            c = graph.origin[k]
            if charge[c] == 0.0:  # not computed before, or 0
                mean_damage = 0.0
                for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                    mean_damage += probability[o] * damages[o]
                charge[c] = per_step + per_damage * mean_damage


@njit(cache=True, error_model="numpy")
def spend_little(game, bounds, order, play):
    """Change the policy to one of least expected damage, in a graph in which every policy ends almost surely.

    The game's gains are the expected damages of choices.  Components are swept in alternating directions until nothing
    changes; the number of sweeps is limited, more so in large components.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    outcome_ptr, probability, charge, (start, member) = game.outcome_ptr, game.probability, game.gain, order
    ahead = bounds.low  # the expected damage from each pair on, given as zeros
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
                    worth = (charge[c] + worth) / away if away > 0.0 else 0.0  # the end
                    if worth < best - LITTLE or (k == old and worth <= best + LITTLE):
                        best, play[x] = worth, k
                if best < np.inf:
                    most = max(most, abs(best - ahead[x]))
                    ahead[x] = best
            if most <= LITTLE:
                break


@njit(cache=True, error_model="numpy", borrows=True)
def take(graph, pairs, via, play, result):
    """Translate a policy of the tied graph into choices of the original graph, in ``result``."""
    for i in range(pairs.size):
        if graph.ptr[i] < graph.ptr[i + 1]:
            result[pairs[i]] = via[play[i]]


@njit(cache=True, error_model="numpy")
def shortfall(game, low, play, pairs):
    """The largest amount by which the policy's choices fall short of the lower bounds at some pairs, in one backup."""
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
