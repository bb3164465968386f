"""Two damages: the pairs of budgets that suffice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import INFINITE, from_transitions, minimal_budget, product
from almostsure.errors import Infeasible, ModelError
from almostsure.model import SecondBudget
from almostsure.plan import budget_frontier
from almostsure.testing import mdps


@given(mdps(max_states=4, max_damage=2), st.integers(0, 10**6))
def test_pairs_are_those_of_products_and_neither_can_be_lowered(mdp, seed):
    second = np.random.default_rng(seed).integers(0, 3, mdp.num_outcomes)
    try:
        front = budget_frontier(mdp, second)
    except Infeasible:
        alone = [minimal_budget(model).smallest_budget() for model in (mdp, mdp.with_damage(second))]
        both = [minimal_budget(product(mdp, SecondBudget(second, k))).smallest_budget() for k in range(6)]
        assert INFINITE in alone or min(both) == INFINITE
        return
    needs = [minimal_budget(product(mdp, SecondBudget(second, k))).smallest_budget() for k in range(front.most + 3)]
    for first, k in front.pairs():
        assert needs[k] == first
        assert k == 0 or needs[k - 1] > first
        assert front.suffices(first, k)
        assert not (first and front.suffices(first - 1, k))
    assert min(needs) == min(first for first, _ in front.pairs())


def test_each_state_and_swapped_roles():
    mdp = asure.example("quicksand")
    noisy = np.asarray(mdp.choice_action[mdp.outcome_choices()] == 2).astype(int)
    front = budget_frontier(mdp, noisy)
    back = budget_frontier(mdp.with_damage(noisy), mdp.damage)
    assert sorted((b, a) for a, b in back.pairs()) == sorted(front.pairs())
    for state in range(0, mdp.num_states, 7):
        assert sorted((b, a) for a, b in back.pairs(state)) == sorted(front.pairs(state))
    assert front.first.shape == (front.most + 1, mdp.num_states)
    assert "minimal pairs" in repr(front)


def test_the_picture():
    pytest.importorskip("matplotlib")
    rows = [(s, a, s + 1, 1, 0, a) for s in range(3) for a in (0, 1)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[3])
    axes = budget_frontier(mdp, lambda s, a, s2, r, terminated: int(a == 0)).plot()
    assert axes.get_xlabel() == "second budget"


def test_refusals():
    pit = from_transitions([0], [0], [0], [1], [0], [1])
    with pytest.raises(Infeasible, match="no pair of finite budgets suffices"):
        budget_frontier(pit, 0)
    with pytest.raises(ModelError, match="damage must be a whole number"):
        budget_frontier("paper", -1)
