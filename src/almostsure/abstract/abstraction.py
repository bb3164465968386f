"""``abstract``: a sound finite model of a continuous system.

Cells are the states, patterns of actions the choices, and all cells that an enclosure of a cell's image touches the
outcomes.  Only which outcomes are possible matters for the minimal budget, so the budget of this finite model is an
upper bound on that of the system, and an upper bound is all that safety needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.evaluate import call, check_function
from almostsure.abstract.grid import Grid
from almostsure.abstract.images import Images, image_block, open_cells
from almostsure.abstract.interval import Interval, Maybe
from almostsure.abstract.observation import Observation
from almostsure.abstract.patterns import Patterns
from almostsure.errors import ArgumentError, ModelMismatch

if TYPE_CHECKING:
    from almostsure.abstract.upper import UpperBudget

Step = Callable[[Any, Any], Any]
Predicate = Callable[[Any], Any]
Box = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Abstraction:
    """A continuous system cut into cells.  Made by :func:`abstract`."""

    grid: Grid
    step: Step | None
    actions: tuple[Any, ...]  # what ``step`` is given for each action id
    action_names: tuple[str, ...]
    patterns: Patterns
    unsafe: Predicate | None
    forbidden: Predicate | None
    goal: Predicate | None
    disturbance: tuple[tuple[float, float], ...] | None  # (least, most) per coordinate
    observation: Observation
    initial: Box | None
    post: Callable[..., Any] | None
    name: str
    state_of: Callable[[Any], Any] | None = None  # the state that an observation shows

    # ------------------------------------------------------------------ sizes

    @property
    def num_cells(self) -> int:
        """How many cells the grid has."""
        return self.grid.num_cells

    @property
    def num_actions(self) -> int:
        """How many actions there are; a choice is a pattern of them."""
        return len(self.actions)

    # ------------------------------------------------------------------ what cells do

    def images(self, first: int, last: int) -> Images:
        """The images of a block: cells ``first … last − 1`` of the first coordinate, all cells of the others."""
        return image_block(self, first, last)

    @cached_property
    def goal_cells(self) -> npt.NDArray[np.bool_]:
        """The cells that lie in the goal entirely, [num_cells]."""
        if self.goal is None:
            return np.zeros(self.num_cells, np.bool_)
        answer = Maybe.of(call("goal", self.goal, open_cells(self, 0, self.grid.cells[0]))).surely
        return np.broadcast_to(answer, self.grid.cells).reshape(-1).copy()

    def initial_cells(self) -> npt.NDArray[np.int64]:
        """The cells in which an episode may start; all of them where no initial box was given."""
        if self.initial is None:
            return np.arange(self.num_cells)
        shown = self.observation
        seen = [
            shown.rounded_to(shown.observed(axis, Interval(low, high)))
            for axis, (low, high) in enumerate(zip(*self.initial, strict=True))
        ]
        return self.grid.touching([float(x.low) for x in seen], [float(x.high) for x in seen])

    def cells_of(self, states: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The cells of observed states, [n, coordinates]; −1 outside the box."""
        return self.grid.cells_of(states)

    def damage(self, states: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The damage of entering states, [n, coordinates]: what a wrapper counts at run time.

        With a goal it is 1 per step until the goal is reached, and what is unsafe counts as more than any budget.
        """
        at = np.asarray(states, np.float64)
        point = tuple(at[:, i] for i in range(self.grid.num_coordinates))
        hurt = np.zeros(len(at))
        if self.unsafe is not None:
            hurt = np.broadcast_to(np.asarray(call("unsafe", self.unsafe, point), np.float64), len(at))
        if self.goal is not None:
            hurt = np.where(hurt > 0, np.inf, 1.0)
        if self.forbidden is not None:
            hurt = np.where(np.asarray(call("forbidden", self.forbidden, point)), np.inf, hurt)
        return np.minimum(hurt, 2.0**31 - 2).astype(np.int64)

    def check_step(
        self, states: npt.ArrayLike, actions: npt.ArrayLike, next_states: npt.ArrayLike, *, observed: bool = False
    ) -> None:
        """Compare what an environment did with the enclosure of it.

        Parameters
        ----------
        states, next_states
            Points before and after one step, [n, coordinates].
        actions
            Their action ids, [n].
        observed
            Whether these are states as an agent observes them: ``observation_error`` is then allowed for.

        Raises
        ------
        ModelMismatch
            If a next state lies outside the enclosure; it names the point, the action and by how much.
        """
        from almostsure.abstract.inclusion import check_step

        check_step(self, states, actions, next_states, observed=observed)

    # ------------------------------------------------------------------ budgets

    def minimal_budget(self, *, cap: int | None = None) -> UpperBudget:
        """The upper budget k̂ of every cell.  ``almostsure.minimal_budget(abstraction)`` is the same."""
        from almostsure.abstract.solve import solve

        return solve(self, cap=cap)

    def check_upper(self, values: npt.ArrayLike) -> UpperBudget:
        """Verify upper budgets from anywhere.  ``almostsure.check_upper(abstraction, values)`` is the same."""
        from almostsure.abstract.certificate import check_upper

        return check_upper(self, values)

    # ------------------------------------------------------------------ identity

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the grid, the actions, the patterns and the images of a sample of cells."""
        digest = hashlib.sha256()
        grid = self.grid
        digest.update(repr((grid.low, grid.high, grid.cells, grid.periodic, self.patterns.sequences)).encode())
        digest.update(repr((self.disturbance, self.initial, self.goal is not None)).encode())
        for first in sorted({0, grid.cells[0] // 2, grid.cells[0] - 1}):
            images = self.images(first, first + 1)
            for array in (images.low, images.counts, images.damage):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        kind = "steps to the goal" if self.goal is not None else "damage"
        choices = f"{self.patterns.count} patterns of up to {self.patterns.longest} steps"
        if self.patterns.longest == 1:
            choices = f"{self.num_actions} actions"
        return f"<Abstraction{self.name and chr(32) + self.name}: {self.num_cells:,} cells, {choices}, counts {kind}>"


def abstract(
    step: Step | str | None = None,
    grid: Grid | None = None,
    actions: Sequence[Any] | None = None,
    *,
    unsafe: Predicate | None = None,
    forbidden: Predicate | None = None,
    goal: Predicate | None = None,
    pattern: int | Sequence[Sequence[int]] = 1,
    disturbance: tuple[Sequence[float], Sequence[float]] | None = None,
    observation_error: str | Sequence[float] | None = None,
    initial: tuple[Sequence[float], Sequence[float]] | None = None,
    post: Callable[..., Any] | None = None,
    action_names: Sequence[str] | None = None,
    state_of: Callable[[Any], Any] | None = None,
    name: str = "",
) -> Abstraction:
    """A sound finite model of a continuous system.

    Parameters
    ----------
    step
        ``step(state, action)`` takes a tuple of coordinates and one of ``actions`` and returns the next tuple, with
        NumPy arithmetic that works on numbers and on interval arrays; or a list of tuples, all of them possible.
        Or the id of a known environment, such as ``"CartPole-v1"``, which needs nothing else; ``grid`` and ``pattern``
        may then replace its own.
    grid
        The box and its cells.
    actions
        What ``step`` is given, one value per action id.
    unsafe
        ``unsafe(state)`` is true where entering hurts: damage 1.  It may also give the damage as a whole number, or ∞
        where no budget affords it.  Ending a pattern outside the box is forbidden whatever it says.
    forbidden
        ``forbidden(state)`` is true where no budget affords to be: a fall that ends everything, for example.
    goal
        ``goal(state)`` is true where the run has arrived.  With it, each step until then is damage 1 and whatever is
        unsafe is forbidden: the minimal budget is the number of steps within which arrival is proved.
    pattern
        The length of the action sequences that are choices, or the sequences themselves.
    disturbance
        ``(low, high)``, two tuples of coordinates: anything between is added to the next state, each step anew.
    observation_error
        How far the observation that a shield reads may lie from the state: "float32", or one number per coordinate.
    initial
        ``(low, high)``: where episodes start.  By default anywhere.
    post
        ``post(low, high, action) -> (low, high)``: an enclosure of the user's own, instead of ``step``.  It is trusted.
    action_names, name
        For people.
    state_of
        The state that an observation shows, where they are not the same: ``state_of(observation)`` for one or many.

    Examples
    --------
    >>> import numpy as np
    >>> grid = Grid([-1.0], [1.0], [20])
    >>> model = abstract(lambda s, a: (0.5 * s[0] + a,), grid, [-0.25, 0.25], unsafe=lambda s: np.abs(s[0]) > 0.9)
    >>> model
    <Abstraction: 20 cells, 2 actions, counts damage>
    >>> import almostsure as asure
    >>> asure.minimal_budget(model).of((0.3,))
    0
    """
    if isinstance(step, str):
        from almostsure.abstract.known.environments import known

        return known(step, grid=grid, pattern=None if pattern == 1 else pattern)
    if not isinstance(grid, Grid):
        raise ArgumentError(f"grid must be a Grid; got {type(grid).__name__}")
    if (step is None) == (post is None):
        raise ArgumentError("abstract needs either step or post, and not both")
    listed = tuple(actions) if actions is not None else ()
    if not listed:
        raise ArgumentError("actions must list at least one action; got none")
    names = tuple(map(str, listed if action_names is None else action_names))
    if len(names) != len(listed):
        raise ArgumentError(f"action_names must have one entry per action, {len(listed)}; got {len(names)}")
    made = Abstraction(
        grid=grid,
        step=step,
        actions=listed,
        action_names=names,
        patterns=Patterns(pattern, len(listed)),
        unsafe=unsafe,
        forbidden=forbidden,
        goal=goal,
        disturbance=_pairs("disturbance", disturbance, grid),
        observation=Observation(grid, observation_error),
        initial=_box(initial, grid),
        post=post,
        name=name,
        state_of=state_of,
    )
    check_function(made)
    return made


def _pairs(name: str, value: Any, grid: Grid) -> tuple[tuple[float, float], ...] | None:
    if value is None:
        return None
    try:
        low, high = (tuple(float(x) for x in bound) for bound in value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} must be a pair (low, high) of tuples of numbers; got {value!r}") from None
    if not len(low) == len(high) == grid.num_coordinates:
        raise ArgumentError(f"{name} must have {grid.num_coordinates} coordinates; got {len(low)} and {len(high)}")
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        if not (np.isfinite(a) and np.isfinite(b) and a <= b):
            raise ArgumentError(f"{name} must be finite with low ≤ high; got {a:g} and {b:g} at {grid.names[axis]}")
    return tuple(zip(low, high, strict=True))


def _box(value: Any, grid: Grid) -> Box | None:
    pairs = _pairs("initial", value, grid)
    if pairs is None:
        return None
    for axis, (a, b) in enumerate(pairs):
        if axis not in grid.periodic and not (grid.low[axis] <= a and b <= grid.high[axis]):
            raise ModelMismatch(
                f"initial must lie in the box; {grid.names[axis]} starts in [{a:g}, {b:g}], the box is "
                f"[{grid.low[axis]:g}, {grid.high[axis]:g}]. Narrow the start, or widen the box."
            )
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
