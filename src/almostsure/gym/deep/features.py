"""What a network sees of a state and of what remains.

A state is a row of numbers.  It is one-hot, and where the model has a map so are its row and its column, which are also
shares of the map: what is learnt in one cell carries over to its neighbours, and may still be unlearnt there.  Maps of
many states make do without the one-hot states.
What remains is added as a share of the budget and as a staircase: is there at least 1 left, at least 2, and so on.  An
overspent budget has a flag of its own.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError
from almostsure.memory import require
from almostsure.model.mdp import MDP, Ints

Rows = npt.NDArray[np.float32]

MOST_STATES = 4_096  # that are told apart one by one
STAIRS = 32  # of the staircase, at most


@final
class Features:
    """Rows of numbers for states and remaining budgets, looked up many at once.

    Parameters
    ----------
    mdp
        The model.
    budget
        The budget at the start; None for agents that do not look at it.
    states
        One row of numbers per state, where the user knows better.
    """

    def __init__(self, mdp: MDP, budget: int | None, *, states: npt.ArrayLike | None = None) -> None:
        self.budget = budget
        self.states = _of_states(mdp) if states is None else _given(mdp, states)
        self.remaining = _of_remaining(budget)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return int(self.states.shape[1] + self.remaining.shape[1])

    def __call__(self, states: Ints, remaining: Ints) -> Rows:
        """The rows, [n, width]; what remains may be negative."""
        if self.budget is None:
            return self.states[states]
        return np.concatenate([self.states[states], self.remaining[np.maximum(remaining, -1) + 1]], axis=1)


def _of_states(mdp: MDP) -> Rows:
    drawn = mdp.layout is not None and bool((mdp.layout.cell >= 0).any())
    if mdp.num_states <= MOST_STATES:
        each = np.eye(mdp.num_states, dtype=np.float32)
        return np.concatenate([each, _on_map(mdp)], axis=1) if drawn else each
    if not drawn:
        raise ArgumentError(
            f"a model of {mdp.num_states:,} states without a map must come with features=, an array of one row of "
            f"numbers per state; up to {MOST_STATES:,} states are told apart without it"
        )
    return _on_map(mdp)


def _on_map(mdp: MDP) -> Rows:
    """Row and column of each state; zeros, and a flag, for what is not drawn."""
    layout = mdp.layout
    assert layout is not None
    drawn = layout.cell >= 0
    row, column = np.divmod(np.maximum(layout.cell, 0), layout.columns)
    shares = np.column_stack([row / max(layout.rows - 1, 1), column / max(layout.columns - 1, 1)])
    one_hot = row[:, None] == np.arange(layout.rows), column[:, None] == np.arange(layout.columns)
    places = np.column_stack([shares, *one_hot]).astype(np.float32)
    places[~drawn] = 0
    return np.column_stack([places, ~drawn])


def _given(mdp: MDP, states: npt.ArrayLike) -> Rows:
    rows: npt.NDArray[Any] = np.asarray(states)
    if rows.ndim != 2 or len(rows) != mdp.num_states or rows.dtype.kind not in "buif":
        raise ArgumentError(
            f"features must be numbers, one row for each of the {mdp.num_states:,} states; "
            f"got {rows.dtype} of shape {list(rows.shape)}"
        )
    if not np.isfinite(rows).all():
        raise ArgumentError(f"features must be finite; got {rows[~np.isfinite(rows)][0]}")
    return np.ascontiguousarray(rows, np.float32)


def _of_remaining(budget: int | None) -> Rows:
    """One row for each of −1 (overspent), 0, 1, … budget."""
    if budget is None:
        return np.zeros((1, 0), np.float32)
    require(
        4 * (STAIRS + 2) * (budget + 2), f"what a network sees of budgets up to {budget:,}", "Use a smaller budget."
    )
    left = np.arange(-1, budget + 1)
    stairs = np.unique(np.linspace(1, max(budget, 1), min(max(budget, 1), STAIRS)).round())
    share = np.maximum(left, 0) / max(budget, 1)
    return np.column_stack([left < 0, share, left[:, None] >= stairs]).astype(np.float32)
