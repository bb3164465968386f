"""Playing episodes with compiled code: the twin of :mod:`almostsure.policy.simulate_plain`, equal to the bit."""

from __future__ import annotations

from typing import Any

from numba import njit

from almostsure.policy import streams
from almostsure.policy.simulate_plain import ENDED, OVERSPENT, RESTING, SILENT, TRUNCATED

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
def play(
    choice_ptr: Any, outcome_ptr: Any, successor: Any, cumulative: Any, reward: Any, damage: Any, is_terminal: Any,
    initial: Any, initial_cumulative: Any, choice: Any, shares: Any, rests: Any,
    budget: int, top: int, overspent: int, max_steps: int, discount: float, randomised: bool, may_rest: bool,
    start: Any, step: Any, returns: Any, damages: Any, lengths: Any, fate: Any,
) -> None:  # fmt: skip
    """Play one episode for each stream in ``start`` and ``step``; the last four arrays receive the results."""
    for episode in range(start.size):
        bits, increment = start[episode], step[episode]
        state = initial[0]
        if initial.size > 1:
            bits += increment
            state = initial[first_above(initial_cumulative, 0, initial.size, uniform(mix(bits)))]
        gained, factor, spent, taken, end = 0.0, 1.0, 0, 0, ENDED
        while not is_terminal[state]:
            if taken >= max_steps:
                end = TRUNCATED
                break
            layer = 0
            if top >= 0:
                left = budget - spent
                layer = overspent if left < 0 else min(left, top)
            if may_rest:
                bits += increment
                if uniform(mix(bits)) < rests[layer, state]:
                    end = RESTING
                    break
            if randomised:
                row, first, last = shares[layer], choice_ptr[state], choice_ptr[state + 1]
                bits += increment
                chosen = first_above(row, first, last, uniform(mix(bits)))
                silent = row[last - 1] == 0
            else:
                chosen = choice[layer, state]
                silent = chosen < 0
            if silent:
                end = SILENT
                break
            bits += increment
            outcome = first_above(cumulative, outcome_ptr[chosen], outcome_ptr[chosen + 1], uniform(mix(bits)))
            gained += factor * reward[outcome]
            factor *= discount
            spent += damage[outcome]
            taken += 1
            state = successor[outcome]
            if top >= 0 and overspent < 0 and spent > budget:
                end = OVERSPENT
                break
        returns[episode], damages[episode], lengths[episode], fate[episode] = gained, spent, taken, end
