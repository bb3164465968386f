"""MiniGrid's rooms as exact models.

A state is where the agent stands, which way it looks, what it carries, and what the map looks like by now: open doors,
things that were moved.  MiniGrid itself says what each action does: it is copied in each state and asked once.  Nothing
is sampled, and a room in which chance plays a part (things that move by themselves) is refused.  Entering lava hurts.
Where an episode ended in what others go on from (saying "done" in front of a door), there is a state for the end, too.

A room's map is drawn by chance at every reset.  A model is of one map, so the environment is made to draw the same one
each time.  Reaching the goal is worth 1: that MiniGrid takes off up to 0.9 for the steps that it took is no property
of a state.
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

    def found(self, states: dict[Place | Ended, int]) -> list[str]:
        """Know the states of the model from now on; returns their names.

        An end shows the state whose name it has, unless episodes also go on from there: then it is called an end.
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
    found: dict[Place | Ended, int] = {place: 0 for place in states.places}  # the start
    rows, todo = [], [(0, Frozen(room))]
    while todo:
        number, here = todo.pop()
        for action in range(int(env.action_space.n)):  # type: ignore[attr-defined]
            there = here()
            reward, damage, ended = _ask(there, action)
            place = states.place(there, new=True)
            reached = Ended(place) if ended else place
            if reached not in found and not ended:
                todo.append((len(found), Frozen(there)))
            after = found.setdefault(reached, len(found))
            rows.append((number, action, after, 1.0, reward, damage))
        if len(found) > MOST_STATES:
            raise LimitReached(f"the room has more than {MOST_STATES:,} states. Use an OnlineShield instead.")
    env.close()
    s, a, t, p, r, d = zip(*rows, strict=True)
    actions = [action.name for action in room.actions]
    ends = [number for reached, number in found.items() if isinstance(reached, Ended)]
    mdp = from_transitions(s, a, t, p, r, d, terminal=ends, action_names=actions, state_names=states.found(found))
    return mdp, states


def _ask(room: Any, action: int) -> tuple[float, int, bool]:
    """What an action does in a state: MiniGrid steps once."""
    room.step_count = 0
    chance_before = room.np_random.bit_generator.state
    _, reward, terminated, _, _ = room.step(action)
    if room.np_random.bit_generator.state != chance_before:
        raise ModelError(
            f"in {room.spec.id if room.spec else type(room).__name__} chance plays a part: action {action} draws "
            "random numbers. Sample it: explore(env, mu=…, delta=…, damage=…)."
        )
    cell = room.grid.get(*room.agent_pos)
    return float(reward > 0), int(terminated and cell is not None and cell.type == "lava"), terminated
