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
    assert run(["solve", "hazard-map", "--budget", "3", "--horizon", "10"]) == 0
    shown = " ".join(capsys.readouterr().out.split())  # however wide the terminal is
    assert "hazard-map: never more than 3 damage, within 10 steps " in shown
    assert "deterministic, of the state, the remaining budget and the steps left" in shown
    assert run(["budget", "quicksand", "--horizon", "3"]) == 0
    shown = capsys.readouterr().out
    assert "\\n" not in shown
    assert "Next: almostsure solve quicksand --horizon 3" in shown
    solved = answer(capsys, "solve", "paper", "--budget", "2", "--horizon", "7")
    assert (solved["value"], solved["horizon"]) == (pytest.approx(2), 7)
    assert run(["simulate", "paper", "--budget", "2", "--horizon", "7", "-n", "50"]) == 0
    assert "Next: almostsure solve paper --budget 2 --horizon 7\n" in capsys.readouterr().out
    assert run(["solve", "paper", "--budget", "2", "--risk", "0.5", "--horizon", "7"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "with probability 0.5 at most, within 7 steps " in shown
    assert "the steps left" in shown


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
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not an automaton"),
        ('{"start": 0, "edges": [[1]]}', "is not an automaton"),
        ('{"start": "new", "forbiden": ["trap"], "edges": []}', "a key that means nothing"),
        ('{"start": "a", "edges": [["a", "bridge", "b"], ["a", "bridge", "c"]]}', "two edges from one place"),
        ('{"start": "new", "forbidden": ["tarp"], "edges": [["new", "bridge", "trap"]]}', "No edge leads there"),
        ('{"start": "new", "edges": [["new", "brigde", "trap"]]}', "unknown label 'brigde'"),
    ):
        rule.write_text(text)
        assert run(use) == 3
        assert message in capsys.readouterr().err
    rule.unlink()
    assert run(use) == 3
    assert "cannot read the automaton" in capsys.readouterr().err


def test_every_command_about_a_model_takes_monitors(capsys, tmp_path):
    with_steps, saved = ["paper", "--monitor", "steps=3"], str(tmp_path / "b.safetensors")
    assert run(["budget", *with_steps, "-o", saved]) == 0
    assert f"almostsure check paper --monitor steps=3 {saved}" in " ".join(capsys.readouterr().out.split())
    assert answer(capsys, "check", "paper", saved, "--monitor", "steps=3")["verdict"] == "verified"
    assert run(["check", "paper", saved]) == 3  # a budget of another model
    for command in (["explain"], ["suggest"], ["frontier"], ["convert"], ["export"], ["report", "-o"]):
        name, *option = command
        output = {"convert": "m.umb", "export": "s.h", "report": "r.html"}.get(name)
        rest = [] if output is None else [*option, str(tmp_path / output)]
        assert run([name, "paper", *rest, "--monitor", "steps=3"]) == 0, command
    capsys.readouterr()


def test_exports_of_risk_and_horizon_shields(capsys, tmp_path):
    for options in (["--budget", "1", "--risk", "0.5"], ["--horizon", "4"]):
        for name in ("table.py", "table.h"):
            assert run(["export", "quicksand", str(tmp_path / name), *options]) == 0
    assert run(["export", "quicksand", str(tmp_path / "x.h"), "--risk", "0.5"]) != 0
    capsys.readouterr()


def test_an_unbounded_return_names_the_option_and_the_states(capsys, tmp_path):
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, 0, 0)]
    asure.from_transitions(*zip(*rows, strict=True), state_names=["a=0, b=1", "a=1, b=0"]).save(tmp_path / "m.umb")
    assert run(["solve", str(tmp_path / "m.umb"), "--budget", "0"]) == 1
    said = capsys.readouterr().err
    assert "among: a=0, b=1; a=1, b=0. Give the cycle a cost, or use --discount below 1." in " ".join(said.split())


def test_tables_say_which_budgets_they_leave_out(capsys):
    assert run(["suggest", "paper", "--most", "40"]) == 0
    assert "16 of 41 budgets are shown; --json has all" in " ".join(capsys.readouterr().out.split())
    assert run(["suggest", "paper", "--most", "5"]) == 0
    assert "are shown" not in capsys.readouterr().out
