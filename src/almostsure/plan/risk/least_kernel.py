"""The compiled sweeps of :mod:`almostsure.plan.risk.least`, whose ``sweep_plain`` is their twin.

A state's new value is used at once, and states whose bounds are close are left alone: both only save time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from almostsure.plan.risk.least import TINY


@njit(cache=True)
def sweep_layer(
    sums: Any, upper: Any, lower: Any, level: int, states: Any, sweeps: int, tolerance: float
) -> float:  # pragma: no cover - compiled
    """Sweep the states of a layer; returns the greatest distance between the bounds afterwards."""
    gap = np.inf
    for number in range(sweeps):
        gap = 0.0
        for i in range(states.size):
            s = states[i] if number % 2 == 0 else states[states.size - 1 - i]
            if upper[level, s] - lower[level, s] <= 0.5 * tolerance:
                gap = max(gap, upper[level, s] - lower[level, s])
                continue
            high, low = bounds_of(sums, upper, lower, level, s)
            upper[level, s] = min(upper[level, s], high)
            lower[level, s] = max(lower[level, s], low)
            gap = max(gap, upper[level, s] - lower[level, s])
        if gap <= tolerance:
            break
    return gap


@njit(cache=True)
def bounds_of(sums: Any, upper: Any, lower: Any, level: int, s: int) -> tuple[float, float]:
    """The least q of the state's choices, rounded up from the upper bounds and down from the lower ones."""
    best_high, best_low = np.inf, np.inf
    for c in range(sums.choice_ptr[s], sums.choice_ptr[s + 1]):
        high, low, share = 0.0, 0.0, 0.0
        for o in range(sums.outcome_ptr[c], sums.outcome_ptr[c + 1]):
            p, left, t = sums.probability[o], level - np.int64(sums.damage[o]), sums.successor[o]
            if t == s and left == level:
                continue  # see "Loops"
            share += p
            if left < 0:
                high += p
                low += p
            elif upper[left, t] > 0.0:
                high += max(p * upper[left, t], TINY)
                low += p * lower[left, t]
        if share > 0.0:
            best_high = min(best_high, high / share * sums.margin[c])
            best_low = min(best_low, low / share * (2.0 - sums.margin[c]))
    return min(best_high, 1.0), min(best_low, 1.0)


@njit(cache=True)
def sweep_step(sums: Any, before: Any, after: Any) -> None:  # pragma: no cover - compiled
    """The least risks with one step more, from those with one step less; both are [budget + 1, num_states]."""
    for level in range(before.shape[0]):
        for s in range(before.shape[1]):
            best = 1.0
            for c in range(sums.choice_ptr[s], sums.choice_ptr[s + 1]):
                total = 0.0
                for o in range(sums.outcome_ptr[c], sums.outcome_ptr[c + 1]):
                    left = level - np.int64(sums.damage[o])
                    ahead = 1.0 if left < 0 else before[left, sums.successor[o]]
                    if ahead > 0.0:
                        total += max(sums.probability[o] * ahead, TINY)
                best = min(best, total * sums.scale[c])
            after[level, s] = best
