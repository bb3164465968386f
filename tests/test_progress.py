"""The progress bar: after a delay on a terminal, a line per minute elsewhere."""

from __future__ import annotations

import io

import pytest

from almostsure import progress
from almostsure.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """Tests call this themselves, since pytest replaces stderr again between fixtures and the test."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def test_a_line_per_minute_when_not_on_a_terminal(monkeypatch):
    stream, now = io.StringIO(), [100.0]
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Bar("work", 10_000, notice="much memory") as bar, Bar("more", None) as inner:
        now[0] += 59
        bar.update(4_999, "unseen")
        assert stream.getvalue() == ""
        now[0] += 1
        bar.update(5_000, "half")
        now[0] += 59
        bar.update(5_001, "unseen")
        inner.update(7)
        now[0] += 61
        bar.update(6_000)
    now[0] += 1
    with Bar("next", None) as bar:
        now[0] += 60
        bar.update(1_000)
        now[0] += 60
        bar.update(2_000, "2,000 states")
    assert stream.getvalue().splitlines() == [
        "work: 5,000 of 10,000, half, much memory; after 1 min",
        "work: 6,000 of 10,000, much memory; after 3 min",
        "next: 1,000; after 1 min",
        "next: 2,000 states; after 2 min",
    ]


def test_no_stderr_at_all(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with Bar("work", 10) as bar:
        bar.update(5)


def test_short_runs_show_nothing(monkeypatch):
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


def test_the_last_update_is_shown_and_only_the_first_of_nested_bars(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Bar("outer", 10) as outer:
        with Bar("quick", 10) as quick:
            quick.update(1)
        now[0] += progress.DELAY
        outer.update(1, "first")
        with Bar("inner", 10) as inner:
            now[0] += 2 * progress.DELAY
            inner.update(3, "unseen")
        outer.update(2, "second")
        outer.update(9, "third")  # too early, so it is delayed
        outer.update(10, "last")
    assert "100%" in terminal.getvalue()
    assert "last" in terminal.getvalue()
    assert not any(word in terminal.getvalue() for word in ("quick", "inner", "unseen", "third"))
    now[0] += 1
    with Bar("next", 10) as bar:
        now[0] += progress.DELAY
        bar.update(1)
    assert "next" in terminal.getvalue()


@pytest.mark.parametrize("long", ["explore", "write_report"])
def test_explorations_and_reports_show_progress(monkeypatch, tmp_path, long):
    import almostsure as asure
    from almostsure.report import write_report

    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    if long == "explore":
        asure.explore("CliffWalking-v1")
        assert "38 states, 148 outcomes" in terminal.getvalue()
    else:
        write_report("paper", tmp_path / "r.html", budget=1)
        assert "report" in terminal.getvalue()
        assert "100%" in terminal.getvalue()


def test_closed_after_an_error(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.0)

    def work():
        with Bar("work", 10) as bar:
            bar.update(5)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is shown again


def test_long_runs_of_the_engine_show_their_levels_and_memory(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    from almostsure import minimal_budget
    from almostsure.testing.families import ladder

    monkeypatch.setattr(progress, "DELAY", 0.0)
    minimal_budget(ladder(100, width=100, connected=True), backend="compiled")
    shown = terminal.getvalue()
    assert "minimal budgets" in shown
    assert "states settled" in shown
    assert "of memory in addition to the model" in shown
