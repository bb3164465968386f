"""Maps in the terminal: the terrain, the minimal budget of each cell, and the likeliest route of a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from almostsure.budget.certificate import show
from almostsure.budget.minimal import INFINITE
from almostsure.cli.output import clean, console, put, say
from almostsure.model.mdp import MDP, Ints
from almostsure.model.show.draw import NO_STATE, cells
from almostsure.policy.play import likeliest_run

if TYPE_CHECKING:
    from almostsure.policy.policy import Policy

SHADES = (24, 60, 96, 132, 131, 130, 166, 202)  # blue to orange of the 256 colours, safe for colour blindness
ROCK, TRAP, WATER, WAY, HURT = 240, 52, 25, 28, 160
PLAIN = -1  # no colour
HURTS = "~123456789"
TALLEST = 60  # rows of a map that are drawn
INDENT, GAP = 2, 3  # blanks before maps, and between them

Look = Callable[[int, str], tuple[str, int]]  # state (NO_STATE for none) and map character → symbol and colour


def draw_maps(mdp: MDP, looks: Sequence[tuple[str, Look]], *, introduction: str = "", labelled: bool = False) -> bool:
    """Draw the model's map once for each look, side by side if they fit; False if it cannot be drawn.

    With ``labelled``, a single map has row and column numbers, as in names such as r2c2.
    """
    try:
        rows = cells(mdp)
    except ValueError:  # no map, or several states in a cell
        return False
    width = _cell_width(rows, looks)
    if width is None or len(rows) > TALLEST:
        say(f"(The map has {len(rows)} rows and {len(rows[0])} columns: too many for this terminal.)", style="dim")
        return False
    if introduction:
        say(f"{introduction}\n")
    pictures = [(title, _picture(rows, look, width)) for title, look in looks]
    if labelled and (labels := _labelled(pictures[0][1], width)):
        pictures = [("", labels)]
    across = max(len(rows[0]) * width, *(len(title) for title, _ in pictures)) + GAP
    beside = max(1, (console().width - INDENT + GAP) // across)
    for first in range(0, len(pictures), beside):
        _print_beside(pictures[first : first + beside])
    return True


def _cell_width(rows: list[list[tuple[int, str]]], looks: Sequence[tuple[str, Look]]) -> int | None:
    """The width of a cell: that of the longest symbol, with a space if it fits; None if the map does not fit."""
    longest = max(len(look(*cell)[0]) for _, look in looks for row in rows for cell in row)
    for width in (max(longest + 1, 2), longest):
        if len(rows[0]) * width + INDENT <= console().width:
            return width
    return None


def _picture(rows: list[list[tuple[int, str]]], look: Look, width: int) -> list[Text]:
    lines = []
    for row in rows:
        line = Text()
        for state, character in row:
            symbol, colour = look(state, character)
            line.append(clean(symbol).rjust(width), style="" if colour == PLAIN else f"color(231) on color({colour})")
        lines.append(line)
    return lines


def _labelled(lines: list[Text], width: int) -> list[Text] | None:
    """The picture with row and column numbers; None if they do not fit."""
    columns = lines[0].cell_len // width
    room = len(f"r{len(lines) - 1}") + 1
    if room + columns * width + INDENT > console().width:
        return None
    digits = len(str(columns - 1)) if columns > 10 and width <= len(str(columns - 1)) else 1  # one line each, if close
    numbers = [str(column) if digits == 1 else str(column).rjust(digits) for column in range(columns)]
    heads = []
    for at in range(digits):
        shown = "".join((number if digits == 1 else number[at]).rjust(width) for number in numbers)
        heads.append(Text(("c" if at == digits - 1 else "").ljust(room) + shown, style="dim"))
    return [*heads, *(Text.assemble((f"r{row}".ljust(room), "dim"), line) for row, line in enumerate(lines))]


def _print_beside(pictures: list[tuple[str, list[Text]]]) -> None:
    grid = Table.grid(padding=(0, GAP, 0, 0))
    if any(title for title, _ in pictures):
        grid.add_row(*(Text(clean(title), style="bold") for title, _ in pictures))
    grid.add_row(*(Text("\n").join(lines) for _, lines in pictures))
    put(Padding(grid, (0, 0, 1, INDENT), expand=False))


def terrain(state: int, symbol: str) -> tuple[str, int]:
    """The look of the map itself."""
    if state == NO_STATE:
        return symbol, ROCK
    return symbol, TRAP if symbol in "XH" else WATER if symbol in HURTS else PLAIN


def budgets_look(of_state: Ints) -> Look:
    """The look with the minimal budget in each cell, blue to orange."""

    def look(state: int, symbol: str) -> tuple[str, int]:
        if state == NO_STATE:
            return symbol, ROCK
        needed = int(of_state[state])
        return show(needed), TRAP if needed == INFINITE else SHADES[min(needed, len(SHADES) - 1)]

    return look


def route_look(route: list[tuple[int, int, int]]) -> Look:
    """The look with a route on the terrain: a dot in each of its cells, a cross where it takes damage."""
    visited = {state for state, _, _ in route}

    def look(state: int, symbol: str) -> tuple[str, int]:
        if state not in visited or symbol in "SG":
            return terrain(state, symbol)
        return ("×", HURT) if symbol in HURTS else ("•", WAY)

    return look


def likely_route(policy: Policy, budget: int | None) -> list[tuple[int, int, int]]:
    """The likeliest run of a policy from its likeliest start: see :func:`almostsure.policy.play.likeliest_run`."""
    mdp = policy.mdp
    start = int(mdp.initial_states[np.argmax(mdp.initial_probabilities)])
    return likeliest_run(policy, start, policy.budget if budget is None else budget)
