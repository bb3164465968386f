"""MiniGrid's rooms as exact models."""

import sys

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import MissingExtra, ModelError, ModelMismatch
from almostsure.gym import (
    ShieldedEnv,
    ready,
)


def test_lava_rooms_are_enumerated_not_sampled():
    room = ready("MiniGrid-LavaGapS5-v0", map_seed=1)
    mdp = room.mdp
    assert (np.diff(mdp.outcome_ptr) == 1).all()  # deterministic
    assert set(mdp.action_names) == {"left", "right", "forward", "pickup", "drop", "toggle", "done"}
    hurts = mdp.damage > 0
    assert hurts.any()
    assert mdp.is_terminal()[mdp.successor[hurts]].all()
    assert set(mdp.choice_action[mdp.outcome_choices()[hurts]]) == {2}  # only forward leads into lava
    solution = asure.solve_policy(mdp, asure.AlmostSure(0), discount=0.99)
    assert solution.value > 0.8


def test_rooms_with_another_map_are_refused():
    one, two = ready("MiniGrid-LavaGapS7-v0", map_seed=0), ready("MiniGrid-LavaGapS7-v0", map_seed=2)
    env = ShieldedEnv(two.make(), one.shield(), 0, state_of=one.state_of, observe="dict")
    with pytest.raises(ModelMismatch, match="the room's map is not that of the model"):
        env.reset(seed=0)


def test_doors_and_keys_are_part_of_the_state():
    room = ready("MiniGrid-DoorKey-5x5-v0")
    names = room.mdp.state_names
    assert any("with yellow key" in name and "map" in name for name in names)
    assert asure.solve_policy(room.mdp, asure.AlmostSure(0), discount=0.99).value > 0.8  # the goal is behind the door
    env = room.shielded(budget=0)
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        if terminated or truncated:
            _, info = env.reset()


def played(room, steps):
    env, rng = room.shielded(budget=0), np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        if terminated or truncated:
            _, info = env.reset()
    return env.ledger


def test_episodes_may_end_in_states_from_which_others_continue():
    room = ready("MiniGrid-GoToDoor-5x5-v0")  # "done" in front of the door ends the episode
    mdp = room.mdp
    assert any(name.startswith("ended at r") for name in mdp.state_names)
    good = mdp.reward > 0
    assert {mdp.action_name(a) for a in mdp.choice_action[mdp.outcome_choices()[good]]} == {"done"}
    assert mdp.is_terminal()[mdp.successor[good]].all()
    assert played(room, 500).episodes > 50


def test_rooms_with_objects_as_attributes_are_copied_correctly():
    room = ready("MiniGrid-RedBlueDoors-6x6-v0")  # its doors are also attributes of the room
    assert (room.mdp.reward > 0).sum() == 1
    assert room.mdp.is_terminal().sum() == 2
    assert played(room, 2000).episodes > 3


def test_random_rooms_are_refused():
    with pytest.raises(ModelError, match="must be deterministic; action 0 draws random numbers"):
        ready("MiniGrid-Dynamic-Obstacles-5x5-v0")


def test_lava_rooms_need_minigrid(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[envs\]'"):
        ready("MiniGrid-LavaGapS5-v0")
