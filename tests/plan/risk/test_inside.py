"""The model inside a risk shield, and learners in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import Policy, RiskShield, Shield, evaluate, minimal_budget
from almostsure.errors import ArgumentError, ModelMismatch
from almostsure.learn.deployment import deployment
from almostsure.learn.learners import ShieldedQ
from almostsure.learn.learners.world import playground
from almostsure.testing import mdps


@given(mdps(max_states=4, max_damage=2), st.integers(0, 2), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(0, 99))
def test_every_policy_inside_keeps_the_risk(mdp, budget, extra, seed):
    states = mdp.initial_states.astype(np.int64)
    least = RiskShield(mdp, budget, 1.0).least[budget, states]
    risk = float(min(1.0, least @ mdp.initial_probabilities * (1 + 1e-9) + extra))
    shield = RiskShield(mdp, budget, risk)
    inside = shield.restrict(levels=5)
    rng = np.random.default_rng(seed)
    shares = rng.random(inside.mdp.num_choices) ** 8
    begin = inside.mdp.choice_ptr[:-1].astype(np.int64)
    shares /= np.repeat(np.add.reduceat(shares, begin), np.diff(inside.mdp.choice_ptr))
    found = evaluate(inside.mdp, Policy(inside.mdp, probability=shares[None]), budget=budget)
    assert found.overspends <= risk + 1e-9
    assert ((inside.risk >= 0) & (inside.risk <= 1)).all()
    for at in range(inside.mdp.num_states):  # a part of what the shield allows, and never nothing
        s, k, rho = int(inside.states[at]), int(inside.remaining[at]), float(inside.risk[at])
        if not mdp.is_terminal()[s]:
            assert set(inside.mdp.actions(at).tolist()) <= set(shield.allowed(s, k, rho).tolist())


def test_without_risk_it_is_the_model_inside_the_shield_and_with_all_of_it_the_model():
    mdp = asure.example("hazard-map")
    inside = RiskShield(mdp, 1, 0.0).restrict().mdp
    assert inside.num_choices == Shield(minimal_budget(mdp)).restrict(1).mdp.num_choices
    free = RiskShield(mdp, 1, 1.0).restrict()
    for at in range(free.mdp.num_states):
        assert free.mdp.actions(at).tolist() == mdp.actions(int(free.states[at])).tolist()


def test_more_levels_return_more_and_more_risk_too():
    mdp = asure.example("quicksand")

    def best(risk, levels):
        inside = RiskShield(mdp, 1, risk).restrict(levels).mdp
        return asure.solve_policy(inside.with_damage(0), asure.AlmostSure(0)).value

    assert best(0.3, 8) <= best(0.3, 64) + 1e-9
    assert best(0.3, 64) <= best(0.6, 64) + 1e-9
    assert best(0.6, 64) <= asure.solve_policy(mdp, asure.Chance(1, 0.6)).value + 1e-9


def test_q_learning_inside_keeps_the_risk():
    mdp = asure.example("archipelago")
    shield = RiskShield(mdp, 1, 0.1)
    training = ShieldedQ(shield=shield, max_steps=200).train(mdp, 1, steps=20_000, seed=0)
    assert evaluate(training.policy.mdp, training.policy, budget=1).overspends <= 0.1
    with pytest.raises(ArgumentError, match="budget must be the 1"):
        ShieldedQ(shield=shield).train(mdp, 2, steps=10, seed=0)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        ShieldedQ(shield=shield).train(asure.example("paper"), 1, steps=10, seed=0)


@given(mdps(max_states=4, max_damage=2), st.sampled_from([0.5, 1.0]))
def test_outcomes_inside_are_outcomes_of_the_model(mdp, risk):
    inside = RiskShield(mdp, 2, max(risk, RiskShield(mdp, 2, 1.0).least[2].max())).restrict(levels=4)
    of, model = inside.outcomes(mdp), inside.mdp
    choices, theirs = model.outcome_choices(), mdp.outcome_choices()[of]
    assert np.array_equal(mdp.choice_states()[theirs], inside.states[model.choice_states()[choices]])
    assert np.array_equal(mdp.successor[of], inside.states[model.successor])
    goes_on = ~model.is_terminal()[model.choice_states()[choices]]
    assert np.array_equal(mdp.choice_action[theirs][goes_on], model.choice_action[choices][goes_on])
    for column in ("probability", "reward", "damage"):
        assert np.array_equal(getattr(mdp, column)[of], getattr(model, column))


def test_q_learning_inside_returns_more_than_is_possible_without_risk():
    mdp, budget, risk = asure.example("hazard-map"), 2, 0.1
    learner = ShieldedQ(shield=RiskShield(mdp, budget, risk), explore=0.05, discount=0.99, replays=8)
    policy = learner.train(mdp, budget, steps=200_000, seed=0).policy
    found = deployment(playground(policy.mdp), policy, budget)
    assert found.reward > asure.solve_policy(mdp, asure.AlmostSure(budget)).value + 1.5
    assert found.overspends <= risk


def test_bad_levels():
    with pytest.raises(ArgumentError, match="levels must be at least 1"):
        RiskShield("paper", 1, 0.5).restrict(0)
    with pytest.raises(ArgumentError, match=r"make one for product\(mdp, Steps\(T\)\)"):
        RiskShield("paper", 1, 0.5, horizon=3).restrict()
