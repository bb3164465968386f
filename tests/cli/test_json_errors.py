"""With ``--json``, standard output is one JSON object on every path, and standard error is empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import almostsure as asure
from almostsure.cli.app import EXAMPLES
from almostsure.errors import Interrupted, LimitReached, MissingExtra, NotEnoughMemory

Here = Callable[..., Any]

AFTER_MODEL = {"check": ("b.safetensors",), "convert": ("m.umb",), "export": ("s.h",)}  # arguments besides the model
NO_MODEL = ("demo", "models", "paper")  # commands that run without one
WITHOUT_MODEL = ("demo", "abstract")  # commands that read none at all
COMMANDS = tuple(EXAMPLES)
READING = tuple(command for command in COMMANDS if command not in WITHOUT_MODEL)


def line(command: str, model: str, *options: str) -> tuple[str, ...]:
    """The command on a model, with all the arguments that it must have."""
    if command == "paper":
        return ("paper", "--model", model, *options, "--json")
    return (command, model, *AFTER_MODEL.get(command, ()), *options, "--json")


def failed(done: Any, code: int) -> dict[str, Any]:
    """The error that a command ended with, as programs read it."""
    assert (done.code, done.err) == (code, "")
    content = done.json
    error: dict[str, Any] = content["error"]
    assert error["exit"] == code
    assert error["message"].strip()
    assert content["model"] is None
    return {**error, "command": content["command"]}


@pytest.fixture
def files(tmp_path: Path) -> None:
    """Files that are not what their names say."""
    (tmp_path / "corrupt.umb").write_bytes(b"\x00" * 2048)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "folder.umb").mkdir()


BAD_MODELS = (
    "nowhere.umb", "nowhere.prism", "corrupt.umb", "binary.txt", "empty.txt", "folder.umb", "quicksnad", "", "gym:",
    "gym:Nothing-v7", "gym:almostsure/Nothing-v0", "\udcff\x1b[31m\u202e<script>", "x" * 10_000,
)  # fmt: skip


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", READING)
def test_models_that_cannot_be_read(command: str, here: Here) -> None:
    for model in BAD_MODELS:
        assert failed(here(*line(command, model)), 3)["command"] == command, model


BAD_USAGE = (("--nonsense",), ("--seed", "much", "--cap", "much", "--budget", "much", "--relay=3"), ("--json=7",))


@pytest.mark.parametrize("command", COMMANDS)
def test_command_lines_that_are_wrong(command: str, here: Here) -> None:
    for options in BAD_USAGE:
        assert failed(here(command, "paper", *options, "--json"), 2)["command"] == command, options
    if command not in NO_MODEL:
        assert failed(here(command, "--json"), 2)["kind"] == "MissingParameter"


def test_no_command_and_an_unknown_one(here: Here) -> None:
    assert failed(here("--json"), 2)["command"] == "almostsure"
    assert "No such command" in failed(here("budgt", "paper", "--json"), 2)["message"]


FOR_ALL = (
    (LimitReached("1,000 sweeps were not enough. Raise the limit."), 4),
    (OSError(28, "No space left on device"), 3),
    (RuntimeError("\ud800 unexpected"), 70),
    (KeyboardInterrupt(), 130),
)
FOR_ONE = (
    (NotEnoughMemory("needs 80 GB"), 4),
    (MissingExtra("stormpy", "storm"), 4),
    (MemoryError(), 4),
    (RecursionError(), 70),
    (Interrupted("interrupted; nothing was written."), 130),
)


@pytest.mark.parametrize("command", READING)
def test_whatever_happens_while_a_model_is_read(command: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = "almostsure.cli.task.as_model"
    if command == "check":  # which reads the model in a process of its own
        reads = "almostsure.cli.commands.check.subprocess.run"
    for error, code in (*FOR_ALL, *(FOR_ONE if command == "budget" else ())):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(reads, fail)
        assert failed(here(*line(command, "paper")), code)["kind"] == type(error).__name__


def test_a_file_that_storm_refuses(almostsure: Here, tmp_path: Path) -> None:
    pytest.importorskip("stormpy")
    (tmp_path / "bad.prism").write_text("mdp\nmodule m\n[ x=3\nendmodule\n")
    done = almostsure("budget", "bad.prism", "--damage", "hit", "--json", cwd=tmp_path)  # Storm prints by itself, too
    assert "Parsing error" in failed(done, 3)["message"]


@pytest.fixture
def hopeless(tmp_path: Path) -> str:
    """A model with damage for ever, so that no finite budget suffices."""
    asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, 1], [1, 1]).save(tmp_path / "hopeless.umb")
    return "hopeless.umb"


NEGATIVE = {  # what a command says of a model in which no finite budget suffices: an error, or the answer
    "budget": None, "explain": None, "suggest": "Infeasible", "frontier": "Infeasible", "solve": "Infeasible",
    "simulate": "Infeasible", "learn": None, "compare": "Infeasible",
}  # fmt: skip


@pytest.mark.parametrize(("command", "kind"), NEGATIVE.items())
def test_models_without_a_feasible_budget(command: str, kind: str | None, here: Here, hopeless: str) -> None:
    done = here(*line(command, hopeless))
    if kind is None:
        assert done.err == ""
        assert done.json["minimal_budget"] == "inf"
        assert "error" not in done.json
    else:
        assert failed(done, 1)["kind"] == kind


def test_continuous_systems(here: Here) -> None:
    for arguments in (("Nothing-v7",), ("CartPole-v1", "--cells", "0"), ("Pendulum-v1", "--cells", "many")):
        done = here("abstract", *arguments, "--json")
        assert failed(done, done.code)["command"] == "abstract"
        assert done.code in (2, 3)
    wrong = failed(here("abstract", "Pendulum-v1", "--cells", "40", "--json"), 2)
    assert "--cells must have one number per coordinate (angle, angular velocity); got '40'" in wrong["message"]
