"""``ready``: well-known environments with their damage and models."""

import pickle

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError, UnknownName
from almostsure.gym import DamageTracker, ready
from almostsure.model import known_damage

OTHERS = [
    ("FrozenLake-v1", {}, 0),
    ("FrozenLake8x8-v1", {"is_slippery": False}, 1),
    ("CliffWalking-v1", {"is_slippery": True}, 2),
    ("Taxi-v4", {}, 1),
    ("MiniGrid-LavaGapS5-v0", {}, 0),
    ("MiniGrid-LavaCrossingS9N1-v0", {"map_seed": 4}, 1),
    ("MiniGrid-DistShift1-v0", {}, 1),
]


@pytest.mark.parametrize(("name", "options", "budget"), OTHERS)
def test_models_agree_with_their_environments(name, options, budget):
    """Every transition of random play is in the model: otherwise the shield would raise."""
    env = ready(name, **options).shielded(budget)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    worst = 0
    for _ in range(400):
        *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
        worst = max(worst, budget - info["remaining"])
        if terminated or truncated:
            env.reset()
    assert 0 <= worst <= budget
    twin = pickle.loads(pickle.dumps(env))
    assert twin.reset(seed=1)[1]["remaining"] == budget


def test_errors_for_unknown_environments_list_the_known_ones():
    with pytest.raises(UnknownName, match=r"'CartPole-v1'\. There are: .*FrozenLake-v1, .*Taxi.*MiniGrid-"):
        ready("CartPole-v1")
    with pytest.raises(UnknownName, match=r"'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"):
        ready("FrozenLak-v1")


def test_an_environment_in_place_of_its_id_is_refused():
    with pytest.raises(ArgumentError, match=r"must be the id of an environment; got TimeLimit\. Pass env\.spec\.id"):
        ready(gymnasium.make("FrozenLake-v1"))


def test_damage_functions_work_in_from_gymnasium():
    env = gymnasium.make("CliffWalking-v1")
    mdp = asure.from_gymnasium("CliffWalking-v1", known_damage(env))
    assert mdp == ready("CliffWalking-v1").mdp
    tracked = DamageTracker(env, known_damage(env))
    tracked.reset(seed=0)
    assert tracked.step(1)[4]["damage"] == 1
    hole = known_damage(gymnasium.make("FrozenLake-v1"))
    assert [hole(4, 2, 5, 0, True), hole(14, 2, 15, 1, True)] == [1, 0]
