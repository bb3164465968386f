"""``draw_map``: maps as text, with the characters of the map or a value in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import ModelError
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model

NO_BUDGET = 2**31 - 1  # almostsure.INFINITE, which this package cannot import
NO_STATE = -1


def draw_map(mdp: Model, values: npt.ArrayLike | None = None) -> str:
    """The map of a model, or the value of each state in its cell.

    Parameters
    ----------
    mdp
        A model with a layout: from :func:`almostsure.from_map`, most examples, FrozenLake and CliffWalking.
    values
        One value per state: numbers, such as ``budget.of_state``, or short texts.  ``INFINITE`` is drawn as ∞, NaN as a
        blank, and cells without a state (walls) as on the map.  By default the map itself is drawn.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import draw_map
    >>> mdp = asure.from_map('''
    ...     S1X
    ...     .#G
    ... ''')
    >>> print(draw_map(mdp))
    S 1 X
    . # G
    >>> print(draw_map(mdp, asure.minimal_budget(mdp).of_state))
    0 0 ∞
    0 # 0
    """
    model = as_model(mdp)
    rows = cells(model)
    if values is None:
        return _aligned([[character for _, character in row] for row in rows])
    texts = [show(value) for value in _per_state(values, model.num_states)]
    return _aligned([[character if s == NO_STATE else texts[s] for s, character in row] for row in rows])


def cells(mdp: MDP) -> list[list[tuple[int, str]]]:
    """The state (or ``NO_STATE``) and the map's character of each cell, row by row."""
    layout = mdp.layout
    if layout is None:
        raise ModelError("the model must have a layout to be drawn; it has none. Models from from_map have one.")
    drawn = np.flatnonzero(layout.cell >= 0)
    state_at = np.full(layout.rows * layout.columns, NO_STATE)
    state_at[layout.cell[drawn]] = drawn
    if np.unique(layout.cell[drawn]).size != drawn.size:
        raise ModelError("the model must have one state per cell to be drawn; several states share a cell")
    by_row = state_at.reshape(layout.rows, layout.columns).tolist()
    return [list(zip(states, text, strict=True)) for states, text in zip(by_row, layout.text, strict=True)]


def show(value: Any) -> str:
    """A short text for a value: ∞ for INFINITE, empty for NaN, four significant digits of other floats."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and np.isnan(value):
        return ""
    if value in (NO_BUDGET, np.inf):
        return "∞"
    return "−∞" if value == -np.inf else f"{value:.4g}" if isinstance(value, float) else str(int(value))


def _per_state(values: npt.ArrayLike, count: int) -> list[Any]:
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype.kind not in "biufU":
        raise ModelError(
            f"values must hold one number or text for each of the {count} states; "
            f"got {array.dtype} of shape {array.shape}"
        )
    result: list[Any] = array.tolist()
    return result


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    width = max(len(text) for row in rows for text in row)
    return "\n".join(" ".join(text.rjust(width) for text in row).rstrip() for row in rows)
