"""Fault injection: the n-th write, rename, flush, allocation or draw fails, for every n, in every writer.

After each fault the old file still loads, no temporary file is left, and the result is right or an error.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import almostsure as asure
from almostsure import files
from almostsure.cli.options import save_picture
from almostsure.errors import FileError, ModelError
from almostsure.learn import FunctionSampler, count_outcomes
from almostsure.learn.comparison.compare import compare
from almostsure.learn.ledger import Episode, Ledger
from almostsure.paper.claim import HOLDS, Claim
from almostsure.paper.reproduction import Reproduction
from almostsure.report import write_report

from .kinds import KINDS, MODEL, Kind, ledgers


class Fault:
    """Makes the n-th of some calls fail."""

    def __init__(self, number: int, error: BaseException) -> None:
        self.number, self.error, self.calls = number, error, 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.number:
                raise self.error
            return function(*arguments, **options)

        return failing


class Halved:
    """A file whose n-th write writes half of its data, and fails."""

    def __init__(self, file: Any, fault: Fault) -> None:
        self.file, self.fault = file, fault

    def write(self, data: Any) -> int:
        self.fault.calls += 1
        if self.fault.calls == self.fault.number:
            self.file.write(bytes(data)[: len(data) // 2])
            raise self.fault.error
        return int(self.file.write(data))

    def __enter__(self) -> Halved:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def writes(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    def opened(name: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        file = open(name, mode, *rest, **options)  # noqa: SIM115
        return Halved(file, fault) if "x" in mode else file

    patch.setattr(files, "open", opened, raising=False)


def renames(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "replace", fault.wrap(os.replace))


def flushes(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "fsync", fault.wrap(os.fsync))


def allocations(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    fault.error = MemoryError("no memory for an array")
    for name in ("empty", "zeros", "ascontiguousarray", "packbits"):
        patch.setattr(np, name, fault.wrap(getattr(np, name)))


def storm_schedulers() -> Kind:
    policy = asure.solve_policy(MODEL, asure.AlmostSure(2)).policy
    return Kind(policy.save_scheduler, Path.read_bytes)


def drn_models() -> Kind:
    return Kind(lambda path: write_as(path, ".drn", MODEL.save), Path.read_bytes)


def c_headers() -> Kind:
    shield = asure.Shield(asure.minimal_budget(MODEL))
    return Kind(lambda path: write_as(path, ".h", shield.export_c), Path.read_bytes)


def pages() -> Kind:
    def write(path: Path) -> None:
        write_as(path, ".html", lambda name: write_report(MODEL, name, budget=2))

    return Kind(write, lambda path: path.read_bytes()[:100])  # the rest contains the running time


def comparisons() -> Kind:
    found = compare(MODEL, 2, ["shielded"], steps=50, seeds=[1])
    return Kind(found.to_csv, Path.read_bytes)


def deep_agents() -> Kind:
    pytest.importorskip("sb3_contrib")
    from almostsure.gym.deep import Settings, load_agent, train_maskable_ppo

    small = Settings(n_envs=2, n_steps=16, batch_size=16, net_arch=(2,))
    agent = train_maskable_ppo(MODEL, 2, total_timesteps=32, settings=small)
    return Kind(agent.save, lambda path: load_agent(path, MODEL).policy())


def paper_claims() -> Kind:
    """The tables of the paper's claims: the requested one is a link into their folder."""

    def write(path: Path) -> None:
        folder = path.parent / "claims"
        folder.mkdir(exist_ok=True)
        link = folder / "claims.csv"
        if not link.is_symlink():
            link.symlink_to(path)
        claim = Claim(name="Lemma 1", title="t", statement="s", value="1", verdict=HOLDS, comment="none")
        Reproduction(folder=folder, seed=1, unchecked=0, claims=[claim]).write_tables()

    return Kind(write, Path.read_bytes)


def pictures() -> Kind:
    figures = pytest.importorskip("matplotlib.figure")

    def write(path: Path) -> None:
        drawn = SimpleNamespace(plot=figures.Figure(figsize=(1, 1)).add_subplot)
        write_as(path, ".svg", lambda name: save_picture(drawn, name))

    return Kind(write, lambda path: path.read_bytes()[:40])


def write_as(path: Path, ending: str, write: Callable[[Path], object]) -> None:
    """Write to a link to the path whose name has the ending that the writer requires."""
    link = path.with_suffix(ending)
    if not link.is_symlink():
        link.symlink_to(path)
    write(link)


def beside(path: Path) -> list[str]:
    return sorted(str(name) for name in path.parent.rglob("*.tmp"))


WRITERS = [
    *(kind for kind in KINDS if kind is not ledgers),
    storm_schedulers,
    drn_models,
    c_headers,
    pages,
    comparisons,
    deep_agents,
    paper_claims,
    pictures,
]
EVENTS = (writes, renames, flushes, allocations)
CASES = [
    pytest.param(kind, event, id=f"{kind.__name__}-{event.__name__}")
    for kind in WRITERS
    for event in EVENTS
    if event is not allocations or kind not in (pages, pictures)  # these allocate hundreds of arrays before they write
]


@pytest.mark.parametrize(("kind", "event"), CASES)
def test_a_fault_leaves_the_old_file(kind: Callable[[], Kind], event: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    write, read = kind()
    write(path)
    wanted, before = read(path), path.read_bytes()
    for number in range(1, 1000):
        fault = Fault(number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.MonkeyPatch.context() as patch:
            event(fault, patch)
            failed = None
            try:
                write(path)
            except (FileError, MemoryError) as error:
                failed = error
        assert (failed is None) == (fault.calls < number), "a fault went unnoticed"
        assert not isinstance(failed, FileError) or "Any earlier file is unchanged" in str(failed)
        assert not beside(path)
        if fault.calls < number:
            assert read(path) == wanted
            return
        assert path.read_bytes() == before
    pytest.fail("a writer without end")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_full_disk_tears_one_line_of_a_ledger(share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger"
    write, read = ledgers()
    write(path)
    wanted, right = read(path), os.write
    note = Episode(2, 7, 1.0, 0, 2, 0, "terminated")
    ledger = Ledger().record(path)
    monkeypatch.setattr(os, "write", lambda file, data: right(file, data[: int(share * 100)]))
    with pytest.raises(FileError, match=r"cannot append to the ledger .*No space left"):
        ledger.note(note)
    assert read(path) == wanted
    monkeypatch.setattr(os, "write", right)
    ledger.note(note)
    assert read(path)[2] == wanted[2] + 7  # steps


def steps(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, int]:
    return int(rng.integers(2)), 0.0, int(action and rng.random() < 0.5)


def test_a_failing_draw_loses_no_stored_samples(tmp_path: Path) -> None:
    def sampler(fault: Fault) -> FunctionSampler:
        return FunctionSampler(fault.wrap(steps), 2, 2, max_damage=1, identity="steps")

    never = Fault(0, ValueError("never"))
    straight = count_outcomes(sampler(never), 20, seed=3).to_arrays()
    for number in range(1, 90, 7):
        path = tmp_path / f"checkpoint-{number}"
        fault = Fault(number, ConnectionError("the simulator is gone"))
        try:
            found = count_outcomes(sampler(fault), 20, seed=3, checkpoint=path, checkpoint_seconds=0)
        except ModelError as error:
            assert "the simulator is gone" in str(error)  # noqa: PT017
            found = count_outcomes(sampler(never), 20, seed=3, checkpoint=path)
        assert all(np.array_equal(array, straight[name]) for name, array in found.to_arrays().items())


@pytest.fixture
def leftovers(tmp_path: Path) -> list[Path]:
    found = [tmp_path / ".almostsure-0123456789abcdef.tmp", tmp_path / ".almostsure-fedcba9876543210.tmp"]
    for path in found:
        path.write_bytes(b"half")
        os.utime(path, (time.time() - 3600,) * 2)
    return found


def test_the_temporary_file_of_a_killed_writer_is_removed_by_the_next(tmp_path: Path, leftovers: list[Path]) -> None:
    killed, running = leftovers
    new = tmp_path / ".almostsure-0000000000000000.tmp"
    new.write_bytes(b"just begun")
    with running.open("rb") as file:
        assert files._lock(file)
        MODEL.save(tmp_path / "model.umb")
        assert not killed.exists()
        assert running.exists()
        assert new.exists()
    MODEL.save(tmp_path / "model.umb")
    assert not running.exists()
