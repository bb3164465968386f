"""Matplotlib figures and axes; Matplotlib is an extra, and only required here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from almostsure.errors import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure without a window, its size in inches; MissingExtra without Matplotlib."""
    require()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes to draw on: the given ones, or those of a new pyplot figure, which notebooks show."""
    return panels(1, width, height)[0] if ax is None else ax


def panels(number: int, width: float, height: float, **options: Any) -> list[Axes]:
    """Axes side by side in a new pyplot figure; MissingExtra without Matplotlib."""
    require()
    import matplotlib.pyplot as plt

    _, found = plt.subplots(1, number, figsize=(width, height), layout="constrained", squeeze=False, **options)
    return list(found[0])


def tidy(axes: Axes) -> None:
    """Draw a faint grid, and remove the frame at the top and on the right."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def require() -> None:
    """Raise MissingExtra unless Matplotlib is installed."""
    optional("matplotlib", "plot")
