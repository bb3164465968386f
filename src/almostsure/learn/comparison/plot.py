"""The picture of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from almostsure.errors import UnknownName
from almostsure.plots import panels, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from almostsure.learn.comparison.result import Comparison

COLOURS = ("#1b6ca8", "#1a9850", "#d1603d", "#6a4c93", "#c9a227", "#c2185b", "#00838f", "#5d4037", "#9e9e9e")
TITLES = {
    "return": "return of a training episode",
    "damage": "damage of a training episode",
    "violations": "violations so far",
}


def draw(comparison: Comparison, ax: Axes | None, measure: str) -> Axes:
    """Plot return, damage and violations against steps, with bands over the seeds; or one of them, on given axes."""
    if measure not in TITLES:
        raise UnknownName("measure", measure, TITLES, f"There are {', '.join(TITLES)}.")
    if ax is not None:
        _measure(ax, comparison, measure)
        ax.legend(frameon=False, fontsize=9)
        return ax
    shown = panels(len(TITLES), 12, 4.4)
    for axes, name in zip(shown, TITLES, strict=True):
        _measure(axes, comparison, name)
    handles, names = shown[-1].get_legend_handles_labels()
    figure = shown[0].get_figure(root=True)
    if figure is not None:
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return shown[0]


def _measure(axes: Axes, comparison: Comparison, measure: str) -> None:
    from matplotlib.ticker import EngFormatter

    _panel(axes, comparison, measure)
    axes.set_title(TITLES[measure], fontsize=10)
    axes.set_xlabel("environment steps")
    axes.xaxis.set_major_formatter(EngFormatter())
    tidy(axes)
    if measure == "return":
        _reference(axes, comparison.optimum, "assured optimum")
        _limit_returns(axes, comparison)
        return
    if measure == "damage":
        _reference(axes, comparison.budget, "budget")
    linear = max(comparison.budget, 1) if measure == "damage" else 1
    axes.set_yscale("symlog", linthresh=linear)  # some learners have no violations, others thousands
    axes.set_ylim(bottom=-0.05 * linear)


def _panel(axes: Axes, comparison: Comparison, measure: str) -> None:
    for number, (name, curves) in enumerate(comparison.curves.items()):
        curve, colour = curves[measure], COLOURS[number % len(COLOURS)]
        width = 1.4 if number else 2.8  # so that the first curve still shows below an equal one
        axes.plot(curve.steps, curve.mean, color=colour, linewidth=width, label=name)
        if np.isfinite(curve.lower).any():
            axes.fill_between(curve.steps, curve.lower, curve.upper, color=colour, alpha=0.1, linewidth=0)


def _limit_returns(axes: Axes, comparison: Comparison) -> None:
    """Limit the axis to the range of most values: a single very long episode would flatten all curves."""
    means = np.concatenate([[comparison.optimum], *(curves["return"].mean for curves in comparison.curves.values())])
    means = means[np.isfinite(means)]
    if means.size:
        low, high = float(np.quantile(means, 0.2)), float(means.max())
        axes.set_ylim(low - 0.1 * (high - low) - 1e-9, high + 0.1 * (high - low) + 1e-9)


def _reference(axes: Axes, value: float, text: str) -> None:
    if np.isfinite(value):
        axes.axhline(value, color="#555555", linewidth=0.8, linestyle=":")
        axes.annotate(
            text,
            (0.99, value),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color="#555555",
        )
