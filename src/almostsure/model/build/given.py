"""The initial distribution and the actions of each state, from the forms that users may give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import Blame, ModelError, UnknownName
from almostsure.model.arrays import Floats, Ints
from almostsure.model.build.validate import numbers
from almostsure.wording import brief, counted

Probabilities = Mapping[int, float] | Mapping[str, float] | Mapping[int | str, float]  # by state
Initial = int | str | Probabilities | Sequence[float] | npt.NDArray[Any]
Actions = int | Sequence[npt.ArrayLike] | Callable[[int], npt.ArrayLike]


def initial_distribution(initial: Initial, count: int, names: Sequence[str] | None) -> tuple[Ints, Floats]:
    """The initial states, ascending, and their probabilities."""
    if isinstance(initial, (str, int, np.integer)):
        initial = {initial: 1.0}
    if isinstance(initial, Mapping):
        weights: dict[int, float] = {}
        for key, weight in initial.items():
            state = _initial_state(key, names)
            weights[state] = weights.get(state, 0.0) + float(weight)
        listed = sorted((state, weight) for state, weight in weights.items() if weight != 0)
        return np.array([s for s, _ in listed], np.int64), np.array([w for _, w in listed], np.float64)
    dense = numbers("initial", initial)
    if dense.size != count:
        raise ModelError(
            f"initial must be a state, a mapping, or one probability for each of the {count} states; "
            f"got {counted(dense.size, 'number')}"
        )
    where = np.flatnonzero(dense)
    return where, dense[where]


def _initial_state(state: Any, names: Sequence[str] | None) -> int:
    if isinstance(state, str):
        if names is None or state not in names:
            raise UnknownName("initial state", state, names or ())
        return names.index(state)
    if not isinstance(state, (int, np.integer)):
        raise ModelError(f"initial states must be indices or names; got {state!r}")
    return int(state)


def positive(name: str, given: object) -> int:
    """``given`` as a positive integer."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise ModelError(f"{name} must be a positive integer; got {given!r}")
    return int(given)


def action_rows(actions: Actions, count: int) -> list[Ints]:
    """The action ids of each state."""
    if isinstance(actions, (int, np.integer)):
        return [action_row(actions, 0)] * count
    if not callable(actions) and len(actions) != count:
        raise ModelError(f"actions must be given for each of the {count} states; got {len(actions)} rows")
    return [action_row(actions, state) for state in range(count)]


def action_row(actions: Actions, state: int) -> Ints:
    """The action ids of one state, ascending."""
    if isinstance(actions, (int, np.integer)):
        return np.arange(positive("actions", actions))
    if not callable(actions) and state >= len(actions):
        raise ModelError(f"actions must list the ids for every state; got none for state {state}", state=state)
    with Blame(lambda: f"actions({state}) failed", state=state):
        given = actions(state) if callable(actions) else actions[state]
    try:
        row = np.unique(np.asarray(given))
    except (TypeError, ValueError):
        row = np.empty(0)
    if row.size == 0 or row.dtype.kind not in "iu" or row[0] < 0:
        raise ModelError(
            f"actions({state}) must be one or more action ids, integers from 0; got {brief(given)}", state=state
        )
    return row
