"""The arrays of a model: their types, their hash, the terminal states, and operations on offsets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

CHUNK = 1 << 20  # items processed at a time, so that temporary arrays stay small for a model of 10⁸ outcomes
FEW = 1 << 16  # states processed at a time, for the same reason

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Array = TypeVar("Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Support:
    """The part of a model that k* depends on: the possible outcomes, without probabilities and rewards.

    It takes five bytes per outcome below 2³¹ states, besides the offsets.
    """

    choice_ptr: Ints  # [num_states + 1]
    outcome_ptr: Ints  # [num_choices + 1]
    successor: Ints  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]

    @property
    def num_states(self) -> int:
        """The number of states."""
        return self.choice_ptr.size - 1

    @property
    def num_choices(self) -> int:
        """The number of choices (state–action pairs)."""
        return self.outcome_ptr.size - 1

    @property
    def num_outcomes(self) -> int:
        """The number of outcomes, over all choices."""
        return self.successor.size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrays(Support):
    """All arrays of a model, read-only."""

    choice_action: Ints  # [num_choices]
    probability: Floats  # [num_outcomes]
    reward: Floats  # [num_outcomes]

    @property
    def nbytes(self) -> int:
        """The memory of all arrays, in bytes."""
        return sum(getattr(self, name).nbytes for name in ARRAY_NAMES)


ARRAY_NAMES = ("choice_ptr", "choice_action", "outcome_ptr", "successor", "probability", "reward", "damage")


def index_dtype(count: int) -> type[np.int32] | type[np.int64]:
    """The narrower of int32 and int64 that can index ``count`` items."""
    return np.int32 if count < 2**31 else np.int64


def action_dtype(count: int) -> type[np.integer[Any]]:
    """The narrowest type for ``count`` action ids."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.int32


def digest(kind: str, arrays: Mapping[str, npt.NDArray[Any]], rest: bytes) -> str:
    """SHA-256 of arrays of a model and of ``rest``.  It does not depend on the integer types of the arrays."""
    result = hashlib.sha256(f"almostsure {kind} 1\n".encode())
    for name, array in arrays.items():
        result.update(f"{name} {array.size}\n".encode())
        width = _hashed_width(name, arrays)
        for begin in range(0, array.size, CHUNK):
            chunk = np.ascontiguousarray(array[begin : begin + CHUNK], dtype=width)
            result.update(chunk.astype(chunk.dtype.newbyteorder("<"), copy=False).data)
    result.update(rest)
    return result.hexdigest()


def _hashed_width(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> npt.DTypeLike:
    if name == "choice_ptr":
        return index_dtype(arrays["choice_action"].size + 1)
    if name == "outcome_ptr":
        return index_dtype(arrays["successor"].size + 1)
    if name == "successor":
        return index_dtype(arrays["choice_ptr"].size - 1)
    return np.int32 if name == "choice_action" else arrays[name].dtype


def terminal_states(arrays: Arrays) -> Bools:
    """A mask of the terminal states, whose outcomes are all self-loops without damage and reward, [num_states]."""
    result = np.ones(arrays.num_states, np.bool_)
    for at in range(0, arrays.num_states, FEW):
        ptr = arrays.outcome_ptr[arrays.choice_ptr[at : at + FEW + 1]]
        here = np.arange(at, at + ptr.size - 1)
        for edge in (ptr[:-1], ptr[1:] - 1):  # rules out most states: their first or last outcome leaves
            result[at : at + FEW] &= arrays.successor[edge] == here
    states = np.flatnonzero(result)
    if states.size:
        outcome, owner = spans(arrays.outcome_ptr[arrays.choice_ptr], states)
        loops = (arrays.damage[outcome] == 0) & (arrays.reward[outcome] == 0)
        loops &= arrays.successor[outcome] == states[owner]
        result[states] = np.logical_and.reduceat(loops, np.searchsorted(owner, np.arange(states.size)))
    return result


def frozen(array: Array) -> Array:
    """The array itself, made read-only."""
    array.flags.writeable = False
    return array


def ascending(values: Ints) -> Ints:
    """The distinct values, ascending: like ``np.unique``, but by sorting, which is much faster than hashing."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if ordered.size else ordered


def owners(ptr: Ints) -> Ints:
    """The owner of each item; owner i has the items ``ptr[i] … ptr[i + 1] − 1``."""
    return np.repeat(np.arange(ptr.size - 1, dtype=index_dtype(ptr.size - 1)), np.diff(ptr))


def ptr_of(lengths: npt.ArrayLike) -> Ints:
    """Offsets of consecutive pieces of these lengths, [pieces + 1]."""
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.append(0, ends).astype(index_dtype(int(ends[-1] if ends.size else 0) + 1))


def grouped(owners: Ints, count: int) -> tuple[Ints, Ints]:
    """Offsets of the items of each owner, and the items sorted by owner, such as the predecessors of each state."""
    return np.append(0, np.cumsum(np.bincount(owners, minlength=count))), np.argsort(owners, kind="stable")


def spans(ptr: Ints, owners: Ints) -> tuple[Ints, Ints]:
    """All items ``ptr[i] … ptr[i + 1] − 1`` of the given owners, and for each item the position of its owner."""
    begin = ptr[owners].astype(np.int64)
    lengths = ptr[owners + 1] - begin
    position = np.repeat(np.arange(lengths.size), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(position.size) + (begin - before)[position], position
