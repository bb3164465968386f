"""Compiled: from bounds of coordinates to ranges of cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.kernels import njit

Floats = npt.NDArray[np.float64]


@njit(cache=True, nogil=True, inner=True)
def cell_along(value: float, edges: Floats, inverse: float) -> int:
    """The cell of a value between the first and the last edge: a guess, corrected by comparison with the edges."""
    last = edges.size - 2
    guess = int((value - edges[0]) * inverse)
    guess = min(max(guess, 0), last)
    while guess > 0 and value < edges[guess]:
        guess -= 1
    while guess < last and value >= edges[guess + 1]:
        guess += 1
    return guess


@njit(cache=True, nogil=True)
def ranges(low: Floats, high: Floats, edges: Floats, around: bool, rounded: bool, first: Any, count: Any) -> None:
    """Fill in the cells of one coordinate that intervals touch: ``count`` from ``first`` on; 0 if one leaves the box.

    With ``rounded``, bounds are rounded to float32 first, like observations.
    """
    n = edges.size - 1
    bottom, top = edges[0], edges[n]
    period = top - bottom
    inverse = n / period
    for i in range(low.size):
        a, b = low[i], high[i]
        if rounded:
            a, b = np.float64(np.float32(a)), np.float64(np.float32(b))
        if a >= bottom and b <= top:
            at = cell_along(a, edges, inverse)
            first[i] = at
            count[i] = cell_along(b, edges, inverse) - at + 1
        elif not around:
            first[i] = 0
            count[i] = 0
        elif not (b - a < period and abs(a) < 1e6 * period):  # all of it, or too far to tell; NaN too
            first[i] = 0
            count[i] = n
        else:
            # Moving by whole periods is rounded: one more cell on either side makes up for it.
            slack = 1e-9 * period
            turns = np.floor((a - slack - bottom) / period)
            begin = cell_along(min(max(a - slack - turns * period, bottom), top), edges, inverse)
            turns = np.floor((b + slack - bottom) / period)
            end = cell_along(min(max(b + slack - turns * period, bottom), top), edges, inverse)
            size = end - begin + 1
            if size <= 0:
                size += n
            if size < n and (b - a + 2 * slack) > period * 0.5 and size <= 2:
                size = n  # so wide that it went all the way round
            first[i] = begin
            count[i] = size
