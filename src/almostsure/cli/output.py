"""What a command prints: text, tables and bars for people, or one JSON object for programs.

Names come from models and files of others, so they are not trusted: control characters, which could move the cursor,
retitle the window or write from right to left, are shown as escapes, and Rich's markup is switched off.  In JSON,
infinity is the string ``"inf"`` or ``"-inf"``, what has no value is ``null``, and text is escaped to ASCII.
``docs/json.md`` is the schema of the objects, and a test compares them.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from almostsure.budget.minimal import INFINITE
from almostsure.exports import package_version
from almostsure.model.mdp import MDP
from almostsure.model.naming import shown

BAR = 30  # columns of a bar
NARROW = 60  # columns of a terminal, below which the lines of a table are not wrapped
PADDING = 2  # columns between those of a table
WIDEST = 10_000
MOST = 10_000  # entries of a list that has one for each state; larger ones are in the file that -o writes


def budget_column(mdp: MDP) -> tuple[str, Callable[[int], str]]:
    """The heading of a column of budgets, and how one is shown there: in the file's unit too, if that is another."""
    origin = mdp.origin
    if origin.scale == 1:
        return "Δ", str
    return "Δ (in the file's unit)", lambda budget: f"{budget} ({origin.in_its_unit(budget)})"


class _Console(Console):
    """A console whose broken pipe is an exception like any other."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


@cache
def console(*, stderr: bool = False) -> Console:
    """The console, without colours where there is no terminal, with NO_COLOR, and on a dumb terminal."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return _Console(
        stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False,
        color_system=None if plain else "auto", legacy_windows=False,
    )  # fmt: skip


def clean(text: object) -> str:
    """The text with every character that could steer a terminal shown as its escape."""
    return shown(str(text))


def clean_lines(text: object) -> str:
    """The same for text of several lines."""
    return "\n".join(map(clean, str(text).split("\n")))


# ---------------------------------------------------------------------- lines


_begun: list[bool] = []  # not empty once something was said


def say(text: str = "", *, style: str = "") -> None:
    """A line, or a paragraph that is wrapped at the terminal's width."""
    _begun.append(True)
    _print(Text(clean_lines(text), style=style))


def _print(what: Table | Text) -> None:
    """Print something; where there is no terminal, without the blanks at the ends of lines that Rich leaves."""
    if console().is_terminal:
        console().print(what)
        return
    with console().capture() as captured:
        console().print(what)
    for line in captured.get().removesuffix("\n").split("\n"):
        console().print(Text(line.rstrip(" ")), soft_wrap=True)


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
    """Pairs of a word and what is to be said about it, aligned; without those of which nothing is to be said, None."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(Text(clean(name)), value if isinstance(value, Text) else Text(clean_lines(value)))
    if grid.rows:
        _print(grid)


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> None:
    """A table; the columns in ``right`` are numbers, and aligned as such.

    Where it does not fit, its lines are wrapped; on a narrow terminal, and where words would have to be broken, each
    row becomes a block.
    """
    cells = [list(map(_cell, row)) for row in (head, *rows)]
    widths = _widths(cells, console().width - PADDING * (len(head) - 1))
    if widths is None:
        _blocks(head, rows)
        return
    result = Table(box=None, pad_edge=False, padding=(0, PADDING, 0, 0), header_style="bold")
    for at, (name, width) in enumerate(zip(cells[0], widths, strict=True)):
        result.add_column(name, justify="right" if at in right else "left", width=width)
    for row in cells[1:]:
        result.add_row(*row)
    _print(result)


def _widths(rows: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """How wide the columns are, without a broken word; None where each row had better be a block."""
    sizes = [Measurement.get(console(), console().options.update(width=WIDEST), cell) for row in rows for cell in row]
    columns = [sizes[at :: len(rows[0])] for at in range(len(rows[0]))]
    widths = [max(cell.minimum for cell in column) for column in columns]
    wanted = [max(cell.maximum for cell in column) - width for column, width in zip(columns, widths, strict=True)]
    spare = room - sum(widths)
    if spare < 0 or (spare < sum(wanted) and console().width < NARROW):
        return None
    for rank, at in enumerate(sorted(range(len(widths)), key=wanted.__getitem__)):  # who wants little gets it
        more = min(wanted[at], spare // (len(widths) - rank))
        widths[at] += more
        spare -= more
    return widths


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


def prepare_streams() -> None:
    """No character may stop the output, and no closed stream: what cannot be shown is escaped, or goes nowhere."""
    if os.environ.get("COLUMNS") == "0":  # how some shells say that they do not know
        del os.environ["COLUMNS"]
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


# ---------------------------------------------------------------------- JSON


def emit(command: str, model: dict[str, Any] | None, **results: Any) -> None:
    """Print the one object of a command."""
    content = {"command": command, "version": package_version(), "model": model, **results}
    sys.stdout.write(json.dumps(plain(content), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def described(name: str, mdp: MDP) -> dict[str, Any]:
    """The model as every object has it."""
    sizes = {"states": mdp.num_states, "choices": mdp.num_choices, "outcomes": mdp.num_outcomes}
    return {"name": name, "fingerprint": mdp.fingerprint, **sizes, "learned": mdp.origin.learned or None}


def need(value: int) -> int | str:
    """A minimal budget; ``"inf"`` where no finite one suffices."""
    return "inf" if value == INFINITE else int(value)


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value if value is None or isinstance(value, bool | int | float) else str(value)
