"""The output of commands: text, tables and bars for people, or one JSON object for programs.

Names come from models and files of others, so they are not trusted: control characters, which could move the cursor,
change the window's title or reverse text, are shown as escapes, and Rich's markup is disabled.  In JSON, infinity is
the string ``"inf"`` or ``"-inf"``, missing values are ``null``, and text is escaped to ASCII.  ``docs/json.md`` is the
schema of the objects, and a test compares them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from almostsure.budget.minimal import INFINITE
from almostsure.exports import package_version
from almostsure.model.mdp import MDP
from almostsure.model.naming import shown
from almostsure.wording import as_json

BAR = 30  # the width of a bar
NARROW = 60  # the width of a terminal below which table rows become blocks instead of being wrapped
PADDING = 2  # the distance between columns of a table
WIDEST = 10_000
LONGEST = 16  # the most rows of a table that may be cut
MOST = 10_000  # the longest list with one entry per state; for larger models, -o writes it to a file


def budget_column(mdp: MDP) -> tuple[str, Callable[[int], str]]:
    """The heading of a column of budgets, and a function that formats one: also in the file's unit, if it has one."""
    origin = mdp.origin
    if origin.scale == 1:
        return "Δ", str
    return "Δ (in the file's unit)", lambda budget: f"{budget} ({origin.in_its_unit(budget)})"


class _Console(Console):
    """A console that raises BrokenPipeError instead of exiting."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


@cache
def console(*, stderr: bool = False) -> Console:
    """The console, without colours if there is no terminal, if NO_COLOR is set, and on a dumb terminal."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return _Console(
        stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False,
        color_system=None if plain else "auto", legacy_windows=False,
    )  # fmt: skip


def clean(text: object) -> str:
    """The text with control characters shown as escapes."""
    return shown(str(text))


def clean_lines(text: object) -> str:
    """:func:`clean` for text of several lines."""
    return "\n".join(map(clean, str(text).split("\n")))


# ---------------------------------------------------------------------- lines


_begun: list[bool] = []  # not empty once something has been printed


def say(text: str = "", *, style: str = "") -> None:
    """Print a line, or a paragraph wrapped at the terminal's width."""
    _begun.append(True)
    put(Text(clean_lines(text), style=style))


def put(what: RenderableType) -> None:
    """Print something; if there is no terminal, without the trailing blanks that Rich leaves."""
    if console().is_terminal:
        console().print(what)
        return
    with console().capture() as captured:
        console().print(what)
    for line in captured.get().removesuffix("\n").split("\n"):
        console().print(Text(line.rstrip(" ")), soft_wrap=True)


def heading(text: str) -> None:
    """Print a bold line, after an empty one if it is not the first."""
    if _begun:
        console().print()
    say(text, style="bold")


def next_step(*commands: str, note: str = "") -> None:
    """Print the end of every output: the next commands."""
    console().print()
    line = Text(clean(f"Next: {note}" if note else "Next:"), style="bold")
    for command in commands:
        line.append("\n  " if len(commands) > 1 or note else " ", style="not bold")
        line.append(clean(command), style="not bold cyan")
    console().print(line, soft_wrap=True)  # so that a command can be copied


def facts(*rows: tuple[str, object]) -> None:
    """Print pairs of a name and a value, aligned, without those whose value is None."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(Text(clean(name)), value if isinstance(value, Text) else Text(clean_lines(value)))
    if grid.rows:
        put(grid)


def table(
    head: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = (), cut: bool = False
) -> None:
    """Print a table; the columns in ``right`` are aligned to the right.

    If it does not fit, its cells are wrapped; on a narrow terminal, or if words would have to be broken, each row
    becomes a block.  With ``cut``, only the first and last of many rows are shown, and a line says so.
    """
    if cut and len(rows) > LONGEST:
        table(head, [*rows[: LONGEST - 3], ("…", *[""] * (len(head) - 1)), *rows[-3:]], right=right)
        say(f"{LONGEST} of {len(rows):,} rows are shown; --json has all", style="dim")
        return
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
    put(result)


def _widths(rows: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """The widths of the columns, without breaking words; None if each row should be a block."""
    sizes = [Measurement.get(console(), console().options.update(width=WIDEST), cell) for row in rows for cell in row]
    columns = [sizes[at :: len(rows[0])] for at in range(len(rows[0]))]
    widths = [max(cell.minimum for cell in column) for column in columns]
    wanted = [max(cell.maximum for cell in column) - width for column, width in zip(columns, widths, strict=True)]
    spare = room - sum(widths)
    if spare < 0 or (spare < sum(wanted) and console().width < NARROW):
        return None
    for rank, at in enumerate(sorted(range(len(widths)), key=wanted.__getitem__)):  # columns that want least come first
        more = min(wanted[at], spare // (len(widths) - rank))
        widths[at] += more
        spare -= more
    return widths


def _blocks(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print each row as a block: its first cell as the title, and its other cells, except empty ones, as facts."""
    for at, (title, *others) in enumerate(rows):
        if at:
            console().print()
        if str(title):
            console().print(Text(clean(title), style="bold"))
        facts(*((f"  {name}", _cell(cell)) for name, cell in zip(head[1:], others, strict=True) if str(cell)))


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(clean(value))


def bar(share: float) -> Text:
    """A bar of a share 0 … 1, shorter on a narrow terminal."""
    width = min(BAR, max(4, console().width - 30))
    filled = round(width * min(max(share, 0.0), 1.0))
    return Text("█" * filled, style="blue")


def prepare_streams() -> None:
    """Make output never fail: characters that a stream cannot show are escaped, and closed streams are replaced."""
    if os.environ.get("COLUMNS") == "0":  # some shells set this if the width is unknown
        del os.environ["COLUMNS"]
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


# ---------------------------------------------------------------------- JSON


def emit(command: str, model: dict[str, Any] | None, **results: Any) -> None:
    """Print the JSON object of a command."""
    content = {"command": command, "version": package_version(), "model": model, **results}
    sys.stdout.write(json.dumps(as_json(content), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def described(name: str, mdp: MDP) -> dict[str, Any]:
    """The entry about the model, the same in every JSON object."""
    sizes = {"states": mdp.num_states, "choices": mdp.num_choices, "outcomes": mdp.num_outcomes}
    return {"name": name, "fingerprint": mdp.fingerprint, **sizes, "learned": mdp.origin.learned or None}


def need(value: int) -> int | str:
    """A minimal budget; ``"inf"`` if no finite one suffices."""
    return "inf" if value == INFINITE else int(value)
