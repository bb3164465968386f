"""``augment``: the remaining budget as a part of the state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure import INFINITE, from_transitions, minimal_budget
from almostsure.errors import NotEnoughMemory
from almostsure.policy.augment import augment
from almostsure.testing import mdps


@given(mdps(max_damage=4), st.integers(0, 4))
def test_safe_choices_need_no_budget_in_the_augmented_model(mdp, budget):
    """Theorem 1: k*(s, a) ≤ K exactly if the choice in the augmented model needs a budget of 0."""
    needs, harmless = minimal_budget(mdp).of_choice, minimal_budget(augment(mdp, budget)).of_choice
    for remaining in range(budget + 1):
        part = harmless[remaining * mdp.num_choices : (remaining + 1) * mdp.num_choices]
        assert np.array_equal(part == 0, needs <= remaining)
        assert set(part.tolist()) <= {0, 1, INFINITE}


@given(mdps(), st.integers(0, 3))
def test_probabilities_and_rewards_are_kept(mdp, budget):
    bigger = augment(mdp, budget)
    assert bigger.num_states == (budget + 1) * mdp.num_states + 1
    choice, wide = mdp.outcome_choices(), bigger.outcome_choices()
    reward = np.bincount(choice, mdp.probability * mdp.reward, minlength=mdp.num_choices)
    wider = np.bincount(wide, bigger.probability * bigger.reward, minlength=bigger.num_choices)
    assert np.allclose(wider[:-1], np.tile(reward, budget + 1))
    hurts = np.bincount(wide, bigger.probability * bigger.damage, minlength=bigger.num_choices)
    for remaining in range(budget + 1):
        overspends = np.bincount(choice, mdp.probability * (mdp.damage > remaining), minlength=mdp.num_choices)
        assert np.allclose(hurts[remaining * mdp.num_choices :][: mdp.num_choices], overspends)


def test_names_and_places(paper):
    mdp = paper()
    bigger = augment(mdp, 2)
    assert bigger.state_names == ("0 @0", "1 @0", "0 @1", "1 @1", "0 @2", "1 @2", "overspent")
    assert bigger.initial_state == bigger.state("0 @2") == 4


def test_an_initial_distribution_is_kept():
    mdp = from_transitions([0, 1], [0, 0], [2, 2], [1, 1], [0, 0], [0, 1], terminal=[2], initial={0: 0.25, 1: 0.75})
    bigger = augment(mdp, 1)
    assert dict(zip(bigger.initial_states.tolist(), bigger.initial_probabilities.tolist(), strict=True)) == {
        3: 0.25,
        4: 0.75,
    }


def test_too_large_models_are_refused_at_once(paper):
    with pytest.raises(NotEnoughMemory, match=r"the augmented model \(.* outcomes\) needs about"):
        augment(paper(), 2**31 - 2)


def test_a_model_by_name():
    assert augment("paper", 1).num_states == 5
