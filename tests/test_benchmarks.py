"""``make bench``: which benchmarks are run, which results are stored, and the page that is written from them."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import benchmarks_page
import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_the_page_is_written_from_the_results() -> None:
    for file, made in (
        (benchmarks_page.PAGE, benchmarks_page.page()),
        (benchmarks_page.APPENDIX, benchmarks_page.appendix()),
    ):
        assert file.read_text("utf-8") == made, "run: python scripts/benchmarks_page.py"


def test_the_table_of_deep_agents_has_the_stored_results() -> None:
    page = (BENCHMARKS.parent / "docs" / "deep-agents.md").read_text("utf-8").replace("−", "-")
    stored = (BENCHMARKS / "results" / "deep.txt").read_text("utf-8")
    assert numbers(stored)
    assert numbers(page[page.index("| learner | training episodes") :]) == numbers(stored)


def numbers(text: str) -> dict[str, list[float]]:
    """The numbers in each row of a table of learners, by learner."""
    rows = re.findall(r"^\| ([^|]*PPO[^|]*) \| (.*)", text, re.MULTILINE)
    return {name: [float(x.replace(",", "")) for x in re.findall(r"-?\d[\d,.]*(?:e-\d+)?", row)] for name, row in rows}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the outputs, with the results of an earlier run."""
    for name in ("RESULTS", "PAGE", "APPENDIX"):
        monkeypatch.setattr(benchmarks_page, name, tmp_path / name.lower())
    benchmarks_page.RESULTS.mkdir()
    (benchmarks_page.RESULTS / "models.txt").write_text("as it was\n", "utf-8")
    return tmp_path


def test_a_benchmark_without_its_models_is_skipped_with_a_note(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("resource", reason="the benchmark measures memory, which Windows does not tell")
    monkeypatch.setattr(sys, "argv", ["benchmarks_page.py", "--run", "models"])
    benchmarks_page.main()
    said = capfd.readouterr()
    assert "make bench NAMES=models ARGS='--models DIR'" in said.err
    assert said.out.splitlines()[-1].startswith("skipped, ")
    assert said.out.splitlines()[-1].endswith(": models")
    assert (elsewhere / "results" / "models.txt").read_text("utf-8") == "as it was\n"


@pytest.mark.usefixtures("elsewhere")
def test_a_benchmark_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks_page.py", "--run", "models", "--", "--colour", "red"])
    with pytest.raises(SystemExit, match=r"^failed, and the results are not stored: models$"):
        benchmarks_page.main()


def test_arrays_may_be_added_to_a_file_again(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="the benchmark measures memory, which Windows does not tell")
    keep, file = runpy.run_path(str(BENCHMARKS / "bench_policy.py"))["keep"], str(tmp_path / "model.npz")
    np.savez(file, reward=np.arange(3))
    for value in (1, 2):
        keep(file, of_choice=np.full(2, value))
    with np.load(file) as found:
        assert {name: found[name].tolist() for name in found} == {"reward": [0, 1, 2], "of_choice": [2, 2]}
