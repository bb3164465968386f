"""``Comparison``, the result of comparing learners: a table, tidy rows, learning curves and a plot."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np

from almostsure.files import atomic_write
from almostsure.learn.deployment import MAX_STEPS, mean_and_margin
from almostsure.learn.learners.training import Training
from almostsure.model.arrays import Floats, Ints
from almostsure.wording import counted, number

if TYPE_CHECKING:
    from almostsure.plots import Axes

POINTS = 25  # the number of points of a learning curve
SURELY = 1 - 1e-9  # probability 1, up to rounding
FEW = 5  # with fewer seeds, ranges are shown, as confidence intervals would be very wide
MEASURES = ("return", "damage", "violations")
SHOWN = (
    ("learner", "learner"),
    ("training_violations", "violations in training"),
    ("deployed_return", "return"),
    ("deployed_overspend", "P(overspend)"),
    ("deployed_mean_damage", "damage"),
)


TRAINED, DEPLOYED = "✕ overspent in training", "✕ overspends"
COLUMNS = "violations are counted in training; the other columns are about the learned policy"
TRUNCATED = f"if an episode may never end, infinite returns and damages are replaced by those of {MAX_STEPS:,} steps"
MARKED = "✕ took more than the budget: its return is not comparable"


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One learner with one seed."""

    row: dict[str, Any]
    training: Training


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """A mean over seeds with a band around it; NaN before the first episode ends, and no band for one seed.

    With fewer than five seeds, the band is the range of their values.  With five or more, it is Student's 95 %
    confidence interval of the mean.  For damage and violations, it is cut at 0 and at the largest observed value (of an
    episode or a seed), as other values are impossible or were never seen.
    """

    steps: Ints  # [points], of the environment
    mean: Floats  # [points]
    lower: Floats  # [points], of the band
    upper: Floats  # [points]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """The safety and performance of learners, by :func:`almostsure.learn.comparison.compare.compare`; print it.

    Examples
    --------
    >>> import almostsure as asure
    >>> result = asure.compare("corridor", 3, ["shielded"], steps=500, seeds=1)
    >>> result.budget, result.optimum, int(result.summary()[0]["training_violations"])
    (3, 13.0, 0)
    """

    runs: tuple[Run, ...]
    budget: int
    random: float  # the return of uniformly random play inside the shield; NaN without a model
    optimum: float  # the best assured return; NaN without a model
    sampled_episodes: int | None = None  # the number of episodes that evaluated each policy; None: exact evaluation
    learned: str = ""  # the assumptions of the model, if it was learned or found by playing

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each learner and seed, ready for a data frame."""
        return [dict(run.row) for run in self.runs]

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of the learners, in order."""
        return tuple(dict.fromkeys(run.row["learner"] for run in self.runs))

    def summary(self) -> list[dict[str, Any]]:
        """One row per learner: means over the seeds, and the half-widths of their 95 % confidence intervals."""
        return [self._summary(name) for name in self.learners]

    def _runs(self, learner: str) -> list[Run]:
        return [run for run in self.runs if run.row["learner"] == learner]

    def _summary(self, name: str) -> dict[str, Any]:
        rows = [run.row for run in self._runs(name)]
        result: dict[str, Any] = {"learner": name, "seeds": len(rows), "steps": rows[0]["steps"]}
        for key in rows[0]:
            if key not in ("learner", "seed", "steps"):
                mean, margin = mean_and_margin(np.array([[row[key]] for row in rows], np.float64))
                result[key], result[f"{key}_margin"] = float(mean[0]), float(margin[0])
        return result

    @cached_property
    def curves(self) -> Mapping[str, Mapping[str, Curve]]:
        """Learning curves by learner and measure: "return", "damage" (of an episode) and "violations" (so far)."""
        return {name: self._curves_of(self._runs(name)) for name in self.learners}

    def _curves_of(self, runs: Sequence[Run]) -> dict[str, Curve]:
        edges = np.linspace(0, runs[0].row["steps"], POINTS + 1)
        steps, damages = edges[1:].astype(np.int64), [run.training.damages for run in runs]
        # The largest value that a band may have; infinity for returns, which may also be negative.
        most = math.inf, max(one.max(initial=0) for one in damages), max((one > self.budget).sum() for one in damages)
        tracks = zip(*(track(run.training, edges, self.budget) for run in runs), strict=True)
        each = zip(MEASURES, tracks, most, strict=True)
        return {measure: _curve(steps, np.stack(values), float(limit)) for measure, values, limit in each}

    # ------------------------------------------------------------------ plot and file

    def plot(self, ax: Axes | None = None, *, measure: str = "return") -> Axes:
        """Plot one measure on the given axes, or all three on new ones, of which the first is returned.

        Lines are means over the seeds.  Bands are the range of the seeds, or 95 % confidence intervals for five or more
        seeds: see :class:`almostsure.learn.comparison.result.Curve`.
        """
        from almostsure.learn.comparison.plot import draw

        return draw(self, ax, measure)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows to a CSV file, atomically."""
        text = io.StringIO()
        rows = self.rows
        writer = csv.DictWriter(text, list(rows[0]) if rows else [key for key, _ in SHOWN])
        writer.writeheader()
        writer.writerows(rows)
        with atomic_write(path) as file:
            file.write(text.getvalue().encode())

    # ------------------------------------------------------------------ text

    def __repr__(self) -> str:
        table = [[title for _, title in SHOWN], *(self._cells(row) for row in self.summary())]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [_line(cells, widths) for cells in table]
        marks = ["", *(f"  {_mark(row)}".rstrip() for row in self.summary())]
        return "\n".join([*(line + mark for line, mark in zip(lines, marks, strict=True)), *self._notes()])

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import card, table

        rows = [[*self._cells(row), _mark(row)] for row in self.summary()]
        return card("Comparison", (), table([*(title for _, title in SHOWN), ""], rows, "; ".join(self._notes())))

    def _cells(self, row: Mapping[str, Any]) -> list[str]:
        return [str(row["learner"]), *(self.over_seeds(row["learner"], key) for key, _ in SHOWN[1:])]

    def over_seeds(self, learner: str, key: str, show: Callable[[float], str] | None = None) -> str:
        """An entry of a learner's rows as shown in tables: the range of few seeds, or the mean ± its margin.

        ``show`` formats numbers, instead of to three digits, and leaves out the margin.
        """
        values = np.array([[run.row[key]] for run in self._runs(learner)], np.float64)
        if 1 < values.size < FEW:
            least, most = ((show or _number)(float(value)) for value in (values.min(), values.max()))
            return least if least == most else f"{least} … {most}"
        mean, margin = (float(number[0]) for number in mean_and_margin(values))
        return _with_margin(mean, margin) if show is None else show(mean)

    def _notes(self) -> list[str]:
        if not self.runs:
            return ["no run was finished"]
        marked = f"; {MARKED}" if any(map(_mark, self.summary())) else ""
        learned = [f"the model: {self.learned}"] if self.learned else []
        return [self._note(), f"{COLUMNS}{marked}", *([TRUNCATED] if self.may_be_cut else []), *learned]

    @property
    def may_be_cut(self) -> bool:
        """Whether episodes of a deployed policy may never end, so that its return may be that of truncated ones."""
        return any(run.row["deployed_ends"] < SURELY for run in self.runs)

    def _note(self) -> str:
        steps, seeds = self.runs[0].row["steps"], len({run.row["seed"] for run in self.runs})
        how = f"budget {self.budget}; {counted(steps, 'step')}, {counted(seeds, 'seed')}"
        if self.sampled_episodes is not None:
            return f"{how}; no model: each deployed policy was evaluated in {counted(self.sampled_episodes, 'episode')}"
        return f"{how}; random shielded play {_number(self.random)}, assured optimum {_number(self.optimum)}"


# ---------------------------------------------------------------------- numbers


def track(training: Training, edges: Floats, budget: int) -> tuple[Floats, Floats, Floats]:
    """Mean return and damage of the episodes that ended between two edges, and violations so far, at each later edge.

    If no episode ended, the last value is repeated.
    """
    window = np.clip(np.searchsorted(edges, training.ends, side="left") - 1, 0, edges.size - 2)
    size = edges.size - 1
    episodes = np.bincount(window, minlength=size)
    means = []
    for values in (training.returns, training.damages):
        sums = np.bincount(window, weights=np.asarray(values, np.float64), minlength=size)
        means.append(_filled(np.divide(sums, episodes, out=np.full(size, math.nan), where=episodes > 0)))
    violations = np.cumsum(np.bincount(window[training.damages > budget], minlength=size)).astype(np.float64)
    return means[0], means[1], violations


def _filled(values: Floats) -> Floats:
    """NaNs replaced by the last number before them."""
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(values.size)))
    return np.where(last >= 0, values[np.maximum(last, 0)], math.nan)


def _curve(steps: Ints, values: Floats, most: float) -> Curve:
    """See :class:`Curve`; ``most`` is the largest value that the band may have."""
    mean, margin = mean_and_margin(values)
    if 1 < values.shape[0] < FEW:
        return Curve(steps=steps, mean=mean, lower=values.min(axis=0), upper=values.max(axis=0))
    least = -math.inf if most == math.inf else 0.0
    return Curve(steps=steps, mean=mean, lower=np.maximum(mean - margin, least), upper=np.minimum(mean + margin, most))


# ---------------------------------------------------------------------- text


def _mark(row: Mapping[str, Any]) -> str:
    """The mark of a learner that took more than the budget, so its return is not comparable."""
    if row["deployed_overspend"] > 0:
        return DEPLOYED
    return TRAINED if row["training_violations"] > 0 else ""


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _with_margin(mean: float, margin: float) -> str:
    """A mean over seeds to three digits, and the half-width of its confidence interval if there is one."""
    if not math.isfinite(margin) or margin <= 1e-9 * max(1.0, abs(mean)) or not math.isfinite(mean):
        return _number(mean)
    return f"{_number(mean)} ± {_number(margin)}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return number(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
