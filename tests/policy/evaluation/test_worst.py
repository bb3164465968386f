"""``worst_damage``, compared with exact evaluation and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import AlmostSure, Chance, Expected, example, from_transitions, minimal_budget, simulate, solve_policy
from almostsure.budget.minimal import INFINITE
from almostsure.errors import NoSafeAction
from almostsure.policy.evaluation import worst
from almostsure.policy.evaluation.evaluate import evaluate
from almostsure.policy.evaluation.worst import worst_damage
from almostsure.policy.explore import explore
from almostsure.policy.policy import Policy
from almostsure.shield import Shield
from almostsure.testing import mdps


def test_an_assured_policy_keeps_its_budget():
    for budget in range(7):
        assert worst_damage("hazard-map", solve_policy("hazard-map", AlmostSure(budget))) <= budget
    assert worst_damage("corridor", solve_policy("corridor", AlmostSure(3))) == 3


def test_a_constraint_on_the_expectation_bounds_no_run():
    assert worst_damage("paper", solve_policy("paper", Expected(3))) == math.inf
    assert worst_damage("paper", solve_policy("paper", Expected(0))) == 0


def test_damage_after_overspending_counts():
    mdp = from_transitions([0, 0, 1], [0, 1, 0], [1, 2, 2], [1] * 3, [5, 0, 0], [2, 0, 4], terminal=[2])
    risky = solve_policy(mdp, Chance(1, 0.5))
    assert worst_damage(mdp, risky) == 6
    assert worst_damage("hazard-map", solve_policy("hazard-map", Chance(3, 0.1))) == math.inf


def test_a_policy_that_is_undefined_once_overspent():
    mdp = example("paper")
    table = {("circle", 1): "left", ("circle", 0): "left", ("square", 1): 0, ("square", 0): 0}
    policy = Policy.from_table(mdp, table, budget=1)
    with pytest.raises(NoSafeAction, match="overspends at state 0 'circle', and is undefined once overspent"):
        worst_damage(mdp, policy)
    for_steps = Policy(mdp, choice=policy.choice, budget=1, block=[0, 0, 0])
    with pytest.raises(NoSafeAction, match="overspends at state 0 'circle', and is undefined once overspent"):
        worst_damage(mdp, for_steps)
    assert worst_damage(mdp, Policy(mdp, choice=policy.choice, budget=1, block=[0])) == 1


def test_resting_is_harmless():
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [0, 5], [0, 1], terminal=[1])
    assert worst_damage(mdp, solve_policy(mdp, Expected(0.5))) == 1


@given(mdps())
@settings(max_examples=60)
def test_it_is_the_end_of_the_distribution(mdp):
    minimal = minimal_budget(mdp)
    least = minimal.smallest_budget()
    if least == INFINITE or least > 8:
        return
    policy = Shield(minimal).random_policy(least + 1)
    worst = worst_damage(mdp, policy)
    possible = np.flatnonzero(evaluate(mdp, policy).damage_distribution > 1e-12)
    assert worst <= least + 1
    assert worst >= possible.max(initial=0)
    assert worst >= simulate(mdp, policy, 50, seed=1, max_steps=200).damages.max()


@given(mdps(), st.integers(20, 60), st.integers(0, 30))
@settings(max_examples=80)
def test_layers_that_repeat_are_skipped_with_the_same_result(mdp, budget, more):
    minimal = minimal_budget(mdp)
    if minimal.smallest_budget() > budget:
        return
    policy = Shield(minimal).random_policy(budget)
    quick = worst_damage(mdp, policy, budget=budget + more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("almostsure.policy.evaluation.worst._Cycle.skip", lambda _, waiting: waiting)
        assert worst_damage(mdp, policy, budget=budget + more) == quick


def test_a_large_budget_takes_no_longer():
    layers = set()

    def noted(step):
        layers.add(step.remaining)
        return step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worst, "explore", lambda *given, **options: map(noted, explore(*given, **options)))
        assert worst_damage("hazard-map", solve_policy("hazard-map", AlmostSure(2000))) == 2000
    assert len(layers) < 100


@given(mdps())
@settings(max_examples=60)
def test_stationary_policies(mdp):
    policy = Policy.from_table(mdp, {state: int(mdp.actions(state)[0]) for state in range(mdp.num_states)})
    worst = worst_damage(mdp, policy)
    result = evaluate(mdp, policy)
    if math.isfinite(worst):
        assert result.endless == 0
        assert result.exceeds(int(worst)) < 1e-9
    seen = simulate(mdp, policy, 50, seed=1, max_steps=200).damages.max()
    assert worst >= seen
