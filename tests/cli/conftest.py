"""Running the command: in a process of its own, as users do, or in this one, where only the words matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

COLUMNS = "100"


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object that was printed; NaN and Infinity are no JSON."""

        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is no JSON")

        found = json.loads(self.out, parse_constant=refuse)
        assert isinstance(found, dict)
        return found


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    return {**kept, "COLUMNS": COLUMNS, "PYTHONUTF8": "1", **changes}


def almostsure(*arguments: str, cwd: Path | None = None, **changes: str) -> Done:
    """``almostsure …``, in a process of its own, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "almostsure", *arguments],
        capture_output=True, encoding="utf-8", cwd=cwd, env=environment(**changes), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(name="almostsure", scope="session")
def almostsure_fixture() -> Callable[..., Done]:
    """The command in a process of its own."""
    return almostsure


@pytest.fixture(name="environment", scope="session")
def environment_fixture() -> Callable[..., dict[str, str]]:
    """The environment of such a process."""
    return environment


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The same in this process, in an empty folder: for what needs no process of its own to be seen."""
    from almostsure.cli.app import run
    from almostsure.cli.output import console

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", COLUMNS)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: str) -> Done:
        console.cache_clear()
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call
