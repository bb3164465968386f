"""The same model with another damage or reward."""

import numpy as np
import pytest
from hypothesis import given

import almostsure as asure
from almostsure import minimal_budget
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.model.origin import Origin
from almostsure.testing import mdps


@given(mdps(max_states=5, max_damage=3))
def test_the_same_damage_is_the_same_model(mdp):
    assert mdp.with_damage(mdp.damage) == mdp
    assert mdp.with_reward(mdp.reward) == mdp
    assert minimal_budget(mdp.with_damage(0)).of_state.max() == 0


@given(mdps(max_states=5, max_damage=3))
def test_a_larger_unit_is_never_too_little(mdp):
    exact, coarse = minimal_budget(mdp), minimal_budget(mdp.with_damage(mdp.damage, scale=2))
    assert (2 * coarse.of_state.astype(np.int64) >= exact.of_state).all()
    assert np.array_equal(minimal_budget(mdp.with_damage(mdp.damage / 10, scale="0.1")).of_state, exact.of_state)


def test_data_from_the_file_is_kept():
    rows = [(0, 0, 1, 0.5, 2, 0), (0, 0, 2, 0.5, 0, 1), (0, 1, 2, 1, 0, 0), (1, 0, 2, 1, 3, 0)]
    mdp = asure.from_transitions(*zip(*rows, strict=True), terminal=[2], labels={"wet": [1]})
    fuel, height = np.arange(4.0), np.array([3, 1, 0])
    mdp = mdp.with_origin(Origin(rewards={"fuel": fuel}, variables={"height": height}))
    for changed in (mdp.with_damage({"wet": 3}), mdp.with_reward(1)):
        assert changed.origin.rewards["fuel"].tolist() == fuel.tolist()
        assert changed.origin.variables["height"].tolist() == height.tolist()


def test_the_error_for_fractions_names_scale():
    mdp = asure.from_transitions([0], [0], [1], [1], [0], [0], terminal=[1], labels={"soaked": [1]})
    with pytest.raises(ModelError, match=r"got 0\.5 .*with_damage does so with scale=, the unit of damage"):
        mdp.with_damage({"soaked": 0.5})
    assert mdp.with_damage({"soaked": 0.5}, scale=0.5).damage.tolist() == [1, 0]


def test_labels_and_functions():
    rows = [(0, 0, 1, 0.5, 2, 0), (0, 0, 2, 0.5, 0, 1), (1, 0, 2, 1, 3, 0)]
    mdp = asure.from_transitions(*zip(*rows, strict=True), terminal=[2], labels={"wet": [1], "end": [2]})
    assert minimal_budget(mdp.with_damage("wet")).of(0) == 1
    assert minimal_budget(mdp.with_damage({"wet": 2, "end": 5})).of(0) == 7
    assert minimal_budget(mdp.with_damage(lambda s, a, s2, r, terminated: 4 * terminated)).of(0) == 4
    assert mdp.with_reward(lambda s, a, s2, r, terminated: -r).reward.min() == -3
    assert mdp.with_damage("wet").labels.keys() == {"wet", "end"}


def test_the_unit_is_shown_where_it_is_not_1():
    mdp = asure.from_transitions([0], [0], [1], [1], [0], [0], terminal=[1])
    assert mdp.with_damage(3).show_damage(3) == "3"
    assert mdp.with_damage(3, scale=0.5).show_damage(3) == "3 (in the unit of the file: 1.5)"
    assert mdp.with_damage(3, scale=0.5).with_reward(1).show_damage(3) == "3 (in the unit of the file: 1.5)"


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        ("wte", UnknownName, "unknown label 'wte'"),
        ([1, 2, 3], ModelError, r"damage must be one number per outcome \(2\); got shape \(3,\)"),
        (0.5, ModelError, "damages must be integers 0 … 255; got 0.5"),
        (-1, ModelError, "damages must be integers 0 … 255; got -1"),
        (300, ModelError, "damages must be integers 0 … 255; got 300"),
        (lambda s: 1, ArgumentError, r"must be a function of \(state, action, next_state, reward, terminated\)"),
        (object(), ArgumentError, "damage must be a label, numbers or a function"),
        ({}, ArgumentError, "damage must name one or more labels; got none"),
    ],
)
def test_bad_damage(damage, error, message):
    mdp = asure.from_transitions([0], [0], [1], [1], [0], [0], terminal=[1])
    with pytest.raises(error, match=message):
        mdp.with_damage(damage)
