"""Snapshots of a simulator at every state that was found: taking, restoring and stepping them.

A snapshot is a copy that shares the random generators of the original (:mod:`almostsure.learn.copies`), or the value of
the user's ``get_state``.  As ``set_state`` may restore random generators too, they are reseeded for every play then.
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
from almostsure.learn.copies import Frozen, reseed
from almostsure.learn.damage import StepDamage
from almostsure.model.build.damage import Damage, known_damage
from almostsure.model.build.environment import check_layers, discrete_size, five_values, two_values
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.wording import brief

PLAYS = 4  # of every action in every state
WALK = 50  # random steps from every state, if choices were sampled
FOREVER = 2**62  # steps after which a TimeLimit truncates during the exploration

Snapshots = dict[Any, tuple[Frozen, Any]]  # by state: a snapshot and the observation there


@final
@dataclass(frozen=True, slots=True, repr=False)
class Ended:
    """The state after an episode ended, if its last observation was that of ``state``."""

    state: Hashable

    def __repr__(self) -> str:
        return f"ended at {self.state}"


class Arrival(NamedTuple):
    """The result of a step."""

    state: Hashable
    reward: float
    damage: int

    def __str__(self) -> str:
        return f"{self.state!r} (reward {self.reward:g}, damage {self.damage})"


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
        self.damage = StepDamage(env, known_damage(env) if damage is None else damage)
        self.get_state, self.set_state = get_state, set_state
        self.snapshots: Snapshots = {}
        self.second_snapshots: Snapshots = {}  # of states that were reached by two paths
        self.arrivals: dict[tuple[Any, int], Arrival] = {}
        self.seeds: Sequence[int] = ()  # of the resets
        self.plays = 0  # how often a snapshot was restored

    @contextmanager
    def untruncated(self) -> Iterator[None]:
        """Suspend all TimeLimit wrappers inside: truncation is not termination."""
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
        """Reset with each seed; returns the initial states with their relative frequencies."""
        self.seeds = seeds
        times: Counter[Hashable] = Counter()
        for seed in seeds:
            observation = self._reset(seed)
            # Also reseeds generators that the reset does not, so that the same seed gives the same results.
            reseed(self.env, seed)
            state = self._key(observation)
            try:
                times[state] += 1
            except TypeError:
                kind = type(state).__name__
                raise ArgumentError(
                    f"key must return a hashable value, such as a tuple of numbers; it returned {kind}"
                ) from None
            if state not in self.snapshots:
                with self.untruncated():
                    self.snapshots[state] = self._snapshot(self.env), observation
        return {state: number / len(seeds) for state, number in times.items()}

    @property
    def starts_in_words(self) -> str:
        """How the starts were found, as a sentence."""
        resets = len(self.seeds)
        return (
            "Its start was observed in one reset." if resets == 1 else f"Its starts were observed in {resets:,} resets."
        )

    def after_resets(self) -> Iterator[tuple[Any, int, Arrival]]:
        """Play every action after every reset: equal initial states may differ in hidden state.

        Yields (state, action, arrival).
        """
        for seed in self.seeds:
            observation = self._reset(seed)
            state, snapshot = self._key(observation), self._snapshot(self.env)
            if state not in self.snapshots:
                raise ModelError(
                    "reset must begin in the same state for the same seed; "
                    f"reset(seed={seed}) began in {state!r}, and in another state before"
                )
            for action in range(self.num_actions):
                yield state, action, self._step((snapshot, observation), action)[0]

    def actions(self, state: Any) -> range:
        """The actions of a state: all, or none if an episode ended."""
        return range(0 if isinstance(state, Ended) else self.num_actions)

    def outcomes(self, state: Any, action: int) -> list[tuple[float, Hashable, float, int]]:
        """The one outcome of an action, which is played several times when it is first asked for."""
        if (state, action) in self.arrivals:
            return [(1.0, *self.arrivals[state, action])]
        new: Snapshots = {}
        arrival = self.play(state, action, new, second=True)
        for _ in range(PLAYS - 1):
            if arrival != (again := self.play(state, action, new)):
                raise ModelError(
                    f"the environment is not deterministic: from {state!r}, action {action} led to {arrival} and "
                    f"then to {again}. If its transitions are random, sample them: explore(env, mu=…, delta=…); "
                    "if observations contain more than the state, pass key."
                )
        with uninterrupted():  # otherwise the same path could be kept again as a second one
            self.keep(new)
            self.arrivals[state, action] = arrival
        return [(1.0, *arrival)]

    def check_keys(self) -> None:
        """Check that what happens next depends on the state alone, not on the path to it."""
        second = self.second_snapshots
        reached = ((s, a, self._step(second[s], a)[0]) for s, a in self.arrivals if s in second)
        for state, action, again in chain(reached, self.after_resets()):
            if again != (arrival := self.arrivals[state, action]):
                raise ModelError(
                    f"the state {state!r} does not determine what happens next: action {action} led to {arrival} "
                    f"after one path to it, and to {again} after another. Pass a key that distinguishes the two."
                )

    def play(self, state: Any, action: int, new: Snapshots, *, second: bool = False) -> Arrival:
        """Play an action once.

        If it leads to a new state (with ``second``, also to one that has no second snapshot), a snapshot is added to
        ``new``, for :meth:`keep` after all plays of the action.
        """
        arrival, env, shown = self._step(self.snapshots[state], action)
        found = arrival.state
        known = found in self.snapshots and not (second and found not in self.second_snapshots)
        if not (known or found in new or isinstance(found, Ended)):
            new[found] = self._snapshot(env), shown
        return arrival

    def keep(self, new: Snapshots) -> None:
        """Keep snapshots: actions are played from the first of a state; the second is for :meth:`check_keys`."""
        for state, snapshot in new.items():
            (self.second_snapshots if state in self.snapshots else self.snapshots)[state] = snapshot

    def walk(self, state: Any, rng: np.random.Generator) -> Iterator[tuple[Any, int, Arrival]]:
        """Random steps from a state until the episode ends, as (state, action, arrival)."""
        snapshot, shown = self.snapshots[state]
        env = self._restored(snapshot)
        for _ in range(WALK):
            action = int(rng.integers(self.num_actions))
            arrival, shown = self._step_env(env, shown, action)
            yield state, action, arrival
            if isinstance(arrival.state, Ended):
                return
            state = arrival.state

    def _step(self, start: tuple[Frozen, Any], action: int) -> tuple[Arrival, Any, Any]:
        """Play an action from a snapshot; returns the arrival, the environment and the observation."""
        snapshot, before = start
        env = self._restored(snapshot)
        arrival, shown = self._step_env(env, before, action)
        return arrival, env, shown

    def _step_env(self, env: Any, before: Any, action: int) -> tuple[Arrival, Any]:
        """Step an environment that showed ``before``; returns the arrival and the observation."""
        with Blame(lambda: f"the environment failed at step({action}), after it showed {brief(before)}"):
            observation, reward, terminated, _, info = five_values(env.step(action))
            reward, terminated = float(reward), bool(terminated)
        if not math.isfinite(reward):
            raise ModelError(f"reward must be a finite number; got {reward} after action {action} from {brief(before)}")
        reported = self.damage(before, action, observation, reward, terminated, info)
        damage = as_damage(reported)
        if damage is None:
            raise ModelError(f"damage must be a whole number 0 … {MAX_DAMAGE}; got {reported!r} after action {action}")
        reached = self._key(observation)
        return Arrival(Ended(reached) if terminated else reached, reward, damage), observation

    def _reset(self, seed: int) -> Any:
        """Reset the environment; returns the observation."""
        with Blame(lambda: f"the environment failed at reset(seed={seed})"):
            observation, info = two_values(self.env.reset(seed=seed))
        if self.damage.function is None:
            self.damage.check_reset(info)
        return observation

    def _key(self, observation: Any) -> Hashable:
        """The state of an observation."""
        with Blame(lambda: f"key failed for the observation {brief(observation)}"):
            return self.key(observation)

    def _snapshot(self, env: Any) -> Frozen:
        thing, what, remedy = env, "the environment", "Pass get_state and set_state."
        if self.get_state is not None:
            what, remedy = "the value of get_state", "Let it return plain values."
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
        with Blame(lambda: "set_state failed for a value of get_state"):
            self.set_state(self.env, snapshot())
        reseed(self.env, self.seeds[0], self.plays)
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
