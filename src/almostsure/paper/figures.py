"""The figures of the two experiments, for print.

They are as wide as one column of a page, in colours that colour-blind readers can distinguish (vermilion and blue of
Okabe and Ito).  Bars are simulated, dots are exact.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from almostsure.model.mdp import Floats
from almostsure.paper.experiments import BUDGET, EPISODES, Experiment
from almostsure.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ASSURED, EXPECTED, INK, GREY = "#0072b2", "#d55e00", "#1a1a1a", "#767676"
WIDTH = 3.5  # inches: one column
DPI = 300
STYLE: Any = {
    "font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7.5, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
    "pdf.fonttype": 42, "lines.linewidth": 1.2, "lines.markersize": 2.5,
}  # fmt: skip
MOST = {1: 20, 2: 30}  # the end of the axis
FAINT = 1e-3  # smaller probabilities get no dot


def experiment_figure(experiment: Experiment) -> Figure:
    """One panel per limit c: the damage (experiment 1) or the return (2) per episode, simulated and exact."""
    from matplotlib import rc_context
    from matplotlib.lines import Line2D

    with rc_context(STYLE):
        figure = new_figure(WIDTH, 3.5)
        panels: Any = figure.subplots(2, 2, sharex=True, sharey=True)
        for axes, limit in zip(panels.flat, experiment.expected, strict=True):
            _panel(axes, experiment, limit)
        what = "damage" if experiment.number == 1 else "return"
        figure.supxlabel(f"{what} per episode", fontsize=8)
        figure.supylabel("share of the episodes", fontsize=8)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        dots = Line2D([], [], linestyle="none", marker="o", markersize=2.5, color=INK)
        look: Any = {"ncols": 3, "frameon": False, "handlelength": 1.2, "columnspacing": 1.2, "handletextpad": 0.5}
        figure.legend([*handles, dots], [*labels, "exact"], loc="outside upper center", **look)
        figure.draw_without_rendering()  # fix the layout, which every saving would change otherwise
        figure.set_layout_engine("none")
    return figure


def _panel(axes: Axes, experiment: Experiment, limit: float) -> None:
    most, first = MOST[experiment.number], experiment.number == 1
    run, assured = experiment.expected[limit], experiment.assured
    for which, colour, width, label in (
        (run, EXPECTED, 0.9, r"E[damage] $\leq c$"),
        (assured, ASSURED, 0.5, rf"damage $\leq {BUDGET}$, always"),
    ):
        sampled = which.episodes.damages if first else which.episodes.returns
        exact = which.damage if first else which.reward
        _bars(axes, sampled, exact, colour, width, label, most)
    axes.set_title(f"$c = {limit:g}$", pad=3)
    axes.set_xlim(-0.9, most + 0.9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=2.5)
    if first:
        axes.set_ylim(0, 1.08)
        axes.axvline(BUDGET + 0.5, color=GREY, linewidth=0.7, linestyle=(0, (3, 2)), zorder=0)
        notes = [(f"{run.facts.overspends:.1%} take", EXPECTED), (f"more than {BUDGET}", EXPECTED)]
    else:
        notes = [(f"mean {run.solution.value:.2f}", EXPECTED), (f"mean {assured.solution.value:.2f}", ASSURED)]
    for line, (note, colour) in enumerate(notes):
        axes.text(0.97, 0.8 - 0.13 * line, note, transform=axes.transAxes, ha="right", color=colour)


def _bars(axes: Axes, sampled: Any, exact: Floats, colour: str, width: float, label: str, most: int) -> None:
    """Simulated frequencies as bars, exact probabilities as dots, except tiny ones."""
    values = np.arange(most + 1)
    shares = np.bincount(sampled.astype(np.int64), minlength=most + 1)[: most + 1] / sampled.size
    axes.bar(values, shares, width, color=colour, alpha=0.45 if colour == EXPECTED else 0.6, linewidth=0, label=label)
    seen = exact[: most + 1] > FAINT
    axes.plot(
        values[seen], exact[: most + 1][seen], linestyle="none", marker="o" if colour == EXPECTED else "D",
        markersize=2.0, markerfacecolor=colour, markeredgecolor=INK, markeredgewidth=0.4,
    )  # fmt: skip


def saved(figure: Figure, kind: str) -> bytes:
    """The figure as ``"png"`` or ``"pdf"`` for print; the bytes depend only on the versions."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    undated = {"png": ["Software"], "pdf": ["CreationDate", "ModDate", "Producer", "Creator"]}[kind]
    options: dict[str, Any] = {"pil_kwargs": {"optimize": True}} if kind == "png" else {}
    with rc_context(STYLE):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=dict.fromkeys(undated), **options)
    return buffer.getvalue()


CAPTIONS = {
    "damage-per-episode": (
        "Experiment I: damage per episode",
        f"Left always does damage. Bars: {EPISODES:,} simulated episodes; dots: exact. The assured policy (blue) "
        f"always takes {BUDGET}. The damage of the policy for an expected damage of at most c (vermilion) is "
        f"geometric, often 0 and often more than {BUDGET}. The dashed line marks the budget; tails beyond {MOST[1]} "
        "are not shown.",
    ),
    "return-per-episode": (
        "Experiment II: return per episode",
        f"Left does damage with probability 0.6. Bars: {EPISODES:,} simulated episodes; dots: exact. The assured "
        f"policy (blue) returns at least {BUDGET}, 25/3 on average and most often 7. The policy for an expected damage "
        "of at most c (vermilion) most often returns 0, and c/0.6 on average, so it depends on c. Tails beyond "
        f"{MOST[2]} are not shown.",
    ),
}  # fmt: skip
