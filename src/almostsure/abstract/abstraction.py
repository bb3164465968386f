"""``abstract``: a sound finite model of a continuous system.

Its states are cells, its choices are patterns of actions, and the outcomes of a choice are all cells that an enclosure
of the cell's image touches.  The minimal budget depends only on which outcomes are possible, so that of the finite
model is an upper bound on that of the system, which is all that safety needs.

Examples
--------
>>> import numpy as np
>>> import almostsure as asure
>>> grid = asure.Grid([-1.0], [1.0], [20])
>>> model = asure.abstract(lambda s, a: (0.5 * s[0] + a,), grid, [-0.25, 0.25], unsafe=lambda s: np.abs(s[0]) > 0.9)
>>> model
<Abstraction: 20 cells, 2 actions, counts damage>
>>> asure.minimal_budget(model).of((0.3,))
0
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.evaluate import call, check_function, in_goal, truth
from almostsure.abstract.enclosure.images import Images, Packed, block_ranges, open_cells
from almostsure.abstract.enclosure.inclusion import check_step
from almostsure.abstract.enclosure.interval import Interval
from almostsure.abstract.grid import Grid
from almostsure.abstract.observation import Observation
from almostsure.abstract.patterns import Patterns
from almostsure.arguments import count, names_right_word
from almostsure.errors import ArgumentError, ModelMismatch
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.abstract.upper import UpperBudget

Step = Callable[[Any, Any], Any]
Predicate = Callable[[Any], Any]
Box = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Abstraction:
    """A continuous system cut into cells.  Made by :func:`abstract`.

    Examples
    --------
    >>> import almostsure as asure
    >>> system = asure.abstract("Pendulum-v1")
    >>> system.num_cells, system.num_actions
    (25600, 5)
    """

    grid: Grid
    step: Step | None
    actions: tuple[Any, ...]  # the argument of ``step`` for each action id
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
    state_of: Callable[[Any], Any] | None  # the state that an observation shows
    split: tuple[int, ...]  # the number of pieces into which cells are cut for their images, per coordinate

    # ------------------------------------------------------------------ sizes

    @property
    def num_cells(self) -> int:
        """The number of cells of the grid."""
        return self.grid.num_cells

    @property
    def num_actions(self) -> int:
        """The number of actions; a choice is a pattern of them."""
        return len(self.actions)

    # ------------------------------------------------------------------ cells and states

    def images(self, first: int, last: int) -> Images:
        """The images of a block: cells ``first … last − 1`` of the first coordinate, all cells of the others."""
        found, planes = block_ranges(self, first, last), last - first
        packed = Packed((planes, *self.grid.cells[1:]), first, found, planes, sharing=True)
        packed.put(found, first, last)
        return packed.images()

    @cached_property
    def goal_cells(self) -> npt.NDArray[np.bool_]:
        """A mask of the cells that lie entirely in the goal, [num_cells]."""
        if self.goal is None:
            return np.zeros(self.num_cells, np.bool_)
        answer = in_goal(self, open_cells(self, 0, self.grid.cells[0]))
        return np.broadcast_to(answer, self.grid.cells).reshape(-1).copy()

    def arrived(self, states: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """A mask of the states, [n, coordinates], that lie in the goal."""
        if self.goal is None:
            return np.zeros(len(np.asarray(states)), np.bool_)
        answer = truth("goal", call("goal", self.goal, tuple(self.grid.wrapped(states).T))).surely
        return np.broadcast_to(answer, len(np.asarray(states)))

    def initial_cells(self) -> npt.NDArray[np.int64]:
        """The cells in which an episode may start; all of them if no initial box was given."""
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
        """The damage of entering states, [n, coordinates], as a wrapper counts it at run time.

        With a goal it is 1 per step until the goal is reached, and unsafe states count as more than any budget.
        """
        at = self.grid.wrapped(states)
        point = tuple(at[:, i] for i in range(self.grid.num_coordinates))
        hurt = np.zeros(len(at))
        if self.unsafe is not None:
            hurt = np.broadcast_to(np.asarray(call("unsafe", self.unsafe, point), np.float64), len(at))
        if self.goal is not None:
            hurt = np.where(hurt > 0, np.inf, 1.0)
        if self.forbidden is not None:
            hurt = np.where(truth("forbidden", call("forbidden", self.forbidden, point)).surely, np.inf, hurt)
        return np.minimum(hurt, 2.0**31 - 2).astype(np.int64)

    def check_step(
        self, states: npt.ArrayLike, actions: npt.ArrayLike, next_states: npt.ArrayLike, *, observed: bool = False
    ) -> None:
        """Check that steps of an environment lie in the enclosures of the abstraction.

        Parameters
        ----------
        states, next_states
            Points before and after one step, [n, coordinates].
        actions
            Their action ids, [n].
        observed
            Whether these are states as an agent observes them, with ``observation_error``.

        Raises
        ------
        ModelMismatch
            If a next state lies outside the enclosure; the message names the point, the action and the distance.
        """
        check_step(self, states, actions, next_states, observed=observed)

    # ------------------------------------------------------------------ budgets

    def minimal_budget(self, *, cap: int | None = None) -> UpperBudget:
        """The upper budget k̂ of every cell.  ``almostsure.minimal_budget(abstraction)`` is the same."""
        from almostsure.abstract.solve import solve

        return solve(self, cap=cap)

    def check_upper(self, values: npt.ArrayLike) -> UpperBudget:
        """Verify upper budgets from any source.  ``almostsure.check_upper(abstraction, values)`` is the same."""
        from almostsure.abstract.certificate import check_upper

        return check_upper(self, values)

    # ------------------------------------------------------------------ identity

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the grid, the patterns, the disturbance, the start and the images of a sample of cells."""
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
        choices = f"{counted(self.patterns.count, 'pattern')} of up to {counted(self.patterns.longest, 'step')}"
        if self.patterns.longest == 1:
            choices = counted(self.num_actions, "action")
        size = f"{counted(self.num_cells, 'cell')}, {choices}"
        return f"<Abstraction{self.name and chr(32) + self.name}: {size}, counts {kind}>"


@names_right_word
def abstract(
    step: Step | str | None = None,
    grid: Grid | None = None,
    actions: Sequence[Any] | None = None,
    *,
    unsafe: Predicate | None = None,
    forbidden: Predicate | None = None,
    goal: Predicate | None = None,
    pattern: int | Sequence[Sequence[int]] | None = None,
    disturbance: tuple[Sequence[float], Sequence[float]] | None = None,
    observation_error: str | Sequence[float] | None = None,
    initial: tuple[Sequence[float], Sequence[float]] | None = None,
    post: Callable[..., Any] | None = None,
    split: Sequence[int] | None = None,
    action_names: Sequence[str] | None = None,
    state_of: Callable[[Any], Any] | None = None,
    name: str = "",
) -> Abstraction:
    """A sound finite model of a continuous system.

    Parameters
    ----------
    step, grid, actions
        ``step(state, action)`` takes a tuple of coordinates, numbers or interval arrays, and returns the next tuple, or
        a list of the possible next tuples.  Then the box and its cells, and the values that ``step`` is given as
        actions.  Or, instead of ``step``, the id of a known environment, which needs no other argument.
    unsafe, forbidden, goal
        Functions of the state: whether entering does damage 1 (or the damage itself, a whole number); whether no budget
        suffices; whether the run has arrived: then each step until there does damage 1, and unsafe is forbidden.
    pattern
        The length of the action sequences that are choices (by default 1, or that of a known system); or the sequences.
    disturbance
        ``(low, high)``: in each step any value in between is added to the next state.
    observation_error
        How far an observation may lie from the state: "float32" for rounding, or one number per coordinate.
    initial
        ``(low, high)``: the box in which episodes start; by default anywhere.
    post
        ``post(low, high, action) -> (low, high)``: your own enclosure, instead of ``step``.  It is trusted.
    split
        Into how many pieces cells are cut for their images, per coordinate: tighter images for more work.
    state_of
        A function from an observation (or an array of them) to the state, if they are not the same.
    action_names, name
        Names of the actions and of the system, for messages.

    Examples
    --------
    >>> import almostsure as asure
    >>> def step(state, action):
    ...     return state[0] + 0.1 * state[1], state[1] + 0.1 * action
    >>> grid = asure.Grid([-1.0, -1.0], [1.0, 1.0], [20, 20])
    >>> abstract(step, grid, [-1.0, 1.0], unsafe=lambda state: abs(state[0]) > 0.8)
    <Abstraction: 400 cells, 2 actions, counts damage>
    """
    parts: dict[str, Any] = dict(unsafe=unsafe, forbidden=forbidden, goal=goal, post=post, state_of=state_of, name=name)
    parts |= dict(actions=actions, disturbance=disturbance, observation_error=observation_error, initial=initial)
    parts |= dict(split=split, action_names=action_names)
    return _known(step, grid, pattern, parts) if isinstance(step, str) else _made(step, grid, pattern, parts)


def _known(step: str, grid: Grid | None, pattern: Any, others: dict[str, Any]) -> Abstraction:
    from almostsure.abstract.known.environments import known

    given = [word for word, value in others.items() if value is not None and not (word == "name" and value == "")]
    if given:
        raise ArgumentError(
            f"only grid and pattern can be given for a known system; got {', '.join(given)} for {step}. "
            f"Change other parts with dataclasses.replace(abstract({step!r}), …)."
        )
    return known(step, grid=grid, pattern=pattern)


def _made(step: Step | None, grid: Any, pattern: Any, parts: dict[str, Any]) -> Abstraction:
    """The abstraction of the given parts, after checking them."""
    if not isinstance(grid, Grid):
        raise ArgumentError(f"grid must be a Grid; got {type(grid).__name__}")
    if (step is None) == (parts["post"] is None):
        raise ArgumentError("abstract needs either step or post, and not both")
    given, names = parts["actions"], parts["action_names"]
    if given is not None and not isinstance(given, Iterable):
        raise ArgumentError(f"actions must be a list of the values that step is given; got {given!r}")
    actions = () if given is None else tuple(given)
    if not actions:
        raise ArgumentError("actions must list at least one action; got none")
    called = tuple(map(str, actions if names is None else names))
    if len(called) != len(actions):
        raise ArgumentError(f"action_names must have one entry per action, {len(actions)}; got {len(called)}")
    made = Abstraction(
        step=step, grid=grid, actions=actions, action_names=called,
        patterns=Patterns(1 if pattern is None else pattern, len(actions)),
        disturbance=_pairs("disturbance", parts["disturbance"], grid),
        observation=Observation(grid, parts["observation_error"]),
        initial=_box(parts["initial"], grid),
        split=_pieces(parts["split"], grid),
        **{part: parts[part] for part in ("unsafe", "forbidden", "goal", "post", "state_of", "name")},
    )  # fmt: skip
    check_function(made)
    return made


def _pieces(split: Any, grid: Grid) -> tuple[int, ...]:
    if split is None:
        return (1,) * grid.num_coordinates
    if np.ndim(split) != 1 or len(split) != grid.num_coordinates:
        raise ArgumentError(f"split must be one number per coordinate, {grid.num_coordinates}; got {split!r}")
    return tuple(count("split", pieces) for pieces in split)


def _pairs(name: str, value: Any, grid: Grid) -> tuple[tuple[float, float], ...] | None:
    if value is None:
        return None
    try:
        low, high = (tuple(float(x) for x in bound) for bound in value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} must be a pair (low, high) of tuples of numbers; got {value!r}") from None
    if not len(low) == len(high) == grid.num_coordinates:
        wanted = counted(grid.num_coordinates, "coordinate")
        raise ArgumentError(f"{name} must have {wanted}; got {len(low)} and {len(high)}")
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
