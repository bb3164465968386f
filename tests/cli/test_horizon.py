"""Horizons, risks and monitors on the command line."""

import json

import pytest

import almostsure as asure
from almostsure.cli.app import run


def answer(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_budgets_and_policies_for_a_number_of_steps(capsys, tmp_path):
    assert (
        answer(capsys, "budget", "quicksand", "--horizon", "5", "-o", str(tmp_path / "h.safetensors"))["horizon"] == 5
    )
    assert (tmp_path / "h.safetensors").exists()
    assert run(["budget", "quicksand", "--horizon", "5"]) == 0
    assert "5 steps" in capsys.readouterr().out
    solved = answer(capsys, "solve", "paper", "--budget", "2", "--horizon", "7")
    assert solved["value"] == pytest.approx(2)
    assert run(["simulate", "paper", "--budget", "2", "--horizon", "7", "-n", "50"]) == 0
    capsys.readouterr()


def test_monitors_by_name(capsys):
    assert answer(capsys, "budget", "paper", "--monitor", "steps=3")["minimal_budget"] == 0
    for wrong in ("steps=x", "tank=3", "second=wet"):
        assert run(["budget", "paper", "--monitor", wrong]) != 0
    assert "must read" in capsys.readouterr().err


def test_an_automaton_from_a_file(capsys, tmp_path):
    rows = [(0, 0, 1, 1, 0, 0), (0, 1, 2, 1, 0, 0), (1, 0, 2, 1, 0, 0), (2, 0, 3, 1, 1, 0)]
    site = asure.from_transitions(*zip(*rows, strict=True), terminal=[3], labels={"inspected": [1], "bridge": [2]})
    site.save(tmp_path / "site.umb")
    edges = [["new", "inspected", "fine"], ["new", "bridge", "trap"], ["fine", "bridge", "fine"]]
    rule = tmp_path / "rule.json"
    rule.write_text(json.dumps({"start": "new", "forbidden": ["trap"], "edges": edges}))
    use = ["budget", str(tmp_path / "site.umb"), "--monitor", f"automaton={rule}"]
    assert answer(capsys, *use)["minimal_budget"] == 0
    for text, message in (
        ("{", "is not JSON"),
        ("[]", "is not an automaton. One reads"),
        ('{"start": 0, "edges": [[1]]}', "is not an automaton. One reads"),
        ('{"start": "new", "edges": [["new", "brigde", "trap"]]}', "unknown label 'brigde'"),
    ):
        rule.write_text(text)
        assert run(use) == 3
        assert message in capsys.readouterr().err
    rule.unlink()
    assert run(use) == 3
    assert "cannot read the automaton" in capsys.readouterr().err


def test_exports_of_risk_and_horizon_shields(capsys, tmp_path):
    for options in (["--budget", "1", "--risk", "0.5"], ["--horizon", "4"]):
        for name in ("table.py", "table.h"):
            assert run(["export", "quicksand", str(tmp_path / name), *options]) == 0
    assert run(["export", "quicksand", str(tmp_path / "x.h"), "--risk", "0.5"]) != 0
    capsys.readouterr()
