"""The arguments of look-ups, and ``NoSafeAction``: shared by the shields of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from almostsure.arguments import whole_array
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, NoSafeAction
from almostsure.model.arrays import Ints
from almostsure.model.build.function import Encode
from almostsure.model.space import Space
from almostsure.shield.protocol import Run

INT64 = np.dtype(np.int64)


def look_ups(space: Space, states: npt.ArrayLike, remaining: npt.ArrayLike) -> tuple[Ints, Ints, tuple[int, ...]]:
    """Validated states, one per look-up; remaining budgets, one per look-up or one for all; and their common shape."""
    if _plain(states) and _plain(remaining) and states.shape == remaining.shape:  # agents ask in small batches
        check_states(space, states)
        return states, remaining, states.shape
    s = whole_array("states", indices(space, states))
    # A Python integer may be larger than any NumPy one, and no need exceeds INFINITE.
    left = whole_array("remaining", min(remaining, INFINITE) if type(remaining) is int else remaining)
    if left.dtype == np.uint64:
        left = np.minimum(left, INFINITE)
    s, left = s.astype(np.intp, copy=False), left.astype(np.int64, copy=False)
    check_states(space, s)
    if left.ndim == 0 or s.shape == left.shape:
        return s.ravel(), left.ravel() if left.ndim else left, s.shape
    try:
        shape = np.broadcast_shapes(s.shape, left.shape)
    except ValueError:
        raise ArgumentError(
            f"states and remaining must have shapes that fit together; got {list(s.shape)} and {list(left.shape)}"
        ) from None
    return np.broadcast_to(s, shape).ravel(), np.broadcast_to(left, shape).ravel(), shape


def _plain(values: object) -> TypeGuard[npt.NDArray[np.int64]]:
    """Whether these are a one-dimensional array of int64."""
    return isinstance(values, np.ndarray) and values.dtype == INT64 and values.ndim == 1


def check_states(space: Space, states: Ints) -> None:
    """Raise UnknownName if any of the numbers is not the index of a state."""
    if states.size and states.astype(np.intp, copy=False).view(np.uintp).max() >= space.num_states:  # −1 is huge
        space.state(int(states[(states < 0) | (states >= space.num_states)][0]))  # raises


def is_one(space: Space, state: Any) -> bool:
    """Whether this is one state and not several: a number, a name, or a state of the function that made the model."""
    if not isinstance(state, (tuple, frozenset)) or not isinstance(space.encode, Encode):
        return isinstance(state, str) or np.ndim(state) == 0
    known = space.encode.index
    try:
        return state in known or not all(isinstance(part, str) or part in known for part in state)
    except TypeError:  # a part cannot be hashed
        return True


def begins_in(space: Space, state: Any) -> npt.NDArray[np.int64]:
    """The indices of the state, or of the states, in which runs begin."""
    if is_one(space, state):
        return np.array([space.state(state)], np.int64)
    return look_ups(space, state, 0)[0].astype(np.int64, copy=False)


def one_or_many(space: Space, state: Any, *columns: npt.NDArray[Any]) -> Run:
    """The run that begins in ``state`` if it is one, or the runs that begin in several; both from arrays."""
    return tuple(column[0].item() for column in columns) if is_one(space, state) else columns


def indices(space: Space, states: Any) -> Any:
    """The indices of states given by name, or as states of the function that made the model; others are unchanged."""
    if isinstance(states, (int, np.generic)) or (isinstance(states, np.ndarray) and states.dtype.kind in "iu"):
        return states
    if isinstance(states, (str, tuple, frozenset, Mapping)) and is_one(space, states):
        return space.state(states)
    if isinstance(space.encode, Encode) and isinstance(states, (list, tuple)):
        return [indices(space, state) for state in states]
    try:
        named = np.asarray(states).dtype.kind == "U"
    except (ValueError, OverflowError):
        named = False
    if not named:
        return states
    flat = np.asarray(states, np.object_)  # a list may mix names and indices
    return np.array([space.state(state) for state in flat.ravel().tolist()], np.int64).reshape(flat.shape)


def no_safe_action(
    space: Space, state: int, remaining: int, why: str, *, during: str = "", count: str = ""
) -> NoSafeAction:
    """The error that no action of a state is safe; ``during`` and ``count`` are further parts of the message."""
    why = why if remaining >= 0 else f"the budget is overspent by {-remaining}"
    where = space.describe_state(state)
    return NoSafeAction(
        f"no action of {where} is safe{during} with {remaining} left{count}: {why}.", state=state, remaining=remaining
    )


def check_goes_on(steps: Any) -> None:
    """Raise ArgumentError if a run has no step left."""
    if np.any(np.asarray(steps) < 1):
        raise ArgumentError("the horizon is over: the run must have steps left; it has none. Begin another run.")


def check_steps_left(space: Space, states: Ints, remaining: Ints, steps: Ints, horizon: int | None) -> None:
    """Raise NoSafeAction if a run has no step left of its horizon."""
    if steps.size and steps.min() < 1:
        at = int(np.argmin(steps))
        raise NoSafeAction(
            f"no step is left of the horizon {horizon} at {space.describe_state(int(states[at]))}: the shield "
            "guarantees nothing beyond it. End the episode there (max_episode_steps).",
            state=int(states[at]),
            remaining=int(remaining[at]),
        )
