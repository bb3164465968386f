"""The progress bar: silent where nobody looks, late where somebody does."""

from __future__ import annotations

import io

import pytest

from almostsure import progress
from almostsure.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """Called by each test itself: pytest replaces stderr once more between a test's fixtures and the test."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def test_silent_when_not_on_a_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with Bar("work", 10, notice="much memory") as bar:
        bar.update(5, "half")
    assert stream.getvalue() == ""


def test_no_stderr_at_all(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with Bar("work", 10) as bar:
        bar.update(5)


def test_silent_while_it_is_quick(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    with Bar("work", 10, notice="much memory") as bar:
        bar.update(5, "half")
    assert terminal.getvalue() == ""


def test_shown_after_the_delay(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Bar("work", 10, notice="much memory") as bar:
        bar.update(1, "level 1")
        assert terminal.getvalue() == ""
        now[0] += progress.DELAY + 0.1
        bar.update(5, "level 2")
        assert "much memory" in terminal.getvalue()
    assert "work" in terminal.getvalue()
    assert "50%" in terminal.getvalue()
    assert "level 2" in terminal.getvalue()


def test_closed_after_an_error(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.0)

    def work():
        with Bar("work", 10) as bar:
            bar.update(5)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is back


def test_long_runs_of_the_engine_show_their_levels_and_memory(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    from almostsure import minimal_budget
    from almostsure.testing.families import ladder

    monkeypatch.setattr(progress, "DELAY", 0.0)
    minimal_budget(ladder(100, width=100, connected=True), backend="compiled")
    shown = terminal.getvalue()
    assert "minimal budgets" in shown
    assert "states settled" in shown
    assert "of memory beside the model" in shown
