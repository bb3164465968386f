"""Levels of the upper budget on boxes of cells, compiled.  :mod:`almostsure.abstract.solve` explains the method."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from almostsure.abstract.images import Images

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Sets(NamedTuple):
    """Sets of cells as bits along the last coordinate, each shrunk by every window that images have.

    Set d is the one in which an outcome of damage d must end.  ``bits`` at ``d · per_set + Σ (count − 1) · window + Σ
    index · row`` begins the row that says for which k the cells k of all ``count`` rows from there on are in the set.
    """

    bits: Words  # flat
    per_set: int
    window: Ints  # [coordinates − 1] words between the sets of two window lengths; 0 where windows are looped over
    row: Ints  # [coordinates − 1] words between neighbours


class Task(NamedTuple):
    """What one level works on."""

    shape: Ints  # [coordinates]
    alive: Words  # [rows, words] not yet found to need more than this level
    settled: Words  # [rows, words] need less than this level
    witness: npt.NDArray[np.uint16]  # [cells] the first pattern that has not failed at this level
    patterns: int
    level: int


class Scratch(NamedTuple):
    """Small arrays, one set per thread."""

    offset: Ints  # [coordinates + 1]
    low: Ints  # [coordinates]
    counts: Ints  # [coordinates]
    at: Ints  # [coordinates]


@nb.njit(cache=True, nogil=True)
def span_inside(bits: Words, start: int, first: int, end: int) -> bool:
    """Whether the cells ``first … end − 1`` of a row are all in the set."""
    one, full = np.uint64(1), ~np.uint64(0)
    w = first >> 6
    while w << 6 < end:
        mask = full
        if first > w << 6:
            mask = full << np.uint64(first - (w << 6))
        if end < (w + 1) << 6:
            mask &= (one << np.uint64(end - (w << 6))) - one
        if bits[start + w] & mask != mask:
            return False
        w += 1
    return True


@nb.njit(cache=True, nogil=True)
def row_inside(bits: Words, start: int, first: int, end: int, width: int) -> bool:
    """Whether the cells ``first … end − 1`` of a row are in the set; those from ``width`` on wrap around."""
    if not span_inside(bits, start, first, min(end, width)):
        return False
    return end <= width or span_inside(bits, start, 0, end - width)


@nb.njit(cache=True, nogil=True)
def rows_inside(sets: Sets, shape: Ints, start: int, scratch: Scratch) -> bool:
    """The same for all rows of the box in ``scratch``, along the coordinates whose windows are looped over."""
    low, count, at = scratch.low, scratch.counts, scratch.at
    last = shape.size - 1
    for j in range(last):
        at[j] = 0
    while True:
        if not row_inside(sets.bits, start, low[last], low[last] + count[last], shape[last]):
            return False
        j = last - 1
        while j >= 0:
            if sets.window[j] == 0:
                index = low[j] + at[j]
                if index >= shape[j]:
                    index -= shape[j]
                if at[j] + 1 < count[j]:
                    at[j] += 1
                    start += sets.row[j] if index + 1 < shape[j] else -index * sets.row[j]
                    break
                start += (low[j] - index) * sets.row[j]
                at[j] = 0
            j -= 1
        if j < 0:
            return True


@nb.njit(cache=True, nogil=True)
def place(images: Images, shape: Ints, row: int, offset: Ints) -> None:
    """Where the entries of a row of cells begin, one coordinate after the other, and then where its damages do."""
    n = shape.size
    offset[:] = 0
    rest = row
    for axis in range(n - 2, -1, -1):
        index = rest - images.origin if axis == 0 else rest % shape[axis]
        rest //= shape[axis]
        for j in range(n):
            offset[j] += index * images.stride[j, axis]
        offset[n] += index * images.damage_stride[axis]


@nb.njit(cache=True, nogil=True)
def sweep(images: Images, sets: Sets, task: Task, scratch: Scratch, first_row: int, num_rows: int) -> int:
    """Take out of ``task.alive`` the cells of a block that no pattern keeps in the sets; how many there were."""
    # What the innermost loop reads lies in local variables: a field of a tuple is counted as a reference each time.
    shape, offset, low, count = task.shape, scratch.offset, scratch.low, scratch.counts
    lows, counts, starts, strides = images.low, images.counts, images.start, images.stride
    damages, damage_starts, damage_stride = images.damage, images.damage_start, images.damage_stride[shape.size - 1]
    alive, settled, witness, bits, window, step = (
        task.alive,
        task.settled,
        task.witness,
        sets.bits,
        sets.window,
        sets.row,
    )
    last, width, boxes = shape.size - 1, shape[shape.size - 1], images.boxes
    ended, one, found = np.int64(np.iinfo(counts.dtype).max), np.uint64(1), 0
    for row in range(first_row, first_row + num_rows):
        place(images, shape, row, offset)
        for k in range(width):
            bit = one << np.uint64(k & 63)
            if not alive[row, k >> 6] & ~settled[row, k >> 6] & bit:
                continue
            p = np.int64(witness[row * width + k])
            b = 0  # outcomes of p seen to be affordable
            while b < boxes and p < task.patterns:
                q = p * boxes + b
                d = np.int64(damages[damage_starts[q] + offset[last + 1] + k * damage_stride])
                start, cells, looped = d * sets.per_set, np.int64(d <= task.level), False
                for j in range(last + 1):
                    at = starts[j, q] + offset[j] + k * strides[j, last]
                    low[j], count[j] = lows[at], counts[at]
                    cells *= count[j]
                    if j < last:
                        start += low[j] * step[j] + (count[j] - 1) * window[j]
                        looped |= window[j] == 0 and count[j] > 1
                if cells == 0:  # forbidden, or beyond the level
                    good = False
                elif count[0] == ended:
                    good = True
                elif looped:
                    good = rows_inside(sets, shape, start, scratch)
                else:
                    good = row_inside(bits, start, low[last], low[last] + count[last], width)
                b = b + 1 if good else 0
                p = p if good else p + 1
            witness[row * width + k] = p
            if p == task.patterns:
                alive[row, k >> 6] &= ~bit
                found += 1
    return found


# ---------------------------------------------------------------------- arrival: every choice costs something


class Watch(NamedTuple):
    """What the arrival engine keeps: each choice waits for one unsettled cell of its image, or for its turn."""

    shape: Ints  # [coordinates]
    value: npt.NDArray[np.int32]  # [cells]
    head: npt.NDArray[np.int32]  # [cells] the first choice that waits for the cell
    link: npt.NDArray[np.int32]  # [choices] the next choice in the same list
    position: npt.NDArray[np.int32]  # [choices] cells of the image already seen to be settled
    cost: npt.NDArray[np.int32]  # [choices] the largest d + v among these
    bucket: npt.NDArray[np.int32]  # [256] the first choice whose cost is a level, modulo 256
    patterns: int


UNSETTLED = 2**31 - 1


@nb.njit(cache=True, nogil=True)
def arrive(images: Images, watch: Watch, scratch: Scratch, cap: int) -> None:
    """Settle cells in the order of their values, each at the least cost of its choices.

    The choice that is looked at next is one that waited for the cell settled last; else, in the beginning, the next of
    all choices; else the next one whose turn it is to settle its cell.  What is looked at goes on through its image to
    the next unsettled cell and waits there, or, at the end of its image, in the bucket of its cost.
    """
    shape, value, link, head, bucket = watch.shape, watch.value, watch.link, watch.head, watch.bucket
    position, costs, low, count, offset = watch.position, watch.cost, scratch.low, scratch.counts, scratch.offset
    lows, counts, starts, strides = images.low, images.counts, images.start, images.stride
    damages, damage_starts, damage_stride = images.damage, images.damage_start, images.damage_stride[shape.size - 1]
    n, patterns, boxes = shape.size, watch.patterns, images.boxes
    width, ended = shape[n - 1], np.int64(np.iinfo(counts.dtype).max)
    waiting, turn, fresh, row, level, empty = -1, -1, 0, -1, 0, 0
    while True:
        if waiting >= 0:
            choice, waiting = waiting, link[waiting]
        elif fresh < link.size:
            choice, fresh = fresh, fresh + 1
        elif turn >= 0:
            cell, turn = turn // patterns, link[turn]
            if value[cell] == UNSETTLED:
                value[cell], waiting = level, head[cell]
            continue
        else:
            level += 1
            turn, bucket[level & 255] = bucket[level & 255], -1
            empty = empty + 1 if turn < 0 else 0
            if empty == 256 or level > cap:
                return
            continue
        cell = choice // patterns
        if value[cell] != UNSETTLED:
            continue
        if cell // width != row:
            row = cell // width
            place(images, shape, row, offset)
        k, seen, cost, before, waits = (
            cell % width,
            np.int64(position[choice]),
            np.int64(costs[choice]),
            np.int64(0),
            False,
        )
        for q in range(choice % patterns * boxes, (choice % patterns + 1) * boxes):
            d = np.int64(damages[damage_starts[q] + offset[n] + k * damage_stride])
            size = np.int64(1)
            for j in range(n):
                at = starts[j, q] + offset[j] + k * strides[j, n - 1]
                low[j], count[j] = lows[at], counts[at]
                size *= count[j]
            waits = size == 0  # forbidden: waits for ever
            size = np.int64(0) if count[0] == ended else size
            cost = max(cost, d)
            while seen < before + size:
                rest, target, scale = seen - before, np.int64(0), np.int64(1)
                for j in range(n - 1, -1, -1):
                    index = low[j] + rest % count[j]
                    rest //= count[j]
                    target += (index if index < shape[j] else index - shape[j]) * scale
                    scale *= shape[j]
                if value[target] == UNSETTLED:
                    link[choice], head[target], waits = head[target], choice, True
                    break
                cost = max(cost, d + value[target])
                seen += 1
            if waits:
                break
            before += size
        position[choice], costs[choice] = seen, cost
        if not waits:
            link[choice], bucket[cost & 255] = bucket[cost & 255], choice
