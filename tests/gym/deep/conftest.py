"""Fixtures for the tests of deep agents, which need the extra."""

import pytest

pytest.importorskip("sb3_contrib")

import almostsure as asure


@pytest.fixture(scope="session")
def hazard():
    return asure.example("hazard-map")


@pytest.fixture(scope="session")
def shield(hazard):
    return asure.Shield(asure.minimal_budget(hazard))


@pytest.fixture(scope="session")
def agent(hazard):
    """An agent after a short training."""
    from almostsure.gym.deep import Settings, train_maskable_ppo

    return train_maskable_ppo(
        hazard, 3, total_timesteps=4_000, seed=5, settings=Settings(n_envs=16, max_episode_steps=60)
    )
