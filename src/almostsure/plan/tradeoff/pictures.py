"""Plots of frontiers and suggestions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from almostsure.plots import axes_for, panels, tidy

if TYPE_CHECKING:
    from almostsure.plan.tradeoff.frontiers import Frontier
    from almostsure.plan.tradeoff.suggest import Suggestion
    from almostsure.plots import Axes

ASSURED, EXPECTED, CHANCE, LIMIT = "#1b6ca8", "#d1603d", "#6a4c93", "#777777"


def draw_frontier(frontier: Frontier, ax: Axes | None) -> Axes:
    """Draw return against damage and, on new axes, return against risk beside it."""
    shown = panels(2, 10, 4.2, sharey=True) if ax is None else [ax]
    _against_damage(shown[0], frontier)
    for axes in shown[1:]:
        _against_risk(axes, frontier)
    shown[0].set_ylabel("best return" if frontier.discount == 1 else f"best return (discount {frontier.discount:g})")
    for axes in shown:
        tidy(axes)
    return shown[0]


def _against_damage(axes: Axes, frontier: Frontier) -> None:
    mean, sure = np.isfinite(frontier.expected), np.isfinite(frontier.assured)
    order = np.argsort(frontier.limits[mean])
    axes.plot(
        frontier.limits[mean][order],
        frontier.expected[mean][order],
        color=EXPECTED,
        label="on average: E[damage] ≤ budget",
    )
    axes.step(
        frontier.budgets[sure], frontier.assured[sure], where="post", color=ASSURED, marker="o",
        label="always: damage ≤ budget",
    )  # fmt: skip
    _mark_infeasible(axes, frontier)
    axes.set_xlabel("budget of damage")
    axes.set_xlim(-0.03 * max(frontier.budget, 1), max(frontier.budget, 1) * 1.03)
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, loc="lower right")


def _mark_infeasible(axes: Axes, frontier: Frontier) -> None:
    nowhere = frontier.budgets[np.isnan(frontier.assured)]
    if nowhere.size:
        axes.axvspan(-1, nowhere.max() + 0.5, color=ASSURED, alpha=0.08, lw=0)
        axes.text(0.02, 0.97, "never: impossible here", color=ASSURED, fontsize=8, va="top", transform=axes.transAxes)


def _against_risk(axes: Axes, frontier: Frontier) -> None:
    known = np.isfinite(frontier.chance)
    order = np.argsort(frontier.risks[known])
    risks, values = frontier.risks[known][order], frontier.chance[known][order]
    positive = risks[risks > 0]
    axes.plot(risks, values, color=CHANCE, marker=".", label=f"P(damage > {frontier.budget}) ≤ risk")
    if (risks == 0).any():
        value = float(values[risks == 0][0])
        axes.plot([0], [value], color=ASSURED, marker="o", linestyle="none", clip_on=False, label="risk 0: always")
        axes.axhline(value, color=ASSURED, linewidth=0.8, linestyle=":")
    if positive.size:
        axes.set_xscale("symlog", linthresh=float(positive.min()), linscale=0.5)
        axes.set_xlim(0, float(positive.max()))
    else:
        axes.set_xlim(0, 1)
    endless = frontier.risks[np.isposinf(frontier.chance)]
    if endless.size:
        text = f"no bound from a risk of {endless.min():g} on"
        axes.text(0.5, 0.5, text, color=CHANCE, ha="center", va="center", transform=axes.transAxes)
    axes.set_xlabel(f"risk of more than {frontier.budget} damage")
    axes.legend(frameon=False, loc="lower right")


# ---------------------------------------------------------------------- suggestions


def draw_suggestion(suggestion: Suggestion, ax: Axes | None) -> Axes:
    """Draw the best return against the budget, with the three numbers of a suggestion."""
    axes = axes_for(ax, 6.4, 4.0)
    budgets, known = np.arange(len(suggestion.curve)), np.isfinite(suggestion.curve)
    axes.step(
        budgets[known], suggestion.curve[known], where="post", color=ASSURED, marker="o", label="best assured return"
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
    """Mark the infeasible region, the limit, and the budget from which on more hardly pays."""
    if suggestion.least > 0:
        axes.axvspan(-1, suggestion.least - 0.5, color=ASSURED, alpha=0.08, lw=0, label="nothing is safe")
    if math.isfinite(suggestion.limit):
        axes.axhline(
            suggestion.limit, color=LIMIT, linestyle=":", label=f"no budget returns more: {suggestion.limit:.4g}"
        )
    until = suggestion.pays_until
    if until is None:
        return
    if suggestion.curve[until] == math.inf:
        axes.axvline(until, color=EXPECTED, linestyle="--", label=f"no bound from {until} on")
    else:
        axes.axvline(until, color=EXPECTED, linestyle="--", label=f"more than {until} hardly pays")
