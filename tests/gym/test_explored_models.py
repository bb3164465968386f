"""Models that know how observations become states, in environments that show indices."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.gym import ShieldedEnv, ShieldedVectorEnv, to_gymnasium


def outcomes(state, action):
    place, tired = state
    return [(0.5, (min(place + 1, 4), tired), 1.0, int(action == "run" and place == 1)), (0.5, (place, True), 0.0, 0)]


def actions(state):
    return [] if state[0] == 4 else ["run", "walk"]


@pytest.fixture
def mdp():
    return asure.from_function(outcomes, initial=(0, False), actions=actions)


def test_a_shield_fits_the_environment_of_its_own_model(mdp):
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)
    rng = np.random.default_rng(0)
    for episode in range(20):
        _, info = env.reset(seed=episode)
        for _ in range(50):
            _, _, terminated, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            assert info["damage"] == 0
            if terminated:
                break


def test_so_do_vectors(mdp):
    env = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(mdp)] * 3)
    env = ShieldedVectorEnv(env, asure.Shield(asure.minimal_budget(mdp)), 0)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(60):
        masks = env.action_masks()
        _, _, _, _, infos = env.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in masks]))
        assert (infos["remaining"] >= 0).all()


def test_states_that_are_integers_in_another_order():
    mdp = asure.from_function(
        lambda s, a: [(1.0, 0, 0.0, int(s == 1 and a == 0))], initial=1, actions=lambda s: [0, 1] if s else []
    )
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [0, 1]


def test_states_that_are_far_integers():
    mdp = asure.from_function(
        lambda s, a: [(1.0, s - 5, 0.0, int(s == 10 and a == 0))], initial=10, actions=lambda s: [0, 1] if s else []
    )
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [0, 1]
