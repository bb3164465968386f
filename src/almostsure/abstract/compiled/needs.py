"""Compiled: the need of every pattern, from the cells of its outcomes.  Shares no code with the solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.images import Images
from almostsure.kernels import njit

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


@njit(cache=True, nogil=True)
def patterns_need(images: Images, shape: Ints, tables: Any, row: Rows, needs: Any, block: tuple[int, int]) -> None:
    """Fill in, for the finite cells of a block and every pattern, max over the outcomes of d + v.

    ``needs`` is given as the largest number, which stays where that is ∞.
    """
    n = shape.size
    lows, counts, starts, strides = images.low, images.counts, images.start, images.stride
    damages, damage_starts, damage_strides = images.damage, images.damage_start, images.damage_stride
    infinite = np.int64(np.iinfo(needs.dtype).max)  # in the tables, too
    ended = np.int64(np.iinfo(counts.dtype).max)
    plane = np.int64(1)
    for j in range(1, n):
        plane *= shape[j]
    index, low = np.zeros(n, np.int64), np.zeros(n, np.int64)
    count, offset, at_row = np.zeros(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
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
                for j in range(n - 1, -1, -1):
                    at = starts[j, q] + offset[j]
                    low[j], count[j] = lows[at], counts[at]
                    size *= count[j]
                    if size == 0:
                        break
                if size == 0:
                    worst = infinite
                elif count[0] == ended:
                    worst = max(worst, damage)
                else:
                    worst = max(worst, damage + largest_in(tables, shape, low, count, at_row))
                if worst >= infinite:
                    break
            if worst < infinite:
                needs[row[cell], p] = worst


@njit(cache=True, nogil=True, inner=True)
def largest_in(tables: Any, shape: Ints, low: Ints, count: Ints, at: Ints) -> np.int64:
    """The largest value among the cells of a box.

    ``tables[i − 1, j − 1]`` holds the largest value of the i × j cells of the last two coordinates from each cell on;
    longer sides are covered by several windows, the last of which overlaps.  The other coordinates are looped over,
    with ``at`` as the counter.  A single coordinate is a plane of one row.
    """
    n = shape.size
    rows = count[n - 2] if n > 1 else np.int64(1)
    high, wide = min(rows, tables.shape[0]), min(count[n - 1], tables.shape[1])
    worst, infinite = np.int64(0), np.int64(np.iinfo(tables.dtype).max)
    at[:] = 0
    while True:
        start = np.int64(0)
        for j in range(n - 2):
            along = low[j] + at[j]
            start = start * shape[j] + (along if along < shape[j] else along - shape[j])
        down = np.int64(0)
        while down < rows:
            row = start
            if n > 1:
                row = low[n - 2] + min(down, rows - high)
                row = start * shape[n - 2] + (row if row < shape[n - 2] else row - shape[n - 2])
            right = np.int64(0)
            while right < count[n - 1]:
                column = low[n - 1] + min(right, count[n - 1] - wide)
                column -= shape[n - 1] if column >= shape[n - 1] else 0
                worst = max(worst, np.int64(tables[high - 1, wide - 1, row * shape[n - 1] + column]))
                right += wide
            down += high
        j = n - 3
        while j >= 0 and at[j] + 1 == count[j]:
            at[j] = 0
            j -= 1
        if j < 0 or worst == infinite:
            return worst
        at[j] += 1
