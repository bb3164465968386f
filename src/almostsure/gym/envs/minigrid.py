"""MiniGrid's rooms as exact models.

A state is the agent's position and direction, the object that it carries, and the current map, with opened doors and
moved objects.  Each action is played once in a copy of the environment in each state.  Nothing is sampled: rooms with
random transitions (objects that move by themselves) are refused.  Entering lava does 1 damage.  If an episode ends in a
state from which other episodes continue (by the action "done" in front of a door), the model has a further state for
the end.

MiniGrid draws a random map at every reset.  A model is of a single map, so the environment is reset to the same map
each time.  Reaching the goal has reward 1: MiniGrid's deduction of up to 0.9 for the number of steps is not a function
of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, final

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from almostsure.errors import LimitReached, ModelError, ModelMismatch, optional
from almostsure.learn.copies import Frozen
from almostsure.learn.simulator import Ended
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP

Place = tuple[int, int, int, int, str]  # column, row, direction, number of the map, carried object

DIRECTIONS = ("east", "south", "west", "north")
MAX_STATES = 200_000


@final
class SameMap(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment whose resets always use the same seed."""

    def __init__(self, env: gymnasium.Env[Any, Any], map_seed: int) -> None:
        RecordConstructorArgs.__init__(self, map_seed=map_seed)
        gymnasium.Wrapper.__init__(self, env)
        self.map_seed = map_seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode on the same map."""
        return self.env.reset(seed=self.map_seed, options=options)


@final
class Room:
    """The states of a room, as a ``state_of`` function.

    It reads the environment's own map and position, since the agent observes only a part of the room.
    """

    def __init__(self, env: Any) -> None:
        self.maps: dict[bytes, int] = {}  # numbered in order of discovery; number 0 is the map after a reset
        self._last: Any = None  # the grid that was compared last; used if there is only one map
        self.places: dict[Place, int] = {self.place(env.unwrapped, new=True): 0}

    def __call__(self, observation: Any, env: Any) -> int:
        """The index of the state that the environment is in."""
        place = self.place(env.unwrapped)
        if place not in self.places:
            raise ModelError(f"the agent must be in a state of the room's model; it is at {place[:3]}")
        return self.places[place]

    def place(self, room: Any, *, new: bool = False) -> Place:
        """The place that a room is in; unknown maps get a number if ``new``, otherwise they are refused."""
        number = 0
        if len(self.maps) != 1 or new or room.grid is not self._last:
            content = room.grid.encode().tobytes()
            number = self.maps.setdefault(content, len(self.maps)) if new else self.maps.get(content, -1)
            if number < 0:
                raise ModelMismatch(
                    "the room's map is not that of the model: MiniGrid draws another one at every reset. Make the "
                    "environment with ready(…).make(), which resets to the same map."
                )
            self._last = room.grid
        x, y = (int(at) for at in room.agent_pos)
        held = "" if room.carrying is None else f"{room.carrying.color} {room.carrying.type}"
        return x, y, int(room.agent_dir), number, held

    def set_states(self, states: dict[Place | Ended, int]) -> list[str]:
        """Store the states of the model, and return their names.

        An end has the name of its place, unless episodes also continue from there: then it is named as an end.
        """
        names = []
        for state, number in states.items():
            place = cast("Place", state.state) if isinstance(state, Ended) else state
            if place is state or place not in states:
                self.places[place] = number
                names.append(self.name(place))
            else:
                names.append(str(Ended(self.name(place))))
        return names

    def name(self, place: Place) -> str:
        """The name of a state."""
        x, y, direction, number, held = place
        return (
            f"r{y}c{x} {DIRECTIONS[direction]}"
            + (f", map {number}" if number else "")
            + (f", with {held}" if held else "")
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}


def make_room(name: str, map_seed: int, **make_kwargs: Any) -> gymnasium.Env[Any, Any]:
    """A room with the same map after each reset."""
    optional("minigrid", "envs")  # registers its environments
    return SameMap(gymnasium.make(name, **make_kwargs), map_seed)


def read_room(make: Callable[[], gymnasium.Env[Any, Any]]) -> tuple[MDP, Room]:
    """The exact model of a room, and its ``state_of`` function."""
    env = make()
    env.reset()
    room: Any = env.unwrapped
    states = Room(env)
    found: dict[Place | Ended, int] = {place: 0 for place in states.places}  # the start
    rows, todo = [], [(0, Frozen(room))]
    while todo:
        number, here = todo.pop()
        for action in range(int(env.action_space.n)):  # type: ignore[attr-defined]
            there = here()
            reward, damage, ended = _step(there, action)
            place = states.place(there, new=True)
            reached = Ended(place) if ended else place
            if reached not in found and not ended:
                todo.append((len(found), Frozen(there)))
            after = found.setdefault(reached, len(found))
            rows.append((number, action, after, 1.0, reward, damage))
        if len(found) > MAX_STATES:
            raise LimitReached(f"the room must have at most {MAX_STATES:,} states. Use an OnlineShield instead.")
    env.close()
    s, a, t, p, r, d = zip(*rows, strict=True)
    actions = [action.name for action in room.actions]
    ends = [number for reached, number in found.items() if isinstance(reached, Ended)]
    mdp = from_transitions(s, a, t, p, r, d, terminal=ends, action_names=actions, state_names=states.set_states(found))
    return mdp, states


def _step(room: Any, action: int) -> tuple[float, int, bool]:
    """Play an action; returns the reward, the damage, and whether the episode has terminated."""
    room.step_count = 0
    generator_before = room.np_random.bit_generator.state
    _, reward, terminated, _, _ = room.step(action)
    if room.np_random.bit_generator.state != generator_before:
        raise ModelError(
            f"{room.spec.id if room.spec else type(room).__name__} must be deterministic; action {action} draws random "
            "numbers. Sample it: explore(env, mu=…, delta=…, damage=…)."
        )
    cell = room.grid.get(*room.agent_pos)
    return float(reward > 0), int(terminated and cell is not None and cell.type == "lava"), terminated
