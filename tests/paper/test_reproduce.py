"""``reproduce``: its files, that they are reproducible, interruptions and errors."""

from __future__ import annotations

import csv
import json
import sys
from base64 import b64encode

import pytest

from almostsure import paper
from almostsure.errors import ArgumentError, FileError, Interrupted, MissingExtra
from almostsure.paper import experiments, figures, reproduction
from almostsure.paper.claim import Claim, claim, find
from almostsure.paper.reproduction import Reproduction

FEW = tuple(find(paper.CLAIMS, key) for key in ("theorem_2", "theorem_3", "experiment_2_assured"))
FIGURES = ("damage-per-episode", "return-per-episode")


@pytest.fixture
def few(monkeypatch, fresh):
    monkeypatch.setattr(reproduction, "CLAIMS", FEW)


@pytest.mark.usefixtures("few")
def test_two_runs(tmp_path):
    """Two independent runs with the same seed; in one test, since they take a while."""
    runs = []
    for name in ("a", "b"):
        experiments.experiment.cache_clear()
        runs.append(paper.reproduce(tmp_path / name, seed=3, progress=name == "a"))
    same_files(*runs)
    check_tables(runs[0])
    check_figures(runs[0].folder)


def same_files(one, other):
    first, second = one.folder, other.folder
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(
        [f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png")]
        + ["claims.csv", "claims.json", "claims.txt", "report.html"]
    )
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert one.passed
    assert [path.name for path in one.figures] == [f"{n}.{k}" for n in FIGURES for k in ("pdf", "png")]
    assert one.report == first / "report.html"


def check_tables(found):
    data = json.loads((found.folder / "claims.json").read_text("utf-8"))
    assert data["seed"] == 3
    assert data["complete"]
    assert [row["name"] for row in data["claims"]] == ["Theorem 2", "Theorem 3", "Experiment II"]
    with open(found.folder / "claims.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == data["claims"]
    assert "mean 25/3" in (found.folder / "claims.txt").read_text("utf-8") == str(found)
    assert repr(found).startswith("<Reproduction: 3 claims, 2 holds, 1 loose, 0 fails; in ")


def check_figures(folder):
    html = (folder / "report.html").read_text("utf-8")
    for name in FIGURES:
        png = (folder / f"{name}.png").read_bytes()
        assert b64encode(png).decode() in html
        assert len(png) < 120_000
        assert figures.CAPTIONS[name][0] in html
        assert b"CreationDate" not in (folder / f"{name}.pdf").read_bytes()


@pytest.mark.usefixtures("few")
def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch):
    @claim("Stop", "here")
    def stop(trial):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "CLAIMS", (FEW[1], stop, FEW[0]))
    with pytest.raises(Interrupted, match="interrupted after 1 of 3 claims; they are in ") as caught:
        paper.reproduce(tmp_path)
    kept = caught.value.kept
    assert [claim.name for claim in kept.claims] == ["Theorem 3"]
    assert json.loads((tmp_path / "claims.json").read_text("utf-8"))["claims"][0]["name"] == "Theorem 3"
    assert kept.report is None
    assert not kept.passed
    assert "1 of 3 claims, interrupted: 1 hold" in (tmp_path / "claims.txt").read_text("utf-8")
    assert not json.loads((tmp_path / "claims.json").read_text("utf-8"))["complete"]


@pytest.mark.usefixtures("few")
def test_without_matplotlib_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[plot\]'"):
        paper.reproduce(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("few")
def test_invalid_folders_and_seeds(tmp_path):
    (tmp_path / "file").write_text("here already")
    with pytest.raises(FileError, match=r"cannot make the folder .*file"):
        paper.reproduce(tmp_path / "file")
    with pytest.raises(ArgumentError, match="seed must be"):
        paper.reproduce(tmp_path / "new", seed=-1)
    assert not (tmp_path / "new").exists()


def test_on_another_model_there_are_only_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "CLAIMS", (*FEW, find(paper.CLAIMS, "termination")))
    found = paper.reproduce(tmp_path, mdp="corridor", progress=False)
    assert [one.name for one in found.claims] == ["Theorem 2", "Theorem 3"]
    assert found.passed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claims.csv", "claims.json", "claims.txt"]
    with pytest.raises(ArgumentError, match="at most 1,000 states"):
        paper.reproduce(tmp_path, mdp="archipelago")


def test_a_failing_claim_shows(tmp_path):
    row = Claim(name="Lemma 9", title="t", statement="s", value="v", verdict="fails", comment="counterexample: 1")
    found = Reproduction(folder=tmp_path, seed=0, unchecked=0, claims=[row])
    found.write_tables()
    text, rows = ((tmp_path / f"claims.{kind}").read_text("utf-8") for kind in ("txt", "csv"))
    assert "Lemma 9 (t): fails" in text
    assert "1 FAIL: Lemma 9" in text
    assert rows.splitlines()[1] == "Lemma 9,t,s,v,fails,counterexample: 1"
    assert not row.passed
    assert not found.passed


def test_figures():
    from matplotlib.figure import Figure

    figure = figures.experiment_figure(paper.experiment(2))
    assert isinstance(figure, Figure)
    assert [axes.get_title() for axes in figure.axes] == ["$c = 1$", "$c = 3$", "$c = 5$", "$c = 10$"]
    assert figures.saved(figure, "png") == figures.saved(figure, "png")
