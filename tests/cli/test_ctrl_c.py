"""Ctrl-C, raised at named points and never by the clock: the exit code, the message, and no file half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import almostsure as asure
from almostsure.cli import app, exits

Here = Callable[..., Any]
WORDS = "error: interrupted; nothing was written.\n"

# The command, with Ctrl-C when a module is about to be imported.
IMPORTING = """
import signal, sys
point = sys.argv.pop(1)
class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == point:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting)
from almostsure.cli import main
main()
"""
MODULES = (
    "almostsure.cli.app", "typer", "numpy", "numpy.linalg", "almostsure.cli.exits", "almostsure.cli.commands.learn",
    "almostsure.budget.plain",
)  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_while_importing(module: str, environment: Callable[..., dict[str, str]]) -> None:
    for options in ((), ("--json",)):
        done = subprocess.run(
            [sys.executable, "-c", IMPORTING, module, "budget", "paper", *options],
            capture_output=True, text=True, env=environment(), check=False,
        )  # fmt: skip
        assert done.returncode == 130, done.stderr
        if options:
            assert done.stderr == ""
            assert json.loads(done.stdout)["error"]["exit"] == 130
            assert json.loads(done.stdout)["command"] == "budget"
        else:
            assert (done.stdout, done.stderr) == ("", WORDS)


POINTS = [  # the command, and what it is about to do
    (("budget", "quicksand", "-o", "b.safetensors"), "almostsure.budget.solve.solve_plain"),
    (("budget", "quicksand", "-o", "b.safetensors"), "almostsure.budget.solve.check_minimal_budget"),
    (("budget", "quicksand", "-o", "b.safetensors"), "almostsure.files.os.fsync"),
    (("budget", "quicksand", "-o", "b.safetensors"), "almostsure.files.os.replace"),
    (("solve", "quicksand", "-b", "2", "-o", "p.safetensors"), "almostsure.plan.almost_sure.minimal_budget"),
    (("simulate", "paper", "-b", "2"), "almostsure.policy.simulation.simulate.play_plain"),
    (("learn", "quicksand", "--mu", "0.1", "-o", "l.umb"), "almostsure.learn.sampling.count.Counter.count"),
    (("compare", "corridor", "--steps", "10", "-o", "c.csv"), "almostsure.learn.learners.session.new_tables"),
    (("report", "paper", "-o", "r.html"), "almostsure.report.write.study"),
    (("convert", "paper", "m.umb"), "almostsure.model.umb.archive.Writer.finish"),
    (("check", "paper", "b.safetensors"), "almostsure.cli.commands.check.subprocess.run"),
    (("explain", "quicksand", "r2c2"), "almostsure.cli.commands.budget.minimal_budget"),
]


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["words", "json"])
@pytest.mark.parametrize(("arguments", "point"), POINTS)
def test_at_work(
    arguments: tuple[str, ...], point: str, options: tuple[str, ...], here: Here, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def press(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(point, press)
    done = here(*arguments, *options)
    assert done.code == 130, done
    assert "Traceback" not in done.err
    if options:
        assert done.json["error"]["exit"] == 130
    else:
        assert done.out == ""
        assert done.err.startswith("error: interrupted")
    assert os.listdir(tmp_path) == []


def test_ctrl_c_speaks_of_files_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    minimal, solution = asure.minimal_budget("quicksand", cap=3), asure.solve_policy("paper", asure.AlmostSure(2))
    for command, kept, said in (
        ("budget", minimal, "to get only these, pass --cap 3"),
        ("solve", solution, "interrupted; nothing was written.\n"),
        ("explain", minimal, "interrupted; nothing was written.\n"),
        ("learn", minimal, "interrupted; nothing was written.\n"),
        ("learn", None, "the error's .kept"),
    ):

        def stopped(kept: Any = kept) -> None:
            raise asure.errors.Interrupted("the error's .kept", kept=kept)

        assert exits.run_to_exit(stopped, [command]) == 130
        assert said in capsys.readouterr().err


def test_ctrl_c_while_the_command_line_is_read_is_answered_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app._Group, "parse_args", interrupted)
    assert app.run(["report", "paper"]) == 130
    assert capsys.readouterr().err == "error: interrupted; nothing was written.\n"
