"""Policies as schedulers of Storm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from almostsure import AlmostSure, Policy, example, from_transitions, solve_policy
from almostsure.errors import PolicyError
from almostsure.model.storm.write import to_storm
from almostsure.policy.rows import Rest

stormpy = pytest.importorskip("stormpy")


def test_a_stationary_policy_is_written_as_storm_writes_its_own(tmp_path: Path) -> None:
    mdp = example("paper")
    model = to_storm(mdp)
    formula = stormpy.parse_property('Pmax=? [F "terminal"]')
    theirs = json.loads(
        stormpy.model_checking(model, formula, extract_scheduler=True).get_scheduler().to_json_str(model)
    )
    chosen = [entry["c"][0]["index"] for entry in theirs]
    policy = Policy(mdp, choice=[chosen])
    policy.save_scheduler(tmp_path / "scheduler.json")
    assert json.loads((tmp_path / "scheduler.json").read_text()) == theirs


def test_memory_is_the_remaining_budget(tmp_path: Path) -> None:
    """Up does damage 1 or 0 on the way to the same state: one of the outcomes passes through a relay, state 2."""
    mdp = from_transitions(
        [0, 0, 0], [0, 0, 1], [1, 1, 1], [0.5, 0.5, 1], [5, 5, 1], [1, 0, 0], terminal=[1], action_names=["up", "down"]
    )
    policy = solve_policy(mdp, AlmostSure(1), everywhere=True).policy
    policy.save_scheduler(tmp_path / "scheduler.json")
    entries = json.loads((tmp_path / "scheduler.json").read_text())
    played = {(entry["s"], entry["m"]): entry["c"][0] for entry in entries}
    assert set(played) == {(state, remaining) for state in (0, 1, 2) for remaining in (0, 1)}
    assert played[0, 0] == {"index": 1, "labels": ["down"], "prob": 1.0, "memory-updates": [{"s'": 1, "m'": 0}]}
    assert played[0, 1]["labels"] == ["up"]
    assert sorted((after["s'"], after["m'"]) for after in played[0, 1]["memory-updates"]) == [(1, 1), (2, 0)]
    assert played[2, 0]["memory-updates"] == [{"s'": 1, "m'": 0}]


def test_probabilities_are_kept(tmp_path: Path) -> None:
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    Policy.from_table(mdp, [[0.25, 0.75], [1.0, 0.0]]).save_scheduler(tmp_path / "scheduler.json")
    entries = json.loads((tmp_path / "scheduler.json").read_text())
    assert [[choice["prob"] for choice in entry["c"]] for entry in entries] == [[0.25, 0.75], [1.0]]
    assert all("m" not in entry for entry in entries)


def test_rest_is_refused(tmp_path: Path) -> None:
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [0, 0], [0, 0], terminal=[1])
    rest = Rest(probability=np.array([[0.25, 0.0]]), choice=np.array([0, -1]))
    policy = Policy(mdp, choice=np.array([[1, 2]]), rest=rest)
    with pytest.raises(PolicyError, match="comes to rest at random cannot be written as a scheduler"):
        policy.save_scheduler(tmp_path / "scheduler.json")
