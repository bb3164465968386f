"""The upper budget k̂ of every cell: the minimal budget of the finite model that the images define.

**Levels**, as for finite models: W_L, the cells that need at most L, is the largest set X in which every cell has a
pattern all of whose outcomes end in X with damage 0, or in W_{L−d} with damage d ≥ 1.  A sweep removes the cells of X
for which no pattern holds any more; sweeps are repeated until one removes nothing.  A pattern that has failed at a
level never holds again at that level, so each cell stores its first pattern that has not failed, and where it ends.

An outcome is a box of cells.  Testing whether it lies in X takes one look at a word: before each sweep X is eroded by
every window of rows that occurs in images, 64 cells at a time, and the last coordinate is a range of bits.  A sweep
skips words of cells whose patterns end where the last sweep removed nothing.

**Arrival.**  With a goal every choice costs at least 1, so values are settled in ascending order (Dijkstra).  Each
choice waits for one unsettled cell of its image; once that is settled it looks for the next one, and if there is none
its cost is known.  Every cell of every image is visited once.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from almostsure.abstract.certificate import Blocks, verified
from almostsure.abstract.compiled import levels as kernels
from almostsure.abstract.enclosure.images import Images, Packed, block_ranges
from almostsure.budget.minimal import INFINITE, cap_limit
from almostsure.memory import available, require
from almostsure.progress import Bar

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction
    from almostsure.abstract.upper import UpperBudget

Words = npt.NDArray[np.uint64]
THREADS = 2
WINDOWS = 64 << 20  # the most bytes for the eroded sets
BYTES_PER_CHOICE = 12  # of the arrival engine, in addition to the images


def gathered(abstraction: Abstraction) -> Blocks:
    """The images of all blocks: kept in memory if they fit, and otherwise computed on every access."""
    images = Blocks(abstraction)
    images.kept = _gathered(images, sharing=True) or _gathered(images, sharing=False)
    return images


def _gathered(images: Blocks, *, sharing: bool) -> Images | None:
    """The images of the whole grid, filled in block by block; None if they do not fit in memory or cannot share."""
    abstraction, (first, last) = images.abstraction, images.edges[0]
    found = block_ranges(abstraction, first, last)
    packed = Packed(abstraction.grid.cells, 0, found, last - first, sharing=sharing)
    if packed.nbytes > (available() or 1 << 40) // 2 or not packed.put(found, first, last):
        return None

    def part(edges: tuple[int, int]) -> bool:
        return packed.put(block_ranges(abstraction, *edges), *edges)

    with ThreadPoolExecutor(THREADS) as pool:
        fits = all(pool.map(part, images.edges[1:]))
    return packed.images() if fits else None


def _rows(images: Blocks, number: int) -> tuple[int, int]:
    """The first row of a block and its number of rows; a row is all cells along the last coordinate."""
    shape = images.abstraction.grid.cells
    if len(shape) == 1:
        return 0, 1
    per_plane = int(np.prod(shape[1:-1], dtype=np.int64))
    first, last = images.edges[number]
    return first * per_plane, (last - first) * per_plane


def solve(abstraction: Abstraction, *, cap: int | None = None) -> UpperBudget:
    """The upper budget of every cell, with its certificate verified."""
    limit = cap_limit(cap)
    choices, images = abstraction.num_cells * abstraction.patterns.count, gathered(abstraction)
    room = (available() or 1 << 40) // 2 // BYTES_PER_CHOICE
    if abstraction.goal is not None and images.kept is not None and choices < min(room, 2**31):
        values = solve_arrival(abstraction, images, limit)
        return verified(abstraction, images, values, cap=cap, engine="arrival engine")
    values = solve_levels(abstraction, images, limit)
    return verified(abstraction, images, values, cap=cap, engine="level engine")


# ---------------------------------------------------------------------- arrival


def solve_arrival(abstraction: Abstraction, images: Blocks, cap: int) -> npt.NDArray[np.int32]:
    """The number of steps within which arrival is proved, for every cell."""
    cells, patterns = abstraction.num_cells, abstraction.patterns.count
    require(BYTES_PER_CHOICE * cells * patterns, "the proof of arrival", "Take fewer cells or patterns.")
    value = np.where(abstraction.goal_cells, 0, INFINITE).astype(np.int32)
    watch = kernels.Watch(
        shape=np.array(abstraction.grid.cells, np.int64),
        value=value,
        head=np.full(cells, -1, np.int32),
        link=np.full(cells * patterns, -1, np.int32),
        position=np.zeros(cells * patterns, np.int32),
        cost=np.zeros(cells * patterns, np.int32),
        bucket=np.full(256, -1, np.int32),
        patterns=patterns,
    )
    kernels.arrive(images[0], watch, _scratch(abstraction), cap)
    return value


# ---------------------------------------------------------------------- levels


def solve_levels(abstraction: Abstraction, images: Blocks, cap: int) -> npt.NDArray[np.int32]:
    """The upper budget of every cell, level by level."""
    grid = abstraction.grid
    counts, highest = _measure(images)
    value = np.where(abstraction.goal_cells, 0, INFINITE).astype(np.int32)
    reached: dict[int, Words] = {}  # W_L of the last levels
    settled = _bits(value == 0, grid.cells[-1])
    level, last_change = 0, 0
    with Bar("upper budgets", grid.num_cells) as bar:
        while level <= cap:
            alive = _level(abstraction, images, settled, reached, counts, level)
            fresh = alive & ~settled
            if fresh.any():
                value[_cells(fresh, grid.cells[-1])] = level
                last_change = level
            reached[level] = settled = alive
            reached.pop(level - highest, None)
            bar.update(int(np.count_nonzero(value != INFINITE)), f"level {level}")
            if level - last_change >= highest or not (value == INFINITE).any():
                break
            level += 1
    return value


def _level(
    abstraction: Abstraction,
    images: Blocks,
    settled: Words,
    reached: dict[int, Words],
    counts: npt.NDArray[np.int64],
    level: int,
) -> Words:
    """The cells that need at most ``level``, as bits."""
    grid = abstraction.grid
    shape = np.array(grid.cells, np.int64)
    alive = _bits(np.ones(grid.num_cells, np.bool_), grid.cells[-1])
    changed = np.zeros(alive.shape, np.bool_)  # in the sweep before
    reach = np.zeros((*alive.shape, shape.size, 2), np.int16)
    reach[..., 0] = (*grid.cells[:-1], alive.shape[1])  # an empty box
    task = kernels.Task(
        shape=shape,
        alive=alive,
        settled=settled,
        witness=np.zeros(grid.num_cells, np.uint16),
        spot=np.full(grid.num_cells, kernels.NEW),
        reach=reach,
        changed=changed,
        patterns=abstraction.patterns.count,
        level=level,
    )
    windows = _windows(counts, alive.nbytes * (1 + len(reached)))
    lower = [_eroded(reached[level - d], grid.cells, grid.periodic, windows) for d in range(1, len(reached) + 1)]
    fresh = True
    with ThreadPoolExecutor(THREADS) as pool:
        while True:
            own = _eroded(alive, grid.cells, grid.periodic, windows)
            bits = np.concatenate([own, *lower]) if lower else own
            sets = _sets(bits, own.size, windows, changed.reshape(*grid.cells[:-1], -1), fresh=fresh)
            changed[:] = False

            def part(number: int, sets: kernels.Sets = sets) -> int:
                return int(kernels.sweep(images[number], sets, task, _scratch(abstraction), *_rows(images, number)))

            if not sum(pool.map(part, range(len(images.edges)))):
                return alive
            fresh = False


def _measure(images: Blocks) -> tuple[npt.NDArray[np.int64], int]:
    """The largest count of cells per coordinate, and the largest finite damage, over all images."""
    dims = images.abstraction.grid.num_coordinates

    def part(number: int) -> tuple[npt.NDArray[np.int64], int]:
        image = images[number]
        ended = np.iinfo(image.counts.dtype).max
        pieces = map(image.counts_along, range(dims))
        counts = [int(piece.max(initial=1, where=piece != ended)) for piece in pieces]
        return np.array(counts, np.int64), int(image.damage.max())

    counts, highest = np.ones(dims, np.int64), 0
    numbers = range(len(images.edges) if images.kept is None else 1)
    with ThreadPoolExecutor(THREADS) as pool:
        for found, damage in pool.map(part, numbers):
            counts, highest = np.maximum(counts, found), max(highest, damage)
    return counts, highest


def _scratch(abstraction: Abstraction) -> kernels.Scratch:
    dims = abstraction.grid.num_coordinates
    return kernels.Scratch(np.zeros(dims + 1, np.int64), *np.zeros((3, dims), np.int64))


# ---------------------------------------------------------------------- sets of cells as bits


def _bits(cells: npt.NDArray[np.bool_], width: int) -> Words:
    """Booleans per cell as words, [rows, words]."""
    rows = cells.reshape(-1, width)
    words = -(-width // 64)
    padded = np.zeros((len(rows), words * 64), np.bool_)
    padded[:, :width] = rows
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _cells(bits: Words, width: int) -> npt.NDArray[np.bool_]:
    """Words as booleans per cell, [cells]."""
    unpacked = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little", count=width)
    return unpacked.astype(np.bool_).reshape(-1)


def _windows(counts: npt.NDArray[np.int64], size: int) -> list[int]:
    """The largest window length of the eroded sets, per leading coordinate; 1 where kernels loop over rows instead."""
    windows: list[int] = counts[:-1].tolist()
    while size * int(np.prod(windows, dtype=np.int64)) > WINDOWS and max(windows, default=1) > 1:
        windows[int(np.argmax(windows))] = 1
    return windows


def _eroded(bits: Words, cells: tuple[int, ...], periodic: tuple[int, ...], windows: list[int]) -> Words:
    """A set eroded by every combination of windows, flat; the window of the first coordinate varies slowest."""
    sets = bits.reshape(1, *cells[:-1], -1)
    for axis in range(len(windows) - 1, -1, -1):
        grown = np.empty((windows[axis], *sets.shape), np.uint64)
        grown[0] = sets
        for k in range(1, windows[axis]):
            ahead = np.roll(sets, -k, axis=1 + axis)
            if axis not in periodic:
                ahead[(slice(None),) * (1 + axis) + (slice(-k, None),)] = 0
            np.bitwise_and(grown[k - 1], ahead, out=grown[k])
        sets = grown.reshape(-1, *sets.shape[1:])
    return sets.reshape(-1)


def _sets(
    bits: Words, per_set: int, windows: list[int], changed: npt.NDArray[np.bool_], *, fresh: bool
) -> kernels.Sets:
    """Eroded sets in the form that kernels read; ``changed`` is a mask of the words that lost cells."""
    before = np.zeros([n + 1 for n in changed.shape], np.int32)
    before[(slice(1, None),) * changed.ndim] = changed
    for axis in range(changed.ndim):
        np.cumsum(before, axis=axis, out=before)
    return kernels.Sets(
        bits=bits,
        per_set=per_set,
        window=np.where(np.array(windows, np.int64) == 1, 0, _steps(windows) * changed.size),
        row=_steps(changed.shape)[:-1],
        before=before.reshape(-1),
        steps=_steps(before.shape),
        fresh=fresh,
    )


def _steps(shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """The distance between neighbours along each coordinate in an array of this shape."""
    return np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[::-1][: len(shape)]
