"""Evaluation of policies for a horizon: all numbers of a small case, with their proved errors."""

import numpy as np
import pytest

from almostsure import Policy, evaluate, from_transitions
from almostsure.errors import NoSafeAction
from almostsure.policy.evaluation import within
from almostsure.policy.evaluation.within import worst_within

EPSILON = 2.0**-52


@pytest.fixture
def slope():
    """With probability 1/2 the run continues with reward 1 and damage 1, otherwise it ends with reward 3."""
    return from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [1, 3], [1, 0], terminal=[1])


@pytest.mark.parametrize(("discount", "gain", "damage"), [(1.0, 3.5, 0.875), (0.5, 2.625, 0.65625)])
def test_three_steps_of_a_slope(slope, discount, gain, damage):
    policy = Policy(slope, choice=np.array([[0, 1]]), block=[0, 0, 0])
    result = evaluate(slope, policy, budget=1, discount=discount)
    assert (result.expected_return, result.discounted_damage, result.expected_damage) == (gain, damage, 0.875)
    assert (result.expected_length, result.ends, result.endless, result.beyond) == (1.75, 0.875, 0, 0)
    assert result.damage_distribution.tolist() == [0.5, 0.25, 0.125, 0.125]
    assert (result.overspends, result.exceeds(0), result.exceeds(3)) == (0.25, 0.5, 0)
    # roundings per step: 16, the outcomes of a choice, the choices of a state, and the terms of a sum
    lost = (4 + 3 * (16 + 2 + 1 + 1) + 4) * EPSILON
    assert result.accuracy == pytest.approx(lost * (gain + max(gain, 1.75)), rel=1e-12)
    assert result.upper - gain == pytest.approx(1.01 * lost * gain, rel=0.02)
    assert gain - result.lower == pytest.approx(1.01 * lost * gain, rel=0.02)


def test_the_terms_of_sums_count(slope):
    """Two states lead to the end, where their masses are added."""
    mdp = from_transitions([0, 1], [0, 0], [2, 2], [1, 1], [0, 0], [0, 0], terminal=[2], initial={0: 0.5, 1: 0.5})
    result = evaluate(mdp, Policy(mdp, choice=np.array([[0, 1, 2]]), block=[0]))
    assert (result.expected_length, result.ends, result.expected_return) == (1, 1, 0)
    assert result.accuracy == pytest.approx((4 + 16 + 1 + 1 + 2 + 4) * EPSILON, rel=1e-12)


def test_damages_beyond_the_levels_share_one(slope, monkeypatch):
    policy = Policy(slope, choice=np.array([[0, 1]]), block=[0] * 6)
    monkeypatch.setattr(within, "LEVELS", 2)
    result = evaluate(slope, policy)
    assert (result.damage_distribution.tolist(), result.beyond) == ([0.5, 0.25], 0.25)
    assert evaluate(slope, policy, budget=3).damage_distribution.size == 4  # all up to the budget
    assert evaluate(slope, Policy(slope, choice=np.array([[0, 1]]), block=[0])).damage_distribution.tolist() == [
        0.5,
        0.5,
    ]


def test_errors_of_undefined_policies_and_worst_cases(slope):
    assert worst_within(Policy(slope, choice=np.array([[0, 1]]), block=[0] * 6), None) == 6
    table = np.array([[0, 1], [0, 1]])
    silent = Policy(slope, choice=table, budget=1, block=[0, 0])
    with pytest.raises(NoSafeAction, match=r"^the policy overspends at state 0, and is undefined once overspent$"):
        worst_within(silent, 1)
    result = evaluate(slope, silent)
    assert np.isnan([result.expected_return, result.expected_damage, result.expected_length, result.ends]).all()
    assert (result.overspends, result.damage_distribution.tolist()) == (0.25, [0.5, 0.25, 0.25])
    assert worst_within(Policy(slope, choice=table, budget=1, block=[0]), 1) == 1
    nothing = Policy(slope, choice=np.array([[-1, 1], [0, 1]]), budget=1, block=[0, 0])
    with pytest.raises(NoSafeAction, match=r"^the policy reaches state 0 with 0 left, where it is undefined$"):
        evaluate(slope, nothing)
    with pytest.raises(
        NoSafeAction, match=r"with 0 left, where it is undefined\. It was made for a budget of 1: leave"
    ):
        evaluate(slope, nothing, budget=0)
