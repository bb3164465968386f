"""Terminals of 60 columns: no command breaks a word, and only lines that are to be copied are wider."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from almostsure.cli.app import EXAMPLES

Here = Callable[..., Any]
COLUMNS = 60
WIDE = 400
DRAWN = re.compile(r"[█─│╭╮╰╯]+")  # bars and frames, whose length depends on the width

COMMANDS = (
    "models", "models quicksand", "models hazard-map", "budget hazard-map", "budget quicksand --horizon 5",
    "budget gym:FrozenLake-v1", "explain quicksand", "explain quicksand r2c2 east", "suggest corridor",
    "suggest quicksand", "frontier corridor --budget 3", "solve hazard-map --budget 1", "solve paper --limit 1",
    "solve hazard-map --budget 1 --risk 0.1", "simulate corridor --budget 3 --episodes 20 --show 0",
    "learn corridor --budget 2", "compare corridor --steps 200 --seeds 1 -l shielded -l lagrangian",
    "abstract Pendulum-v1 --cells 11,11", "convert paper m.umb", "export paper s.h --budget 5",
    "report paper -o r.html", "paper --model paper -o claims",
)  # fmt: skip
FAILING = ("solve quicksand --budget 1", "budget quicksnad", "solve paper --totle 3", "explain quicksand r2c22")


def words(text: str) -> list[str]:
    """The words of an output, without what is only drawn."""
    return DRAWN.sub(" ", text).split()


def narrow_and_wide(here: Here, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> tuple[str, str]:
    shown = []
    for columns in (COLUMNS, WIDE):
        monkeypatch.setenv("COLUMNS", str(columns))
        done = here(*arguments)
        shown.append(done.out + done.err)
    return shown[0], shown[1]


@pytest.mark.parametrize("command", [*COMMANDS, *FAILING])
def test_no_word_is_broken(command: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = narrow_and_wide(here, monkeypatch, command.split())
    assert set(words(narrow)) <= set(words(wide))
    assert [line for line in (narrow + wide).splitlines() if line.endswith(" ")] == []
    body = narrow.partition("\nNext:")[0]  # commands are not broken, so that they can be copied
    if command not in FAILING:  # errors are not wrapped either: they may name commands and files
        assert max(map(len, body.splitlines())) <= COLUMNS


@pytest.mark.parametrize("command", EXAMPLES)
def test_no_word_of_the_help_is_broken(command: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = narrow_and_wide(here, monkeypatch, [command, "--help"])
    assert set(words(narrow)) <= set(words(wide))


def test_a_certificate(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here("budget", "quicksand", "-o", "q.safetensors")
    narrow, wide = narrow_and_wide(here, monkeypatch, ["check", "quicksand", "q.safetensors"])
    assert set(words(narrow)) <= set(words(wide))
