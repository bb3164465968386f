"""MiniGrid's lava rooms as exact models.

In these rooms nothing changes but where the agent stands and which way it looks, and every step is deterministic.  So
MiniGrid itself says what each action does: it is put into each state and asked once.  Nothing is sampled, and
a room for which this is not so (doors, keys, things that move) is refused.

A room's map is drawn by chance at every reset.  A model is of one map, so the environment is made to draw the same one
each time.  Reaching the goal is worth 1: that MiniGrid takes off up to 0.9 for the steps that it took is no property
of a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from almostsure.errors import MissingExtra, ModelError, ModelMismatch
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP

Pose = tuple[int, int, int]  # column, row, direction

LOOKS = ("east", "south", "west", "north")


@final
class SameMap(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment that is reset with the same seed each time, whatever seed is asked for."""

    def __init__(self, env: gymnasium.Env[Any, Any], map_seed: int) -> None:
        RecordConstructorArgs.__init__(self, map_seed=map_seed)
        gymnasium.Wrapper.__init__(self, env)
        self.map_seed = map_seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode on the same map."""
        return self.env.reset(seed=self.map_seed, options=options)


@final
class LavaRoom:
    """The states of a room; called with (observation, env), it says which one the environment is in.

    The environment's own position is read, since what the agent sees is only a part of the room.
    """

    def __init__(self, env: Any) -> None:
        room = env.unwrapped
        self._map = room.grid.encode().tobytes()
        self.poses: dict[Pose, int] = {pose_of(room): 0}
        self._last: Any = None  # the map that was compared last: it is made anew by each reset

    def __call__(self, observation: Any, env: Any) -> int:
        """The state, by its index."""
        room = env.unwrapped
        if room.grid is not self._last:
            if room.grid.encode().tobytes() != self._map:
                raise ModelMismatch(
                    "the room's map is not the one of the model: MiniGrid draws another at every reset. Make the "
                    "environment with ready(…).make(), which draws the same one."
                )
            self._last = room.grid
        pose = pose_of(room)
        if pose not in self.poses:
            raise ModelError(f"the agent stands at {pose}, which is no state of the room's model")
        return self.poses[pose]

    def number(self, pose: Pose) -> int:
        """The state's index, a new one for a new pose."""
        return self.poses.setdefault(pose, len(self.poses))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}


def make_room(name: str, map_seed: int, **make_kwargs: Any) -> gymnasium.Env[Any, Any]:
    """A lava room that draws the same map at each reset."""
    try:
        import minigrid  # registers its environments
    except ImportError as error:
        raise MissingExtra("minigrid", "envs") from error
    del minigrid
    return SameMap(gymnasium.make(name, **make_kwargs), map_seed)


def read_room(make: Callable[[], gymnasium.Env[Any, Any]]) -> tuple[MDP, LavaRoom]:
    """The exact model of a lava room, and what says which state an environment is in."""
    env = make()
    env.reset()
    room: Any = env.unwrapped
    states = LavaRoom(env)
    rows, ends, todo = [], set[int](), list(states.poses)
    while todo:
        pose = todo.pop()
        for action in range(int(env.action_space.n)):  # type: ignore[attr-defined]
            after, reward, damage, ended = _ask(room, pose, action)
            if after not in states.poses and not ended:
                todo.append(after)
            number = states.number(after)
            rows.append((states.poses[pose], action, number, 1.0, reward, damage))
            if ended:
                ends.add(number)
    env.close()
    s, a, t, p, r, d = zip(*rows, strict=True)
    actions = [action.name for action in room.actions]
    names = [f"r{y}c{x} {LOOKS[look]}" for x, y, look in states.poses]
    mdp = from_transitions(s, a, t, p, r, d, terminal=sorted(ends), action_names=actions, state_names=names)
    return mdp, states


def _ask(room: Any, pose: Pose, action: int) -> tuple[Pose, float, int, bool]:
    """What an action does in a state: MiniGrid is put there, and steps once."""
    room.agent_pos, room.agent_dir = np.array(pose[:2]), pose[2]
    room.step_count, room.carrying = 0, None
    map_before, chance_before = room.grid.encode().tobytes(), room.np_random.bit_generator.state
    _, reward, terminated, _, _ = room.step(action)
    changed = room.grid.encode().tobytes() != map_before or room.carrying is not None
    if changed or room.np_random.bit_generator.state != chance_before:
        raise ModelError(
            f"{room.spec.id if room.spec else type(room).__name__} is no lava room: action {action} at {pose} changes "
            "the map, takes something, or depends on chance, so a state is more than where the agent stands."
        )
    cell = room.grid.get(*room.agent_pos)
    return pose_of(room), float(reward > 0), int(terminated and cell is not None and cell.type == "lava"), terminated


def pose_of(room: Any) -> Pose:
    """Where the agent stands and which way it looks."""
    x, y = (int(at) for at in room.agent_pos)
    return x, y, int(room.agent_dir)
