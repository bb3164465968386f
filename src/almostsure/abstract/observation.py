"""The observation error: none, rounding to float32, or a stated bound.

A shield reads observations, and the observation determines the cell.  So the true states of a cell are those whose
observation may lie in it, and an image contains all possible observations.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from almostsure.abstract.enclosure.interval import Interval, down, up
from almostsure.abstract.grid import TURN, Grid
from almostsure.errors import ArgumentError
from almostsure.wording import counted

HALF_UNIT = 2.0**-24  # the largest relative error of rounding to float32
LEAST = 2.0**-149


class Observation:
    """The relation between states and observations.

    Parameters
    ----------
    grid
        The grid whose cells are observed.
    error
        None if the observation is the state; "float32" if it is the state rounded to float32; or the largest absolute
        error, one number per coordinate.
    """

    def __init__(self, grid: Grid, error: str | Sequence[float] | None) -> None:
        self.rounded = isinstance(error, str)
        if self.rounded and error != "float32":
            raise ArgumentError(f'observation_error must be None, "float32" or numbers; got {error!r}')
        margin = np.zeros(grid.num_coordinates)
        if error is not None and not isinstance(error, str):
            margin = np.asarray(error, np.float64)
            if margin.shape != (grid.num_coordinates,) or not (np.isfinite(margin) & (margin >= 0)).all():
                raise ArgumentError(
                    f"observation_error must be {counted(grid.num_coordinates, 'number')}, 0 or more; got {error!r}"
                )
        self.margin = margin
        self.turn = np.zeros(grid.num_coordinates)
        for axis in grid.periodic:
            self.turn[axis] = TURN * (grid.high[axis] - grid.low[axis])

    def with_rounding(self) -> Observation:
        """The same with rounding to float32 in addition."""
        other = copy.copy(self)
        other.rounded = True
        return other

    def states(self, axis: int, seen: Interval) -> Interval:
        """The states whose observation may lie in ``seen``."""
        extra, unit = self.margin[axis] + self.turn[axis], 0.0
        if self.rounded:
            extra, unit = extra + LEAST, 2 * HALF_UNIT
        if extra == 0:
            return seen
        low, high = (end + sign * (np.abs(end) * unit + extra) for sign, end in ((-1, seen.low), (1, seen.high)))
        return Interval(down(low), up(high))

    def observed(self, axis: int, states: Interval) -> Interval:
        """The possible observations of ``states``, before rounding to float32 (which is monotone)."""
        extra = self.margin[axis]
        return states if extra == 0 else Interval(down(states.low - extra), up(states.high + extra))

    def rounded_to(self, seen: Interval) -> Interval:
        """``seen``, rounded to float32 if observations are."""
        if not self.rounded:
            return seen
        with np.errstate(over="ignore"):
            return Interval(*(np.asarray(bound, np.float32).astype(np.float64) for bound in (seen.low, seen.high)))
