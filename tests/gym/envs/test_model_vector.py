"""Many environments of a model at once."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError
from almostsure.gym import (
    ModelVectorEnv,
    ShieldedVectorEnv,
)

from ..made import shield_of

BUDGET = 3


def test_steps_of_a_vector_are_outcomes_of_the_model():
    mdp = asure.example("hazard-map")
    envs = ModelVectorEnv(mdp, 64, max_episode_steps=50)
    states, infos = envs.reset(seed=3)
    rng, over = np.random.default_rng(0), np.zeros(64, bool)
    for _ in range(100):
        actions = rng.integers(0, 4, 64)
        before = states
        states, rewards, terminated, truncated, infos = envs.step(actions)
        for i in range(0, 64, 7):
            if over[i]:
                assert states[i] in mdp.initial_states
                assert rewards[i] == infos["damage"][i] == 0
            else:
                possible = {(t, r, d) for t, _, r, d in mdp.outcomes(int(before[i]), int(actions[i]))}
                assert (states[i], rewards[i], infos["damage"][i]) in possible
        over = terminated | truncated
    assert np.array_equal(ModelVectorEnv(mdp, 64).reset(seed=3)[0], envs.reset(seed=3)[0])


def test_some_environments_of_a_vector_can_be_reset():
    mdp = asure.example("hazard-map")
    envs = ShieldedVectorEnv(ModelVectorEnv(mdp, 3), shield_of(mdp), BUDGET)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset all environments before"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    envs.reset(seed=0)
    for _ in range(5):
        before, *_ = envs.step(envs.action_masks().argmax(axis=1))
    seen, infos = envs.reset(options={"reset_mask": np.array([True, False, False])})
    assert seen[0].tolist() == [mdp.initial_states[0], BUDGET]
    assert np.array_equal(seen[1:], before[1:])
    assert infos["_remaining"].tolist() == [True, False, False]
    envs.step(envs.action_masks().argmax(axis=1))
    for mask in ([True, False], [1, 0, 0]):
        with pytest.raises(ArgumentError, match="reset_mask must be 3 booleans"):
            envs.unwrapped.reset(options={"reset_mask": mask})
    states, _ = envs.unwrapped.reset(options={"state": 5})
    assert states.tolist() == [5, 5, 5]


@pytest.mark.parametrize("seed", [[1, 2, 3], np.array([1, 2, 3]), [None, 2, 3], np.int64(7), 7])
def test_the_same_seed_gives_the_same_episodes(seed):
    def draws():
        envs = ModelVectorEnv(asure.example("paper", damage_probability=0.5), 3)
        envs.reset(seed=seed)
        assert envs.np_random_seed is not None
        return [envs.step(np.zeros(3, int))[-1]["damage"].tolist() for _ in range(30)]

    assert draws() == draws()
    with pytest.raises(ArgumentError, match="seed must be a whole number, or 3 of them"):
        ModelVectorEnv("paper", 3).reset(seed=[1, 2])


def test_frequencies_in_a_vector():
    mdp = asure.example("paper", damage_probability=0.3)
    envs = ModelVectorEnv(mdp, 2000)
    envs.reset(seed=0)
    damages = [envs.step(np.zeros(2000, int))[-1]["damage"].mean() for _ in range(10)]
    assert np.mean(damages) == pytest.approx(0.3, abs=0.01)
    with pytest.raises(ArgumentError, match="actions must be 2000 ids"):
        envs.step(np.zeros(3, int))
    with pytest.raises(LookupError, match="action 'north' is not available at state 1"):
        ModelVectorEnvAt("corridor").step(np.array([0]))
    with pytest.raises(ArgumentError, match="num_envs must be at least 1; got 0"):
        ModelVectorEnv(mdp, 0)


def ModelVectorEnvAt(name):  # noqa: N802  # in the corridor, where there is one action
    envs = ModelVectorEnv(name, 1)
    envs.reset(seed=0)
    envs.step(np.array([1]))
    return envs
