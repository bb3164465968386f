"""The loops of :mod:`almostsure.plan.risk.least`: the search, the sweeps and the steps, compiled unless there are few.

Sweeps use new values at once (Gauss–Seidel), and skip states whose bounds are close: both only save time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.risk.sums import TINY


@njit(cache=True)
def search_layer(sums: Any, edges: Any, upper: Any, level: int, needy: Any) -> Any:
    """The states of a layer with p* < 1, breadth first from those that lead to safe pairs or lower layers."""
    waits = np.zeros(upper.shape[1], np.bool_)
    found, size = np.empty_like(needy), 0
    for s in needy:
        waits[s] = not leads_on(sums, upper, level, s)
        if not waits[s]:
            found[size] = s
            size += 1
    head = 0
    while head < size:
        for i in range(edges.ptr[found[head]], edges.ptr[found[head] + 1]):
            if waits[edges.source[i]]:
                waits[edges.source[i]] = False
                found[size] = edges.source[i]
                size += 1
        head += 1
    return found[:size]


@njit(cache=True, inner=True)
def leads_on(sums: Any, upper: Any, level: int, s: int) -> bool:
    """Whether some outcome of a state leads to a pair with an upper bound below 1."""
    for o in range(sums.outcome_ptr[sums.choice_ptr[s]], sums.outcome_ptr[sums.choice_ptr[s + 1]]):
        left = level - np.int64(sums.damage[o])
        if left >= 0 and upper[left, sums.successor[o]] < 1.0:
            return True
    return False


@njit(cache=True)
def sweep_layer(
    sums: Any, upper: Any, lower: Any, level: int, states: Any, sweeps: int, tolerance: float
) -> tuple[float, bool]:
    """Sweep the states of a layer; returns the largest distance of bounds, and whether the last sweep changed any."""
    gap, moves = np.inf, True
    for number in range(sweeps):
        gap, moves = 0.0, False
        for i in range(states.size):
            s = states[i] if number % 2 == 0 else states[states.size - 1 - i]
            if upper[level, s] - lower[level, s] > 0.5 * tolerance:
                high, low = bounds_of(sums, upper, lower, level, s)
                moves = moves or high < upper[level, s] or low > lower[level, s]
                upper[level, s] = min(upper[level, s], high)
                lower[level, s] = max(lower[level, s], low)
            gap = max(gap, upper[level, s] - lower[level, s])
        if gap <= tolerance or not moves:
            break
    return gap, moves


@njit(cache=True, inner=True)
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
