"""The remaining budget in observations."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformObservation

from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.gym import (
    BudgetObservation,
    DamageTracker,
    ShieldedEnv,
    VectorBudgetObservation,
    VectorDamageTracker,
    to_gymnasium,
)
from almostsure.gym.observation import show

from .made import apart, cliff, hurts, shield_of, shielded


@pytest.mark.parametrize(
    ("options", "space", "first"),
    [
        ({}, MultiDiscrete([2, 4]), [0, 3]),
        ({"observe": "none"}, Discrete(2), 0),
        ({"observe": "dict"}, Dict(observation=Discrete(2), remaining=Discrete(4)), {"observation": 0, "remaining": 3}),
        ({"normalised": True}, Box(0, 1, (3,)), [1, 0, 1]),
        (
            {"observe": "dict", "normalised": True},
            Dict(observation=Discrete(2), remaining=Box(0, 1, (1,))),
            {"observation": 0, "remaining": [1]},
        ),
        (
            {"observe": "rllib"},
            Dict(action_mask=Box(0, 1, (2,)), observations=MultiDiscrete([2, 4])),
            {"action_mask": [1, 1], "observations": [0, 3]},
        ),
    ],
)
def test_observations_show_the_remaining_budget(options, space, first):
    env = shielded("paper", 3, **options)
    assert env.observation_space == space
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    for key in first if isinstance(first, dict) else [None]:
        assert np.array_equal(seen if key is None else seen[key], first if key is None else first[key])
    seen, *_ = env.step(0)
    assert env.observation_space.contains(seen)


def test_rllib_masks_are_under_its_keys():
    """RLlib's masking modules read obs["action_mask"], floats 0 or 1, and obs["observations"]."""
    env = shielded("paper", 1, observe="rllib")
    env.reset(seed=0)
    seen, *_ = env.step(0)
    assert list(seen) == ["action_mask", "observations"]
    assert (seen["action_mask"].dtype, seen["action_mask"].tolist()) == (np.float32, [0.0, 1.0])


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (Box(-1, 1, (2,), np.float32), np.array([0.5, -0.5], np.float32)),
        (MultiDiscrete([3, 2]), np.array([2, 1])),
        (gymnasium.spaces.MultiBinary(3), np.array([1, 0, 1], np.int8)),
    ],
)
@pytest.mark.parametrize("normalised", [False, True])
def test_arrays_get_one_more_entry(space, seen, normalised):
    env = TransformObservation(to_gymnasium("paper"), lambda state: seen, space)
    mdp = env.unwrapped.mdp
    env = ShieldedEnv(env, shield_of(mdp), 4, normalised=normalised, state_of=lambda seen, env: env.unwrapped._state)
    for observation in (env.reset(seed=0)[0], env.step(0)[0]):
        assert env.observation_space.contains(observation)
    assert observation[-1] == (0.75 if normalised else 3)


def test_observations_that_cannot_be_extended_are_refused():
    env = TransformObservation(to_gymnasium("paper"), lambda s: np.zeros((2, 2), np.float32), Box(0, 1, (2, 2)))
    mdp = env.unwrapped.mdp
    with pytest.raises(ArgumentError, match=r"cannot be appended to observations of Box.*observe='dict'"):
        ShieldedEnv(env, shield_of(mdp), 1, state_of=lambda seen, env: 0, observe="flat")
    joined = ShieldedEnv(env, shield_of(mdp), 1, state_of=lambda seen, env: 0)  # by default a dict
    assert set(joined.observation_space.spaces) == {"observation", "remaining"}
    for dtype, budget in (
        (np.float16, 5000),
        (np.uint8, 300),
        (np.bool_, 1),
    ):  # dtypes that cannot represent the budget
        with pytest.raises(ArgumentError, match=r"cannot be appended to observations of Box.*observe='dict'"):
            show(Box(0, 1, (2,), dtype), {"remaining": budget}, "flat", normalised=False, num_actions=2)
    with pytest.raises(UnknownName, match=r"unknown form of observation 'flot'\. Did you mean 'flat'"):
        shielded("paper", observe="flot")


MODES = list(AutoresetMode)


def test_damages_must_be_integers():
    class Says(gymnasium.Wrapper):
        def step(self, action):
            return *self.env.step(action)[:4], {"damage": 0.5}

    one = BudgetObservation(Says(cliff()), 3)
    many = VectorBudgetObservation(SyncVectorEnv([lambda: Says(cliff())]), 3)
    for envs, action in ((one, 0), (many, np.array([0]))):
        envs.reset(seed=0)
        with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .*0\.5"):
            envs.step(action)


def test_an_overspent_budget_reads_zero():
    env = BudgetObservation(DamageTracker(cliff(), hurts), 1, normalised=True)
    env.reset(seed=0)
    for left in (0, -1, -2):
        seen, _, _, _, info = env.step(1)  # over the cliff
        assert (info["remaining"], seen[-1]) == (left, 0)
        assert env.observation_space.contains(seen)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("observe", ["flat", "dict"])
def test_budgets_in_observations(mode, observe):
    envs = VectorDamageTracker(SyncVectorEnv(apart(cliff, 3), autoreset_mode=mode), hurts)
    envs = VectorBudgetObservation(envs, 2, observe=observe)
    seen, infos = envs.reset(seed=0)
    assert envs.observation_space.contains(seen)
    over = np.zeros(3, bool)
    for _ in range(60):
        if mode == AutoresetMode.DISABLED and over.any():
            before = infos["remaining"].copy()
            _, infos = envs.reset(options={"reset_mask": over})
            assert np.array_equal(infos["remaining"], np.where(over, 2, before))
        seen, _, terminated, truncated, infos = envs.step(np.array([1, 0, 0]))
        over = terminated | truncated
        shown = seen["remaining"] if observe == "dict" else seen[:, 1]
        assert np.array_equal(shown, np.maximum(infos["remaining"], 0))
        assert envs.observation_space.contains(seen)
    if mode == AutoresetMode.SAME_STEP:
        assert infos.get("final_obs") is None or infos["final_obs"].dtype == object
