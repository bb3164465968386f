"""Models passed to Storm, and read back."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from almostsure import (
    MDP,
    example,
    from_transitions,
)
from almostsure.model import example_names
from almostsure.model.files import load
from almostsure.model.storm.read import from_prism
from almostsure.model.storm.write import to_storm
from almostsure.model.umb.relay import with_relays

from .programs import (
    by_name,
    models,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mdp=models())
def test_to_storm_and_back(mdp: MDP, tmp_path: Path) -> None:
    from stormpy.io import export_to_umb

    split = with_relays(mdp)
    model = to_storm(mdp)
    assert (model.nr_states, model.nr_choices, model.nr_transitions) == (
        split.num_states, split.num_choices, split.num_outcomes,
    )  # fmt: skip
    only_costs = mdp.reward.max() <= 0 and mdp.reward.min() < 0
    assert set(model.reward_models) == {"damage", "reward"} | ({"cost"} if only_costs else set())
    labelled = {name: sorted(model.labeling.get_states(name)) for name in ("init", "terminal", "relay")}
    assert labelled["init"] == sorted(mdp.initial_states.tolist())
    assert labelled["terminal"] == np.flatnonzero(mdp.is_terminal()).tolist()
    assert labelled["relay"] == list(range(mdp.num_states, split.num_states))
    path = tmp_path / "back.umb"
    export_to_umb(model, path)  # compressed, Storm's default
    assert load(path) == split


def test_storm_computes_with_our_damage() -> None:
    """Two tries, each with damage 2 with probability 1/4: the expected damage is 1."""
    import stormpy

    mdp = from_transitions(
        [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 2, 2], [0.25, 0.75, 0.25, 0.75], [0] * 4, [2, 0, 2, 0], terminal=[2]
    )
    formula = stormpy.parse_property('R{"damage"}max=? [F "terminal"]')
    result = stormpy.model_checking(to_storm(mdp), formula)
    assert float(result.get_value(0)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", example_names())
def test_every_example_goes_through_storm_and_back(name: str, tmp_path: Path) -> None:
    import stormpy
    from stormpy.io import export_to_umb

    mdp, path = example(name), tmp_path / "model.umb"
    mdp.save(path, relay=True)
    model = stormpy.build_model_from_umb(str(path))
    assert (model.nr_states, model.nr_choices, model.nr_transitions) == (
        mdp.num_states, mdp.num_choices, mdp.num_outcomes,
    )  # fmt: skip
    export_to_umb(to_storm(mdp), str(tmp_path / "back.umb"))
    assert by_name(load(tmp_path / "back.umb")) == by_name(mdp)


def check(mdp: MDP, formula: str) -> float:
    """Storm's result for the initial state."""
    import stormpy

    result = stormpy.model_checking(to_storm(mdp), stormpy.parse_property(formula))
    return float(result.get_value(mdp.initial_state))


def test_labels_rewards_and_variables_survive(race: Path, tmp_path: Path) -> None:
    mdp = from_prism(race, damage="enters:hot", cost="steps")
    assert set(mdp.labels) == {"hot", "done", "deadlock"}
    mdp.save(tmp_path / "race.umb")
    again = load(tmp_path / "race.umb")
    for kept in (mdp, again, pickle.loads(pickle.dumps(mdp))):
        assert kept.label("done").tolist() == ["x=3" in name for name in kept.state_names or ()]
        assert kept.origin.variables["x"].tolist() == [int(name[-1]) for name in kept.state_names or ()]
        assert kept.origin.variables["hot"].dtype == np.bool_
        heat = kept.origin.rewards["heat"]
        wanted = [400.0 * (kept.action_name(a) == "go") for a in kept.choice_action.tolist()]
        warm = kept.origin.variables["hot"] & ~kept.label("done")
        assert heat.tolist() == (np.array(wanted) + 0.3 * warm[kept.choice_states()]).tolist()
    assert check(again, 'Pmax=? [F "done"]') == pytest.approx(1)
    assert check(again, 'R{"heat"}min=? [F "done"]') == pytest.approx(1200.3)
    assert check(again, 'R{"cost"}min=? [F "done"]') == pytest.approx(3)
    model = to_storm(again)
    assert json.loads(str(model.state_valuations.to_json(0))) == {"hot": False, "x": 0}
    for name in ("other.umb", "third.umb"):  # through Storm and back, twice
        from stormpy.io import export_to_umb

        export_to_umb(to_storm(again), str(tmp_path / name))
        again = load(tmp_path / name)
    assert again.label("done").tolist() == mdp.label("done").tolist()
    assert again.origin.variables["x"].tolist() == mdp.origin.variables["x"].tolist()  # type: ignore[union-attr]
