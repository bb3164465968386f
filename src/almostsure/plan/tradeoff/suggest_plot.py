"""The picture of a suggestion.  Matplotlib is imported here only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from almostsure.plots import axes_for, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from almostsure.plan.tradeoff.suggest import Suggestion

CURVE, LIMIT, PAYS = "#1b6ca8", "#777777", "#d1603d"


def draw(suggestion: Suggestion, ax: Axes | None) -> Axes:
    """The best return against the budget, with the three numbers that frame the choice."""
    axes = axes_for(ax, 6.4, 4.0)
    budgets, known = np.arange(len(suggestion.curve)), np.isfinite(suggestion.curve)
    axes.step(
        budgets[known], suggestion.curve[known], where="post", color=CURVE, marker="o", label="best assured return"
    )
    _frame(axes, suggestion)
    axes.set_xlabel("budget of damage")
    axes.set_ylabel("best return")
    axes.set_xlim(-0.3, suggestion.most + 0.3)
    axes.locator_params(axis="x", integer=True)
    tidy(axes)
    axes.legend(frameon=False, loc="lower right")
    return axes


def _frame(axes: Axes, suggestion: Suggestion) -> None:
    """The region that is infeasible, the limit, and where more stops paying."""
    if suggestion.least > 0:
        axes.axvspan(-1, suggestion.least - 0.5, color=CURVE, alpha=0.08, lw=0, label="nothing is safe")
    if math.isfinite(suggestion.limit):
        axes.axhline(
            suggestion.limit, color=LIMIT, linestyle=":", label=f"no budget returns more: {suggestion.limit:.4g}"
        )
    until = suggestion.pays_until
    if until is None:
        return
    if suggestion.curve[until] == math.inf:
        axes.axvline(until, color=PAYS, linestyle="--", label=f"no bound from {until} on")
    else:
        axes.axvline(until, color=PAYS, linestyle="--", label=f"more than {until} hardly pays")
