"""A model as a ``VecEnv``: masks, truncation, and random play compared with exact evaluation."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from almostsure import RiskShield, Shield, evaluate, from_transitions, minimal_budget
from almostsure.errors import NoSafeAction, UnknownName
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.learners import EarlyEndPPO, OneStepPPO, Price, SautePPO, UnconstrainedPPO, risky
from almostsure.gym.deep.vec_env import ModelVecEnv, shielded
from almostsure.testing import mdps


def envs_of(mdp, budget, regime, n_envs=8, max_episode_steps=50, **more):
    features = Features(mdp, budget)
    envs = ModelVecEnv(mdp, budget, regime, features, n_envs=n_envs, max_episode_steps=max_episode_steps, **more)
    envs.restart(0)
    return envs


def play(envs, steps, seed=0):
    """Uniformly random play inside the mask."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        mask = envs.action_masks()
        assert mask.any(axis=1).all()
        envs.play((rng.random(mask.shape) * mask).argmax(axis=1))
    return envs.record


@settings(max_examples=80, deadline=None)
@given(mdps(), st.integers(0, 3))
def test_shielded_random_play_never_overspends(mdp, more):
    needed = minimal_budget(mdp).smallest_budget()
    assume(needed < 20)
    shield = Shield(minimal_budget(mdp))
    envs = envs_of(mdp, needed + more, shielded(shield), max_episode_steps=10)
    record = play(envs, 40)
    assert (envs.remaining >= 0).all()
    assert max(record.damages, default=0) <= needed + more


@settings(max_examples=40, deadline=None)
@given(mdps(), st.integers(0, 3))
def test_exploring_starts_never_overspend(mdp, more):
    minimal = minimal_budget(mdp)
    needed = minimal.smallest_budget()
    assume(needed < 20 and not mdp.is_terminal().all())
    envs = envs_of(mdp, needed + more, shielded(Shield(minimal)), max_episode_steps=10, exploring_starts=0.9)
    record = play(envs, 40)
    assert (envs.remaining >= minimal.of_state[envs.states]).all()
    assert max(record.damages, default=0) <= needed + more


def test_exploring_starts_cover_all_safe_pairs(hazard, shield):
    envs = envs_of(hazard, 2, shielded(shield), n_envs=4096, exploring_starts=0.75)
    begun = set(zip(envs.states.tolist(), envs.remaining.tolist(), strict=True))
    needs, over = shield.minimal.of_state, hazard.is_terminal()
    every = {(s, k) for s in range(hazard.num_states) for k in range(3) if needs[s] <= k and not over[s]}
    assert begun == every
    start = (int(hazard.initial_state), 2)
    share = np.mean([place == start for place in zip(envs.states.tolist(), envs.remaining.tolist(), strict=True)])
    assert abs(share - 0.25) < 0.05


def test_inside_a_risk_shield_episodes_begin_with_no_more_than_the_risk(hazard):
    inside = RiskShield(hazard, 1, 0.1).restrict()
    states, remaining = risky(inside, 0.1).exploring_starts(inside.mdp, 1)
    assert (inside.risk[states] <= 0.1).all()
    assert np.array_equal(inside.remaining[states], remaining)
    assert remaining.min() == 0
    assert states.size > hazard.num_states


def test_random_play_agrees_with_exact_evaluation():
    rows = [
        (0, 0, 0, 0.3, -1, 0), (0, 0, 1, 0.5, 0, 1), (0, 0, 2, 0.2, 2, 0), (0, 1, 2, 1, 0, 0),
        (1, 0, 0, 0.6, 1, 2), (1, 0, 2, 0.4, 3, 0), (1, 1, 1, 0.5, 0, 0), (1, 1, 2, 0.5, -1, 0),
    ]  # fmt: skip
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2], initial={0: 0.7, 1: 0.3})
    shield = Shield(minimal_budget(mdp))
    record = play(envs_of(mdp, 4, shielded(shield), n_envs=200, max_episode_steps=10**9), 3_000)
    exact = evaluate(mdp, shield.random_policy(4))
    assert len(record.damages) > 5_000
    assert np.mean(record.damages) == pytest.approx(exact.expected_damage, abs=0.05)
    assert np.mean(record.returns) == pytest.approx(exact.expected_return, rel=0.05)
    shares = np.bincount(record.damages, minlength=5) / len(record.damages)
    assert shares == pytest.approx(exact.damage_distribution, abs=0.03)


def test_the_same_seed_gives_the_same_episodes(hazard, shield):
    first, second = (play(envs_of(hazard, 3, shielded(shield)), 300) for _ in range(2))
    assert first == second
    other = envs_of(hazard, 3, shielded(shield))
    other.restart(1)
    assert play(other, 300) != first


def test_truncation_is_not_termination(hazard, shield):
    envs = envs_of(hazard, 3, shielded(shield), n_envs=4, max_episode_steps=5)
    for number in range(1, 6):
        mask = envs.action_masks()
        step = envs.play(mask.argmax(axis=1))
        assert step.ended.all() == (number == 5)
    assert step.truncated.all()
    assert step.last.shape == (4, envs.features.width)
    assert (envs.remaining == 3).all()
    assert (envs.states == hazard.initial_state).all()
    assert envs.record.ends == [20] * 4
    assert envs.record.lengths == [5] * 4


def test_masked_actions_cannot_be_played(hazard, shield):
    envs = envs_of(hazard, 0, shielded(shield), n_envs=1)
    refused, rng = 0, np.random.default_rng(0)
    for _ in range(200):
        mask = envs.action_masks()[0]
        if not mask.all():
            refused += 1
            with pytest.raises(
                NoSafeAction, match=r"left, where it is masked out\. Give the agent the masks"
            ) as caught:
                envs.play(np.array([np.argmin(mask)]))
            assert caught.value.state == envs.states[0]
        envs.play(rng.choice(np.flatnonzero(mask), 1))
    assert refused
    assert envs.restricted_steps >= refused


@pytest.mark.parametrize("actions", [[0, 0], [4], [-1], [[0]]])
def test_invalid_actions(hazard, shield, actions):
    with pytest.raises(UnknownName, match=r"Give 1 actions 0 … 3"):
        envs_of(hazard, 3, shielded(shield), n_envs=1).play(np.array(actions))


def test_a_terminal_initial_state():
    mdp = from_transitions([0], [0], [1], [1], [1], [0], terminal=[1], initial={0: 0.5, 1: 0.5})
    shield = Shield(minimal_budget(mdp))
    record = play(envs_of(mdp, 0, shielded(shield), n_envs=64), 50)
    assert set(record.returns) == {0.0, 1.0}
    assert np.mean(record.returns) == pytest.approx(0.5, abs=0.05)


# ---------------------------------------------------------------------- regimes


@pytest.fixture
def trap():
    """After action 0, damage 2 one step later is certain; action 1 ends the episode without damage."""
    rows = [(0, 0, 1, 1, 0, 0), (0, 1, 2, 1, -1, 0), (1, 0, 2, 1, 5, 2), (1, 1, 2, 1, 5, 2)]
    return from_transitions(*zip(*rows, strict=True), terminal=[2])


def test_one_step_masks_see_the_trap_too_late(trap):
    mask = OneStepPPO().regime(trap, 2).mask(np.array([0, 1, 1]), np.array([1, 1, 2]))
    assert mask.tolist() == [[True, True], [True, True], [True, True]]
    exact = shielded(Shield(minimal_budget(trap))).mask(np.array([0]), np.array([1]))
    assert exact.tolist() == [[False, True]]
    record = play(envs_of(trap, 1, OneStepPPO().regime(trap, 1)), 20)
    assert max(record.damages) == 2


def test_a_one_step_mask_refuses_actions_that_may_overspend_at_once():
    rows = [(0, 0, 1, 1, 0, 2), (0, 1, 1, 0.5, 0, 1), (0, 1, 1, 0.5, 0, 0), (0, 2, 1, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1])
    mask = OneStepPPO().regime(mdp, 2).mask(np.zeros(3, int), np.array([0, 1, 2]))
    assert mask.tolist() == [[False, False, True], [False, True, True], [True, True, True]]


def test_if_all_actions_may_overspend_a_one_step_mask_allows_those_with_the_least_damage():
    rows = [(0, 0, 1, 1, 0, 3), (0, 1, 1, 1, 0, 2), (0, 2, 1, 1, 0, 2)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1])
    mask = OneStepPPO().regime(mdp, 3).mask(np.zeros(3, int), np.array([1, -2, 3]))
    assert mask.tolist() == [[False, True, True], [False, True, True], [True, True, True]]


def test_early_end(trap):
    envs = envs_of(trap, 1, EarlyEndPPO(penalty=10.0).regime(trap, 1), n_envs=1)
    envs.play(np.array([0]))
    step = envs.play(np.array([0]))
    assert step.ended.tolist() == [True]
    assert not step.truncated.any()
    assert step.rewards.tolist() == [-5.0]
    assert envs.record.returns == [5.0]
    assert envs.record.damages == [2]


def test_saute_pays_a_penalty_instead_while_overspent():
    rows = [(0, 0, 0, 1, 1, 1), (0, 1, 1, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1])
    envs = envs_of(mdp, 1, SautePPO(penalty=7.0).regime(mdp, 1), n_envs=1)
    paid = [float(envs.play(np.array([0])).rewards[0]) for _ in range(4)]
    assert paid == [1.0, -7.0, -7.0, -7.0]
    envs.finish()
    assert (envs.record.damages, envs.record.returns) == ([4], [4.0])


@pytest.mark.parametrize(("rewards", "penalty"), [((-1.0, 50.0), 1.02), ((-3.0, -1.0), 3.0), ((0.0, 0.0), 1.0)])
def test_the_default_penalty_of_saute_lets_networks_learn(rewards, penalty):
    mdp = from_transitions([0, 0], [0, 1], [1, 1], [1, 1], rewards, [0, 0], terminal=[1])
    pay = SautePPO().regime(mdp, 1).pay
    assert pay(np.array([5.0, 5.0]), np.array([0, 0]), np.array([0, -1])) == pytest.approx([5.0, -penalty])


def test_the_price_of_damage_rises_and_falls():
    price = Price(1, rate=0.5)
    price.learn([3, 5])
    assert price.value == 1.5
    assert price.pay(np.array([5.0]), np.array([2]), np.array([-1])).tolist() == [0.8]
    price.learn([])
    assert price.value == 1.5
    price.learn([0] * 9)
    price.learn([0] * 9)
    price.learn([0] * 9)
    assert price.value == 0


def test_unconstrained_ppo_has_the_actions_and_rewards_of_the_model(trap):
    regime = UnconstrainedPPO().regime(trap, 5)
    assert regime.mask(np.array([0, 2]), np.array([0, 0])).tolist() == [[True, True], [True, False]]
    assert not regime.ends_overspent


def test_unfinished_episodes_are_recorded_only_if_overspent(trap):
    envs = envs_of(trap, 5, UnconstrainedPPO().regime(trap, 5))
    envs.play(np.zeros(8, int))
    envs.finish()
    assert envs.record.ends == []
