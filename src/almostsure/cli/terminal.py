"""What people see: one console, text without tricks, tables, bars and small maps.

Names come from models and files of others, so nothing of them is trusted: control characters, which could move the
cursor, retitle the window or write from right to left, are shown as escapes, and Rich's markup is switched off.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from almostsure.budget.answer import INFINITE
from almostsure.model.draw import NOBODY, cells
from almostsure.model.mdp import MDP

SHADES = (24, 60, 96, 132, 131, 130, 166, 202)  # blue to orange, which everybody can tell apart, of 256 colours
ROCK, TRAP, WATER, WAY, HURT = 240, 52, 25, 28, 160
PLAIN = -1  # no colour
HURTS = "~123456789"
TALLEST = 60  # rows of a map that are drawn
BAR = 30
NARROW = 60  # columns of a terminal, below which a table may not fit
WIDEST = 10_000
INDENT = 2

Look = Callable[[int, str], tuple[str, int]]  # state (NOBODY for none) and map character → symbol and colour


class _Console(Console):
    """A console whose broken pipe is an exception like any other."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


@cache
def console(*, stderr: bool = False) -> Console:
    """The console; without colours where there is no terminal, with NO_COLOR, and on a dumb terminal."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return _Console(
        stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False,
        color_system=None if plain else "auto", legacy_windows=False,
    )  # fmt: skip


def clean(text: object) -> str:
    """The text with every character that could steer a terminal shown as its escape."""
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(c if _harmless(c) else c.encode("unicode_escape").decode("ascii") for c in shown)


def _harmless(character: str) -> bool:
    """Neither control nor format characters, nor line separators, surrogates and the unassigned."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def clean_lines(text: object) -> str:
    """The same for text of several lines."""
    return "\n".join(map(clean, str(text).split("\n")))


# ---------------------------------------------------------------------- lines


_begun: list[bool] = []  # not empty once something was said


def say(text: str = "", *, style: str = "") -> None:
    """A line, or a paragraph that is wrapped at the terminal's width."""
    _begun.append(True)
    console().print(Text(clean_lines(text), style=style))


def heading(text: str) -> None:
    """A line that stands out, after an empty one if it is not the first."""
    if _begun:
        console().print()
    say(text, style="bold")


def next_step(*commands: str, note: str = "") -> None:
    """The end of every output: what to do next."""
    console().print()
    line = Text(clean(f"Next: {note}" if note else "Next:"), style="bold")
    for command in commands:
        line.append("\n  " if len(commands) > 1 or note else " ", style="not bold")
        line.append(clean(command), style="not bold cyan")
    console().print(line, soft_wrap=True)  # so that a command can be copied


def facts(rows: Sequence[tuple[str, object]]) -> None:
    """Pairs of a word and what is to be said about it, aligned."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(clean(name)), value if isinstance(value, Text) else Text(clean_lines(value)))
    console().print(grid)


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> None:
    """A table; the columns in ``right`` are numbers, and aligned as such.

    A narrow terminal that it does not fit gets a block a row: words broken across columns cannot be read.
    """
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, name in enumerate(head):
        result.add_column(Text(clean(name)), justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        result.add_row(*map(_cell, row))
    if console().width < NARROW and _widest(result) > console().width:
        _blocks(head, rows)
    else:
        console().print(result)


def _widest(result: Table) -> int:
    """The width of a table whose lines are not broken."""
    return Measurement.get(console(), console().options.update(width=WIDEST), result).maximum


def _blocks(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Each row as a title, its first cell, and what is to be said about it; empty cells are left out."""
    for at, (title, *others) in enumerate(rows):
        if at:
            console().print()
        if str(title):
            console().print(Text(clean(title), style="bold"))
        facts([(f"  {name}", _cell(cell)) for name, cell in zip(head[1:], others, strict=True) if str(cell)])


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(clean(value))


def bar(share: float) -> Text:
    """A bar of a share 0 … 1, shorter on a narrow terminal."""
    width = min(BAR, max(4, console().width - 30))
    filled = round(width * min(max(share, 0.0), 1.0))
    return Text("█" * filled, style="blue")


def number(value: float) -> str:
    """A number as a table shows it; ∞ for infinity and nothing for NaN."""
    if value != value:
        return "–"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.6g}"


def share(value: float) -> str:
    """A probability in per cent; what is not exactly 0 or 1 never reads as if it were."""
    if value in (0.0, 1.0):
        return f"{100 * value:.0f} %"
    if value != value:
        return "–"
    return "< 0.01 %" if value < 1e-4 else "> 99.99 %" if value > 0.9999 else f"{100 * value:.2f} %"


def needs(value: int) -> str:
    """A budget as people read it."""
    return "∞" if value == INFINITE else str(int(value))


# ---------------------------------------------------------------------- maps


def draw_maps(mdp: MDP, looks: Sequence[tuple[str, Look]], *, introduction: str = "") -> bool:
    """Draw the model's map once for each look, side by side where there is room; False if it has none, or no room."""
    if mdp.layout is None:
        return False
    try:
        rows = cells(mdp)
    except ValueError:  # several states in a cell
        return False
    width = _cell_width(rows, looks)
    if width is None or len(rows) > TALLEST:
        say(f"(The map has {len(rows)} rows and {len(rows[0])} columns: too many for this terminal.)", style="dim")
        return False
    if introduction:
        say(f"{introduction}\n")
    pictures = [(title, _picture(rows, look, width)) for title, look in looks]
    across = max(len(rows[0]) * width, *(len(title) for title, _ in pictures)) + 3
    beside = max(1, (console().width - INDENT + 3) // across)
    for first in range(0, len(pictures), beside):
        _print_beside(pictures[first : first + beside], across)
    return True


def _cell_width(rows: list[list[tuple[int, str]]], looks: Sequence[tuple[str, Look]]) -> int | None:
    """Room for every symbol and a space; without the space if need be; None if there is no room at all."""
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


def _print_beside(pictures: list[tuple[str, list[Text]]], across: int) -> None:
    if any(title for title, _ in pictures):
        titles = "".join(clean(title).ljust(across) for title, _ in pictures)
        console().print(Text(" " * INDENT + titles.rstrip(), style="bold"))
    for lines in zip(*(lines for _, lines in pictures), strict=True):
        whole = Text(" " * INDENT)
        for at, line in enumerate(lines):
            whole.append_text(line)
            if at + 1 < len(lines):
                whole.append(" " * (across - line.cell_len))
        console().print(whole, no_wrap=True, crop=True)
    console().print()


def terrain(state: int, symbol: str) -> tuple[str, int]:
    """A cell as the map has it."""
    if state == NOBODY:
        return symbol, ROCK
    return symbol, TRAP if symbol in "XH" else WATER if symbol in HURTS else PLAIN


def budgets_look(of_state: Any) -> Look:
    """Each cell with the budget that it needs, blue to orange."""

    def look(state: int, symbol: str) -> tuple[str, int]:
        if state == NOBODY:
            return symbol, ROCK
        needed = int(of_state[state])
        return needs(needed), TRAP if needed == INFINITE else SHADES[min(needed, len(SHADES) - 1)]

    return look


def route_look(visited: set[int]) -> Look:
    """The terrain with a route: a dot in each of its cells, a cross where it hurts."""

    def look(state: int, symbol: str) -> tuple[str, int]:
        if state not in visited or symbol in "SG":
            return terrain(state, symbol)
        return ("×", HURT) if symbol in HURTS else ("•", WAY)

    return look


def prepare_streams() -> None:
    """No character may stop the output, and no closed stream: what cannot be shown is escaped, or goes nowhere."""
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
