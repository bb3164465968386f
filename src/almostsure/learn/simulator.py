"""A simulator at every state that was found: snapshots of it are taken, restored and stepped.

Snapshots are copies whose random generators go on (:mod:`almostsure.learn.copies`), or what the user's ``get_state``
returns.  ``set_state`` may restore random generators too, so there they get another seed for every play.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, final

import numpy as np

from almostsure.arguments import as_python
from almostsure.errors import ArgumentError, Blame, ModelError, uninterrupted
from almostsure.learn.copies import Chance, Frozen
from almostsure.model.build.damage import TOLD, Damage, check_reset, damage_function, known_damage
from almostsure.model.build.environment import check_layers, discrete_size
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.wording import brief

PLAYS = 4  # of every action in every state
WALK = 50  # steps at random from every state, where choices were sampled
FOREVER = 2**62  # steps that a TimeLimit allows

Ways = dict[Any, tuple[Frozen, Any]]  # by state: the simulator there, and what it shows


@final
@dataclass(frozen=True, slots=True, repr=False)
class Ended:
    """The state of an episode that is over, after it showed ``state``."""

    state: Hashable

    def __repr__(self) -> str:
        return f"ended at {self.state}"


class Arrival(NamedTuple):
    """Where a step led."""

    state: Hashable
    reward: float
    damage: int

    def __str__(self) -> str:
        return f"{self.state!r} (reward {self.reward:g}, damage {self.damage})"


def _function(damage: Damage | str) -> Damage:
    """The damage as a function; if it is none, the message says that entries of info may be named, too."""
    try:
        return damage_function(damage)
    except ModelError as error:
        error.args = (f"{error} An entry of info may be named, too: {' or '.join(map(repr, TOLD))}.",)
        raise


@final
class Simulator:
    """Snapshots of an environment by state."""

    def __init__(
        self,
        env: Any,
        damage: Damage | str | None,
        key: Callable[[Any], Hashable],
        get_state: Callable[[Any], Any] | None,
        set_state: Callable[[Any, Any], None] | None,
    ) -> None:
        size = discrete_size("action", getattr(env, "action_space", None))
        if isinstance(env, type):
            raise ArgumentError(
                f"env must be an environment; got the class {env.__name__}. Pass an instance: {env.__name__}()."
            )
        if size is None:
            raise ArgumentError(
                "env must be a Gymnasium environment with Discrete actions. Choose a few of its actions with "
                "gymnasium.wrappers.TransformAction, or describe its steps to almostsure.abstract."
            )
        check_layers(env, "explore", around=False)
        if (get_state is None) != (set_state is None):
            raise ArgumentError("get_state and set_state must be given together")
        self.num_actions = size
        self.env, self.key = env, key
        self.told: tuple[str, ...] = TOLD  # which entries of info say the damage, where no function does
        self.damage = None
        if isinstance(damage, str) and damage in TOLD:
            self.told = (damage,)
        else:
            self.damage = known_damage(env) if damage is None else _function(damage)
        self.get_state, self.set_state = get_state, set_state
        self.snapshots: Ways = {}
        self.others: Ways = {}  # from another way to the state
        self.arrivals: dict[tuple[Any, int], Arrival] = {}
        self.seeds: Sequence[int] = ()  # of the resets
        self.chance = Chance()
        self.plays = 0  # how often a snapshot was restored

    @contextmanager
    def uncut(self) -> Iterator[None]:
        """Let no TimeLimit inside cut the exploration short: being cut is not an end.  Afterwards they cut again."""
        limits, env = [], self.env
        while env is not None:
            if hasattr(env, "_max_episode_steps"):
                limits.append((env, env._max_episode_steps))
            env = getattr(env, "env", None)
        try:
            for layer, _ in limits:
                layer._max_episode_steps = FOREVER
            yield
        finally:
            for layer, steps in limits:
                layer._max_episode_steps = steps

    def starts(self, seeds: Sequence[int]) -> dict[Hashable, float]:
        """Begin with each seed; returns the initial states, and how often each was one."""
        self.seeds = seeds
        times: Counter[Hashable] = Counter()
        for seed in seeds:
            observation = self._reset(seed)
            # Also generators that a reset does not seed: the same seed plays the same.
            self.chance.reseed(self.env, seed)
            state = self._key(observation)
            try:
                times[state] += 1
            except TypeError:
                kind = type(state).__name__
                raise ArgumentError(
                    f"key must return a hashable value, such as a tuple of numbers; it returned {kind}"
                ) from None
            if state not in self.snapshots:
                with self.uncut():
                    self.snapshots[state] = self._snapshot(self.env), observation
        return {state: number / len(seeds) for state, number in times.items()}

    @property
    def starts_in_words(self) -> str:
        """Which starts were seen, as a sentence."""
        resets = len(self.seeds)
        return (
            "Its start was observed in one reset." if resets == 1 else f"Its starts were observed in {resets:,} resets."
        )

    def after_resets(self) -> Iterator[tuple[Any, int, Arrival]]:
        """Every action after every reset, as (state, action, where it led): equal starts may hide different things."""
        for seed in self.seeds:
            observation = self._reset(seed)
            state, snapshot = self._key(observation), self._snapshot(self.env)
            if state not in self.snapshots:
                raise ModelError(f"reset(seed={seed}) began in {state!r}, and elsewhere before: it must heed its seed")
            for action in range(self.num_actions):
                yield state, action, self._step((snapshot, observation), action)[0]

    def actions(self, state: Any) -> range:
        """What can be played in a state: everything, or nothing where an episode ended."""
        return range(0 if isinstance(state, Ended) else self.num_actions)

    def outcomes(self, state: Any, action: int) -> list[tuple[float, Hashable, float, int]]:
        """The one outcome of an action, played several times unless it is known."""
        if (state, action) in self.arrivals:
            return [(1.0, *self.arrivals[state, action])]
        ways: Ways = {}
        arrival = self.play(state, action, ways, second=True)
        for _ in range(PLAYS - 1):
            again = self.play(state, action, ways)
            if arrival == again:
                continue
            raise ModelError(
                f"the environment is not deterministic: from {state!r}, action {action} led to {arrival} and "
                f"then to {again}. If chance plays a part, sample it: explore(env, mu=…, delta=…); "
                "if the observation does not show all that matters, pass key."
            )
        with uninterrupted():  # or the same way would be taken for a second one when the exploration goes on
            self.keep(ways)
            self.arrivals[state, action] = arrival
        return [(1.0, *arrival)]

    def check_keys(self) -> None:
        """What comes next must depend on the state alone, not on the way to it."""
        reached = ((s, a, self._step(self.others[s], a)[0]) for s, a in self.arrivals if s in self.others)
        for state, action, again in chain(reached, self.after_resets()):
            if again != (arrival := self.arrivals[state, action]):
                raise ModelError(
                    f"the state {state!r} does not decide what comes next: action {action} led to {arrival} on "
                    f"one way to it, and to {again} on another. Pass a key that tells the two apart."
                )

    def play(self, state: Any, action: int, ways: Ways, *, second: bool = False) -> Arrival:
        """One step from a state, whatever chance makes of it this time.

        Where it leads to a state that is new, or if asked for to one that was reached on one way only, ``ways`` gets
        a snapshot there, for :meth:`keep` when all plays of the step are done.
        """
        arrival, env, shown = self._step(self.snapshots[state], action)
        found = arrival.state
        known = found in self.snapshots and not (second and found not in self.others)
        if not (known or found in ways or isinstance(found, Ended)):
            ways[found] = self._snapshot(env), shown
        return arrival

    def keep(self, ways: Ways) -> None:
        """Remember ways to states: the first one to a state is where it is played from, the second one a check."""
        for state, way in ways.items():
            (self.others if state in self.snapshots else self.snapshots)[state] = way

    def walk(self, state: Any, rng: np.random.Generator) -> Iterator[tuple[Any, int, Arrival]]:
        """Random steps from a state, as (state, action, where it led), until the episode ends."""
        snapshot, shown = self.snapshots[state]
        env = self._restored(snapshot)
        for _ in range(WALK):
            action = int(rng.integers(self.num_actions))
            arrival, shown = self._taken(env, shown, action)
            yield state, action, arrival
            if isinstance(arrival.state, Ended):
                return
            state = arrival.state

    def _step(self, here: tuple[Frozen, Any], action: int) -> tuple[Arrival, Any, Any]:
        """Where a step leads, the environment there, and what it shows."""
        snapshot, before = here
        env = self._restored(snapshot)
        arrival, shown = self._taken(env, before, action)
        return arrival, env, shown

    def _taken(self, env: Any, before: Any, action: int) -> tuple[Arrival, Any]:
        """Where a step led, and what the environment shows there."""
        with Blame(lambda: f"the environment failed at step({action}), after it showed {brief(before)}"):
            observation, reward, terminated, _, info = env.step(action)
            reward, terminated = float(reward), bool(terminated)
        if not math.isfinite(reward):
            raise ModelError(f"reward must be a finite number; got {reward} after action {action} from {brief(before)}")
        hurt = self._damage(before, action, observation, reward, terminated, info)
        reached = self._key(observation)
        return Arrival(Ended(reached) if terminated else reached, reward, hurt), observation

    def _reset(self, seed: int) -> Any:
        """What the environment shows at the start of an episode."""
        with Blame(lambda: f"the environment failed at reset(seed={seed})"):
            observation, info = self.env.reset(seed=seed)
        if self.damage is None:
            check_reset(info, *self.told)
        return observation

    def _key(self, observation: Any) -> Hashable:
        """The state of an observation."""
        with Blame(lambda: f"key failed for the observation {brief(observation)}"):
            return self.key(observation)

    def _damage(self, *outcome: Any) -> int:
        *five, info = outcome
        told = (info[name] for name in self.told if name in info)
        with Blame(lambda: f"damage failed for {', '.join(map(brief, five))}"):
            said = self.damage(*five) if self.damage is not None else next(told, None)
        if said is None:
            none = " and no ".join(map(repr, self.told))
            raise ModelError(f"the environment says no damage: info has no {none}. Pass damage=, a rule or a function.")
        number = as_damage(said)
        if number is None:
            raise ModelError(f"damage must be a whole number 0 … {MAX_DAMAGE}; got {said!r} after action {five[1]!r}")
        return number

    def _snapshot(self, env: Any) -> Frozen:
        thing, what, remedy = env, "the environment", "Pass get_state and set_state."
        if self.get_state is not None:
            what, remedy = "what get_state returned", "Let it return plain values."
            with Blame(lambda: "get_state failed"):
                thing = self.get_state(env)
        try:
            return Frozen(thing)
        except Exception as error:
            raise ArgumentError(f"{what} cannot be copied ({type(error).__name__}: {error}). {remedy}") from error

    def _restored(self, snapshot: Frozen) -> Any:
        self.plays += 1
        if self.set_state is None:
            return snapshot()
        with Blame(lambda: "set_state failed for what get_state had returned"):
            self.set_state(self.env, snapshot())
        self.chance.reseed(self.env, self.seeds[0], self.plays)
        return self.env


def as_key(observation: Any) -> Hashable:
    """An observation as a hashable value: arrays as tuples, dictionaries as tuples of their items."""
    if isinstance(observation, Mapping):
        return tuple((name, as_key(observation[name])) for name in sorted(observation, key=str))
    if isinstance(observation, (list, tuple)):
        return tuple(as_key(item) for item in observation)
    if isinstance(observation, np.ndarray):
        return as_key(observation.tolist())
    plain: Hashable = as_python(observation)
    return plain
