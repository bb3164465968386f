"""``make demo`` in a pipe, on a terminal, and without waiting for a compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from almostsure import demo


def test_piped_output_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    demo.main()
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert " S " in shown
    assert " ∞ " in shown
    assert "2 is the smallest budget" in shown
    assert " S • • • • • • • • • • G" in shown  # with 6 units, straight on
    assert "0    20.16" in shown


def test_a_terminal_gets_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    demo.main()
    assert "\x1b[97;48;5;28m" in capsys.readouterr().out


def test_no_color_is_respected(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    demo.main()
    assert "\x1b" not in capsys.readouterr().out


def test_the_first_picture_waits_for_no_compiler() -> None:
    program = "import sys; from almostsure import demo; demo.main(); sys.exit('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", program], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
