"""Trackers: the damage of every step, from all sources."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import almostsure as asure
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym import (
    BudgetObservation,
    DamageTracker,
    ShieldedEnv,
    ShieldedVectorEnv,
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
    with pytest.raises(ModelError, match=r"info must hold the damage under 'damage' or 'cost'; .* in environment 0"):
        envs.step(np.array([0, 0]))
    envs = VectorBudgetObservation(SyncVectorEnv([cliff]), 1)
    envs.reset(seed=0)
    with pytest.raises(ModelError, match="or to a DamageTracker around the environment"):
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


class TellsTwo(gymnasium.Env):
    """Its action 1 does one damage according to one entry of info, and two or none according to the other."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)

    def __init__(self, damage, cost, *, values=5):
        self.told, self.values = {"damage": damage, "cost": cost}, values

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        info = self.told if action else dict.fromkeys(self.told, 0)
        return (0, 0.0, False, False, info) if self.values == 5 else (0, 0.0, info["cost"], False, False, {})


def counted(env):
    """Wrap an environment in everything that counts damage, alone and in vectors of each kind."""
    shield = partial(asure.OnlineShield, num_states=1, actions=2, unknown="allow")
    yield from (DamageTracker(env(), budget=4), BudgetObservation(env(), 4), ShieldedEnv(env(), shield(), 4))
    for mode in MODES:
        yield VectorDamageTracker(SyncVectorEnv([env] * 2, autoreset_mode=mode), budget=4)
        yield VectorBudgetObservation(SyncVectorEnv([env] * 2, autoreset_mode=mode), 4)
    yield ShieldedVectorEnv(SyncVectorEnv([env] * 2, autoreset_mode=AutoresetMode.DISABLED), shield(), 4)


def step(env, action):
    env.reset(seed=0)
    return env.step(np.array([0, action]) if isinstance(env, gymnasium.vector.VectorEnv) else action)[-1]


@pytest.mark.parametrize(("damage", "cost"), [(1, 2), (2, 0), (0, 0.5), (1, float("nan"))])
def test_damage_and_cost_that_disagree_are_refused(damage, cost):
    for env in counted(partial(TellsTwo, damage, cost)):
        step(env, 0)
        with pytest.raises(ModelError, match=r"info\['damage'\] and info\['cost'\] must agree, .* Say which"):
            step(env, 1)


def test_a_refused_step_counts_with_the_larger_damage():
    shield = asure.OnlineShield(num_states=1, actions=2, unknown="allow")
    env = ShieldedEnv(TellsTwo(2, 9), shield, 4)
    vector = SyncVectorEnv([partial(TellsTwo, 2, 9)] * 2, autoreset_mode=AutoresetMode.DISABLED)
    for envs in (env, ShieldedVectorEnv(vector, asure.OnlineShield(num_states=1, actions=2, unknown="allow"), 4)):
        with pytest.raises(ModelError, match="got 2 and 9"):
            step(envs, 1)
        assert envs.ledger.worst == 9
        assert [violation.damage for violation in envs.ledger.violations] == [9]


@pytest.mark.parametrize(("damage", "cost"), [(1, 1.0), (True, np.int8(1)), (None, 1), (1, None)])
def test_damage_and_cost_that_agree_are_counted_once(damage, cost):
    for env in counted(partial(TellsTwo, damage, cost)):
        assert np.ravel(step(env, 1)["remaining"])[-1] == 3


def same(s, action, *rest):
    return int(action)


@pytest.mark.parametrize(("said", "left"), [("damage", 2), ("cost", 4), (same, 3), ("3 if action==1", 1)])
def test_whoever_says_what_the_damage_is_is_believed(said, left):
    for env in counted(lambda: DamageTracker(TellsTwo(2, 0), said)):
        assert np.ravel(step(env, 1)["remaining"])[-1] == left
    envs = SyncVectorEnv([partial(TellsTwo, 2, 0)] * 2, autoreset_mode=AutoresetMode.DISABLED)
    shield = asure.OnlineShield(num_states=1, actions=2, unknown="allow")
    assert step(ShieldedVectorEnv(VectorDamageTracker(envs, said), shield, 4), 1)["remaining"].tolist() == [4, left]


def test_a_vector_tracker_reads_two_entries_only():
    with pytest.raises(ArgumentError, match=r"one of 'damage', 'cost'; got 'harm'. Wrap each .*\(env, 'harm'\)"):
        VectorDamageTracker(SyncVectorEnv([cliff]), "harm")


def test_steps_of_six_values_are_read_and_others_refused():
    shield = asure.OnlineShield(num_states=1, actions=2, unknown="allow")
    env = ShieldedEnv(TellsTwo(0, 3, values=6), shield, 4)
    assert step(env, 1)["remaining"] == 1
    env.env.values, env.unwrapped.told["cost"] = 5, None
    env.env.step = lambda action: (0, 0.0, False, {})
    with pytest.raises(ModelError, match=r"a step must return observation, .*; got \(0, 0\.0, False, \{\}\)\. Wrap"):
        step(env, 1)
    env.env.reset = lambda seed, options: np.zeros(2)
    with pytest.raises(ModelError, match=r"a reset must return an observation and a dictionary, info; got array"):
        env.reset()


def test_rewards_may_be_vectors_where_no_function_needs_them():
    env = DamageTracker(TellsTwo(1, 1), budget=4)
    env.env.step = lambda action: (0, np.zeros(2), False, False, {"cost": 1})
    assert step(env, 1)["remaining"] == 3


def test_a_reset_with_several_costs_is_refused():
    env = DamageTracker(TellsTwo(0, 0))
    env.env.reset = lambda seed, options: (0, {"cost": np.array([0, 2])})
    with pytest.raises(ModelError, match="a reset must do no damage"):
        env.reset()


class AlwaysFinal(gymnasium.vector.VectorWrapper):
    """Writes final_info at every step, also where no episode ended."""

    def step(self, actions):
        *shown, infos = self.env.step(actions)
        return *shown, {"final_info": {}, **infos}


@pytest.mark.parametrize("mode", MODES)
def test_final_infos_without_an_ended_episode_are_ignored(mode):
    envs = SyncVectorEnv([partial(to_gymnasium, "paper")] * 2, autoreset_mode=mode)
    assert step(VectorBudgetObservation(AlwaysFinal(envs), 3), 0)["remaining"].tolist() == [2, 2]
