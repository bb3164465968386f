"""``Cells``: the states and actions of an abstraction, for shields, wrappers and learners.

The states are the cells, followed by ``end`` if the abstraction has a goal, and by ``unknown``, which stands for all
states outside the box: a pattern may pass through there, but none may begin there.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.grid import cell_number, is_point
from almostsure.errors import Blame, ModelError
from almostsure.model.arrays import action_dtype, index_dtype
from almostsure.model.space import END, UNKNOWN, Space
from almostsure.wording import brief, counted

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction


class Cells(Space):
    """The space of an abstraction.  States may be given as cell numbers or as points."""

    __slots__ = ("_edges", "abstraction")

    abstraction: Abstraction

    def __init__(self, abstraction: Abstraction) -> None:
        cells, actions = abstraction.num_cells, abstraction.num_actions
        dtype: Any = index_dtype((cells + 2) * actions + 1)
        states = cells + 1 + (abstraction.goal is not None)
        self.abstraction = abstraction
        self._edges = [edges.tolist() for edges in abstraction.grid.edges]
        initial = abstraction.initial_cells()
        super().__init__(
            choice_ptr=np.arange(states + 1, dtype=dtype) * dtype(actions),
            choice_action=np.tile(np.arange(actions, dtype=action_dtype(actions)), states),
            initial=(initial, np.full(initial.size, 1.0 / initial.size)),
            action_names=abstraction.action_names if len(set(abstraction.action_names)) == actions else None,
            end=None if abstraction.goal is None else cells,
            unknown=states - 1,
            encode=self.observed,
        )

    def observed(self, observation: Any) -> int:
        """The cell of an observation; ``unknown`` if it lies outside the box."""
        return self._cell_of(self.point(observation))

    def point(self, observation: Any) -> list[float]:
        """The coordinates of the state of an observation."""
        state_of = self.abstraction.state_of
        with Blame(lambda: "state_of failed"):
            state = observation if state_of is None else state_of(observation)
        return self._coordinates(state)

    def state(self, state: Any) -> int:
        """The state with a number or name, or the cell of a point (see :func:`.grid.is_point`)."""
        if is_point(state):
            return self._cell_of(self._coordinates(state))
        if isinstance(state, str) and state in (END, UNKNOWN):
            return super().state(state)
        number = cell_number(state)
        if not 0 <= number < self.num_states:
            raise self.abstraction.grid.no_cell(state)
        return number

    def is_one(self, states: Any) -> bool:
        """Whether this is one state, and not a sequence of cells or of points."""
        if is_point(states) or isinstance(states, str):
            return not (isinstance(states, list) and any(np.ndim(part) for part in states))
        return not isinstance(states, (list, np.ndarray)) or np.ndim(states) == 0

    def states(self, states: Any) -> npt.NDArray[np.int64]:
        """Many states, [n]: integers are cells, and floats, [n, coordinates], are points; or one state."""
        if self.is_one(states):
            states = [self.state(states)]
        try:
            array = np.asarray(states)
        except ValueError:  # rows of different lengths
            array = np.empty((0, 0), np.object_)
        dims = self.abstraction.grid.num_coordinates
        if array.ndim == 1 and (array.dtype.kind in "iu" or not array.size):
            wrong = (array < 0) | (array >= self.num_states)
            if wrong.any():
                raise self.abstraction.grid.no_cell(int(array[np.argmax(wrong)]))
            return array.astype(np.int64, copy=False)
        if array.ndim == 2 and array.dtype.kind == "f" and array.shape[1] == dims:
            cells = self.abstraction.grid.cells_of(array)
            return np.where(cells < 0, self.num_states - 1, cells)  # the last one is the unknown
        raise ModelError(
            f"states must be cells, integers of shape [n], or points, floats of shape [n, {dims}] "
            f"({', '.join(self.abstraction.grid.names)}); got {array.dtype} of shape {list(array.shape)}"
        )

    def describe_state(self, state: int) -> str:
        """A state in words, for messages."""
        if state == self.unknown:
            return "a state outside the box"
        return "the end" if state == self.end else self.abstraction.grid.describe(state)

    def _coordinates(self, point: Any) -> list[float]:
        """A point as floats, one per coordinate of the grid."""
        try:
            values = [float(value) for value in point]
        except (TypeError, ValueError):
            raise ModelError(_wrong_shape(self.abstraction, point)) from None
        if len(values) != self.abstraction.grid.num_coordinates:
            raise ModelError(_wrong_shape(self.abstraction, point))
        return values

    def _cell_of(self, point: list[float]) -> int:
        """The cell of one point, like ``grid.cell`` but without arrays."""
        grid, cell = self.abstraction.grid, 0
        assert self.unknown is not None
        for axis, (value, edges) in enumerate(zip(point, self._edges, strict=True)):
            if axis in grid.periodic:
                value = float(grid.unwound(axis, np.asarray(value)))
            if not edges[0] <= value <= edges[-1]:  # NaN is not
                return self.unknown
            along = min(bisect_right(edges, value) - 1, len(edges) - 2)
            cell = cell * (len(edges) - 1) + along
        return cell

    def __reduce__(self) -> tuple[Any, ...]:
        return Cells, (self.abstraction,)


def _wrong_shape(abstraction: Abstraction, point: Any) -> str:
    grid = abstraction.grid
    try:
        got = f"shape {list(np.shape(point))}"
    except ValueError:  # rows of different lengths
        got = brief(point)
    return (
        f"an observation must have the {counted(grid.num_coordinates, 'coordinate')} of the grid "
        f"({', '.join(grid.names)}); got {got}. Pass state_of= to abstract, which turns an observation into the state."
    )
