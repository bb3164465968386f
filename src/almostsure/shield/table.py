"""Tables of k* from which many states are looked up at once.

The *dense* table has one row per state and one column per action id, in the narrowest unsigned type that holds every
finite budget; its largest value stands for "never": for ∞, and for an action that the state does not have.  With
few actions a row fits in one machine word (eight actions below a budget of 255), so that a look-up fetches one word
instead of walking along a row, and compares all of its actions at once.

Where most states lack most actions, a dense table would be mostly "never"; then the *sparse* one, the model's own
arrays, answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.minimal import INFINITE
from almostsure.model.arrays import spans
from almostsure.model.mdp import Bools, Ints
from almostsure.model.space import Space

DENSE_ANYWAY = 1 << 20  # entries up to which the table is dense in any case
DENSE_SHARE = 8  # otherwise at least one entry in so many must be a choice

Unsigned = npt.NDArray[np.unsignedinteger[Any]]


def table_of(mdp: Space, of_choice: Ints) -> Table:
    """The table that suits the model."""
    entries = mdp.num_states * mdp.num_actions
    if entries <= max(DENSE_ANYWAY, DENSE_SHARE * mdp.num_choices):
        return DenseTable(mdp, of_choice)
    return SparseTable(mdp, of_choice)


class DenseTable:
    """One row per state, one column per action.  States and budgets have been checked.

    ``highest`` is the largest remaining budget that need be told apart from larger ones.
    """

    __slots__ = ("_least", "_needed", "_num_actions", "_ones", "_wide", "_word", "highest")

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
        needed = np.minimum(of_choice, never).astype(dtype)
        if mdp.num_choices == mdp.num_states * width:
            self._needed[:] = needed.reshape(-1, width)
        else:
            self._needed[mdp.choice_states(), mdp.choice_action] = needed
        self._wide = self._least = np.zeros(0, np.int64)  # of the type of what remains; made when first needed

    def allows(self, states: Ints, remaining: Ints) -> Bools:
        """Which actions are allowed, [n, num_actions]; ``remaining`` is [n] or one number for all, 0 … highest."""
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

    def few(self, states: Ints, remaining: Ints) -> Bools | None:
        """The same for a few states, with whatever left; None where one of them has no action that is allowed."""
        if self._needed.size > DENSE_ANYWAY:
            return _unless_empty(self.allows(states, np.clip(remaining, 0, self.highest)), remaining)
        if not self._least.size:
            self._wide = self._needed[:, : self._num_actions].astype(np.int64)
            self._least = self._wide.min(axis=1)
        most = np.minimum(remaining, self.highest)  # no budget pays for what is never safe
        if np.count_nonzero(self._least.take(states) > most):  # faster than any() where there are few
            return None
        allowed: Bools = self._wide.take(states, axis=0) <= most[:, None]
        return allowed


class SparseTable:
    """The choices of each state, as the model stores them; it answers as the dense table does."""

    __slots__ = ("_mdp", "_needed", "highest")

    def __init__(self, mdp: Space, of_choice: Ints) -> None:
        self._mdp, self._needed = mdp, of_choice
        self.highest = INFINITE - 1

    def allows(self, states: Ints, remaining: Ints) -> Bools:
        """Which actions are allowed, [n, num_actions]."""
        result = np.zeros((states.size, self._mdp.num_actions), np.bool_)
        choice, owner = spans(self._mdp.choice_ptr, states)
        most = remaining[owner] if remaining.ndim else remaining
        result[owner, self._mdp.choice_action[choice]] = self._needed[choice] <= most
        return result

    def few(self, states: Ints, remaining: Ints) -> Bools | None:
        """Which actions are allowed, [n, num_actions]."""
        return _unless_empty(self.allows(states, np.minimum(remaining, self.highest)), remaining)


Table = DenseTable | SparseTable


def _unless_empty(allowed: Bools, remaining: Ints) -> Bools | None:
    return allowed if (allowed.any(axis=1) & (remaining >= 0)).all() else None


_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def _padded(num_actions: int, itemsize: int) -> int:
    """The row length: filled up to a machine word where it fits into one."""
    for size in _WORDS:
        if num_actions * itemsize <= size:
            return size // itemsize
    return num_actions


def narrowest(largest: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest unsigned type that holds ``largest`` and has room for "never" above it."""
    return next(np.dtype(f"u{size}") for size in (1, 2, 4) if largest < 2 ** (8 * size) - 1 or size == 4)
