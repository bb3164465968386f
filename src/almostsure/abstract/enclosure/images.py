"""Images of blocks of cells: for every choice, ranges of cell indices that enclose all possible next states.

A block is a slab of the grid: the cells ``first … last − 1`` of the first coordinate, with all cells of the others.
Its coordinates are given to ``step`` as *open* interval arrays, one axis per coordinate.  So NumPy's broadcasting
computes an expression in two coordinates once per pair of indices, not once per cell.  Results keep their broadcast
shape: on CartPole the image of the angle is stored once per (angle, angular velocity), for all positions.

A *choice* of a cell is a pattern of actions.  Its *outcomes* are boxes of cells, each with its damage; there is one
unless ``step`` returns several.  Other ways of computing images can replace this file: a solver only needs a function
from a block to :class:`Images`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.abstract.compiled.ranges import ranges
from almostsure.abstract.enclosure.evaluate import harm, in_forbidden, in_goal, next_states
from almostsure.abstract.enclosure.interval import Interval
from almostsure.abstract.enclosure.sharing import remembered, remembering
from almostsure.errors import ModelError

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
MOST_DAMAGE = 250  # of one choice
BLOCK = 1 << 17  # cells per block: their arrays fit the processor's cache
NARROW = 254  # the most cells per coordinate for which indices and counts fit one byte


class Images(NamedTuple):
    """The outcomes of a block, in the form that kernels read.

    Outcome b of pattern p is number q = p · boxes + b.  Coordinate j of outcome q at the block's cell (i₀, i₁, …) is
    the range of ``counts`` cells from ``low`` (periodic ones wrap), both found at ``start[j, q] + i₀ · stride[j, 0] +
    i₁ · stride[j, 1] + …``.  A stride of 0 means that all cells along that axis share the entry, and outcomes may share
    entries too.  The damage is found in the same way.

    A count of 0 means *forbidden*: unsafe beyond any budget, or outside the box.  The largest count means *ended*: the
    goal is reached.
    """

    low: npt.NDArray[np.uint8 | np.uint16]  # all coordinates, one after the other
    counts: npt.NDArray[np.uint8 | np.uint16]  # in the same order
    start: npt.NDArray[np.int64]  # [coordinates, outcomes]
    stride: npt.NDArray[np.int64]  # [coordinates, coordinates]
    damage: npt.NDArray[np.uint8]
    damage_start: npt.NDArray[np.int64]  # [outcomes]
    damage_stride: npt.NDArray[np.int64]  # [coordinates]
    boxes: int  # outcomes per choice
    origin: int  # the block's first cell along the first coordinate

    def counts_along(self, axis: int) -> npt.NDArray[np.uint8 | np.uint16]:
        """The entries of ``counts`` that belong to one coordinate."""
        ends = [*self.start.min(axis=1).tolist(), self.counts.size]
        return self.counts[ends[axis] : ends[axis + 1]]


class PatternOutcome(NamedTuple):
    """The enclosure after some actions of a pattern."""

    state: tuple[Interval, ...]
    damage: npt.NDArray[np.uint8]  # so far
    forbidden: Bools
    ended: Bools  # where the whole enclosure has reached the goal


class Ranges(NamedTuple):
    """The outcomes of a block before packing: arrays of broadcast shape, per coordinate and per outcome."""

    low: list[list[Array]]  # [coordinates][outcomes]
    counts: list[list[Array]]
    damage: list[Array]
    boxes: int


def blocks(abstraction: Abstraction) -> list[tuple[int, int]]:
    """Slabs of about ``BLOCK`` cells that cover the grid, each at least two cells thick if the grid is."""
    shape = abstraction.grid.cells
    if len(shape) == 1:
        return [(0, shape[0])]
    pieces = max(1, min(shape[0] // 2, abstraction.num_cells // BLOCK))
    edges = np.linspace(0, shape[0], pieces + 1).astype(int)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def open_cells(abstraction: Abstraction, first: int, last: int) -> tuple[Interval, ...]:
    """The true states of a block's cells: the cells, widened by the observation error."""
    state = []
    for axis, count in enumerate(abstraction.grid.cells):
        shape = [1] * abstraction.grid.num_coordinates
        shape[axis] = -1
        along = np.arange(first, last) if axis == 0 else np.arange(count)
        state.append(cells_along(abstraction, axis, along.reshape(shape)))
    return tuple(state)


def cells_along(abstraction: Abstraction, axis: int, index: npt.NDArray[np.intp]) -> Interval:
    """One coordinate of the true states of cells, given by their indices along it.

    A cell ends before the edge where the next one begins, so its largest float is the one before that edge, and a
    system at rest stays in its cell.
    """
    edges = abstraction.grid.edges[axis]
    last = edges.size - 2
    high = np.where(index == last, edges[-1], np.nextafter(edges[index + 1], -np.inf))
    return abstraction.observation.states(axis, Interval(edges[index], high))


def cells_of(abstraction: Abstraction, cells: npt.NDArray[np.int64]) -> tuple[Interval, ...]:
    """The true states of cells, given by their numbers, [n]."""
    index = np.unravel_index(cells, abstraction.grid.cells)
    return tuple(cells_along(abstraction, axis, along) for axis, along in enumerate(index))


def block_ranges(abstraction: Abstraction, first: int, last: int) -> Ranges:
    """The outcomes of the cells ``first … last − 1`` of the first coordinate."""
    return ranges_from(abstraction, open_cells(abstraction, first, last))


def ranges_from(abstraction: Abstraction, state: tuple[Interval, ...]) -> Ranges:
    """The outcomes of cells, given as an open state: the hulls of the outcomes of their pieces."""
    numbers = itertools.product(*map(range, abstraction.split))
    pieces = (tuple(map(_piece, state, number, abstraction.split)) for number in numbers)
    return functools.reduce(functools.partial(_hull, abstraction), (_ranges(abstraction, piece) for piece in pieces))


def _piece(x: Interval, number: int, of: int) -> Interval:
    """Piece ``number`` of ``of`` equal pieces of an interval; neighbours share their end."""
    low = x.low + (x.high - x.low) * (number / of) if number else x.low
    return Interval(low, x.low + (x.high - x.low) * ((number + 1) / of) if number + 1 < of else x.high)


def _hull(abstraction: Abstraction, one: Ranges, two: Ranges) -> Ranges:
    """The smallest outcomes that contain both: the larger damage, and all cells in between."""
    lows, counts = [], []
    for axis, size in enumerate(abstraction.grid.cells):
        period = size if axis in abstraction.grid.periodic else 0
        both = zip(one.low[axis], one.counts[axis], two.low[axis], two.counts[axis], strict=True)
        joined = [_joined(period, *arrays) for arrays in both]
        lows.append([low for low, _ in joined])
        counts.append([count for _, count in joined])
    damage = [np.maximum(a, b) for a, b in zip(one.damage, two.damage, strict=True)]
    return Ranges(lows, counts, damage, one.boxes)


def _joined(period: int, low: Array, count: Array, other_low: Array, other_count: Array) -> tuple[Array, Array]:
    """The smallest range that contains two; forbidden if one of them is, and the other one where one has ended."""
    ended = np.iinfo(count.dtype).max
    a, n, b, m = (array.astype(np.int32) for array in (low, count, other_low, other_count))
    if period:  # the shorter of the two ways round
        onwards, back = (np.maximum(x, (u - v) % period + y) for x, y, u, v in ((n, m, b, a), (m, n, a, b)))
        first, size = np.where(onwards <= back, a, b), np.minimum(np.minimum(onwards, back), period)
    else:
        first = np.minimum(a, b)
        size = np.maximum(a + n, b + m) - first
    first, size = (np.where(n == ended, y, np.where(m == ended, x, z)) for x, y, z in ((a, b, first), (n, m, size)))
    size = np.where((n == 0) | (m == 0), 0, size)
    return first.astype(low.dtype), size.astype(count.dtype)


def _ranges(abstraction: Abstraction, state: tuple[Interval, ...]) -> Ranges:
    """The outcomes of an open state."""
    nowhere = np.zeros((), np.bool_)
    start = PatternOutcome(state, np.zeros((), np.uint8), nowhere, nowhere)
    with np.errstate(all="ignore"):  # NaN means "nothing is known", and is outside every box
        walk = _walk(abstraction, [start], 0, range(abstraction.patterns.count))
        found = {p: [_indexed(abstraction, outcome) for outcome in outcomes] for p, outcomes in walk}
    boxes = max(map(len, found.values()))
    rows = [outcome for p in sorted(found) for outcome in found[p] + [found[p][-1]] * (boxes - len(found[p]))]
    axes = range(abstraction.grid.num_coordinates)
    lows, counts = ([[row[part][axis] for row in rows] for axis in axes] for part in (0, 1))
    return Ranges(lows, counts, [row[2] for row in rows], boxes)


def _after(abstraction: Abstraction, outcome: PatternOutcome, action: int) -> Iterator[PatternOutcome]:
    """The outcomes of one action from one enclosure."""
    for state in next_states(abstraction, outcome.state, action):
        hurt, fatal = harm(abstraction, state)
        if abstraction.forbidden is not None:
            fatal = fatal | in_forbidden(abstraction, state)
        ended = outcome.ended
        if abstraction.goal is not None:
            fatal, hurt = (fatal | (hurt > 0)) & ~ended, (~ended).astype(np.uint8)
            ended = ended | in_goal(abstraction, state)
        forbidden = remembered(np.logical_or, outcome.forbidden, fatal)
        yield PatternOutcome(state, _sum(outcome.damage, hurt), forbidden, ended)


def _sum(damage: npt.NDArray[np.uint8], more: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if int(damage.max()) + int(more.max()) > MOST_DAMAGE:
        raise ModelError(
            f"the damage of a choice must be at most {MOST_DAMAGE}; it reaches {int(damage.max()) + int(more.max())}. "
            "Scale it down, or give it as forbidden."
        )
    return damage + more


def _walk(
    abstraction: Abstraction, outcomes: list[PatternOutcome], depth: int, patterns: Iterable[int]
) -> Iterator[tuple[int, list[PatternOutcome]]]:
    """Evaluate patterns, each common prefix once; yields their numbers and outcomes.

    All actions at one node of the prefix tree are evaluated, and the patterns that end there yielded, before any longer
    pattern: their shared arithmetic is remembered, also while the caller processes the outcomes, and then forgotten.
    """
    sequences = abstraction.patterns.sequences
    by_action: dict[int, list[int]] = {}
    for p in patterns:
        by_action.setdefault(sequences[p][depth], []).append(p)
    going_on = []
    with remembering() as table:
        for action, group in by_action.items():
            after = [end for outcome in outcomes for end in _after(abstraction, outcome, action)]
            for p in group:
                if len(sequences[p]) == depth + 1:
                    yield p, after
            longer = [p for p in group if len(sequences[p]) > depth + 1]
            if longer:
                going_on.append((after, longer))
            table.closed = True
    for after, longer in going_on:
        yield from _walk(abstraction, after, depth + 1, longer)


def _indexed(abstraction: Abstraction, outcome: PatternOutcome) -> tuple[list[Array], list[Array], Array]:
    """An outcome as ranges of cells: low and count per coordinate, and its damage."""
    lows, counts = [], []
    for axis in range(abstraction.grid.num_coordinates):
        low, count = remembered(_touched, abstraction, axis, outcome.state[axis])
        lows.append(low)
        counts.append(count)
    ended = counts[0].dtype.type(np.iinfo(counts[0].dtype).max)
    if outcome.forbidden.any():
        axis = _cheapest_axis(counts, outcome.forbidden)
        counts[axis] = remembered(_without, counts[axis], outcome.forbidden)
    if outcome.ended.any():
        alive = ~(outcome.ended & ~outcome.forbidden)
        counts = [np.where(alive, count, ended) for count in counts]
    return lows, counts, outcome.damage


def _touched(abstraction: Abstraction, axis: int, state: Interval) -> tuple[Array, Array]:
    """The cells of one coordinate that may be observed: the first of them and their number."""
    grid, observation = abstraction.grid, abstraction.observation
    dtype: Any = np.uint8 if max(grid.cells) <= NARROW else np.uint16
    seen = observation.observed(axis, state)
    bounds = np.broadcast_arrays(seen.low, seen.high)
    low, count = (np.empty(bounds[0].shape, dtype) for _ in range(2))
    flat = [np.ascontiguousarray(bound).reshape(-1) for bound in bounds]
    ranges(*flat, grid.edges[axis], axis in grid.periodic, observation.rounded, low.reshape(-1), count.reshape(-1))
    return low, count


def _without(counts: Array, forbidden: Bools) -> Array:
    return np.where(forbidden, counts.dtype.type(0), counts)


def _cheapest_axis(counts: list[Array], mask: Bools) -> int:
    """The coordinate whose array grows least when it is broadcast with ``mask``."""
    sizes = [int(np.prod(np.broadcast_shapes(count.shape, mask.shape))) - count.size for count in counts]
    return int(np.argmin(sizes))


# ---------------------------------------------------------------------- packing


class Packed:
    """Images that are filled block by block; entries that outcomes or blocks share are stored once.

    The first block determines which entries are shared; this is checked on all others.
    """

    def __init__(self, shape: tuple[int, ...], origin: int, ranges_: Ranges, planes: int, *, sharing: bool) -> None:
        self.origin, self.boxes = origin, ranges_.boxes
        self.stacks = [
            _Stack([lows, counts], shape, planes, sharing=sharing)
            for lows, counts in zip(ranges_.low, ranges_.counts, strict=True)
        ]
        self.low, self.counts = _buffer(self.stacks), _buffer(self.stacks)
        self.damage_stack = _Stack([ranges_.damage], shape, planes, sharing=sharing)
        self.damage = _buffer([self.damage_stack])

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        return self.low.nbytes + self.counts.nbytes + self.damage.nbytes

    def put(self, ranges_: Ranges, first: int, last: int) -> bool:
        """Fill in a block; False if entries that are stored once differ."""
        along = slice(first - self.origin, last - self.origin)
        fits = self.damage_stack.put([ranges_.damage], along)
        for stack, lows, counts in zip(self.stacks, ranges_.low, ranges_.counts, strict=True):
            fits &= stack.put([lows, counts], along)
        return fits

    def images(self) -> Images:
        """The blocks filled in, in the form that kernels read."""
        sizes = np.cumsum([0, *(stack.size for stack in self.stacks)])
        start = np.stack([size + stack.start for size, stack in zip(sizes[:-1], self.stacks, strict=True)])
        stride = np.stack([stack.stride for stack in self.stacks])
        damage = (self.damage, self.damage_stack.start, self.damage_stack.stride)
        return Images(self.low, self.counts, start, stride, *damage, self.boxes, self.origin)


class _Stack:
    """Storage for several kinds of arrays (low and count), with one array per outcome and a common broadcast shape."""

    def __init__(self, kinds: list[list[Array]], shape: tuple[int, ...], planes: int, *, sharing: bool) -> None:
        common = np.broadcast_shapes((1,) * len(shape), *(array.shape for kind in kinds for array in kind))
        self.depends = common[0] > 1 or planes == 1  # on the first coordinate
        self.full = (shape[0] if self.depends else 1, *common[1:])
        self.dtype = kinds[0][0].dtype
        self.which = np.arange(len(kinds[0]))  # the outcome with which each outcome shares its entries
        for q in range(1, len(kinds[0]) if sharing else 0):
            for earlier in np.unique(self.which[:q]).tolist():
                if all(np.array_equal(kind[q], kind[earlier]) for kind in kinds):
                    self.which[q] = earlier
                    break
        held, self.place = np.unique(self.which, return_inverse=True)
        entries = int(np.prod(self.full, dtype=np.int64))
        self.size = held.size * entries
        self.start = self.place.astype(np.int64)
        steps = np.cumprod((held.size, *self.full[:0:-1]), dtype=np.int64)[::-1]
        self.stride = np.where(np.asarray(self.full) == 1, 0, steps)  # in entries; 0 along axes of length 1
        self.views: list[Array] = []  # one per kind, [held, …]; in memory the outcomes of a cell are adjacent

    def put(self, kinds: list[list[Array]], along: slice) -> bool:
        where = along if self.depends else slice(None)
        for view, arrays in zip(self.views, kinds, strict=True):
            for q, array in enumerate(arrays):
                target = view[self.place[q], where]
                if self.which[q] == q:
                    target[...] = array
                elif array is not arrays[self.which[q]] and not (target == array).all():
                    return False
        return True


def _buffer(stacks: list[_Stack]) -> Array:
    flat = np.empty(sum(stack.size for stack in stacks), stacks[0].dtype)
    at = 0
    for stack in stacks:
        stack.views.append(np.moveaxis(flat[at : at + stack.size].reshape(*stack.full, -1), -1, 0))
        at += stack.size
    return flat
