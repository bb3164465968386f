"""Running the user's functions on interval arrays, and saying clearly what is wrong with them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.interval import Interval, Maybe, down, up
from almostsure.abstract.enclosure.refusal import OURS, line_of
from almostsure.errors import AlmostSureError, ModelError
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction

State = tuple[Any, ...]
MOST_PER_STEP = 250  # damage; more is as bad as ∞


def evaluate(abstraction: Abstraction, state: tuple[Interval, ...], action: Any) -> list[tuple[Interval, ...]]:
    """The enclosures of the next states: one, or several where ``step`` returns a list of tuples."""
    if abstraction.post is not None:
        low, high = (tuple(getattr(x, bound) for x in state) for bound in ("low", "high"))
        bounds = call("post", abstraction.post, low, high, action)
        if not (isinstance(bounds, tuple) and len(bounds) == 2):
            raise ModelError(f"post must return a pair (low, high) of tuples; got {type(bounds).__name__}")
        ends = [coordinates("post", bound, abstraction.grid.num_coordinates) for bound in bounds]
        return [tuple(Interval(np.asarray(a), np.asarray(b)) for a, b in zip(*ends, strict=True))]
    assert abstraction.step is not None  # one of the two is given
    result = call("step", abstraction.step, state, action)
    several = result if isinstance(result, list) else [result]
    if not several:
        raise ModelError("step must return at least one next state; got an empty list")
    count = abstraction.grid.num_coordinates
    return [tuple(Interval.of(x) for x in coordinates("step", one, count)) for one in several]


def coordinates(name: str, value: Any, count: int) -> tuple[Any, ...]:
    """``value`` as a tuple of ``count`` coordinates."""
    if not isinstance(value, tuple):
        raise ModelError(f"{name} must return a tuple of {counted(count, 'coordinate')}; got {type(value).__name__}")
    if len(value) != count:
        raise ModelError(f"{name} must return {counted(count, 'coordinate')}, as the grid has; got {len(value)}")
    return value


def _truth(answer: Any) -> Maybe | None:
    """What ``unsafe`` says, where that is true or false; None where it counts damage."""
    if isinstance(answer, Interval) or not (isinstance(answer, Maybe) or np.asarray(answer).dtype == np.bool_):
        return None
    return Maybe.of(answer)


def harm(abstraction: Abstraction, state: tuple[Interval, ...]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The damage of entering any state of the enclosure, at most, and where no budget affords it."""
    nowhere = np.zeros((), np.bool_)
    if abstraction.unsafe is None:
        return np.zeros((), np.uint8), nowhere
    answer = call("unsafe", abstraction.unsafe, state)
    if (truth := _truth(answer)) is not None:
        return truth.possibly.astype(np.uint8), nowhere
    bound = Interval.of(answer)
    if not (bound.low >= 0).all():
        raise ModelError(f"damage must be 0 or more; unsafe gives {np.nanmin(bound.low):g}")
    fatal = ~(bound.high <= MOST_PER_STEP)  # NaN too
    return np.where(fatal, 0, np.ceil(bound.high)).astype(np.uint8), fatal


def call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user's; what goes wrong inside names the line."""
    try:
        return function(*arguments)
    except AlmostSureError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith(OURS)]
        at = line_of(theirs[-1].filename, theirs[-1].lineno or 0) if theirs else "its call"
        kind = type(error).__name__
        raise ModelError(f"{name} must work on interval arrays; {kind} at {at}: {error}") from error


def next_states(abstraction: Abstraction, state: tuple[Interval, ...], action: int) -> list[tuple[Interval, ...]]:
    """The enclosures of the next states after the action of that number, plus any disturbance."""
    after = evaluate(abstraction, state, abstraction.actions[action])
    pushes = abstraction.disturbance
    if pushes is None:
        return after
    return [tuple(_pushed(x, *push) for x, push in zip(one, pushes, strict=True)) for one in after]


def _pushed(x: Interval, least: float, most: float) -> Interval:
    return x if least == most == 0 else Interval(down(x.low + least), up(x.high + most))


def check_function(abstraction: Abstraction) -> None:
    """Evaluate twice on a few cells: the same arguments must give the same states."""
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
                f"{action!r} gave different results. Put what is random into disturbance."
            )


def harm_range(abstraction: Abstraction) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The least and the largest damage of entering a state of each cell, [cells] each."""
    from almostsure.abstract.enclosure.images import open_cells

    state = open_cells(abstraction, 0, abstraction.grid.cells[0])
    answer = call("unsafe", abstraction.unsafe or (lambda s: np.False_), state)
    if (truth := _truth(answer)) is not None:
        ends = (truth.surely, truth.possibly)
    else:
        bound = Interval.of(answer)
        ends = (np.minimum(np.floor(bound.low), 255), np.minimum(np.ceil(bound.high), 255))
    least, most = (np.broadcast_to(end, abstraction.grid.cells).reshape(-1).astype(np.uint8) for end in ends)
    return least, most
