"""Comparing what an environment did with the enclosure of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from almostsure.abstract.evaluate import added, evaluate
from almostsure.abstract.interval import Interval
from almostsure.errors import ModelError, ModelMismatch

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction


def check_step(
    abstraction: Abstraction, states: npt.ArrayLike, actions: npt.ArrayLike, next_states: npt.ArrayLike
) -> None:
    """Verify that next states lie in the enclosures of their points.  See :meth:`Abstraction.check_step`."""
    before, after = np.atleast_2d(np.asarray(states, np.float64)), np.atleast_2d(np.asarray(next_states, np.float64))
    played = np.atleast_1d(np.asarray(actions, np.int64))
    dims = abstraction.grid.num_coordinates
    if before.shape != after.shape or before.shape[1:] != (dims,) or played.shape != before.shape[:1]:
        raise ModelError(
            f"states and next_states must be [n, {dims}] and actions [n]; got {list(before.shape)}, "
            f"{list(after.shape)} and {list(played.shape)}"
        )
    for action in np.unique(played).tolist():
        at = np.flatnonzero(played == action)
        points = tuple(Interval(before[at, j], before[at, j]) for j in range(dims))
        outside = np.full((at.size, dims), np.inf)  # how far, from the nearest of several enclosures
        for enclosure in evaluate(abstraction, points, abstraction.actions[action]):
            state = added(enclosure, abstraction.disturbance)
            gaps = np.stack([_gap(abstraction, j, state[j], after[at, j]) for j in range(dims)], axis=1)
            nearer = gaps.max(axis=1) < outside.max(axis=1)
            outside[nearer] = gaps[nearer]
        bad = outside.max(axis=1) > 0
        if bad.any():
            first = int(np.argmax(bad))
            axis = int(np.argmax(outside[first]))
            raise ModelMismatch(
                f"from {before[at[first]].tolist()} the action {abstraction.action_names[action]} led to "
                f"{after[at[first]].tolist()}, which is outside the enclosure by {outside[first, axis]:.3g} in "
                f"{abstraction.grid.names[axis]} ({int(bad.sum()):,} of {at.size:,} steps). "
                "The dynamics that the abstraction was made of are not those of the environment."
            )


def _gap(
    abstraction: Abstraction, axis: int, interval: Interval, value: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """How far values lie outside their intervals; periodic coordinates are compared after whole turns."""
    if axis in abstraction.grid.periodic:
        period = abstraction.grid.high[axis] - abstraction.grid.low[axis]
        middle = (interval.low + interval.high) / 2
        value = value - period * np.round((value - middle) / period)
        slack = 1e-9 * period
    else:
        slack = 0.0
    return np.maximum(np.maximum(interval.low - slack - value, value - interval.high - slack), 0.0)
