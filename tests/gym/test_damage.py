"""Trackers: the damage of every step, from all sources."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from almostsure.errors import ArgumentError, ModelError
from almostsure.gym import (
    BudgetObservation,
    DamageTracker,
    VectorBudgetObservation,
    VectorDamageTracker,
    to_gymnasium,
)

from .made import Says, apart, cliff, hurts

MODES = list(AutoresetMode)


@pytest.mark.parametrize("mode", MODES)
def test_trackers(mode, follow):
    envs = VectorDamageTracker(SyncVectorEnv(apart(cliff, 4), autoreset_mode=mode), hurts, budget=9)
    assert follow(envs, mode, 150, 9) > 20


def test_trackers_write_damage_and_cost_at_resets_and_steps():
    env, envs = DamageTracker(cliff(), hurts), VectorDamageTracker(SyncVectorEnv([cliff] * 2), hurts)
    for infos in (env.reset(seed=0)[1], env.step(0)[4]):
        assert (infos["damage"], infos["cost"]) == (0, 0)
    for infos in (envs.reset(seed=0)[1], envs.step(np.array([0, 0]))[4]):
        assert (infos["damage"].tolist(), infos["cost"].tolist(), infos["_cost"].all()) == ([0, 0], [0, 0], True)
    envs.step(np.array([1, 1]))
    infos = envs.step(np.array([2, 1]))[4]  # off the cliff, and along it
    assert infos["damage"].tolist() == infos["cost"].tolist() == [1, 0]


def test_invalid_damages_are_refused():
    envs = VectorDamageTracker(SyncVectorEnv([cliff] * 2), lambda *step: 0.5)
    envs.reset(seed=0)
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got 0\.5 in environment 0"):
        envs.step(np.array([0, 0]))
    envs = VectorDamageTracker(SyncVectorEnv([cliff] * 2))
    envs.reset(seed=0)
    with pytest.raises(ModelError, match=r"info\['cost'\] must hold the damage of a step"):
        envs.step(np.array([0, 0]))
    envs = VectorBudgetObservation(SyncVectorEnv([cliff]), 1)
    envs.reset(seed=0)
    with pytest.raises(ModelError, match="Wrap env in DamageTracker first"):
        envs.step(np.array([0]))


@pytest.mark.parametrize(
    ("costs", "left"), [((False, 2), [5, 3]), ((np.int8(1), np.int64(257)), None), ((0, 0.5), None)]
)
def test_costs_of_different_types_are_not_converted(costs, left):
    envs = VectorDamageTracker(SyncVectorEnv([partial(Says, cost) for cost in costs]), budget=5)
    envs.reset(seed=0)
    if left is None:
        with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .* in environment 1"):
            envs.step(np.array([1, 1]))
    else:
        assert envs.step(np.array([1, 1]))[-1]["remaining"].tolist() == left


class Scribbles(gymnasium.Env):
    """Overwrites the observations that it returned."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,), np.int64), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.seen = np.zeros(1, np.int64)
        return self.seen, {}

    def step(self, action):
        self.seen += 1
        return self.seen, 0.0, False, False, {}


def test_trackers_copy_observations_that_are_overwritten():
    def climbed(s, a, s2, r, terminated):
        return int(s2[0] - s[0])

    one = DamageTracker(Scribbles(), climbed)
    many = VectorDamageTracker(SyncVectorEnv([Scribbles], copy=False), climbed)
    for envs, action in ((one, 0), (many, np.array([0]))):
        envs.reset(seed=0)
        assert [np.sum(envs.step(action)[-1]["damage"]) for _ in range(3)] == [1, 1, 1]


class Costs(gymnasium.Wrapper):
    """An environment like those of Safety-Gymnasium, whose steps return six values."""

    cost = 1.0

    def step(self, action):
        state, reward, terminated, truncated, _ = self.env.step(action)
        return state, reward, self.cost, terminated, truncated, {}


def test_costs_of_safety_gymnasium():
    env = BudgetObservation(DamageTracker(Costs(cliff()), budget=5), 5)
    env.reset(seed=0)
    seen, _, _, _, info = env.step(0)
    assert (info["cost"], info["damage"], info["remaining"], seen.tolist()) == (1, 1, 4, [24, 4])
    for cost in (0.3, -1.0, float("nan")):
        env = DamageTracker(Costs(cliff()))
        env.env.cost = cost
        env.reset(seed=0)
        with pytest.raises(ModelError, match="damage must be an integer 0 … 255; got"):
            env.step(0)


def test_bad_arguments_of_trackers_are_refused():
    with pytest.raises(ModelError, match="damage must be a function"):
        DamageTracker(cliff(), 3)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        DamageTracker(to_gymnasium("paper"), hurts).step(0)
    with pytest.raises(ArgumentError, match="budget must be a whole number"):
        BudgetObservation(cliff(), -1)
    with pytest.raises(ArgumentError, match="Masks need ShieldedEnv"):
        BudgetObservation(cliff(), 1, observe="rllib")


@pytest.mark.parametrize(
    ("wrap", "what"),
    [
        (gymnasium.wrappers.Autoreset, "every reset"),
        (lambda env: gymnasium.wrappers.RepeatAction(env, 2), "every step"),
    ],
)
def test_wrappers_that_hide_steps_or_resets_are_refused(wrap, what):
    with pytest.raises(ArgumentError, match=rf"DamageTracker must see {what}; .*\(DamageTracker\(…\)\)"):
        DamageTracker(wrap(cliff()), hurts)
    with pytest.raises(ArgumentError, match=rf"BudgetObservation must see {what}; .*\(BudgetObservation\(…\)\)"):
        BudgetObservation(wrap(DamageTracker(cliff(), hurts)), 2)
    DamageTracker(gymnasium.wrappers.StickyAction(cliff(), 0.5), hurts)  # the reward shows the damage


def test_a_vector_tracker_refuses_infos_that_are_a_list():
    envs = gymnasium.wrappers.vector.DictInfoToList(SyncVectorEnv([cliff]))
    with pytest.raises(ArgumentError, match="VectorDamageTracker must see infos as a dictionary"):
        VectorDamageTracker(envs, hurts)
