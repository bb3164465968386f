"""Levels of the upper budget on boxes of cells, compiled.  :mod:`almostsure.abstract.solve` explains the method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.images import Images
from almostsure.kernels import njit

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Sets(NamedTuple):
    """Sets of cells as bits along the last coordinate, each eroded by every window size that occurs in images.

    An outcome with damage d must end in set d.  The row that starts at ``d · per_set + Σ (count − 1) · window + Σ
    index · row`` of ``bits`` has bit k set if cell k of all ``count`` rows from ``index`` on is in set d.
    """

    bits: Words  # flat
    per_set: int  # words per set
    window: Ints  # [coordinates − 1] words between the sets of two window lengths; 0 where windows are looped over
    row: Ints  # [coordinates − 1] words between neighbours
    before: npt.NDArray[np.int32]  # flat, prefix sums: the words below each corner that lost cells in the last sweep
    steps: Ints  # [coordinates] distance between the corners of neighbours
    fresh: bool  # whether this is the first sweep


class Task(NamedTuple):
    """The state of the computation of one level."""

    shape: Ints  # [coordinates]
    alive: Words  # [rows, words] the cells that may need at most this level
    settled: Words  # [rows, words] the cells that need less than this level
    witness: npt.NDArray[np.uint16]  # [cells] the first pattern that has not failed at this level
    spot: Ints  # [cells] where the witness ends: NEW, HOLDS for ever, or start << 30 | first << 15 | count of bits
    reach: npt.NDArray[np.int16]  # [rows, words, coordinates, 2] the box of words in which a word's witnesses end
    changed: npt.NDArray[np.bool_]  # [rows, words] whether cells were removed in this sweep
    patterns: int
    level: int


NEW, HOLDS = -1, -2


class Scratch(NamedTuple):
    """Small arrays, one set per thread."""

    offset: Ints  # [coordinates + 1]
    low: Ints  # [coordinates]
    counts: Ints  # [coordinates]
    at: Ints  # [coordinates]


@njit(cache=True, nogil=True, inner=True)
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


@njit(cache=True, nogil=True, inner=True)
def row_inside(bits: Words, start: int, first: int, end: int, width: int) -> bool:
    """Whether the cells ``first … end − 1`` of a row are in the set; those from ``width`` on wrap around."""
    if not span_inside(bits, start, first, min(end, width)):
        return False
    return end <= width or span_inside(bits, start, 0, end - width)


@njit(cache=True, nogil=True, inner=True)
def rows_inside(sets: Sets, shape: Ints, start: int, scratch: Scratch) -> bool:
    """:func:`row_inside` for all rows of the box in ``scratch`` along the coordinates whose windows are looped over."""
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


@njit(cache=True, nogil=True)
def place(images: Images, shape: Ints, row: int, offset: Ints) -> None:
    """Fill ``offset`` with the offsets of a row's entries, per coordinate, and last with that of its damages."""
    n = shape.size
    offset[:] = 0
    rest = row
    for axis in range(n - 2, -1, -1):
        index = rest - images.origin if axis == 0 else rest % shape[axis]
        rest //= shape[axis]
        for j in range(n):
            offset[j] += index * images.stride[j, axis]
        offset[n] += index * images.damage_stride[axis]


@njit(cache=True, nogil=True)
def reaches(before: npt.NDArray[np.int32], steps: Ints, reach: npt.NDArray[np.int16]) -> bool:
    """Whether a box of words has one that changed in the last sweep, by prefix sums."""
    total = np.int64(0)
    for corner in range(1 << steps.size):
        at, sign = np.int64(0), 1
        for j in range(steps.size):
            if corner >> j & 1:
                at, sign = at + reach[j, 0] * steps[j], -sign
            else:
                at += reach[j, 1] * steps[j]
        total += sign * before[at]
    return bool(total > 0)


@njit(cache=True, nogil=True)
def sweep(images: Images, sets: Sets, task: Task, scratch: Scratch, first_row: int, num_rows: int) -> int:
    """Remove from ``task.alive`` the cells of some rows for which no pattern holds any more; returns their number.

    Words whose witnesses end where nothing has changed are skipped.
    """
    shape, alive, settled, spots, reach = task.shape, task.alive, task.settled, task.spot, task.reach
    bits, width, one, found = sets.bits, shape[-1], np.uint64(1), 0
    for row in range(first_row, first_row + num_rows):
        placed = False
        for w in range(alive.shape[1]):
            pending = alive[row, w] & ~settled[row, w]
            if not pending or not (sets.fresh or reaches(sets.before, sets.steps, reach[row, w])):
                continue
            failed = np.uint64(0)
            for k in range(w << 6, min(width, (w + 1) << 6)):
                if pending >> np.uint64(k & 63) & one:
                    spot = spots[row * width + k]
                    first = spot >> 15 & 32767
                    if spot == NEW or (
                        spot != HOLDS and not row_inside(bits, spot >> 30, first, first + (spot & 32767), width)
                    ):
                        failed |= one << np.uint64(k & 63)
            if failed:
                if not placed:
                    place(images, shape, row, scratch.offset)
                    placed = True
                found += search(images, sets, task, scratch, (row, w, failed))
    return found


@njit(cache=True, nogil=True)
def search(images: Images, sets: Sets, task: Task, scratch: Scratch, word: tuple[int, int, int]) -> int:
    """Find the next pattern that holds for cells of a word, and remove the cells that have none; returns their number.

    ``word`` is (row, number of the word in it, bits of the cells); ``scratch.offset`` is that of the row.
    """
    # The innermost loop reads local variables: every access to a field of a tuple would count a reference.
    shape, offset, low, count = task.shape, scratch.offset, scratch.low, scratch.counts
    lows, counts, starts, strides = images.low, images.counts, images.start, images.stride
    damages, damage_starts, damage_stride = images.damage, images.damage_start, images.damage_stride[shape.size - 1]
    bits, window, step, reach = sets.bits, sets.window, sets.row, task.reach[word[0], word[1]]
    last, width, boxes, patterns, level = shape.size - 1, shape[-1], images.boxes, task.patterns, task.level
    ended, one, found = np.int64(np.iinfo(counts.dtype).max), np.uint64(1), 0
    for k in range(word[1] << 6, min(width, (word[1] + 1) << 6)):
        if not word[2] >> np.uint64(k & 63) & one:
            continue
        cell, b, spot = word[0] * width + k, 0, NEW  # b outcomes of p are seen to be affordable
        p = np.int64(task.witness[cell])
        while b < boxes and p < patterns:
            q = p * boxes + b
            d = np.int64(damages[damage_starts[q] + offset[last + 1] + k * damage_stride])
            start, good, looped = d * sets.per_set, d <= level, False
            for j in range(last, -1, -1):
                at = starts[j, q] + offset[j] + k * strides[j, last]
                count[j] = counts[at]
                good &= count[j] > 0  # 0 is forbidden
                if not good:
                    break
                low[j] = lows[at]
                if j < last:
                    start += low[j] * step[j] + (count[j] - 1) * window[j]
                    looped |= window[j] == 0 and count[j] > 1
            if good and count[0] != ended:
                if looped:
                    good = rows_inside(sets, shape, start, scratch)
                else:
                    good = row_inside(bits, start, low[last], low[last] + count[last], width)
                if good and d == 0:
                    widen(reach, low, count, shape)
                    spot = NEW if looped else start << 30 | low[last] << 15 | count[last]
            spot = HOLDS if good and (d > 0 or count[0] == ended) else spot
            b, p = (b + 1, p) if good else (0, p + 1)
        task.witness[cell], task.spot[cell] = p, spot if boxes == 1 else NEW
        if p == patterns:
            task.alive[word[0], word[1]] &= ~(one << np.uint64(k & 63))
            task.changed[word[0], word[1]] = True
            found += 1
    return found


@njit(cache=True, nogil=True, inner=True)
def widen(reach: npt.NDArray[np.int16], low: Ints, count: Ints, shape: Ints) -> None:
    """Extend ``reach`` by the words of an outcome; to the whole coordinate where that wraps around."""
    for j in range(shape.size):
        first, end = (low[j], low[j] + count[j]) if low[j] + count[j] <= shape[j] else (0, shape[j])
        if j == shape.size - 1:
            first, end = first >> 6, (end + 63) >> 6
        reach[j, 0], reach[j, 1] = min(reach[j, 0], first), max(reach[j, 1], end)


# ---------------------------------------------------------------------- arrival: every choice costs something


class Watch(NamedTuple):
    """The state of the arrival engine: each choice waits for an unsettled cell of its image, or in a bucket."""

    shape: Ints  # [coordinates]
    value: npt.NDArray[np.int32]  # [cells]
    head: npt.NDArray[np.int32]  # [cells] the first choice that waits for the cell
    link: npt.NDArray[np.int32]  # [choices] the next choice in the same list
    position: npt.NDArray[np.int32]  # [choices] the cells of the image that are known to be settled
    cost: npt.NDArray[np.int32]  # [choices] the largest d + v among these
    bucket: npt.NDArray[np.int32]  # [256] the first choice whose cost is a level, modulo 256
    patterns: int


UNSETTLED = 2**31 - 1


@njit(cache=True, nogil=True)
def member(low: Ints, count: Ints, shape: Ints, number: int) -> np.int64:
    """One of the cells of a box, by its number in C order; the box may wrap around."""
    target, scale = np.int64(0), np.int64(1)
    for j in range(shape.size - 1, -1, -1):
        index = low[j] + number % count[j]
        number //= count[j]
        target += (index if index < shape[j] else index - shape[j]) * scale
        scale *= shape[j]
    return target


@njit(cache=True, nogil=True)
def arrive(images: Images, watch: Watch, scratch: Scratch, cap: int) -> None:
    """Settle cells in ascending order of their values (Dijkstra), each at the least cost of its choices.

    The next choice is one that waited for the cell settled last, or the next of all until each was examined once, or
    one of the current bucket, which settles its cell.  An examined choice waits for the next unsettled cell of its
    image or, if there is none, in the bucket of its cost.
    """
    shape, value, link, head, bucket = watch.shape, watch.value, watch.link, watch.head, watch.bucket
    position, costs, low, count, offset = watch.position, watch.cost, scratch.low, scratch.counts, scratch.offset
    lows, counts, starts, strides = images.low, images.counts, images.start, images.stride
    damages, damage_starts, damage_stride = images.damage, images.damage_start, images.damage_stride[shape.size - 1]
    n, patterns, boxes = shape.size, watch.patterns, images.boxes
    width, ended = shape[n - 1], np.int64(np.iinfo(counts.dtype).max)
    waiting, turn, fresh, row, level, empty, waits = -1, -1, 0, -1, 0, 0, False
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
        k, seen, cost, before = cell % width, np.int64(position[choice]), np.int64(costs[choice]), np.int64(0)
        for q in range(choice % patterns * boxes, (choice % patterns + 1) * boxes):
            d = np.int64(damages[damage_starts[q] + offset[n] + k * damage_stride])
            size = np.int64(1)
            for j in range(n):
                at = starts[j, q] + offset[j] + k * strides[j, n - 1]
                low[j], count[j] = lows[at], counts[at]
                size *= count[j]
            waits, size = size == 0, np.int64(0) if count[0] == ended else size  # a forbidden choice waits for ever
            cost = max(cost, d)
            while seen < before + size:
                target = member(low, count, shape, seen - before)
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
