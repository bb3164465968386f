"""Fixtures for the tests of shielded environments: play that tracks the budgets independently."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode


def play_one(env, steps, *, seed=0, budget):
    """Random allowed play; checks the budget of every episode; returns their number and the largest damage."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    left, ended, worst = budget, 0, 0
    assert info["remaining"] == budget
    for _ in range(steps):
        mask = env.get_wrapper_attr("action_masks")()
        assert mask.any()
        assert info["action_mask"].dtype == np.int8
        assert np.array_equal(mask, info["action_mask"])
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        left -= info["damage"]
        assert info["remaining"] == left >= 0
        worst = max(worst, budget - left)
        if terminated or truncated:
            ended += 1
            _, info = env.reset()
            left = budget
            assert (info["remaining"], info["damage"]) == (budget, 0)
    return ended, worst


def follow_many(envs, mode, steps, budget):
    """Random allowed play; checks the budget of every environment; returns the number of episodes that ended."""
    rng = np.random.default_rng(0)
    count = envs.num_envs
    _, infos = envs.reset(seed=1)
    left, over, ended = np.full(count, budget), np.zeros(count, bool), 0
    assert (infos["remaining"] == budget).all()
    for _ in range(steps):
        if mode == AutoresetMode.DISABLED and over.any():
            _, some = envs.reset(options={"reset_mask": over})
            left[over] = budget
            assert (some["remaining"][over] == budget).all()
            if "action_mask" in infos:
                infos["action_mask"][over] = some["action_mask"][over]
            over = np.zeros(count, bool)
        if "action_mask" in infos:
            assert infos["action_mask"].any(axis=1).all()
            played = np.array([rng.choice(np.flatnonzero(row)) for row in infos["action_mask"]])
        else:
            played = rng.integers(0, 4, count)
        _, _, terminated, truncated, infos = envs.step(played)
        fresh = over if mode == AutoresetMode.NEXT_STEP else np.zeros(count, bool)
        done = terminated | truncated
        for i in range(count):
            if fresh[i]:
                left[i] = budget
                assert infos["damage"][i] == 0
            elif mode == AutoresetMode.SAME_STEP and done[i]:
                final = infos["final_info"]
                assert final["remaining"][i] == left[i] - final["damage"][i]
                left[i] = budget
            else:
                left[i] -= infos["damage"][i]
        assert np.array_equal(infos["remaining"], left)
        ended += np.count_nonzero(done)
        over = done if mode != AutoresetMode.SAME_STEP else np.zeros(count, bool)
    envs.close()
    return ended


@pytest.fixture(scope="session")
def play():
    """Plays one environment."""
    return play_one


@pytest.fixture(scope="session")
def follow():
    """Plays a vector of environments."""
    return follow_many
