"""Progress of long runs: a bar on a terminal, and a line per minute elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 2.0  # seconds before a bar is shown
PAUSE = 0.1  # seconds between two redraws
LINES = 60.0  # seconds between two lines without a terminal, which may go to a log


class Bar:
    """Shows the progress of a long run on standard error; without a terminal, one line per minute.

    Calls of ``update`` may be frequent.  Of nested bars, only the first that becomes due is shown.

    Parameters
    ----------
    title
        The name of the run.
    total
        The amount of work; None if unknown.
    notice
        A line to print when the bar appears, such as an estimate of memory.
    """

    shown: ClassVar[Bar | None] = None

    def __init__(self, title: str, total: int | None, *, notice: str = "") -> None:
        self.title = title
        self.total = total
        self.notice = notice
        self._is_drawn = sys.stderr is not None and sys.stderr.isatty()
        self._begun = time.monotonic()
        self._due = self._begun + (DELAY if self._is_drawn else LINES)
        self._late: tuple[int, str] | None = None  # the last update, if it is not shown yet
        self._progress: Progress | None = None

    def update(self, done: int, note: str = "") -> None:
        """Report that ``done`` of the total is done."""
        if sys.stderr is None or Bar.shown not in (None, self):
            return
        self._late = done, note
        if (now := time.monotonic()) < self._due:
            return
        Bar.shown = self
        self._due = now + (PAUSE if self._is_drawn else LINES)
        if self._is_drawn:
            self._show()
        else:
            self._print_line(done, note, round((now - self._begun) / 60))

    def _print_line(self, done: int, note: str, minutes: int) -> None:
        """One line, for logs and pipes."""
        share = f"{done:,}" if self.total is None else f"{done:,} of {self.total:,}"
        share = "" if self.total is None and note else share  # then the note says how much is done
        text = ", ".join(filter(None, (share, note, self.notice)))
        print(f"{self.title}: {text}; after {minutes:,} min", file=sys.stderr, flush=True)

    def _show(self) -> None:
        if self._progress is None:
            self._progress = self._opened()
        if self._late is not None:
            done, note = self._late
            self._progress.update(self._progress.task_ids[0], completed=done, note=note)
            self._late = None

    def _opened(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        if self.notice:
            console.print(self.notice, style="dim", highlight=False)
        share = () if self.total is None else (TextColumn("{task.percentage:>3.0f}%"),)
        columns = (TextColumn("{task.description}"), BarColumn(), *share)
        progress = Progress(*columns, TextColumn("{task.fields[note]}"), TimeElapsedColumn(), console=console)
        progress.add_task(self.title, total=self.total, note="")
        progress.start()
        return progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._show()
            self._progress.stop()
        if Bar.shown is self:
            Bar.shown = None
