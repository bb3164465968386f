"""Checking upper budgets of cells without trusting the solver.

Any v ≥ 0 with v(s) ≥ min over patterns of max over outcomes of (d + max of v over the outcome's cells) is an upper
bound on the minimal budget of the system: an agent that always plays a minimiser keeps the remaining budget at v or
above.  One pass checks this, and stores the need of every pattern of every cell with a finite value, for the shield.

This module shares no code with the solvers, but it trusts the images.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.compiled.needs import patterns_need
from almostsure.abstract.enclosure.images import Images, blocks
from almostsure.abstract.upper import UpperBudget
from almostsure.budget.certificate import show, upper_values
from almostsure.budget.minimal import INFINITE
from almostsure.errors import CertificateError
from almostsure.memory import require

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction

WINDOWS = 64 << 20  # bytes for the largest values of windows


class Blocks:
    """The images of all blocks; block i has the cells ``edges[i][0] … edges[i][1] − 1`` of the first coordinate."""

    def __init__(self, abstraction: Abstraction) -> None:
        self.abstraction, self.edges = abstraction, blocks(abstraction)
        self.kept: Images | None = None  # of the whole grid, if they were computed together

    def __getitem__(self, number: int) -> Images:
        """The images of a block, computed on access unless they are kept."""
        return self.abstraction.images(*self.edges[number]) if self.kept is None else self.kept


def check_upper(abstraction: Abstraction, values: npt.ArrayLike) -> UpperBudget:
    """Verify in one pass that ``values``, one per cell, are upper budgets.

    Raises
    ------
    CertificateError
        Naming the first cell whose value is too small.
    """
    given = upper_values(values, abstraction.num_cells, abstraction.grid.describe)
    return verified(abstraction, Blocks(abstraction), given, cap=None, engine="values that were given")


def verified(
    abstraction: Abstraction, images: Blocks, values: npt.NDArray[np.int32], *, cap: int | None, engine: str
) -> UpperBudget:
    """The values as an ``UpperBudget``; raises if they are too small anywhere."""
    finite = values != INFINITE
    largest = int(values[finite].max(initial=0))
    dtype: Any = np.uint8 if largest < 255 else np.int32
    row = np.where(finite, np.cumsum(finite) - 1, -1).astype(np.int32)
    size = int(finite.sum()) * abstraction.patterns.count * np.dtype(dtype).itemsize
    require(size, "the table of what patterns need", "Take fewer cells or patterns.")
    needs = np.full((int(finite.sum()), abstraction.patterns.count), np.iinfo(dtype).max, dtype)
    tables, shape = _tables(abstraction, values, images[0], dtype), np.array(abstraction.grid.cells, np.int64)
    ended = abstraction.goal_cells

    def part(number: int) -> None:
        patterns_need(images[number], shape, tables, row, needs, images.edges[number])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(part, range(len(images.edges))))
    needs[row[ended & finite]] = 0  # at the goal
    least = needs.min(axis=1, initial=np.iinfo(dtype).max).astype(np.int64)
    least[least == np.iinfo(dtype).max] = INFINITE
    wrong = np.flatnonzero(least > values[finite])
    if wrong.size:
        cell = int(np.flatnonzero(finite)[wrong[0]])
        raise CertificateError(
            f"the value of {abstraction.grid.describe(cell)} is too small: it claims {values[cell]}, but its best "
            f"pattern needs {show(least[wrong[0]])} ({wrong.size:,} cells break the condition)",
            state=cell,
        )
    return UpperBudget(abstraction=abstraction, of_state=values, row=row, needs=needs, cap=cap, engine=engine)


def _tables(
    abstraction: Abstraction, values: npt.NDArray[np.int32], images: Images, dtype: Any
) -> npt.NDArray[np.uint8 | np.int32]:
    """The largest value in every window of the last two coordinates, up to the size of images or of ``WINDOWS``."""
    dims = abstraction.grid.num_coordinates
    cells = abstraction.grid.cells if dims > 1 else (1, *abstraction.grid.cells)  # a line is a plane of one row
    found = np.minimum(values, np.iinfo(dtype).max).astype(dtype).reshape(cells)
    sides = [int(images.counts_along(axis).max()) if axis >= 0 else 1 for axis in (dims - 2, dims - 1)]
    high, wide = (max(1, min(side, n)) for side, n in zip(sides, cells[-2:], strict=True))
    while high * wide * found.nbytes > WINDOWS and high * wide > 1:
        high, wide = (high // 2, wide) if high > wide else (high, wide // 2)
    tables = np.empty((high, wide, *cells), dtype)
    tables[0, 0] = found
    for j in range(1, wide):  # windows that wrap around are read for periodic coordinates only
        np.maximum(tables[0, j - 1], np.roll(found, -j, axis=-1), out=tables[0, j])
    for i in range(1, high):
        for j in range(wide):
            np.maximum(tables[i - 1, j], np.roll(tables[0, j], -i, axis=-2), out=tables[i, j])
    return tables.reshape(high, wide, -1)
