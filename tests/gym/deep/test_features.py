"""The input features: every pair (state, remaining) has different ones."""

import numpy as np
import pytest

from almostsure import example, from_transitions
from almostsure.errors import ArgumentError
from almostsure.gym.deep import features as module
from almostsure.gym.deep.features import Features


def rows(features, budget):
    states = len(features.states)
    state, left = (x.ravel() for x in np.meshgrid(np.arange(states), np.arange(-1, budget + 1)))
    return features(state, left)


@pytest.mark.parametrize("name", ["hazard-map", "paper", "corridor"])
@pytest.mark.parametrize("budget", [0, 1, 5])
def test_every_pair_looks_different(name, budget):
    mdp = example(name)
    seen = rows(Features(mdp, budget), budget)
    assert len(np.unique(seen, axis=0)) == mdp.num_states * (budget + 2)
    assert seen.dtype == np.float32
    assert np.abs(seen).max() <= 1


def test_without_a_budget_features_do_not_depend_on_the_remaining_budget(hazard):
    features = Features(hazard, None)
    some = np.array([3, 7])
    assert np.array_equal(features(some, np.array([0, 0])), features(some, np.array([2, -4])))
    assert features.width == features.states.shape[1]


def test_large_maps_have_no_one_hot_states(hazard, monkeypatch):
    monkeypatch.setattr(module, "MAX_ONE_HOT", 10)
    seen = Features(hazard, 2).states
    assert seen.shape[1] == 2 + 12 + 12 + 1
    assert len(np.unique(seen, axis=0)) == hazard.num_states


def test_a_large_model_without_a_map_needs_features(monkeypatch):
    monkeypatch.setattr(module, "MAX_ONE_HOT", 1)
    mdp = from_transitions([0], [0], [1], [1], [1], [0], terminal=[1])
    with pytest.raises(ArgumentError, match=r"without a map must have at most 1 states, .* got 2\. Pass features="):
        Features(mdp, 1)
    assert Features(mdp, 1, states=[[0.5], [1]]).states.tolist() == [[0.5], [1.0]]


@pytest.mark.parametrize(("states", "said"), [
    (np.zeros((3, 2)), "one row for each of the 134 states; got float64 of shape \\[3, 2\\]"),
    (np.zeros(134), "got float64 of shape \\[134\\]"),
    (np.full((134, 1), np.nan), "features must be finite; got nan"),
    (np.full((134, 1), "x"), "features must be numbers"),
])  # fmt: skip
def test_refused(hazard, states, said):
    with pytest.raises(ArgumentError, match=said):
        Features(hazard, 2, states=states)


def test_larger_budgets_have_a_bounded_number_of_thresholds(hazard):
    assert Features(hazard, 100_000).remaining.shape[1] == 2 + module.MAX_THRESHOLDS
