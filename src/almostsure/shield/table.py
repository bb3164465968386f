"""Tables of k* for looking up many states at once.

The *dense* table has one row per state and one column per action id, in the narrowest unsigned type that holds every
finite budget.  Its largest value means "never": ∞, or an action that the state does not have.  With few actions a row
fits into one machine word (eight actions below a budget of 255), so a look-up loads one word, and compares all actions
at once.

If most states lack most actions, a dense table would mostly contain "never"; then the *sparse* one uses the arrays of
the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.minimal import INFINITE
from almostsure.model.arrays import spans
from almostsure.model.mdp import Bools, Ints
from almostsure.model.space import Space

DENSE_ANYWAY = 1 << 20  # up to this many entries the table is always dense
DENSE_SHARE = 8  # larger ones are dense if at least 1 in DENSE_SHARE entries is a choice

Unsigned = npt.NDArray[np.unsignedinteger[Any]]


def table_of(mdp: Space, of_choice: Ints) -> Table:
    """A dense or a sparse table for the model."""
    entries = mdp.num_states * mdp.num_actions
    if entries <= max(DENSE_ANYWAY, DENSE_SHARE * mdp.num_choices):
        return DenseTable(mdp, of_choice)
    return SparseTable(mdp, of_choice)


class DenseTable:
    """One row per state, one column per action.  Callers validate states and budgets.

    ``highest`` is the largest remaining budget that makes a difference; larger ones are treated like it.
    """

    __slots__ = ("_needed", "_num_actions", "_ones", "_word", "highest")

    def __init__(self, mdp: Space, of_choice: Ints) -> None:
        finite = of_choice[of_choice < INFINITE]
        dtype = narrowest(int(finite.max()) if finite.size else 0)
        never = min(int(np.iinfo(dtype).max), INFINITE)
        self.highest = never - 1
        self._num_actions = mdp.num_actions
        width = _padded(mdp.num_actions, dtype.itemsize)
        self._word = _WORDS.get(width * dtype.itemsize)
        self._ones = sum(1 << (8 * dtype.itemsize * column) for column in range(width)) if self._word else 0
        self._needed: Unsigned = np.full((mdp.num_states, width), never, dtype)
        self._needed[mdp.choice_states(), mdp.choice_action] = np.minimum(of_choice, never)

    def allows(self, states: Ints, remaining: Ints) -> Bools:
        """A mask of the allowed actions, [n, num_actions]; ``remaining`` is [n] or one number for all, 0 … highest."""
        dtype, width = self._needed.dtype, self._needed.shape[1]
        if self._word is None:
            rows = self._needed.take(states, axis=0, mode="clip")
            wide: Bools = rows <= remaining.astype(dtype)[..., None]
            return wide
        rows = self._needed.reshape(-1).view(self._word).take(states, mode="clip").view(dtype)
        if remaining.ndim:  # one copy per action, side by side in a word
            most = (remaining.astype(self._word) * self._word.type(self._ones)).view(dtype)
        else:
            most = remaining.astype(dtype)
        flat: Bools = rows <= most
        return flat.reshape(-1, width)[:, : self._num_actions]


class SparseTable:
    """The choices of each state as the model stores them, with the interface of the dense table."""

    __slots__ = ("_mdp", "_needed", "highest")

    def __init__(self, mdp: Space, of_choice: Ints) -> None:
        self._mdp, self._needed = mdp, of_choice
        self.highest = INFINITE - 1

    def allows(self, states: Ints, remaining: Ints) -> Bools:
        """A mask of the allowed actions, [n, num_actions]."""
        result = np.zeros((states.size, self._mdp.num_actions), np.bool_)
        choice, owner = spans(self._mdp.choice_ptr, states)
        most = remaining[owner] if remaining.ndim else remaining
        result[owner, self._mdp.choice_action[choice]] = self._needed[choice] <= most
        return result


Table = DenseTable | SparseTable


_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def _padded(num_actions: int, itemsize: int) -> int:
    """The row length, padded to a machine word if the row fits into one."""
    for size in _WORDS:
        if num_actions * itemsize <= size:
            return size // itemsize
    return num_actions


def narrowest(largest: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest unsigned type that holds ``largest`` and has room for "never" above it."""
    return next(np.dtype(f"u{size}") for size in (1, 2, 4) if largest < 2 ** (8 * size) - 1 or size == 4)
