"""Checking steps of an environment against the enclosures of their points, or of whole cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.evaluate import distance, next_states
from almostsure.abstract.enclosure.images import cells_of
from almostsure.abstract.enclosure.interval import Interval
from almostsure.errors import ModelError, ModelMismatch

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def check_step(abstraction: Abstraction, states: Any, actions: Any, next_states: Any, *, observed: bool) -> None:
    """Verify that next states lie in the enclosures of their points.  See :meth:`Abstraction.check_step`."""
    before, after = np.atleast_2d(np.asarray(states, np.float64)), np.atleast_2d(np.asarray(next_states, np.float64))
    played = np.atleast_1d(np.asarray(actions, np.int64))
    dims = abstraction.grid.num_coordinates
    if before.shape != after.shape or before.shape[1:] != (dims,) or played.shape != before.shape[:1]:
        raise ModelError(
            f"states and next_states must be [n, {dims}] and actions [n]; got {list(before.shape)}, "
            f"{list(after.shape)} and {list(played.shape)}"
        )
    for action in set(played.tolist()):
        at = np.flatnonzero(played == action)
        outside = _outside(abstraction, before[at], action, after[at], observed=observed)
        bad = outside.max(axis=1) > 0
        if bad.any():
            first = int(np.argmax(bad))
            axis = int(np.argmax(outside[first]))
            why = _only_rounded(abstraction, before[at[bad]], action, after[at[bad]], observed=observed)
            raise ModelMismatch(
                f"{why}from {before[at[first]].tolist()} the action {abstraction.action_names[action]} led to "
                f"{after[at[first]].tolist()}, which is outside the enclosure by {outside[first, axis]:.3g} in "
                f"{abstraction.grid.names[axis]} ({int(bad.sum()):,} of {at.size:,} steps)."
                + ("" if why else " The abstraction's dynamics are not those of the environment.")
            )


def _only_rounded(abstraction: Abstraction, before: Floats, action: int, after: Floats, *, observed: bool) -> str:
    """The remedy if points lie outside only because they were rounded to float32; otherwise ""."""
    seen = abstraction.observation
    for points in (before, after):
        with np.errstate(over="ignore"):
            if (points.astype(np.float32) != points).any():
                return ""
    if _outside(replace(abstraction, observation=seen.with_rounding()), before, action, after, observed=True).any():
        return ""
    todo = [] if observed else ["observed=True to check_step"]
    if not seen.rounded:
        more = " instead of numbers, or numbers that allow for it" if seen.margin.any() else ""
        todo.append(f'observation_error="float32" to abstract{more}')
    return f"these observations are rounded to float32, and that is not allowed for: pass {' and '.join(todo)}. Here "


def reachable(abstraction: Abstraction, cells: Ints, actions: Ints, reached: Ints) -> npt.NDArray[np.bool_]:
    """Whether each action may lead from its cell to the next one, [n]; a number beyond the cells: outside the box."""
    result = np.zeros(cells.size, np.bool_)
    for action in set(actions.tolist()):
        at = np.flatnonzero(actions == action)
        with np.errstate(all="ignore"):  # NaN means "nothing is known"
            for state in next_states(abstraction, cells_of(abstraction, cells[at]), action):
                result[at] |= _meets(abstraction, state, reached[at])
    return result


def _meets(abstraction: Abstraction, state: tuple[Interval, ...], reached: Ints) -> npt.NDArray[np.bool_]:
    """Whether the possible observations of an enclosure meet the cells, or the outside of the box."""
    grid, shown = abstraction.grid, abstraction.observation
    is_cell = reached < grid.num_cells
    low, high = grid.boxes(np.where(is_cell, reached, 0))
    inside, leaves = np.ones(reached.size, np.bool_), np.zeros(reached.size, np.bool_)
    for axis, x in enumerate(state):
        seen = shown.rounded_to(shown.observed(axis, x))
        inside &= distance(grid, axis, seen, Interval(low[:, axis], high[:, axis])) == 0
        if axis not in grid.periodic:
            leaves |= ~((seen.low >= grid.low[axis]) & (seen.high <= grid.high[axis]))
    return np.where(is_cell, inside, leaves)


def _outside(abstraction: Abstraction, before: Floats, action: int, after: Floats, *, observed: bool) -> Floats:
    """The distance of next states from the nearest of several enclosures, per coordinate; 0 inside."""
    axes, observation = range(before.shape[1]), abstraction.observation
    points = tuple(Interval.of(before[:, j]) for j in axes)
    if observed:
        points = tuple(observation.states(j, point) for j, point in enumerate(points))
    outside = np.full(before.shape, np.inf)
    for state in next_states(abstraction, points, action):
        if observed:
            state = tuple(observation.rounded_to(observation.observed(j, x)) for j, x in enumerate(state))
        gaps = np.stack([distance(abstraction.grid, j, state[j], Interval.of(after[:, j])) for j in axes], axis=1)
        nearer = gaps.max(axis=1) < outside.max(axis=1)
        outside[nearer] = gaps[nearer]
    return outside
