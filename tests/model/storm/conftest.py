"""Fixtures of the tests of Storm."""

from __future__ import annotations

from pathlib import Path

import pytest

from .programs import (
    PRISM,
    RACE,
)


@pytest.fixture(autouse=True)
def _needs_stormpy(request: pytest.FixtureRequest) -> None:
    if "without_stormpy" not in request.node.name:
        pytest.importorskip("stormpy")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "walk.prism"
    path.write_text(PRISM)
    return path


@pytest.fixture
def race(tmp_path: Path) -> Path:
    path = tmp_path / "race.prism"
    path.write_text(RACE)
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A program with too many states to build."""
    path = tmp_path / "endless.prism"
    variables = " ".join(f"x{i} : [0..9] init 0;" for i in range(12))
    commands = " ".join(f"[] x{i}<9 -> (x{i}'=x{i}+1);" for i in range(12))
    path.write_text(f"mdp module m {variables} {commands} endmodule")
    return path
