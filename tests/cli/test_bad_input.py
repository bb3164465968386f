"""What can go wrong: names, files, signals, pipes, terminals and hostile models."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import almostsure as asure
from almostsure.cli import exits
from almostsure.cli.output import clean

Here = Callable[..., Any]

# ---------------------------------------------------------------------- words that are wrong


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("budgt", "paper"), 2, "No such command 'budgt'. Did you mean 'budget'?"),
        (("budget", "quicksnad"), 3, "unknown model 'quicksnad'. Did you mean 'quicksand'?"),
        (("budget",), 2, "Missing argument 'MODEL'"),
        (("solve", "paper", "--totle", "3"), 2, "No such option: --totle"),
        (("budget", "paper", "--budget", "3"), 2, "it finds the budget. To stop at one, use --cap."),
        (("solve", "paper", "--delta", "3"), 2, "there is no option --delta. The budget Δ is --budget."),
        (("solve", "FrozenLake-v1", "--budget", "1"), 3, "Did you mean 'gym:FrozenLake-v1'?"),
        (("solve", "paper", "--budget", "many"), 2, "Invalid value for '--budget'"),
        (("solve", "paper", "--budget", "-1"), 2, "budget must be a whole number, 0 or more; got -1"),
        (("solve", "paper", "--budget", "1", "--limit", "2"), 2, "--limit is a constraint of its own"),
        (("simulate", "paper", "--policy", "p", "--horizon", "2"), 2, "leave out --limit, --risk and --horizon"),
        (("solve", "paper", "--risk", "0.1"), 2, "--risk is the probability of more than --budget; give both"),
        (("solve", "paper", "--budget", "1", "--risk", "1.5"), 2, "risk must be a probability, 0 … 1; got 1.5"),
        (("simulate", "paper", "-n", "0"), 2, "episodes must be"),
        (("simulate", "paper", "-n", "1" * 30), 2, "episodes must be at most"),
        (("simulate", "paper", "-b", "1", "--max-steps", "1" * 30), 2, "max_steps must be at most"),
        (("solve", "paper", "--budget", "1" * 30), 2, "budget must be at most"),
        (("budget", "paper", "--cap", "1" * 30), 2, "cap must be an integer 0 …"),
        (("compare", "corridor", "--steps", "1" * 30), 2, "steps must be at most 9,007,199,254,740,992; got 1111"),
        (("compare", "corridor", "--seeds", "1" * 30), 2, "seeds must be at most 1,000,000; got 1111"),
        (("budget", "paper", "-o", "/"), 3, "cannot write '/': it is not a file"),
        (("budget", "paper", "-o", "."), 3, "cannot write '.': it is not a file"),
        (("solve", "paper", "-b", "1", "-o", ""), 3, "cannot write '.': it is not a file"),
        (("report", "paper", "-o", ""), 3, "cannot write '.': it is not a file"),
        (("convert", "paper", ""), 3, "cannot write '.': it is not a file"),
        (("budget", "paper", "-o", "x" * 300), 3, "the name is too long"),
        (("report", "paper", "-o", "x" * 300 + ".html"), 3, "the name is too long"),
        (("explain", "quicksand", "r2c22"), 3, "unknown state 'r2c22'. Did you mean 'r2c2'?"),
        (("explain", "quicksand", "r2c2", "nort"), 3, "unknown action 'nort'. Did you mean 'north'?"),
        (("explain", "quicksand", "999"), 3, "States are 0 … 85"),
        (("explain", "quicksand", "9" * 5000), 3, "unknown state '999"),
        (("compare", "corridor", "-l", "shielde"), 3, "Did you mean"),
        (
            ("compare", "corridor", "--plot", "x.doc", "--steps", "10", "--seeds", "1", "-l", "shielded"),
            2,
            "must end in",
        ),
        (("budget", "gym:FrozenLak-v1", "--damage", "terminated"), 3, "Did you mean 'FrozenLake-v1'?"),
        (("budget", "gym:Blackjack-v1"), 3, "must have a transition table"),
        (("budget", "gym:FrozenLake-v1", "--damage", "__import__('os')"), 3, "a damage rule must read like"),
        (("budget", "gym:FrozenLake-v1", "--constants", "colour=3"), 3, "cannot be made with"),
        (("budget", "gym:FrozenLake-v1", "--constants", "map_name=9x9"), 3, "cannot be made with {'map_name': '9x9'}"),
        (("budget", "hazard-map", "--constants", "slip=much"), 3, "cannot be made with {'slip': 'much'}"),
        (("budget", "paper", "--constants", "slip=1"), 3, "unknown parameter of example 'paper' 'slip'"),
        (("budget", "paper", "--constants", "slip"), 3, "constants must have the form 'N=3,p=0.5'"),
        (("budget", "paper", "--damage", "x"), 3, "--damage must be left out"),
        (("suggest", "paper", "--budget", "3"), 2, "suggest has no option --budget: it suggests one. The largest"),
        (("convert", "paper", "paper.txt"), 2, "must end in .umb"),
        (("report", "paper", "-o", "paper.pdf"), 2, "must end in .html"),
        (("learn", "paper", "--delta", "2"), 2, "delta must"),
        (
            ("learn", "gym:Blackjack-v1", "--damage", "reward<0"),
            3,
            "In Python: almostsure.explore('Blackjack-v1', damage='reward<0', mu=0.05, delta=0.05)",
        ),
        (
            ("learn", "gym:Blackjack-v1", "--mu", "0.02", "--constants", "sab=true"),
            3,
            "In Python: almostsure.explore(gymnasium.make('Blackjack-v1', sab=True), mu=0.02, delta=0.05)",
        ),
        (("solve", "paper", "--budget", "two"), 2, "must be a whole number."),
        (("solve", "paper", "--limit", "two"), 2, "must be a number."),
    ],
)
def test_what_is_wrong_is_said(here: Here, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = here(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err


def test_no_command_is_answered_by_help(here: Here) -> None:
    done = here()
    assert done.code == 2
    assert "Usage: almostsure" in done.out + done.err


def test_infeasible_names_what_would_do(here: Here) -> None:
    done = here("solve", "quicksand", "--budget", "1")
    assert done.code == 1
    assert done.err.endswith("Next: almostsure solve quicksand --budget 2\n")


@pytest.mark.parametrize("command", [("solve",), ("simulate",), ("compare", "--steps", "10", "--seeds", "1")])
def test_where_no_finite_budget_suffices(here: Here, tmp_path: Path, command: tuple[str, ...]) -> None:
    asure.from_transitions([0], [0], [0], [1], [1], [1]).save(tmp_path / "trap.umb")
    done = here(command[0], "trap.umb", *command[1:])
    assert (done.code, done.out) == (1, "")
    assert "no finite budget suffices from the start. See: almostsure explain trap.umb" in done.err


def test_errors_are_json_too(here: Here) -> None:
    for arguments, kind, code in (
        (("solve", "quicksand", "--budget", "1", "--json"), "Infeasible", 1),
        (("solve", "--json"), "MissingParameter", 2),
        (("budget", "nowhere.umb", "--json"), "FileError", 3),
    ):
        done = here(*arguments)
        assert (done.code, done.err) == (code, "")
        assert done.json["error"]["exit"] == code
        assert done.json["error"]["kind"] == kind
        assert done.json["model"] is None
        assert done.json["error"].get("needed") == (2 if kind == "Infeasible" else None)


def test_debug_shows_where(here: Here) -> None:
    done = here("budget", "nowhere.umb", "--debug")
    assert done.code == 3
    assert "Traceback" in done.err
    assert "FileError" in done.err


def test_a_mistake_of_ours_is_called_one(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("almostsure.cli.commands.budget.minimal_budget", lambda *_, **__: 1 // 0)
    done = here("budget", "paper")
    assert done.code == exits.INTERNAL
    assert "this is a bug in almostsure (ZeroDivisionError: integer division or modulo by zero)" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("command", "wrong", "right"),
    [
        ("solve", "--total", "--budget"),
        ("solve", "-t", "--budget"),
        ("report", "--total", "--budget"),
        ("solve", "--gamma", "--discount"),
        ("solve", "--cost-limit", "--budget"),
        ("solve", "--epsilon", "--risk"),
    ],
)
def test_words_from_elsewhere_are_answered_by_ours(here: Here, command: str, wrong: str, right: str) -> None:
    done = here(command, "paper", wrong, "3")
    assert done.code == 2
    assert f"there is no option {wrong}. " in done.err
    assert f"is {right}" in done.err
    assert done.out == ""


def test_a_missing_extra_names_its_install_command(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)  # as if it were not installed
    (tmp_path / "model.prism").write_text("mdp")
    done = here("budget", "model.prism", "--damage", "hit")
    assert done.code == 4
    assert "pip install 'almostsure[storm]'" in done.err


def test_every_error_has_a_code() -> None:
    def leaves(kind: type) -> list[type]:
        return [kind, *(leaf for child in kind.__subclasses__() for leaf in leaves(child))]

    codes = {
        kind: next(code for known, code in exits.CODES if issubclass(kind, known))
        for kind in leaves(asure.AlmostSureError)
    }
    assert codes[asure.errors.CertificateError] == 1
    assert set(codes.values()) <= {1, 2, 3, 4}


# ---------------------------------------------------------------------- files


def test_unreadable_files(here: Here, tmp_path: Path) -> None:
    (tmp_path / "corrupt.umb").write_bytes(b"\x00" * 2048)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.umb").mkdir()
    (tmp_path / "notes.odt").write_text("")
    (tmp_path / "log.csv").write_text("state,action\n")
    (tmp_path / "link.umb").symlink_to("gone.umb")
    for name, message in (
        ("absent.umb", "there is no such file"),
        ("absent.prism", "there is no such file"),
        ("corrupt.umb", "corrupt.umb"),
        ("binary.txt", "must be UTF-8 text"),
        ("folder.umb", "folder.umb"),
        ("notes.odt", "ends in one of .umb"),
        ("log.csv", "A log is for almostsure learn; a table of transitions is read in Python, with from_transitions"),
        ("link.umb", "it is a link to 'gone.umb', which does not exist"),
    ):
        done = here("budget", name)
        assert done.code == 3, done
        assert message in done.err


def test_a_misspelt_file_suggests_the_nearest(here: Here, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "harbour.umb").touch()
    (tmp_path / "harbour.txt").touch()
    assert "Did you mean 'models/harbour.umb'?" in here("budget", "models/harbor.umb").err
    assert "Did you mean 'harbour.txt'?" in here("budget", "harbor.txt").err
    assert "Did you mean" not in here("budget", "nothing/like/it.umb").err
    (tmp_path / "plant.prism").touch()
    assert "no such file. Did you mean 'plant.prism'?" in here("budget", "plant.prsm").err
    assert "unknown model 'nothing.xyz'. Name an example" in here("budget", "nothing.xyz").err
    assert "unknown model 'plant'" in here("budget", "plant").err


def test_unwritable_outputs_are_refused_before_the_work(here: Here, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for command, *options in (
        ("budget", "quicksand", "-o"), ("solve", "quicksand", "-o"), ("compare", "corridor", "-o"), ("demo", "-o"),
    ):  # fmt: skip
        for target in ("nowhere/file.safetensors", "folder"):
            done = here(command, *options, target)
            assert done.code == 3
            assert f"cannot write '{target}'" in done.err
    for command, target in (("report", "nowhere/r.html"), ("convert", "nowhere/m.umb")):
        done = here(command, "paper", *(["-o"] if command == "report" else []), target)
        assert done.code == 3
        assert f"cannot write '{target}'" in done.err
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert here("budget", "paper", "-o", "pipe.safetensors").code == 3


def test_a_result_does_not_take_the_place_of_its_model(here: Here, tmp_path: Path) -> None:
    asure.example("paper").save(tmp_path / "model.umb")
    before = (tmp_path / "model.umb").read_bytes()
    for command in ("budget", "solve"):
        done = here(command, "model.umb", "-o", "model.umb")
        assert (done.code, done.out) == (2, "")
        assert "must end in .safetensors" in done.err
    assert (tmp_path / "model.umb").read_bytes() == before
    assert "must end in .html or .htm; got 'map.txt'" in here("demo", "-o", "map.txt").err


def test_the_next_command_can_be_pasted(here: Here) -> None:
    done = here("budget", "paper", "-o", "my budget; ls.safetensors")
    assert done.out.endswith("almostsure check paper 'my budget; ls.safetensors'\n")


def test_a_log_cannot_be_asked(here: Here, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("")
    done = here("learn", "log.csv", "--mu", "0.1", "--budget", "2", "--damage", "hit", "--checkpoint", "x")
    assert done.code == 2
    assert "--budget, --checkpoint, --damage are for models that are sampled, and not for logs" in done.err


# ---------------------------------------------------------------------- pipes


@pytest.mark.parametrize("arguments", [("models", "paper"), ("models", "paper", "--json"), ("--help",), ("--version",)])
def test_a_reader_that_went_away(arguments: tuple[str, ...], environment: Callable[..., dict[str, str]]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "almostsure", *arguments], stdout=writing, stderr=subprocess.PIPE,
            env=environment(),
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["models paper", "models paper --json", "--help"])
def test_a_full_disk(arguments: str, environment: Callable[..., dict[str, str]]) -> None:
    program = f"exec {shlex.quote(sys.executable)} -m almostsure {arguments} >/dev/full"
    done = subprocess.run(["sh", "-c", program], env=environment(), capture_output=True)
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_no_standard_output_at_all(environment: Callable[..., dict[str, str]]) -> None:
    program = f"exec {shlex.quote(sys.executable)} -m almostsure models paper >&- 2>&-"
    assert subprocess.run(["sh", "-c", program], env=environment()).returncode == 0


def test_a_terminal_that_knows_ascii_only(almostsure: Here) -> None:
    done = almostsure("explain", "quicksand", "r7c3", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert "needs \\u221e" in done.out


# ---------------------------------------------------------------------- terminals


def on_a_terminal(*arguments: str, cwd: Path, environment: dict[str, str]) -> str:
    """What a command shows on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "almostsure", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env=environment,
    ) as running:  # fmt: skip
        os.close(theirs)
        shown = bytearray()
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        assert running.wait(30) == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


COLOUR = re.compile(r"\x1b\[[\d;]*m")


def test_colours_on_a_terminal_and_none_if_unwanted(tmp_path: Path, environment: Callable[..., dict[str, str]]) -> None:
    coloured = on_a_terminal("budget", "corridor", cwd=tmp_path, environment=environment(TERM="xterm-256color"))
    assert "\x1b[38;5;231;48;5;24m 0" in coloured
    assert "\x1b" not in COLOUR.sub("", coloured)
    plain = on_a_terminal(
        "budget", "corridor", cwd=tmp_path, environment=environment(TERM="xterm-256color", NO_COLOR="1")
    )
    assert "\x1b" not in plain
    assert COLOUR.sub("", coloured) == plain


def test_a_narrow_terminal(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (
        ("models",),
        ("budget", "hazard-map"),
        ("explain", "quicksand"),
        ("solve", "hazard-map", "-b", "1"),
        ("simulate", "hazard-map", "-b", "1", "-n", "9", "--show", "0"),
    ):
        monkeypatch.setenv("COLUMNS", "40")
        done = here(*command)
        assert done.code == 0
        body = done.out.partition("\nNext:")[0]  # commands are not broken, so that they can be copied
        assert max(map(len, body.splitlines())) <= 40


def test_a_terminal_that_does_not_know_its_width(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (("budget", "corridor"), ("--help",)):
        monkeypatch.setenv("COLUMNS", "0")
        assert max(map(len, here(*command).out.splitlines())) > 40


def test_a_narrow_terminal_breaks_no_words(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "archipelago\n  states         1,600" in here("models").out
    assert "1.\n  at              r2c2" in here("explain", "quicksand").out
    assert "Δ  safe states" in here("budget", "hazard-map").out  # which fits


def test_a_map_that_does_not_fit_is_not_drawn(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert "too many for this terminal" in " ".join(here("budget", "archipelago").out.split())


# ---------------------------------------------------------------------- hostile models

ESCAPES = ("red\nforged\x1b[2J\x1b[31m", "[bold]loud[/bold] [link=https://example.org]here[/link]",
           "bell\x07\r\nnew line", "\u202etxt.exe", "\x9b31m", "<script>alert(1)</script>")  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    count = len(ESCAPES)
    mdp = asure.from_transitions(
        range(count), [0] * count, range(1, count + 1), [1] * count, [1] * count, [1] * count,
        terminal=[count], state_names=[*ESCAPES, "end"], action_names=["\nforged\x1b]0;title\x07[red]go[/red]"],
    )  # fmt: skip
    mdp.save(tmp_path / "hostile.umb")
    return tmp_path / "hostile.umb"


@pytest.mark.parametrize(
    "arguments",
    [("models",), ("budget",), ("explain",), ("solve",), ("simulate", "-n", "5", "--show", "0"), ("solve", "-b", "1")],
)
def test_names_cannot_steer_a_terminal(here: Here, hostile: Path, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    done = here(command, str(hostile), *options)
    assert done.code in (0, 1)
    shown = done.out + done.err
    assert not set(shown) & {"\x1b", "\x07", "\r", "\u202e", "\x9b"}
    assert not re.search("^forged", shown, re.MULTILINE)  # no name begins a line of its own
    if command in ("explain", "simulate"):
        flat = re.sub(r"\s+", "", shown)
        assert "\\x1b" in shown
        assert "[bold]" in flat  # as it is written, not bold
        assert "[/bold]" in flat or "[/bold" in flat


def test_names_cannot_steer_a_real_terminal(hostile: Path, environment: Callable[..., dict[str, str]]) -> None:
    shown = on_a_terminal(
        "explain", str(hostile), cwd=hostile.parent, environment=environment(TERM="xterm-256color")
    )  # fmt: skip
    assert not set(COLOUR.sub("", shown)) & {"\x1b", "\x07", "\r", "\u202e", "\x9b"}
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown


def test_hostile_names_are_data_in_json(here: Here, hostile: Path) -> None:
    done = here("explain", str(hostile), "--json")
    assert done.out.isascii()
    assert "\x1b" not in done.out
    assert json.loads(done.out)["state"] == ESCAPES[0]


def test_hostile_words_on_the_command_line(here: Here) -> None:
    done = here("budget", "\x1b[31m[bold]x")
    assert done.code == 3
    assert "\x1b" not in done.err
    assert "[bold]x" in done.err
    assert "\x1b" not in here("\x1b[31m").err


def test_cleaning() -> None:
    assert clean("näïve ∞ 漢字 [red]") == "näïve ∞ 漢字 [red]"
    assert clean("a\x1b\x9b\u202e\u2028\x7f\ud800b") == "a\\x1b\\x9b\\u202e\\u2028\\x7f\\ud800b"
