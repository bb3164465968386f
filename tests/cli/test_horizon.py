"""Horizons and risks on the command line."""

import json

import pytest

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
    assert "deterministic, on (state, remaining 0 … 3), for 10 steps, of 134 states" in shown
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
    assert "with probability at most 0.5, within 7 steps " in shown
    assert "for 7 steps, of 2 states" in shown


def test_exports_of_risk_and_horizon_shields(capsys, tmp_path):
    for options in (["--budget", "1", "--risk", "0.5"], ["--horizon", "4"]):
        for name in ("table.py", "table.h"):
            assert run(["export", "quicksand", str(tmp_path / name), *options]) == 0
    assert run(["export", "quicksand", str(tmp_path / "x.h"), "--risk", "0.5"]) != 0
    capsys.readouterr()
