"""Matplotlib, which is an extra, is asked for in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from almostsure.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window; MissingExtra without Matplotlib."""
    require()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def require() -> None:
    """Raise MissingExtra unless Matplotlib is installed."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
