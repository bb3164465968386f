"""Pictures of upper budgets: two coordinates with the others fixed, and trajectories."""

from __future__ import annotations

import base64
import hashlib
import html
import io
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.diagnosis import stepped
from almostsure.abstract.enclosure.interval import Interval
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, UnknownName
from almostsure.files import atomic_write
from almostsure.plots import new_figure

if TYPE_CHECKING:
    from almostsure.abstract.upper import UpperBudget
    from almostsure.plots import Figure

Floats = npt.NDArray[np.float64]
Axis = str | int  # a coordinate, by name or position
At = Mapping[str, float] | None  # the values of the others
SAFE, SOME, OPEN, PATH = "#2f7d6d", "#b5d3c8", "#f1ede5", "#c8374d"  # proved; elsewhere; nowhere; trajectories
FRAMES = 21  # the most frames of a slider
LONGEST = 200  # the most steps of the run that is drawn
SCRIPT = """for (const slider of document.querySelectorAll("input[type=range]")) {
  const frames = slider.closest("figure").querySelectorAll("img");
  const show = () => frames.forEach((frame, i) => { frame.hidden = i !== Number(slider.value); });
  slider.addEventListener("input", show);
  show();
}"""

STYLE = f"""body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ white-space: pre-wrap; }}
figure {{ margin: 0; }}
img {{ max-width: 100%; }}
label {{ display: flex; gap: 1rem; }}
input {{ flex: 1; accent-color: {SAFE}; }}"""
LEGEND = "Dark: proved where the other coordinates are as the title says. Pale: proved for other values of them."
RUN = " The line is a run of allowed actions, in which all coordinates move."


def plot(minimal: UpperBudget, x: Axis, y: Axis, *, at: At, trajectory: npt.ArrayLike | None) -> Figure:
    """See :meth:`UpperBudget.plot`."""
    grid = minimal.abstraction.grid
    if grid.num_coordinates == 1:
        return _line(minimal)
    across, up = _axis(minimal, x), _axis(minimal, y)
    if across == up:
        raise ArgumentError(f"x and y must be two coordinates; got {grid.names[across]} twice")
    fixed = _fixed(minimal, at)
    # Upper budgets, [up, across, the other coordinates], and the indices at which the others are fixed.
    values = np.moveaxis(minimal.of_state.reshape(grid.cells), (up, across), (0, 1))
    place = np.delete(np.unravel_index(grid.cell(fixed.tolist()), grid.cells), (across, up))
    figure = new_figure(6.0, 4.4)
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    axes = figure.add_subplot()
    ends = (grid.edges[across], grid.edges[up])
    axes.set_facecolor(OPEN)
    tint = ListedColormap([OPEN, SOME])
    somewhere = (values != INFINITE).any(axis=tuple(range(2, values.ndim)))
    axes.pcolormesh(*ends, somewhere, cmap=tint, vmin=0, vmax=1, rasterized=True)
    finite = np.ma.masked_equal(values[:, :, *place], INFINITE)
    most = int(finite.max()) if finite.count() else 0
    needs = LinearSegmentedColormap.from_list("needs", [SAFE, "#8fb8a8", "#efc88b", "#c26a4a"])
    colours = needs if most else ListedColormap([SAFE])
    image = axes.pcolormesh(*ends, finite, cmap=colours, vmin=0, vmax=max(most, 1), rasterized=True)
    if most:
        figure.colorbar(image, label="needs at most")
    if trajectory is not None:
        path = _path(minimal, trajectory, across, up)
        axes.plot(path[:, 0], path[:, 1], color=PATH, linewidth=1.2)
        axes.plot(path[0, 0], path[0, 1], "o", color=PATH, markersize=4)
    axes.set(xlabel=grid.names[across], ylabel=grid.names[up], title=_title(minimal, across, up, fixed))
    return figure


def _line(minimal: UpperBudget) -> Figure:
    """The picture for one coordinate: upper budgets as bars, with gaps where none is proved."""
    grid = minimal.abstraction.grid
    figure = new_figure(6.0, 2.6)
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_subplot()
    proved = minimal.of_state != INFINITE
    low, high = grid.edges[0][:-1][proved], grid.edges[0][1:][proved]
    axes.bar(low, minimal.of_state[proved] + 0.1, high - low, align="edge", color=SAFE)  # so that 0 is visible
    axes.set(xlim=(grid.low[0], grid.high[0]), xlabel=grid.names[0], ylabel="needs at most", title="upper budgets")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def page(minimal: UpperBudget, x: Axis, y: Axis, *, slider: Axis | None = None, at: At = None, path: Any = None) -> str:
    """A figure with a slider for a third coordinate, as self-contained HTML."""
    grid = minimal.abstraction.grid
    if grid.num_coordinates == 1:
        return f"<figure>{_frame(minimal, 0, 0, {}, None)}</figure>"
    across, up = _axis(minimal, x), _axis(minimal, y)
    others = [axis for axis in range(grid.num_coordinates) if axis not in (across, up)]
    run = example_run(minimal) if path is None else path
    if not others:
        return f"<figure>{_frame(minimal, across, up, at or {}, run)}</figure>"
    legend = LEGEND if run is None else LEGEND + RUN
    along = others[0] if slider is None else _axis(minimal, slider)
    if along not in others:
        raise ArgumentError(f"slider must be a coordinate beside x and y; got {grid.names[along]}")
    middles = grid.edges[along][:-1] + np.diff(grid.edges[along]) / 2
    shown = middles[np.unique(np.linspace(0, middles.size - 1, FRAMES).astype(int))]
    name = html.escape(grid.names[along])
    places = [{**(at or {}), grid.names[along]: float(value)} for value in shown]
    frames = "".join(_frame(minimal, across, up, place, run) for place in places)
    control = f'<input type="range" min="0" max="{shown.size - 1}" value="{shown.size // 2}" aria-label="{name}">'
    return f"<figure>{frames}<figcaption><label>{name} {control}</label><p>{legend}</p></figcaption></figure>"


def write_page(path: str | PathLike[str], minimal: UpperBudget, figure: str) -> None:
    """Write a figure as a page, with a content-security policy that allows nothing else."""
    script, style = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (SCRIPT, STYLE))
    policy = f"default-src 'none'; img-src data:; script-src 'sha256-{script}'; style-src 'sha256-{style}'"
    title = html.escape(minimal.abstraction.name or "upper budgets")
    facts = html.escape(repr(minimal).removeprefix("<UpperBudget: ").removesuffix(">"))
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{title}</h1>\n<pre>{facts}</pre>\n{figure}\n<script>{SCRIPT}</script></html>\n"
    )
    with atomic_write(path) as file:
        file.write(text.encode())


# ---------------------------------------------------------------------- a run


def example_run(minimal: UpperBudget) -> Floats | None:
    """The states of a run of random allowed actions from the centre of the start; None without a start or a proof."""
    abstraction, budget = minimal.abstraction, minimal.smallest_budget()
    if abstraction.initial is None or abstraction.step is None or budget == INFINITE:
        return None
    shield, rng, shown = minimal.shield(), np.random.default_rng(0), abstraction.observation
    push = 0.0 if abstraction.disturbance is None else np.mean(abstraction.disturbance, axis=1)
    states = [shown.rounded_to(Interval.of(_fixed(minimal, None))).low]
    run = shield.begin(tuple(states[0]), budget)
    for _ in range(LONGEST):
        action = int(rng.choice(shield.allowed(*run)))
        after = stepped(abstraction, states[-1][None], abstraction.actions[action])[0] + push
        states.append(shown.rounded_to(Interval.of(after)).low)
        if abstraction.arrived(after[None])[0]:
            break
        run = shield.after(run, action, tuple(states[-1]), int(abstraction.damage(states[-1][None])[0]))
    return np.array(states)


def _path(minimal: UpperBudget, trajectory: npt.ArrayLike, across: int, up: int) -> Floats:
    """Two coordinates of a trajectory; a gap where one wraps around."""
    grid, states = minimal.abstraction.grid, np.asarray(trajectory, np.float64)
    if states.ndim != 2 or states.shape[1] != grid.num_coordinates:
        raise ArgumentError(
            f"trajectory must be [steps, {grid.num_coordinates}] states; got shape {list(states.shape)}"
        )
    turned = [grid.unwound(j, states[:, j]) if j in grid.periodic else states[:, j] for j in (across, up)]
    wide = [grid.high[j] - grid.low[j] if j in grid.periodic else np.inf for j in (across, up)]
    jumps = [np.abs(np.diff(values)) > period / 2 for values, period in zip(turned, wide, strict=True)]
    return np.insert(np.stack(turned, axis=1), np.flatnonzero(jumps[0] | jumps[1]) + 1, np.nan, axis=0)


# ---------------------------------------------------------------------- pieces


def _axis(minimal: UpperBudget, coordinate: Axis) -> int:
    names = minimal.abstraction.grid.names
    if isinstance(coordinate, str):
        if coordinate not in names:
            raise UnknownName("coordinate", coordinate, names, f"Coordinates are {', '.join(names)}.")
        return names.index(coordinate)
    if not 0 <= coordinate < len(names):
        raise UnknownName("coordinate", coordinate, (), f"Coordinates are 0 … {len(names) - 1}.")
    return int(coordinate)


def _fixed(minimal: UpperBudget, at: At) -> Floats:
    """A point of the picture's plane: the centre of the start, or else of the box, with the values ``at``."""
    abstraction = minimal.abstraction
    low, high = abstraction.initial or (abstraction.grid.low, abstraction.grid.high)
    point: Floats = (np.array(low) + np.array(high)) / 2
    for name, value in (at or {}).items():
        point[_axis(minimal, name)] = value
    if abstraction.grid.cell(point.tolist()) < 0:
        raise ArgumentError(f"at must lie in the box {abstraction.grid!r}; got {dict(at or {})}")
    return point


def _title(minimal: UpperBudget, across: int, up: int, fixed: Floats) -> str:
    grid = minimal.abstraction.grid
    rest = [f"{grid.names[j]} {fixed[j]:.3g}" for j in range(grid.num_coordinates) if j not in (across, up)]
    return ", ".join(["upper budgets", *rest]) if len(rest) < 2 else "upper budgets at " + ", ".join(rest)


def _frame(minimal: UpperBudget, across: int, up: int, at: Mapping[str, float], run: Any) -> str:
    buffer = io.BytesIO()
    plot(minimal, across, up, at=at, trajectory=run).savefig(buffer, format="png", dpi=90)
    data = base64.b64encode(buffer.getvalue()).decode()
    where = ", ".join(f"{name} {value:.3g}" for name, value in at.items())
    return f'<img src="data:image/png;base64,{data}" alt="cells with an upper budget; {html.escape(where)}">'
