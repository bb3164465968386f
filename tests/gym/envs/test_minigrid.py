"""MiniGrid's lava rooms as exact models."""

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


def test_another_room_is_refused():
    one, two = ready("MiniGrid-LavaGapS7-v0", map_seed=0), ready("MiniGrid-LavaGapS7-v0", map_seed=2)
    env = ShieldedEnv(two.make(), one.shield(), 0, state_of=one.state_of, observe="dict")
    with pytest.raises(ModelMismatch, match="the room's map is not the one of the model"):
        env.reset(seed=0)


@pytest.mark.parametrize("name", ["MiniGrid-DoorKey-5x5-v0", "MiniGrid-Dynamic-Obstacles-5x5-v0"])
def test_rooms_with_more_in_them_are_refused(name):
    with pytest.raises(ModelError, match="is no lava room"):
        ready(name)


def test_lava_rooms_need_minigrid(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[envs\]'"):
        ready("MiniGrid-LavaGapS5-v0")
