"""Evaluating the user's functions on interval arrays, with errors that say what is wrong with them."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.compiled import rounding
from almostsure.abstract.enclosure.interval import FAR, Interval, Maybe
from almostsure.abstract.enclosure.refusal import where_in_user_code
from almostsure.abstract.enclosure.sharing import remembered
from almostsure.abstract.grid import TURN, Grid
from almostsure.errors import AlmostSureError, ModelError
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction

State = tuple[Any, ...]
Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Damages = npt.NDArray[np.uint8]
MOST_PER_STEP = 250  # larger damage of a step counts as ∞
WHOLE = 1e-9  # the most that interval rounding may add to a sum of whole numbers


def evaluate(abstraction: Abstraction, state: tuple[Interval, ...], action: Any) -> list[tuple[Interval, ...]]:
    """The enclosures of the next states: one, or several where ``step`` returns a list of tuples."""
    if abstraction.post is not None:
        low, high = (tuple(getattr(x, bound) for x in state) for bound in ("low", "high"))
        bounds = call("post", abstraction.post, low, high, action)
        if not (isinstance(bounds, tuple) and len(bounds) == 2):
            raise ModelError(f"post must return a pair (low, high) of tuples; got {type(bounds).__name__}")
        names = abstraction.grid.names
        ends = [_shaped("post", state, coordinates("post", bound, len(names))) for bound in bounds]
        for name, a, b in zip(names, *ends, strict=True):
            if (wrong := a.low > b.low).any():
                raise ModelError(f"post must return low ≤ high; in {name} {counted(int(wrong.sum()), 'cell')} do not")
        return [tuple(Interval(a.low, b.low) for a, b in zip(*ends, strict=True))]
    assert abstraction.step is not None  # one of the two is given
    result = call("step", abstraction.step, state, action)
    several = result if isinstance(result, list) else [result]
    if not several:
        raise ModelError("step must return at least one next state; got an empty list")
    count = abstraction.grid.num_coordinates
    return [_shaped("step", state, coordinates("step", one, count)) for one in several]


def _shaped(name: str, state: tuple[Interval, ...], values: tuple[Any, ...]) -> tuple[Interval, ...]:
    """Coordinates as intervals; raises if their shapes do not fit the state that the function was given."""
    after = tuple(Interval.of(x) for x in values)
    for x in after:
        _must_fit(name, state, x.shape)
    return after


def _must_fit(name: str, state: tuple[Interval, ...], shape: tuple[int, ...]) -> None:
    wanted = np.broadcast_shapes(*(x.shape for x in state))
    try:
        fits = np.broadcast_shapes(wanted, shape) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ModelError(
            f"{name} must return one value, or arrays that broadcast to the shape of its arguments, {list(wanted)}; "
            f"got one of shape {list(shape)}"
        )


def coordinates(name: str, value: Any, count: int) -> tuple[Any, ...]:
    """``value`` as a tuple of ``count`` coordinates."""
    if not isinstance(value, tuple):
        raise ModelError(f"{name} must return a tuple of {counted(count, 'coordinate')}; got {type(value).__name__}")
    if len(value) != count:
        raise ModelError(f"{name} must return {counted(count, 'coordinate')}, as the grid has; got {len(value)}")
    return value


def truth(name: str, answer: Any) -> Maybe:
    """The answer of ``forbidden`` or ``goal``; raises unless it is true or false, since None would forbid nothing."""
    if isinstance(answer, Maybe):
        return answer
    if isinstance(answer, Interval) or np.asarray(answer).dtype != np.bool_:
        missing = ". Is a return missing?" if answer is None else ""
        raise ModelError(f"{name} must return true or false, such as s[0] > 1; got {type(answer).__name__}{missing}")
    return Maybe.of(answer)


def harm(abstraction: Abstraction, state: tuple[Interval, ...]) -> tuple[Damages, Bools]:
    """The largest damage of entering a state of the enclosure, and a mask of where no budget suffices."""
    if abstraction.unsafe is None:
        return np.zeros((), np.uint8), np.zeros((), np.bool_)
    most = harms(abstraction, state)[1]
    fatal = ~(most <= MOST_PER_STEP)  # NaN too
    return np.where(fatal, 0, most).astype(np.uint8), fatal


def harms(abstraction: Abstraction, state: tuple[Interval, ...]) -> tuple[Array, Array]:
    """The least and the largest damage of entering a state of the enclosure."""
    assert abstraction.unsafe is not None
    ends = [_harm(call("unsafe", abstraction.unsafe, part)) for part in _in_box(abstraction, state)]
    for _, most in ends:
        _must_fit("unsafe", state, most.shape)
    return functools.reduce(np.minimum, (least for least, _ in ends)), functools.reduce(
        np.maximum, (most for _, most in ends)
    )


def _harm(answer: Any) -> tuple[Array, Array]:
    """The answer of ``unsafe`` as the least and the largest damage, rounded to whole numbers."""
    if isinstance(answer, Maybe) or (not isinstance(answer, Interval) and np.asarray(answer).dtype == np.bool_):
        said = Maybe.of(answer)
        return said.surely.astype(np.uint8), said.possibly.astype(np.uint8)
    if not isinstance(answer, Interval) and np.asarray(answer).dtype.kind not in "iuf":
        raise ModelError(
            f"unsafe must return true or false, or the damage as a whole number; got {type(answer).__name__}"
        )
    bound = Interval.of(answer)
    if not (bound.low >= -WHOLE).all():
        raise ModelError(f"damage must be 0 or more; unsafe gives {bound.low.min():g}")
    return np.floor(bound.low + WHOLE), np.ceil(bound.high - WHOLE)


def in_forbidden(abstraction: Abstraction, state: tuple[Interval, ...]) -> Bools:
    """A mask of where some state of the enclosure may be forbidden."""
    return functools.reduce(np.logical_or, (said.possibly for said in _truths(abstraction, "forbidden", state)))


def in_goal(abstraction: Abstraction, state: tuple[Interval, ...]) -> Bools:
    """A mask of where every state of the enclosure lies in the goal."""
    return functools.reduce(np.logical_and, (said.surely for said in _truths(abstraction, "goal", state)))


def _truths(abstraction: Abstraction, name: str, state: tuple[Interval, ...]) -> list[Maybe]:
    """The answers of ``forbidden`` or ``goal`` for the parts of an enclosure."""
    answers = [truth(name, call(name, getattr(abstraction, name), part)) for part in _in_box(abstraction, state)]
    for answer in answers:
        _must_fit(name, state, answer.possibly.shape)
    return answers


def _in_box(abstraction: Abstraction, state: tuple[Interval, ...]) -> list[tuple[Interval, ...]]:
    """An enclosure with periodic coordinates moved into the box; one that crosses the seam is cut into two parts."""
    parts = [state]
    for axis in abstraction.grid.periodic:
        turned = remembered(_turned, abstraction.grid.low[axis], abstraction.grid.high[axis], state[axis])
        parts = [(*part[:axis], x, *part[axis + 1 :]) for part in parts for x in turned]
    return parts


def _turned(low: float, high: float, x: Interval) -> list[Interval]:
    """A periodic coordinate moved into the box: one interval, or one on either side of the seam."""
    inside = (x.low >= low) & (x.high <= high)
    if inside.all():
        return [x]
    period = high - low
    slack = TURN * period  # moving by whole periods is rounded
    back = np.floor((x.low - slack - low) / period) * period
    a, b = np.maximum(x.low - slack - back, low), x.high + slack - back
    whole = ~((b - a < period) & (np.abs(x.low) < FAR * period))  # NaN too
    a, b = (np.where(inside, same, np.where(whole, end, at)) for same, end, at in ((x.low, low, a), (x.high, high, b)))
    first, across = Interval(a, np.minimum(b, high)), b > high
    if not across.any():
        return [first]
    return [first, Interval(np.where(across, low, first.low), np.where(across, b - period, first.high))]


def call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; errors inside it name the line."""
    try:
        return function(*arguments)
    except AlmostSureError:
        raise
    except Exception as error:
        at = where_in_user_code(traceback.extract_tb(error.__traceback__))
        kind = type(error).__name__
        raise ModelError(f"{name} must work on interval arrays; {kind} at {at}: {error}") from error


def next_states(abstraction: Abstraction, state: tuple[Interval, ...], action: int) -> list[tuple[Interval, ...]]:
    """The enclosures of the next states after an action (its id), disturbance included."""
    after = evaluate(abstraction, state, abstraction.actions[action])
    pushes = abstraction.disturbance
    if pushes is None:
        return after
    return [tuple(_pushed(x, *push) for x, push in zip(one, pushes, strict=True)) for one in after]


def _pushed(x: Interval, least: float, most: float) -> Interval:
    return x if least == most == 0 else Interval(rounding.add_down(x.low, least), rounding.add_up(x.high, most))


def distance(grid: Grid, axis: int, x: Interval, y: Interval) -> npt.NDArray[np.float64]:
    """The distance between intervals of one coordinate, up to whole periods; 0 where nothing is known."""
    back: Any = 0.0  # whole periods
    slack = 0.0
    with np.errstate(all="ignore"):
        if axis in grid.periodic:  # an interval with an infinite bound meets all others: what comes out is NaN or −∞
            period = grid.high[axis] - grid.low[axis]
            back, slack = period * np.round((x.low + x.high - y.low - y.high) / 2 / period), TURN * period
        apart: npt.NDArray[np.float64] = np.fmax(x.low - y.high - back, y.low - x.high + back) - slack
        return np.fmax(apart, 0.0)


def check_function(abstraction: Abstraction) -> None:
    """Raise unless ``step`` gives the same states for the same arguments, and across periods, on a few cells."""
    grid = abstraction.grid
    cells = np.unique(np.linspace(0, grid.num_cells - 1, 5).astype(np.int64))
    low, high = grid.boxes(cells)
    state = tuple(Interval(low[:, i], high[:, i]) for i in range(grid.num_coordinates))
    for action in abstraction.actions:
        once, twice = (evaluate(abstraction, state, action) for _ in range(2))
        same = len(once) == len(twice) and all(
            np.array_equal(getattr(x, bound), getattr(y, bound), equal_nan=True)
            for one, two in zip(once, twice, strict=True)
            for x, y in zip(one, two, strict=True)
            for bound in ("low", "high")
        )
        if not same:
            raise ModelError(
                "step must be a function of its arguments; two calls with the same state and action "
                f"{action!r} gave different results. Model randomness as a disturbance."
            )
        for axis in grid.periodic:
            _check_period(abstraction, state, action, once, axis)


def _check_period(
    abstraction: Abstraction, state: tuple[Interval, ...], action: Any, once: list[tuple[Interval, ...]], axis: int
) -> None:
    """Raise unless a step leads to the same states, up to periods, when a coordinate is a period larger."""
    grid = abstraction.grid
    period = grid.high[axis] - grid.low[axis]
    later = evaluate(abstraction, (*state[:axis], state[axis] + period, *state[axis + 1 :]), action)
    for one, two in zip(once, later, strict=False):
        for j, (x, y) in enumerate(zip(one, two, strict=True)):
            if (distance(grid, j, x, y) > TURN * (np.abs(x.low) + np.abs(y.low) + 1)).any():
                name = grid.names[axis]
                raise ModelError(
                    f"{name} is periodic, so step must do the same at {name} + {period:g}; with action "
                    f"{action!r} it leads to another {grid.names[j]}. Write it with np.sin and np.cos, or begin with "
                    f"{name} - turn * np.floor(({name} - low) / turn), where turn = high - low."
                )
