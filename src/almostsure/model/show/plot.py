"""``plot_map``: maps drawn by Matplotlib, with a text such as a minimal budget or an action in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from almostsure.errors import ModelError
from almostsure.model.show.draw import NO_STATE, cells
from almostsure.plots import axes_for

if TYPE_CHECKING:
    from almostsure.model.mdp import MDP
    from almostsure.plots import Axes

ROCK, FLOOR, TRAP = "#6b6f76", "#efe9dc", "#4a1530"
HAZARDS = {"~": "#f6c39a", "1": "#f6c39a", "2": "#ee9155", "3": "#d9601f", "H": "#d9601f"}
CELL = 0.42  # inches
LARGEST = 40  # rows and columns of a map with texts


def plot_map(mdp: MDP, ax: Axes | None, texts: Sequence[str] | None = None, title: str = "") -> Axes:
    """Draw the map of a model, hazards in orange, with a text in the cell of each state.

    Raises
    ------
    ModelError
        If the model has no map.
    """
    if mdp.layout is None:
        raise ModelError("the model must have a map to be drawn; it has none. almostsure report draws any model.")
    rows = cells(mdp)
    height, width = len(rows), len(rows[0])
    axes = axes_for(ax, min(12.0, 1 + CELL * width), min(12.0, 1 + CELL * height))
    picture = [[_colour(state, character) for state, character in row] for row in rows]
    pixels = [[list(bytes.fromhex(colour[1:])) for colour in row] for row in picture]
    axes.imshow(np.array(pixels, np.uint8), interpolation="nearest")
    if max(height, width) <= LARGEST:
        for y, row in enumerate(rows):
            for x, (state, character) in enumerate(row):
                text = character if texts is None or state == NO_STATE else texts[state]
                ink = "white" if picture[y][x] in (ROCK, TRAP) else "#1c1c1c"
                axes.text(x, y, text.strip(".#"), ha="center", va="center", fontsize=9, color=ink)
    axes.set_xticks(range(width), [f"c{x}" for x in range(width)], fontsize=7)
    axes.set_yticks(range(height), [f"r{y}" for y in range(height)], fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=10)
    return axes


def _colour(state: int, character: str) -> str:
    if state == NO_STATE:
        return ROCK
    if character == "X":
        return TRAP
    return HAZARDS.get(character, "#a63c06" if character in "456789" else FLOOR)
