"""``Grid``: a box cut into cells.

Cell i of a coordinate is [edge i, edge i + 1), the last one closed.  All parts of the package read the edges from the
same array of floats, so a point belongs to exactly one cell, whatever is rounded.  Cells are numbered in C order: the
last coordinate varies fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.compiled.ranges import ranges
from almostsure.arguments import names_right_word, whole
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.kernels import plain
from almostsure.memory import available, require
from almostsure.model.arrays import frozen
from almostsure.wording import brief, counted

Floats = npt.NDArray[np.float64]
OUTSIDE = -1  # the "cell" of a point outside the box
MOST_PER_AXIS = 2**15 - 1  # indices of cells along one coordinate fit 16 bits
TURN = 1e-9  # the error allowed for moving a periodic coordinate by whole periods, relative to the period
PER_CELL = 16  # bytes that solving takes per cell, at least


@names_right_word
@dataclass(frozen=True, eq=False, repr=False)
class Grid:
    """A box cut into cells.

    Parameters
    ----------
    low, high
        The corners of the box, one number per coordinate.
    cells
        The number of cells along each coordinate.
    periodic
        The positions of coordinates that wrap around, such as angles: ``high`` is the same as ``low``, and a step does
        the same when the coordinate is a period larger.
    names
        Names of the coordinates, for messages and pictures.

    Examples
    --------
    >>> grid = Grid((-1.2, -0.07), (0.6, 0.07), (6, 4))
    >>> grid
    <Grid: 24 cells, x0 in [-1.2, 0.6] × 6, x1 in [-0.07, 0.07] × 4>
    >>> grid.cell((-0.5, 0.0)), grid.cell((0.7, 0.0))
    (10, -1)
    >>> grid.box(10)
    (array([-0.6,  0. ]), array([-0.3  ,  0.035]))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    cells: tuple[int, ...]
    periodic: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __init__(
        self,
        low: Sequence[float],
        high: Sequence[float],
        cells: Sequence[int],
        *,
        periodic: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> None:
        bottom, top = _numbers("low", low), _numbers("high", high)
        counts = tuple(whole("cells", count) for count in _sequence("cells", cells))
        if not len(bottom) == len(top) == len(counts):
            raise ArgumentError(
                "low, high and cells must have one entry per coordinate; "
                f"got {len(bottom)}, {len(top)} and {len(counts)}"
            )
        called = tuple(names) or tuple(f"x{i}" for i in range(len(bottom)))
        if len(called) != len(bottom):
            raise ArgumentError(f"names must have one entry per coordinate, {len(bottom)}; got {len(called)}")
        _check_box(bottom, top, counts, called)
        around = tuple(sorted({whole("periodic", axis) for axis in _sequence("periodic", periodic)}))
        for axis in around:
            if not 0 <= axis < len(bottom):
                raise ArgumentError(f"periodic must name coordinates 0 … {len(bottom) - 1}; got {axis}")
        _check_memory(counts)
        for name, value in (("low", bottom), ("high", top), ("cells", counts), ("periodic", around), ("names", called)):
            object.__setattr__(self, name, value)

    # ------------------------------------------------------------------ sizes

    @property
    def num_coordinates(self) -> int:
        """The dimension of the box."""
        return len(self.cells)

    @property
    def num_cells(self) -> int:
        """The number of cells."""
        return int(np.prod(self.cells, dtype=np.int64))

    @cached_property
    def edges(self) -> tuple[Floats, ...]:
        """The edges of the cells, one array per coordinate: [cells + 1], read-only."""
        return tuple(map(_edges, self.low, self.high, self.cells))

    def with_cells(self, cells: Sequence[int]) -> Grid:
        """The same box with other numbers of cells."""
        return Grid(self.low, self.high, cells, periodic=self.periodic, names=self.names)

    # ------------------------------------------------------------------ points and cells

    def cells_of(self, points: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The cells of points, [n, coordinates]; OUTSIDE (−1) for those outside the box or NaN."""
        at = np.asarray(points, np.float64)
        if at.ndim != 2 or at.shape[1] != self.num_coordinates:
            raise ModelError(
                f"points must have {counted(self.num_coordinates, 'coordinate')} each ({', '.join(self.names)}); "
                f"got an array of shape {list(at.shape)}"
            )
        cells, inside = np.zeros(len(at), np.int64), np.ones(len(at), np.bool_)
        for axis, edges in enumerate(self.edges):
            value = self.unwound(axis, at[:, axis]) if axis in self.periodic else at[:, axis]
            inside &= (value >= edges[0]) & (value <= edges[-1])  # NaN is not
            along = np.searchsorted(edges, value, side="right") - 1
            cells = cells * self.cells[axis] + np.clip(along, 0, self.cells[axis] - 1)
        return np.where(inside, cells, OUTSIDE)

    def cell(self, point: Sequence[float]) -> int:
        """The cell of one point; OUTSIDE (−1) if it lies outside the box."""
        try:
            at = np.asarray(point, np.float64)
        except (TypeError, ValueError):  # not numbers, or rows of different lengths
            raise ModelError(f"a point must be {counted(self.num_coordinates, 'number')}; got {brief(point)}") from None
        return int(self.cells_of(at[None])[0])

    def cell_or_point(self, state: Any) -> int:
        """The cell with a given number, or the cell of a point (see :func:`is_point`)."""
        if is_point(state):
            return self.cell(state)
        number = cell_number(state)
        if not 0 <= number < self.num_cells:
            raise self.no_cell(state)
        return number

    def no_cell(self, state: object) -> UnknownName:
        """The error for anything that is neither a cell nor a point."""
        point = f"({', '.join(self.names)}{',' if self.num_coordinates == 1 else ''})"
        return UnknownName(
            "cell", state, (), f"Cells are 0 … {self.num_cells - 1}; a point is a tuple of its coordinates, {point}."
        )

    def boxes(self, cells: npt.ArrayLike) -> tuple[Floats, Floats]:
        """The lowest and the highest corners of cells, each [n, coordinates]."""
        flat = np.asarray(cells, np.int64).ravel()
        if flat.size and not (flat.min() >= 0 and flat.max() < self.num_cells):
            bad = flat[(flat < 0) | (flat >= self.num_cells)][0]
            raise UnknownName("cell", int(bad), (), f"Cells are 0 … {self.num_cells - 1}.")
        at = np.unravel_index(flat, self.cells)
        low = np.stack([edges[i] for edges, i in zip(self.edges, at, strict=True)], axis=-1)
        high = np.stack([edges[i + 1] for edges, i in zip(self.edges, at, strict=True)], axis=-1)
        return low, high

    def box(self, cell: int) -> tuple[Floats, Floats]:
        """The lowest and the highest corner of one cell."""
        low, high = self.boxes([whole("cell", cell)])
        return low[0], high[0]

    def centres(self, cells: npt.ArrayLike) -> Floats:
        """The middle points of cells, [n, coordinates]."""
        low, high = self.boxes(cells)
        return low + (high - low) / 2

    def touching(self, low: Sequence[float], high: Sequence[float]) -> npt.NDArray[np.int64]:
        """The cells that a box touches, ascending.  The part of it outside the grid's box is ignored."""
        axes = []
        for axis, edges in enumerate(self.edges):
            ends, around = np.array([[low[axis]], [high[axis]]], np.float64), axis in self.periodic
            if not around:
                ends = np.clip(ends, edges[0], edges[-1]) if ends[0] <= edges[-1] and ends[1] >= edges[0] else ends
            first, count = np.zeros((2, 1), np.int64)
            plain(ranges)(*ends, edges, around, False, first, count)
            axes.append((first + np.arange(count[0])) % self.cells[axis])
        return np.sort(np.ravel_multi_index(np.ix_(*axes), self.cells).ravel()).astype(np.int64)

    def describe(self, cell: int) -> str:
        """A cell in words, for messages."""
        if cell < 0:
            return "outside the box"
        low, high = self.box(cell)
        parts = (f"{name} in [{a:.4g}, {b:.4g}]" for name, a, b in zip(self.names, low, high, strict=True))
        return f"cell {cell} ({', '.join(parts)})"

    def wrapped(self, points: npt.ArrayLike) -> Floats:
        """Points, [n, coordinates], with periodic coordinates moved into the box."""
        at = np.array(points, np.float64)
        for axis in self.periodic:
            at[:, axis] = self.unwound(axis, at[:, axis])
        return at

    def unwound(self, axis: int, value: Floats) -> Floats:
        """Values of a periodic coordinate, moved by whole periods into the box."""
        low, high = self.low[axis], self.high[axis]
        with np.errstate(invalid="ignore"):  # ∞ is nowhere in the box
            moved = low + np.mod(value - low, high - low)
        return np.where((value >= low) & (value <= high), value, np.clip(moved, low, high))

    def __repr__(self) -> str:
        axes = (
            f"{name} in [{a:g}, {b:g}] × {n}{' periodic' if i in self.periodic else ''}"
            for i, (name, a, b, n) in enumerate(zip(self.names, self.low, self.high, self.cells, strict=True))
        )
        return f"<Grid: {counted(self.num_cells, 'cell')}, {', '.join(axes)}>"


def is_point(state: object) -> bool:
    """Whether this is one point: a tuple, a list with a float in it, or a one-dimensional float array.

    Lists and arrays of integers are cells, so that a cell is never taken for a point, nor a point for a cell.
    """
    if isinstance(state, list):
        return not all(isinstance(value, (int, np.integer)) for value in state)
    return isinstance(state, tuple) or (isinstance(state, np.ndarray) and state.ndim == 1 and state.dtype.kind == "f")


def cell_number(state: object) -> int:
    """An integer itself, and −1 for anything else: 9.0 may be a coordinate, and is not a cell number."""
    if isinstance(state, np.ndarray) and state.ndim == 0:
        state = state[()]
    return int(state) if isinstance(state, (int, np.integer)) and not isinstance(state, bool) else OUTSIDE


def _edges(low: float, high: float, count: int) -> Floats:
    """The edges of one coordinate; those of a grid with twice the cells include them."""
    steps = np.arange(count + 1, dtype=np.float64)
    edges = low * ((count - steps) / count) + high * (steps / count)
    edges[0], edges[-1] = low, high
    return frozen(edges)


def _sequence(name: str, values: object) -> Sequence[float]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise ArgumentError(f"{name} must be a sequence with one entry per coordinate; got {values!r}")
    return values  # type: ignore[return-value]


def _numbers(name: str, values: object) -> tuple[float, ...]:
    given = _sequence(name, values)
    try:
        numbers = tuple(float(value) for value in given)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} must be numbers, one per coordinate; got {values!r}") from None
    for axis, number in enumerate(numbers):
        if not np.isfinite(number):
            raise ArgumentError(f"{name} must be finite; got {number} at coordinate {axis}")
    return numbers


def _check_box(low: tuple[float, ...], high: tuple[float, ...], cells: tuple[int, ...], names: tuple[str, ...]) -> None:
    if not cells:
        raise ArgumentError("a grid must have at least one coordinate; got none")
    for name, a, b, count in zip(names, low, high, cells, strict=True):
        if not a < b:
            raise ArgumentError(f"low must be less than high in every coordinate; got {a:g} and {b:g} at {name}")
        if not 1 <= count <= MOST_PER_AXIS:
            raise ArgumentError(f"cells must be 1 … {MOST_PER_AXIS} per coordinate; got {count} at {name}")
        if not (np.diff(_edges(a, b, count)) > 0).all():
            raise ArgumentError(f"{count} cells between {a:g} and {b:g} at {name} are too narrow for floats")


def _check_memory(cells: tuple[int, ...]) -> None:
    count = math.prod(cells)
    shrink = ((available() or count * PER_CELL) / (count * PER_CELL)) ** (1 / len(cells))
    fits = " × ".join(str(max(int(along * shrink), 1)) for along in cells)
    require(count * PER_CELL, f"a grid of {count:,} cells", f"A grid of {fits} cells would fit.")
