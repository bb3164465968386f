"""The input features of a network, for states and remaining budgets.

States are one-hot.  If the model has a map, the features also have the row and the column, one-hot and scaled to 0 … 1,
so that the network generalises to neighbouring cells, with the one-hot features for exceptions.  For maps with many
states the one-hot states are left out.

The remaining budget is given as a fraction of the budget and as a thermometer code: at least 1 left, at least 2, and so
on.  An overspent budget has a flag.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError
from almostsure.memory import require
from almostsure.model.mdp import MDP, Ints

Rows = npt.NDArray[np.float32]

MAX_ONE_HOT = 4_096  # states
MAX_THRESHOLDS = 32  # of the thermometer code


@final
class Features:
    """Feature vectors of states and remaining budgets, for batches of both.

    Parameters
    ----------
    mdp
        The model.
    budget
        The budget at the start; None for agents that do not observe the remaining budget.
    states
        The user's features, one row of numbers per state.
    """

    def __init__(self, mdp: MDP, budget: int | None, *, states: npt.ArrayLike | None = None) -> None:
        self.budget = budget
        self.states = _of_states(mdp) if states is None else _given(mdp, states)
        self.remaining = _of_remaining(budget)

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.states.shape[1] + self.remaining.shape[1])

    def __call__(self, states: Ints, remaining: Ints) -> Rows:
        """The rows, [n, width]; remaining budgets may be negative."""
        if self.budget is None:
            return self.states[states]
        return np.concatenate([self.states[states], self.remaining[np.maximum(remaining, -1) + 1]], axis=1)


def _of_states(mdp: MDP) -> Rows:
    drawn = mdp.layout is not None and bool((mdp.layout.cell >= 0).any())
    if mdp.num_states <= MAX_ONE_HOT:
        each = np.eye(mdp.num_states, dtype=np.float32)
        return np.concatenate([each, _on_map(mdp)], axis=1) if drawn else each
    if not drawn:
        raise ArgumentError(
            f"a model without a map must have at most {MAX_ONE_HOT:,} states, for one-hot features; got "
            f"{mdp.num_states:,}. Pass features=, an array with one row of numbers per state."
        )
    return _on_map(mdp)


def _on_map(mdp: MDP) -> Rows:
    """Row and column of each state; zeros, and a flag, for states that are not on the map."""
    layout = mdp.layout
    assert layout is not None
    drawn = layout.cell >= 0
    row, column = np.divmod(np.maximum(layout.cell, 0), layout.columns)
    scaled = np.column_stack([row / max(layout.rows - 1, 1), column / max(layout.columns - 1, 1)])
    one_hot = row[:, None] == np.arange(layout.rows), column[:, None] == np.arange(layout.columns)
    features = np.column_stack([scaled, *one_hot]).astype(np.float32)
    features[~drawn] = 0
    return np.column_stack([features, ~drawn])


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
        4 * (MAX_THRESHOLDS + 2) * (budget + 2), f"the features of budgets up to {budget:,}", "Use a smaller budget."
    )
    left = np.arange(-1, budget + 1)
    thresholds = np.unique(np.linspace(1, max(budget, 1), min(max(budget, 1), MAX_THRESHOLDS)).round())
    share = np.maximum(left, 0) / max(budget, 1)
    return np.column_stack([left < 0, share, left[:, None] >= thresholds]).astype(np.float32)
