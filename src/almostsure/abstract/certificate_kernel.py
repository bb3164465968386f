"""What patterns need, by looking at every cell of every outcome.  Shares no code with the solvers."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from almostsure.abstract.images import Images

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[np.int32]


@nb.njit(cache=True, nogil=True)
def patterns_need(images: Images, shape: Ints, values: Values, row: Values, needs: Any, block: tuple[int, int]) -> None:
    """Fill the rows of a block's finite cells: for every pattern max over its outcomes of d + v.

    The largest number of the table stays where that is ∞.
    """
    n = shape.size
    lows, counts, starts, strides = images.low, images.counts, images.start, images.stride
    damages, damage_starts, damage_strides = images.damage, images.damage_start, images.damage_stride
    infinite, above = np.int64(2**31 - 1), np.int64(np.iinfo(needs.dtype).max)
    ended = np.int64(np.iinfo(counts.dtype).max)
    plane = np.int64(1)
    for j in range(1, n):
        plane *= shape[j]
    index, low = np.zeros(n, np.int64), np.zeros(n, np.int64)
    count, offset = np.zeros(n, np.int64), np.zeros(n + 1, np.int64)
    for cell in range(block[0] * plane, block[1] * plane):
        if row[cell] < 0:
            continue
        rest = cell
        for j in range(n - 1, -1, -1):
            index[j] = rest % shape[j]
            rest //= shape[j]
        index[0] -= images.origin
        offset[:] = 0
        for i in range(n):
            offset[n] += index[i] * damage_strides[i]
            for j in range(n):
                offset[j] += index[i] * strides[j, i]
        for p in range(needs.shape[1]):
            worst = np.int64(0)
            for q in range(p * images.boxes, (p + 1) * images.boxes):
                damage = np.int64(damages[damage_starts[q] + offset[n]])
                size = np.int64(1)
                for j in range(n):
                    at = starts[j, q] + offset[j]
                    low[j], count[j] = lows[at], counts[at]
                    size *= count[j]
                if size == 0:
                    worst = infinite
                elif count[0] == ended:
                    worst = max(worst, damage)
                else:
                    worst = max(worst, damage + largest_in(values, shape, low, count))
                if worst >= infinite:
                    break
            if worst < above:
                needs[row[cell], p] = worst


@nb.njit(cache=True, nogil=True)
def largest_in(values: Values, shape: Ints, low: Ints, count: Ints) -> np.int64:
    """The largest value among the cells of a box."""
    n = shape.size
    width, first, end = shape[n - 1], low[n - 1], low[n - 1] + count[n - 1]
    total, worst = np.int64(1), np.int64(0)
    for j in range(n - 1):
        total *= count[j]
    for number in range(total):
        rest, start, scale = number, np.int64(0), width
        for j in range(n - 2, -1, -1):
            along = low[j] + rest % count[j]
            start += (along if along < shape[j] else along - shape[j]) * scale
            rest //= count[j]
            scale *= shape[j]
        for k in range(first, end):
            worst = max(worst, np.int64(values[start + (k if k < width else k - width)]))
        if worst == 2**31 - 1:
            break
    return worst
