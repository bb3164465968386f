"""Validation of the arrays of a model, in chunks, so that a model of 10⁸ outcomes needs little temporary memory.

The rules:

- offsets start at 0, end at the array's length and increase strictly (every state has a choice, every
  choice an outcome);
- successors lie in 0 … num_states − 1;
- probabilities lie in (0, 1] and those of a choice sum to 1 within ``SUM_TOLERANCE``;
- rewards are finite;
- the actions of a state are distinct and ascending;
- damages are integers 0 … 255, which the type of the array guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, whole
from almostsure.errors import ArgumentError, ModelError
from almostsure.model.arrays import CHUNK, Arrays

SUM_TOLERANCE = 1e-9
MAX_DAMAGE = 255
RESCALE = " Pass normalise=True to rescale."

Describe = Callable[[int], str]


def check_choices(choice_ptr: npt.NDArray[Any], choice_action: npt.NDArray[Any], describe: Describe) -> None:
    """Raise ModelError for the first rule that the choices break; ``describe(choice)`` names a choice in messages."""
    _check_type("choice_ptr", choice_ptr)
    _check_type("choice_action", choice_action)
    _check_offsets("choice_ptr", choice_ptr, choice_action.size, "state", "choice")
    _check_actions(choice_ptr, choice_action, describe)


def check_outcomes(arrays: Arrays, describe: Describe) -> None:
    """Raise ModelError for the first rule that the outcomes break; the choices must have been checked before."""
    for name in ("outcome_ptr", "successor", "probability", "reward", "damage"):
        _check_type(name, getattr(arrays, name))
    _check_offsets("outcome_ptr", arrays.outcome_ptr, arrays.successor.size, "choice", "outcome")
    if arrays.outcome_ptr.size != arrays.choice_action.size + 1:
        wanted, found = arrays.choice_action.size, arrays.outcome_ptr.size - 1
        raise ModelError(f"outcome_ptr must have the offsets of {wanted} choices; got those of {found}")
    for name in ("probability", "reward", "damage"):
        found, wanted = getattr(arrays, name).size, arrays.successor.size
        if found != wanted:
            raise ModelError(f"{name} must have one entry per outcome ({wanted}); got {found}")
    num_states = arrays.choice_ptr.size - 1
    for first, last in _chunks(arrays.outcome_ptr):
        _check_chunk(arrays, first, last, num_states, describe)


def _check_type(name: str, array: npt.NDArray[Any]) -> None:
    wanted = {"probability": "float64", "reward": "float64", "damage": "uint8"}.get(name, "integer")
    fits = array.dtype.kind in "iu" if wanted == "integer" else array.dtype == wanted
    if array.ndim != 1 or not fits:
        found = f"{array.dtype} of shape {array.shape}"
        raise ModelError(f"{name} must be a one-dimensional {wanted} array; got {found}")


def _check_offsets(name: str, ptr: npt.NDArray[Any], length: int, owner: str, item: str) -> None:
    if ptr.size < 2:
        raise ModelError("a model must have at least one state and one choice; got none")
    if ptr[0] != 0 or ptr[-1] != length:
        raise ModelError(f"{name} must run from 0 to {length}; got {ptr[0]} to {ptr[-1]}")
    bad = ptr[1:] <= ptr[:-1]  # not np.diff, which wraps around for unsigned integers
    if bad.any():
        at = int(np.argmax(bad))
        more = int(np.count_nonzero(bad)) - 1
        raise ModelError(
            f"every {owner} must have at least one {item}; {owner} {at} has none{and_more(more, owner)}.", **{owner: at}
        )


def _check_actions(choice_ptr: npt.NDArray[Any], action: npt.NDArray[Any], describe: Describe) -> None:
    if action.min() < 0:
        c = int(np.argmin(action))
        raise ModelError(f"actions must not be negative; got {action[c]} at {describe(c)}", choice=c)
    falls = np.flatnonzero(action[1:].astype(np.int64) <= action[:-1].astype(np.int64)) + 1
    starts = choice_ptr[1:-1]
    wrong = np.setdiff1d(falls, starts, assume_unique=True) if falls.size else falls
    if wrong.size:
        c = int(wrong[0])
        raise ModelError(f"the actions of a state must be distinct and ascending; {describe(c)} is not", choice=c)


def _chunks(outcome_ptr: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Ranges of choices with about CHUNK outcomes each."""
    num_choices, first = outcome_ptr.size - 1, 0
    while first < num_choices:
        last = int(np.searchsorted(outcome_ptr, int(outcome_ptr[first]) + CHUNK, side="right")) - 1
        last = min(max(last, first + 1), num_choices)
        yield first, last
        first = last


def _check_chunk(arrays: Arrays, first: int, last: int, num_states: int, describe: Describe) -> None:
    begin, end = int(arrays.outcome_ptr[first]), int(arrays.outcome_ptr[last])
    successor = arrays.successor[begin:end]
    probability = arrays.probability[begin:end]
    reward = arrays.reward[begin:end]
    for good, rule, values in (
        ((successor >= 0) & (successor < num_states), f"successors must lie in 0 … {num_states - 1}", successor),
        ((probability > 0) & (probability <= 1 + SUM_TOLERANCE), "probabilities must lie in (0, 1]", probability),
        (np.isfinite(reward), "rewards must be finite", reward),
    ):
        if not good.all():  # NaN is not good
            at = int(np.argmin(good))
            c = first + int(np.searchsorted(arrays.outcome_ptr[first : last + 1], begin + at, side="right")) - 1
            more = and_more(int(np.count_nonzero(~good)) - 1, "outcome")
            raise ModelError(f"{rule}; got {values[at]} at {describe(c)}{more}.", choice=c, outcome=begin + at)
    sums = np.add.reduceat(probability, arrays.outcome_ptr[first:last].astype(np.int64) - begin)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        c = first + int(wrong[0])
        raise ModelError(
            f"probabilities of {describe(c)} must sum to 1 within {SUM_TOLERANCE:g}; "
            f"got {sums[wrong[0]]:.12g}{and_more(wrong.size - 1, 'choice')}.{RESCALE}",
            choice=c,
        )


def check_initial(states: npt.NDArray[Any], probabilities: npt.NDArray[Any], num_states: int) -> None:
    """Raise ModelError unless these are distinct states of the model with probabilities that sum to 1."""
    if states.size == 0 or states.size != probabilities.size:
        raise ModelError("the initial distribution must have at least one state, and one probability each")
    if states.min() < 0 or states.max() >= num_states:
        bad = int(states[(states < 0) | (states >= num_states)][0])
        raise ModelError(f"initial states must lie in 0 … {num_states - 1}; got {bad}", state=bad)
    if np.unique(states).size != states.size:
        raise ModelError("initial states must be distinct; got one of them twice. Add up their probabilities.")
    if not (probabilities > 0).all() or abs(float(probabilities.sum()) - 1) > SUM_TOLERANCE:
        raise ModelError(f"initial probabilities must be positive and sum to 1; got sum {probabilities.sum():.12g}")


def are_damages(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """A mask of the numbers that are damages: integers 0 … 255."""
    whole_ones: npt.NDArray[np.bool_] = values == np.floor(values)
    return (values >= 0) & (values <= MAX_DAMAGE) & whole_ones


def as_damage(value: object) -> int | None:
    """A damage as an integer 0 … 255, where True is 1; None for anything else."""
    try:
        number = whole("damage", int(value) if isinstance(value, (bool, np.bool_)) else value)
    except ArgumentError:
        return None
    return number if 0 <= number <= MAX_DAMAGE else None


def column(name: str, values: npt.ArrayLike, kinds: str, wanted: str, remedy: str = "") -> npt.NDArray[Any]:
    """``values`` as a one-dimensional array of a dtype of these kinds."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # nested sequences of different lengths
        raise ModelError(f"{name} must be {wanted}; {error}") from None
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1:
        raise ModelError(f"{name} must be one-dimensional; got shape {array.shape}")
    if array.dtype.kind not in kinds:
        hint = remedy if array.dtype.kind in "UO" else ""
        raise ModelError(f"{name} must be {wanted}; got {array.dtype} such as {array[0:1].tolist()[0]!r}.{hint}")
    return array


def numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """``values`` as a one-dimensional array of floats."""
    return column(name, values, "iufb", "numbers").astype(np.float64, copy=False)
