"""``explore``: the model of a simulator that can be copied, found by playing every action everywhere.

From where resets lead, every action is played in a copy of the simulator at every state that is found, breadth first.
What the simulator shows is the state; where something else decides what comes next, name it with ``key``.

Determinism is tested, not proved.  Every action is played four times, from copies whose random generators are reseeded
(a deep copy copies the random generator, and would make chance look certain), a state that is reached in two ways is
played from both, and every action is played once after each reset.  A difference is an error that names the place.

*Chance.*  With ``mu`` and ``delta`` every choice is played many times instead, each time from a reseeded copy.  The
i-th choice that is met gets δ_i = 6 δ / (π² i²) of the risk of missing an outcome, and so
⌈ln(⌊1/μ⌋ / δ_i) / −ln(1 − μ)⌉ plays.  If no outcome is rarer than μ, the chance that one of the at most ⌊1/μ⌋ outcomes
of that choice is missed is at most δ_i, and these add up to δ.  So with probability 1 − δ all states that can be
reached were found, with all of their outcomes, and the minimal budget of what was counted is k*.  Then every action is
played once after each reset, and a random walk starts from every state: a step in it that the plays did not show is an
error, since then the state does not decide what comes next, or μ is too large.  Like the test of determinism, this
finds hidden state often, not always.
"""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple, cast, final

import numpy as np

from almostsure.arguments import count, names_right_word
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, ModelError
from almostsure.learn.bounds import unit
from almostsure.learn.counts import Counts
from almostsure.learn.evidence import check_mu
from almostsure.learn.minimal import LearnedBudget, uniform_samples
from almostsure.learn.sampling.env_sampler import made
from almostsure.model.build.damage import Damage, known_damage
from almostsure.model.build.function import MAX_STATES, Encode, from_function
from almostsure.model.mdp import MDP
from almostsure.model.origin import Origin
from almostsure.wording import brief

HIDDEN = "This assumes that what the environment shows decides what comes next."
DEEP = 5  # how many objects within objects are searched for random generators
CONTAINERS = (dict, list, tuple)
PLAYS = 4  # of every action in every state, with different seeds
WALK = 50  # steps at random from every state, where choices were sampled
FOREVER = 2**62  # steps that a TimeLimit allows


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


@names_right_word
def explore(
    env: Any,
    *,
    damage: Damage | None = None,
    key: Callable[[Any], Hashable] | None = None,
    get_state: Callable[[Any], Any] | None = None,
    set_state: Callable[[Any, Any], None] | None = None,
    mu: float | None = None,
    delta: float | None = None,
    seed: int = 0,
    resets: int = 1,
    max_states: int = MAX_STATES,
) -> Any:
    """The model of an environment, by playing every action in every state that is found.

    Parameters
    ----------
    env
        A Gymnasium environment with Discrete actions, or its id.
    mu, delta
        Where chance plays a part: no outcome is rarer than ``mu``, and with a probability of at most ``delta`` one of
        them is missed.  The result is then a :class:`almostsure.learn.LearnedBudget`, with the usual statement.
    damage
        ``damage(observation, action, next_observation, reward, terminated)``; by default ``info["damage"]`` or
        ``info["cost"]``, and for the toy-text environments what they are known for.
    key
        The state of an observation, as a hashable value; by default the whole observation.
    get_state, set_state
        ``get_state(env)`` takes a snapshot and ``set_state(env, snapshot)`` restores it, where a deep copy is slow.
    seed, resets
        The environment is reset so many times, with the seeds ``seed``, ``seed + 1``, …  Every state in which an
        episode began is an initial state, as probable as it was frequent.  A start that none of the resets gave, and
        what can be reached from there alone, is not part of the model, whatever ``delta`` is.
    max_states
        How many states are too many.

    Raises
    ------
    ModelError
        The environment is not deterministic, a key does not decide what comes next, or a snapshot does not restore.

    Examples
    --------
    >>> explore("CliffWalking-v1")
    <MDP: 38 states, 149 choices, 149 outcomes, starts in 36>
    """
    env = made(env) if isinstance(env, str) else env
    if (mu is None) != (delta is None):
        raise ArgumentError("mu and delta must be given together")
    search = _Simulator(env, damage, key or as_key, get_state, set_state)
    starts = search.starts(range(seed, seed + count("resets", resets)))
    sampled = None if mu is None or delta is None else _Sampled(search, check_mu_delta(mu, delta), seed)
    outcomes = search.outcomes if sampled is None else sampled.outcomes
    shown = _Shown(search.key)
    model = from_function(outcomes, initial=starts, actions=search.actions, key=shown, max_states=max_states)
    shown.running.update(search.snapshots)
    if sampled is not None:
        return sampled.learned(model)
    search.check_keys()
    return model


@final
class _Shown:
    """The state that an observation shows, also where an episode ended; it holds no snapshots, and can be pickled."""

    def __init__(self, key: Callable[[Any], Hashable]) -> None:
        self.key = key
        self.running: set[Any] = set()  # the states in which an episode goes on

    def __call__(self, observation: Any) -> Hashable:
        state = self.key(observation)
        return state if state in self.running else Ended(state)


@final
class ByName:
    """``state_of`` for an explored model that was saved and loaded: an observation is in the state of its name.

    A file keeps the names of states, and not the function that turns observations into states.

    Parameters
    ----------
    mdp
        The loaded model; :func:`explore` made it, or ``from_function`` of states that are shown as they are.
    key
        The ``key`` that :func:`explore` was given, if any.

    Examples
    --------
    >>> import gymnasium
    >>> import almostsure as asure
    >>> from almostsure.gym import ShieldedEnv
    >>> explore("CliffWalking-v1").save("cliff.umb")
    >>> cliff = asure.load("cliff.umb")
    >>> env = gymnasium.make("CliffWalking-v1")
    >>> shielded = ShieldedEnv(env, asure.Shield(asure.minimal_budget(cliff)), 0, state_of=ByName(cliff))
    """

    def __init__(self, mdp: MDP, *, key: Callable[[Any], Hashable] | None = None) -> None:
        if mdp.state_names is None:
            raise ArgumentError("mdp must have names of states; this model has none")
        self.key, self.names = key or as_key, {name: state for state, name in enumerate(mdp.state_names)}

    def __call__(self, observation: Any, env: Any = None) -> int:
        """The state whose name is that of the observation, or of an episode that ended with it."""
        state = self.key(observation)
        for told in (state, Ended(state)):
            found = {self.names[name] for name in (str(told), repr(told)) if name in self.names}
            if len(found) > 1:
                raise ModelError(f"two states are named as the observation {brief(state)} is; write state_of")
            if found:
                return found.pop()
        hint = " If explore was given a key: ByName(mdp, key=…)." if self.key is as_key else ""
        raise ModelError(f"no state of the model is named {brief(str(state))}, as the observation is.{hint}")


class Rarity(NamedTuple):
    """What is assumed about chance, and what may go wrong."""

    mu: float
    delta: float


def check_mu_delta(mu: object, delta: object) -> Rarity:
    """Both as numbers strictly between 0 and 1."""
    return Rarity(unit("mu", mu), unit("delta", delta))


@final
class _Sampled:
    """Outcomes by playing each choice as often as its share of delta takes."""

    def __init__(self, search: _Simulator, rarity: Rarity, seed: int) -> None:
        self.search, self.rarity, self.seed = search, rarity, seed
        self.rng = np.random.default_rng([seed, 1])
        self.seen: dict[tuple[Any, int], dict[tuple[Hashable, int], list[float]]] = {}

    def outcomes(self, state: Any, action: int) -> list[tuple[float, Hashable, float, int]]:
        """What was seen, with its frequencies."""
        mu, delta = self.rarity
        share = 6 * delta / (math.pi * (len(self.seen) + 1)) ** 2
        plays = math.ceil(math.log(math.floor(1 / mu) / share) / -math.log1p(-mu) * (1 + 1e-12))
        found: dict[tuple[Hashable, int], list[float]] = {}
        for _ in range(plays):
            arrival = self.search.play(state, action, seed=self._seed())
            found.setdefault((arrival.state, arrival.damage), []).append(arrival.reward)
        self.seen[state, action] = found
        return [(len(r) / plays, after, math.fsum(r) / len(r), hurt) for (after, hurt), r in found.items()]

    def _seed(self) -> int:
        return int(self.rng.integers(2**63))

    def check_keys(self) -> None:
        """On whichever way a state is reached, nothing must happen that was not seen on the first way."""
        for state, action, arrival in chain(self.search.after_resets(), self._walks()):
            found = self.seen[state, action]
            if (arrival.state, arrival.damage) not in found:
                raise ModelError(
                    f"the state {state!r} does not decide what comes next: action {action} led to {_told(arrival)} on "
                    f"one way to it, and never in {sum(map(len, found.values())):,} plays on another. Pass a key that "
                    "tells the two apart, or a smaller mu."
                )

    def _walks(self) -> Iterator[tuple[Any, int, Arrival]]:
        for start in list(self.search.snapshots):
            yield from self.search.walk(start, self.rng, seed=self._seed())

    def learned(self, model: MDP) -> LearnedBudget:
        """The minimal budget of what was counted."""
        resets = len(self.search.seeds)
        starts = "start is the one that a" if resets == 1 else f"starts are those that {resets:,}"
        caveat = f"{HIDDEN} Its {starts} reset{'s' * (resets > 1)} showed."
        counts, index = Counts(model, seed=self.seed, caveat=caveat), cast("Encode", model.encode).index
        for (state, action), found in self.seen.items():
            choice = model.choice(index[state], action)
            for (after, hurt), rewards in found.items():
                mean = math.fsum(rewards) / len(rewards)
                counts.see(choice, index[after], hurt, mean, times=len(rewards))
        check_mu(counts, self.rarity.mu)
        self.check_keys()
        origin = replace(model.origin or Origin(), counted=True)
        return LearnedBudget(
            minimal=minimal_budget(model.with_origin(origin)),
            counts=counts,
            known=np.ones(model.num_choices, np.bool_),
            mu=self.rarity.mu,
            delta=self.rarity.delta,
            budget=None,
            uniform_samples=uniform_samples(counts, *self.rarity),
        )


@final
class _Simulator:
    """Snapshots of an environment by state."""

    def __init__(
        self,
        env: Any,
        damage: Damage | None,
        key: Callable[[Any], Hashable],
        get_state: Callable[[Any], Any] | None,
        set_state: Callable[[Any, Any], None] | None,
    ) -> None:
        size = getattr(getattr(env, "action_space", None), "n", None)
        if size is None:
            raise ArgumentError("env must be a Gymnasium environment with Discrete actions")
        if (get_state is None) != (set_state is None):
            raise ArgumentError("get_state and set_state must be given together")
        self.num_actions = int(size)
        self.env, self.damage, self.key = env, damage or known_damage(env), key
        self.get_state, self.set_state = get_state, set_state
        self.snapshots: dict[Any, tuple[Any, Any]] = {}  # by state: the simulator there, and what it shows
        self.others: dict[Any, tuple[Any, Any]] = {}  # the same, from another way to the state
        self.arrivals: dict[tuple[Any, int], Arrival] = {}
        self.seeds: Sequence[int] = ()  # of the resets

    def starts(self, seeds: Sequence[int]) -> dict[Hashable, float]:
        """Begin with each seed; returns the initial states, and how often each was one."""
        _never_cut(self.env)
        self.seeds = seeds
        times: Counter[Hashable] = Counter()
        for seed in seeds:
            observation, _ = self.env.reset(seed=seed)
            state = self.key(observation)
            times[state] += 1
            if state not in self.snapshots:
                self.snapshots[state] = self._snapshot(self.env), observation
        return {state: number / len(seeds) for state, number in times.items()}

    def after_resets(self) -> Iterator[tuple[Any, int, Arrival]]:
        """Every action after every reset, as (state, action, where it led): equal starts may hide different things."""
        for seed in self.seeds:
            observation, _ = self.env.reset(seed=seed)
            state, snapshot = self.key(observation), self._snapshot(self.env)
            if state not in self.snapshots:
                raise ModelError(f"reset(seed={seed}) began in {state!r}, and elsewhere before: it must heed its seed")
            for action in range(self.num_actions):
                yield state, action, self._step((snapshot, observation), action, seed=1)

    def is_over(self, state: Any) -> bool:
        """Whether an episode ended there."""
        return isinstance(state, Ended)

    def actions(self, state: Any) -> range:
        """What can be played in a state: everything, or nothing where an episode ended."""
        return range(0 if self.is_over(state) else self.num_actions)

    def outcomes(self, state: Any, action: int) -> list[tuple[float, Hashable, float, int]]:
        """The one outcome of an action, played several times."""
        self.arrivals[state, action] = arrival = self._step(self.snapshots[state], action, seed=1)
        for seed in range(2, PLAYS + 1):
            again = self._step(self.snapshots[state], action, seed=seed)
            if arrival == again:
                continue
            raise ModelError(
                f"the environment is not deterministic: from {state!r}, action {action} led to {_told(arrival)} and "
                f"then to {_told(again)}. If chance plays a part, sample it: explore(env, mu=…, delta=…); "
                "if the observation does not show all that matters, pass key."
            )
        return [(1.0, *arrival)]

    def check_keys(self) -> None:
        """What comes next must depend on the state alone, not on the way to it."""
        others, self.others = self.others, {}
        reached = ((s, a, self._step(others[s], a, seed=1)) for s, a in self.arrivals if s in others)
        for state, action, again in chain(reached, self.after_resets()):
            if again != (arrival := self.arrivals[state, action]):
                raise ModelError(
                    f"the state {state!r} does not decide what comes next: action {action} led to {_told(arrival)} on "
                    f"one way to it, and to {_told(again)} on another. Pass a key that tells the two apart."
                )

    def play(self, state: Any, action: int, *, seed: int) -> Arrival:
        """One step from a copy whose random generators have that seed."""
        return self._step(self.snapshots[state], action, seed=seed)

    def walk(self, state: Any, rng: np.random.Generator, *, seed: int) -> Iterator[tuple[Any, int, Arrival]]:
        """Random steps from a state, as (state, action, where it led), until the episode ends."""
        snapshot, shown = self.snapshots[state]
        env = self._restored(snapshot, seed)
        for _ in range(WALK):
            action = int(rng.integers(self.num_actions))
            arrival, shown = self._taken(env, shown, action)
            yield state, action, arrival
            if self.is_over(arrival.state):
                return
            state = arrival.state

    def _step(self, here: tuple[Any, Any], action: int, *, seed: int) -> Arrival:
        snapshot, before = here
        env = self._restored(snapshot, seed)
        arrival, observation = self._taken(env, before, action)
        if self.is_over(arrival.state):
            return arrival
        if arrival.state not in self.snapshots:
            self.snapshots[arrival.state] = self._snapshot(env), observation
        elif arrival.state not in self.others and seed == 1:  # further plays of the same step are not another way
            self.others[arrival.state] = self._snapshot(env), observation
        return arrival

    def _taken(self, env: Any, before: Any, action: int) -> tuple[Arrival, Any]:
        """Where a step led, and what the environment shows there."""
        observation, reward, terminated, _, info = env.step(action)
        hurt = self._damage(before, action, observation, float(reward), bool(terminated), info)
        reached = self.key(observation)
        return Arrival(Ended(reached) if terminated else reached, float(reward), hurt), observation

    def _damage(self, *outcome: Any) -> int:
        *five, info = outcome
        said = self.damage(*five) if self.damage is not None else info.get("damage", info.get("cost"))
        if said is None:
            raise ModelError(
                "the environment says no damage: info has no 'damage' and no 'cost'. Pass damage, a function."
            )
        if said != int(said) or said < 0:
            raise ModelError(f"damage must be a whole number, 0 or more; got {said!r} after action {five[1]!r}")
        return int(said)

    def _snapshot(self, env: Any) -> Any:
        if self.get_state is not None:
            return copy.deepcopy(self.get_state(env))
        try:
            return copy.deepcopy(env)
        except Exception as error:
            raise ArgumentError(
                f"the environment cannot be copied ({type(error).__name__}: {error}). Pass get_state and set_state."
            ) from error

    def _restored(self, snapshot: Any, seed: int) -> Any:
        if self.set_state is None:
            env = copy.deepcopy(snapshot)
        else:
            env = self.env
            self.set_state(env, copy.deepcopy(snapshot))
        _reseed(env, seed)
        return env


def _reseed(env: Any, seed: int) -> None:
    """Give every random generator that the environment, its wrappers and its parts hold another seed."""
    waiting, met = [(env, 0)], {id(env)}
    while waiting:
        thing, depth = waiting.pop()
        held = thing if isinstance(thing, dict) else getattr(thing, "__dict__", {})
        items = list(enumerate(thing)) if isinstance(thing, (list, tuple)) else list(held.items())
        for name, value in items:
            if isinstance(value, np.random.Generator) and not isinstance(thing, tuple):
                fresh = np.random.default_rng([seed % 2**63, depth])
                setattr(thing, name, fresh) if held is not thing and isinstance(name, str) else _put(thing, name, fresh)
            elif isinstance(value, np.random.RandomState):
                value.seed(seed % 2**32)
            elif isinstance(value, random.Random):
                value.seed(seed)
            elif depth < DEEP and id(value) not in met and (hasattr(value, "__dict__") or type(value) in CONTAINERS):
                met.add(id(value))
                if not isinstance(value, (type, ModuleType)) and not callable(value):
                    waiting.append((value, depth + 1))


def _put(container: Any, at: Any, value: Any) -> None:
    container[at] = value


def as_key(observation: Any) -> Hashable:
    """An observation as a hashable value: arrays as tuples, dictionaries as tuples of their items."""
    if isinstance(observation, Mapping):
        return tuple((name, as_key(observation[name])) for name in sorted(observation, key=str))
    if isinstance(observation, (list, tuple)):
        return tuple(as_key(item) for item in observation)
    if isinstance(observation, np.ndarray):
        return as_key(observation.tolist())
    plain: Hashable = observation.item() if isinstance(observation, np.generic) else observation
    return plain


def _never_cut(env: Any) -> None:
    """Let no TimeLimit inside cut the exploration short: being cut is not an end."""
    while env is not None:
        if hasattr(env, "_max_episode_steps"):
            env._max_episode_steps = FOREVER
        env = getattr(env, "env", None)


def _told(arrival: Arrival) -> str:
    return f"{arrival.state!r} (reward {arrival.reward:g}, damage {arrival.damage})"
