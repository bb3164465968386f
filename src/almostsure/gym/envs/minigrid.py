"""MiniGrid's rooms as exact models.

A state is where the agent stands, which way it looks, what it carries, and what the map looks like by now: open doors,
things that were moved.  MiniGrid itself says what each action does: it is put into each state and asked once.  Nothing
is sampled, and a room in which chance plays a part (things that move by themselves) is refused.  Entering lava hurts.

A room's map is drawn by chance at every reset.  A model is of one map, so the environment is made to draw the same one
each time.  Reaching the goal is worth 1: that MiniGrid takes off up to 0.9 for the steps that it took is no property
of a state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from almostsure.errors import LimitReached, ModelError, ModelMismatch, optional
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP

Place = tuple[int, int, int, int, str]  # column, row, direction, the number of the map, what is carried

LOOKS = ("east", "south", "west", "north")
MOST_STATES = 200_000


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
class Room:
    """The states of a room; called with (observation, env), it says which one the environment is in.

    The environment's own map and position are read, since what the agent sees is only a part of the room.
    """

    def __init__(self, env: Any) -> None:
        self.maps: dict[bytes, int] = {}  # as they were met, the first at a reset
        self._last: Any = None  # where there is one map only: the object that was compared last
        self.places: dict[Place, int] = {self.place(env.unwrapped, new=True): 0}

    def __call__(self, observation: Any, env: Any) -> int:
        """The state, by its index."""
        place = self.place(env.unwrapped)
        if place not in self.places:
            raise ModelError(f"the agent stands at {place[:3]}, which is no state of the room's model")
        return self.places[place]

    def place(self, room: Any, *, new: bool = False) -> Place:
        """Where a room is; ``new`` maps get a number, and others are refused."""
        number = 0
        if len(self.maps) != 1 or new or room.grid is not self._last:
            content = room.grid.encode().tobytes()
            number = self.maps.setdefault(content, len(self.maps)) if new else self.maps.get(content, -1)
            if number < 0:
                raise ModelMismatch(
                    "the room's map is not the one of the model: MiniGrid draws another at every reset. Make the "
                    "environment with ready(…).make(), which draws the same one."
                )
            self._last = room.grid
        x, y = (int(at) for at in room.agent_pos)
        held = "" if room.carrying is None else f"{room.carrying.color} {room.carrying.type}"
        return x, y, int(room.agent_dir), number, held

    def name(self, place: Place) -> str:
        """How a state is called."""
        x, y, look, number, held = place
        return f"r{y}c{x} {LOOKS[look]}" + (f", map {number}" if number else "") + (f", with {held}" if held else "")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}


def make_room(name: str, map_seed: int, **make_kwargs: Any) -> gymnasium.Env[Any, Any]:
    """A room that draws the same map at each reset."""
    optional("minigrid", "envs")  # registers its environments
    return SameMap(gymnasium.make(name, **make_kwargs), map_seed)


def read_room(make: Callable[[], gymnasium.Env[Any, Any]]) -> tuple[MDP, Room]:
    """The exact model of a room, and what says which state an environment is in."""
    env = make()
    env.reset()
    room: Any = env.unwrapped
    states = Room(env)
    rows, ends, todo = [], set[int](), [(0, _snapshot(room))]
    while todo:
        number, snapshot = todo.pop()
        for action in range(int(env.action_space.n)):  # type: ignore[attr-defined]
            reward, damage, ended = _ask(room, snapshot, action)
            place = states.place(room, new=True)
            if place not in states.places and not ended:
                todo.append((len(states.places), _snapshot(room)))
            after = states.places.setdefault(place, len(states.places))
            rows.append((number, action, after, 1.0, reward, damage))
            if ended:
                ends.add(after)
        if len(states.places) > MOST_STATES:
            raise LimitReached(f"the room has more than {MOST_STATES:,} states. Use an OnlineShield instead.")
    env.close()
    s, a, t, p, r, d = zip(*rows, strict=True)
    actions = [action.name for action in room.actions]
    names = [states.name(place) for place in states.places]
    mdp = from_transitions(s, a, t, p, r, d, terminal=sorted(ends), action_names=actions, state_names=names)
    return mdp, states


def _snapshot(room: Any) -> tuple[Any, ...]:
    """Where a room is, to come back to."""
    return tuple(room.agent_pos), int(room.agent_dir), copy.deepcopy(room.grid), copy.deepcopy(room.carrying)


def _ask(room: Any, snapshot: tuple[Any, ...], action: int) -> tuple[float, int, bool]:
    """What an action does in a state: MiniGrid is put there, and steps once."""
    position, room.agent_dir, grid, carrying = snapshot
    room.agent_pos, room.step_count = np.array(position), 0
    room.grid, room.carrying = copy.deepcopy(grid), copy.deepcopy(carrying)
    chance_before = room.np_random.bit_generator.state
    _, reward, terminated, _, _ = room.step(action)
    if room.np_random.bit_generator.state != chance_before:
        raise ModelError(
            f"in {room.spec.id if room.spec else type(room).__name__} chance plays a part: action {action} draws "
            "random numbers. Sample it: explore(env, mu=…, delta=…, damage=…)."
        )
    cell = room.grid.get(*room.agent_pos)
    return float(reward > 0), int(terminated and cell is not None and cell.type == "lava"), terminated
