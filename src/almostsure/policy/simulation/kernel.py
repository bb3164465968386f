"""Compiled simulation of episodes: the twin of :mod:`almostsure.policy.simulation.plain`, with identical results."""

from __future__ import annotations

from typing import Any

from almostsure.kernels import njit
from almostsure.policy.simulation import streams
from almostsure.policy.simulation.plain import (
    ENDED,
    OVERSPENT,
    RESTING,
    TRUNCATED,
    UNDEFINED,
    PlayRules,
    PlayTables,
    Results,
)

mix = njit(cache=True, inline="always")(streams.mix)
uniform = njit(cache=True, inline="always")(streams.uniform)


@njit(cache=True, inline="always")
def first_above(cumulative: Any, first: int, last: int, draw: float) -> int:
    """The first index whose cumulative probability exceeds the draw: a scan if there are few, else bisection."""
    low, high = first, last - 1
    while high - low > 8:
        middle = (low + high) >> 1
        if cumulative[middle] > draw:
            high = middle
        else:
            low = middle + 1
    while low < high and cumulative[low] <= draw:
        low += 1
    return low


@njit(cache=True, nogil=True)
def play(t: PlayTables, rules: PlayRules, random: streams.Streams, results: Results) -> None:
    """Play one episode per stream, and write the results."""
    for episode in range(random.start.size):
        bits, increment = random.start[episode], random.step[episode]
        state = t.initial[0]
        if t.initial.size > 1:
            bits += increment
            state = t.initial[first_above(t.initial_cumulative, 0, t.initial.size, uniform(mix(bits)))]
        gained, factor, spent, taken, end = 0.0, 1.0, 0, 0, ENDED
        while not t.is_terminal[state]:
            if taken >= rules.max_steps:
                end = TRUNCATED
                break
            layer = 0
            if rules.top >= 0:
                left = rules.budget - spent
                layer = rules.overspent if left < 0 else min(left, rules.top)
            if rules.horizon:
                layer += t.first[rules.horizon - taken - 1]
            if rules.rests:
                bits += increment
                if uniform(mix(bits)) < t.rests[layer, state]:
                    end = RESTING
                    break
            if rules.randomised:
                row, first, last = t.shares[layer], t.choice_ptr[state], t.choice_ptr[state + 1]
                bits += increment
                chosen = first_above(row, first, last, uniform(mix(bits)))
                undefined = row[last - 1] == 0
            else:
                chosen = t.choice[layer, state]
                undefined = chosen < 0
            if undefined:
                end = UNDEFINED
                break
            bits += increment
            begin, stop = t.outcome_ptr[chosen], t.outcome_ptr[chosen + 1]
            outcome = first_above(t.cumulative, begin, stop, uniform(mix(bits)))
            gained += factor * t.reward[outcome]
            factor *= rules.discount
            spent += t.damage[outcome]
            taken += 1
            state = t.successor[outcome]
            if rules.top >= 0 and rules.overspent < 0 and spent > rules.budget:
                end = OVERSPENT
                break
        results.returns[episode], results.damages[episode] = gained, spent
        results.lengths[episode], results.fate[episode] = taken, end
