"""Runs under a guard: begin, allowed, after, for one run and for many."""

from __future__ import annotations

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.shield import Guard, Shield


@pytest.fixture
def shield() -> Shield:
    """State 0: stay with damage 1 or (rarely) 2, or leave without; state 1: one damaging action to the end, 2."""
    mdp = asure.from_transitions(
        [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 2], [0.9, 0.1, 1, 1], [1, 1, 0, 0], [1, 2, 0, 3], terminal=[2],
    )  # fmt: skip
    return Shield(asure.minimal_budget(mdp))


def test_a_shield_is_a_guard(shield: Shield) -> None:
    assert isinstance(shield, Guard)
    assert shield.space is shield.mdp
    assert shield.carries == ("remaining",)


def test_a_run(shield: Shield) -> None:
    run = shield.begin(0, 5)
    assert run == (0, 5)
    assert shield.allowed(*run).tolist() == [0, 1]
    run = shield.after(run, 0, 0, 2)
    assert run == (0, 3)
    assert shield.allowed(*run).tolist() == [1]
    assert shield.after(run, 1, 1) == (1, 3)
    assert shield.after((1, 3), 0, 2, None) == (2, 0)


def test_many_runs(shield: Shield) -> None:
    states, left = shield.begin(np.array([0, 0, 1]), 5)
    assert shield.mask(states, left).tolist() == [[True, True], [True, True], [True, False]]
    reached, left = shield.after((states, left), np.array([0, 1, 0]), np.array([0, 1, 2]), np.array([2, None, None]))
    assert reached.tolist() == [0, 1, 2]
    assert left.tolist() == [3, 5, 2]


@pytest.mark.parametrize("limit", [1 << 22, 0])
def test_many_runs_are_like_single_ones(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("almostsure.shield.outcomes.DENSE", limit)
    mdp = asure.example("hazard-map")
    shield, rng = Shield(asure.minimal_budget(mdp)), np.random.default_rng(0)
    outcome = rng.integers(0, mdp.num_outcomes, 500)
    choice = mdp.outcome_choices()[outcome]
    states, actions = mdp.choice_states()[choice].astype(np.int64), mdp.choice_action[choice].astype(np.int64)
    after, left = mdp.successor[outcome].astype(np.int64), rng.integers(0, 9, 500)
    said = mdp.damage[outcome].astype(np.int64)
    reached, rest = shield.after((states, left), actions, after, said)
    single = [
        shield.after((s, k), a, t, d)
        for s, k, a, t, d in zip(*(x.tolist() for x in (states, left, actions, after, said)), strict=True)
    ]
    assert [*zip(reached.tolist(), rest.tolist(), strict=True)] == single
    with pytest.raises(ModelMismatch, match="says is impossible"):
        shield.after((states, left), actions, after, np.where(np.arange(500) == 300, 77, said))


def test_a_budget_that_is_too_small_to_begin(shield: Shield) -> None:
    with pytest.raises(NoSafeAction, match="state 0 is safe with 2 left: it needs 3") as error:
        shield.begin(0, 2)
    assert (error.value.state, error.value.remaining) == (0, 2)
    with pytest.raises(NoSafeAction, match=r"first of 2 such look-ups among 3\): it needs 3"):
        shield.begin(np.array([2, 0, 1]), 2)
    with pytest.raises(ArgumentError, match="budget must be at least 0"):
        shield.begin(0, -1)
    with pytest.raises(UnknownName, match="unknown state 7"):
        shield.begin(7, 5)


def test_impossible_steps(shield: Shield) -> None:
    for damage in (None, 0, 3):
        with pytest.raises(ModelMismatch, match="says is impossible"):
            shield.after((0, 5), 1, 2, damage)
    with pytest.raises(ModelMismatch, match="with damage 1, which the shield's model says is impossible"):
        shield.after((0, 5), 1, 1, 1)
    with pytest.raises(ModelMismatch, match="says is impossible"):
        shield.after((np.array([0]), np.array([5])), np.array([1]), np.array([2]))


@pytest.mark.parametrize("state", [-1, 3])
def test_invalid_indices(shield: Shield, state: int) -> None:
    with pytest.raises(UnknownName, match="unknown state"):
        shield.after((0, 5), 1, state)
    with pytest.raises(UnknownName, match="unknown state"):
        shield.after((np.array([0]), np.array([5])), np.array([1]), np.array([state]))
    with pytest.raises(UnknownName, match="unknown action"):
        shield.after((np.array([0]), np.array([5])), np.array([state]), np.array([1]))
    with pytest.raises(UnknownName, match="unknown state"):
        shield.mask(np.array([state]), np.array([5]))


def test_a_damage_that_may_differ_must_be_reported(shield: Shield) -> None:
    with pytest.raises(ModelError, match="may do 1, 2, and the environment's info has no 'damage'"):
        shield.after((0, 5), 0, 0)
    with pytest.raises(ModelError, match="may do 1, 2"):
        shield.after((np.array([0]), np.array([5])), np.array([0]), np.array([0]), np.array([None]))
    many = np.array([0, 0]), np.array([5, 5])
    for wrong in (-1, 0.5, "much", "1", 256, np.nan, 2**70, 1j):
        with pytest.raises(ModelError, match="damage must be an integer 0 … 255"):
            shield.after((0, 5), 0, 0, wrong)
        for said in (np.array([wrong, wrong]), np.array([1, wrong], object), [None, wrong]):
            with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255|may do 1, 2"):
                shield.after(many, np.array([0, 0]), np.array([0, 0]), said)
    with pytest.raises(ModelError, match="damage must be an integer 0 … 255"):
        shield.after((np.array([0]), np.array([5])), np.array([0]), np.array([0]), np.array([-1]))
