"""Storm runs in a child process: its crashes and limits only end the child."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from almostsure import (
    from_transitions,
)
from almostsure.errors import (
    ArgumentError,
    FileError,
    LimitReached,
    MissingExtra,
    ModelError,
    NotEnoughMemory,
)
from almostsure.model.storm.read import from_prism
from almostsure.model.storm.write import to_storm


def test_files_that_storm_cannot_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("broken.prism", "broken.jani", "broken.drn"):
        path = tmp_path / name
        path.write_text("nonsense")
        with pytest.raises(ModelError, match=rf"{name}: .*(?i:pars)"):
            from_prism(path, damage="x")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(FileError, match="there is no such file"):
        from_prism(tmp_path / "absent.prism", damage="x")
    with pytest.raises(FileError, match="it is a folder, not a file"):
        from_prism(tmp_path, damage="x")
    (tmp_path / "model.umb").write_text("")
    with pytest.raises(FileError, match=r"must end in one of .*load a UMB file with load\(\)"):
        from_prism(tmp_path / "model.umb", damage="x")


def test_without_stormpy_the_install_command_is_printed(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(MissingExtra, match=r"needs stormpy.*pip install 'almostsure\[storm\]'"):
        from_prism(program, damage="cliff")
    with pytest.raises(MissingExtra, match=r"needs stormpy"):
        to_storm(from_transitions([0], [0], [0], [1], [0], [0]))


def test_an_exception_in_the_child_is_reported(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from almostsure.model.storm import process

    broken = program.with_name("child.py")
    text = process.CHILD.read_text("utf-8").replace("kind = str(model.model_type)", "kind = {}['nothing']")
    broken.write_text(text, "utf-8")
    monkeypatch.setattr(process, "CHILD", broken)
    with pytest.raises(ModelError, match=r"Storm's model could not be exported \(KeyError: 'nothing'\)\."):
        from_prism(program, damage="cliff", constants="N=3")


def test_a_division_by_zero_only_ends_the_child(tmp_path: Path) -> None:
    path = tmp_path / "zero.prism"
    path.write_text("mdp\nconst int N = 1/0;\nmodule m\n x : [0..mod(3,0)] init 0;\n [] true -> (x'=0);\nendmodule\n")
    with pytest.raises(ModelError, match=r"zero.prism: Storm"):
        from_prism(path, damage="x=0")


def test_time_and_memory_limits(endless: Path) -> None:
    with pytest.raises(LimitReached, match=r"Storm has not built the model within 1.5 s. Pass a larger time_limit="):
        from_prism(endless, damage="x0=9", time_limit=1.5)
    with pytest.raises(NotEnoughMemory, match=r"Storm ran out of memory \(the limit was 256 MiB\)\. Pass a larger"):
        from_prism(endless, damage="x0=9", memory_limit=256 * 2**20)
    with pytest.raises(ArgumentError, match="time_limit must be a positive number of seconds; got 0"):
        from_prism(endless, damage="x0=9", time_limit=0)
    with pytest.raises(ArgumentError, match="memory_limit must be at least 268,435,456 bytes"):
        from_prism(endless, damage="x0=9", memory_limit=1000)


def test_an_interrupt_ends_the_child(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt is raised while the parent waits for Storm."""
    started = []
    real = subprocess.Popen.communicate

    def interrupted(process: Any, *args: Any, **kwargs: Any) -> Any:
        started.append(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            real(process, args[0], timeout=0.2)
        raise KeyboardInterrupt("while waiting")

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt, match="while waiting"):
        from_prism(endless, damage="x0=9")
    assert started[0].returncode == -signal.SIGKILL
