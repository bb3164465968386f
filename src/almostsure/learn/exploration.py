"""``explore``: the model of a simulator that can be copied, found by playing every action everywhere.

From where resets lead, every action is played in a copy of the simulator at every state that is found, breadth first.
What the simulator shows is the state; where something else decides what comes next, name it with ``key``.

Determinism is tested, not proved.  Every action is played four times, from copies whose random generators go on from
play to play (:mod:`almostsure.learn.copies`), a state that is reached in two ways is played from both, and every action
is played once after each reset.  A difference is an error that names the place.

*Chance.*  With ``mu`` and ``delta`` every choice is played many times instead, and the plays are independent.  The i-th
choice that is met gets δ_i = 6 δ / (π² i²) of the risk of missing an outcome, and so
⌈ln(⌊1/μ⌋ / δ_i) / −ln(1 − μ)⌉ plays.  If no outcome is rarer than μ, the chance that one of the at most ⌊1/μ⌋ outcomes
of that choice is missed is at most δ_i, and these add up to δ.  So with probability 1 − δ all states that can be
reached were found, with all of their outcomes, and the minimal budget of what was counted is k*.  Then every action is
played once after each reset, and a random walk starts from every state: a step in it that the plays did not show is an
error, since then the state does not decide what comes next, or μ is too large.  Like the test of determinism, this
finds hidden state often, not always.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, cast, final

import numpy as np

from almostsure.arguments import check_seed, count, names_right_word
from almostsure.errors import ArgumentError, Interrupted, ModelError, uninterrupted
from almostsure.learn.bounds import unit
from almostsure.learn.counts import Counts
from almostsure.learn.evidence import check_mu
from almostsure.learn.minimal import Goal, LearnedBudget, budget_of_learned
from almostsure.learn.simulator import PLAYS, Arrival, Ended, Simulator, Ways, as_key
from almostsure.model.build.damage import Damage
from almostsure.model.build.environment import make_environment
from almostsure.model.build.function import MAX_STATES, Encode, from_function, names_of
from almostsure.model.mdp import MDP
from almostsure.model.naming import checked_names
from almostsure.model.origin import Origin
from almostsure.progress import Bar
from almostsure.wording import brief, counted

NOT_FOUND = (
    "If episodes may start there, explore with more resets=, until all starts are seen; if a step led there, the "
    "environment does more than it did then: where chance plays a part, explore with mu= and delta=. If a wrapper "
    "inside the shield shows something else than what was explored, put it outside."
)
HIDDEN = "This assumes that what the environment shows decides what comes next."
PLAYED = (
    f"Found by playing every action {PLAYS} times; that neither chance nor hidden state plays a part was tested, not "
    "proved."
)


@names_right_word
def explore(
    env: Any,
    *,
    damage: Damage | str | None = None,
    key: Callable[[Any], Hashable] | None = None,
    get_state: Callable[[Any], Any] | None = None,
    set_state: Callable[[Any, Any], None] | None = None,
    action_names: Sequence[str] | None = None,
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
        A Gymnasium environment with Discrete actions, or its id (``gym:MODULE:ID`` where a module registers it).
    action_names
        What the actions are called, in the order of their numbers.
    mu, delta
        Where chance plays a part: no outcome is rarer than ``mu``, and with a probability of at most ``delta`` one of
        them is missed.  The result is then a :class:`almostsure.learn.LearnedBudget`, with the usual statement.
    damage
        ``damage(observation, action, next_observation, reward, terminated)``, a rule, or ``"damage"`` or ``"cost"``, an
        entry of ``info``; by default one of these entries, and for the toy-text environments what they are known for.
    key
        The state of an observation, as a hashable value; by default the whole observation.
    get_state, set_state
        ``get_state(env)`` takes a snapshot and ``set_state(env, snapshot)`` restores it, where the environment cannot
        be copied, or only slowly.  Random generators other than those of NumPy and ``random`` repeat themselves in
        copies: let ``set_state`` give them another seed.
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
    Interrupted
        Ctrl-C; ``kept.go_on()`` explores the rest.

    Examples
    --------
    >>> explore("CliffWalking-v1")
    <MDP: 38 states, 149 choices, 149 outcomes, starts in 36>
    """
    env = make_environment(env) if isinstance(env, str) else env
    if (mu is None) != (delta is None):
        raise ArgumentError("mu and delta must be given together")
    seed, search = check_seed(seed), Simulator(env, damage, key or as_key, get_state, set_state)
    starts = search.starts(range(seed, seed + count("resets", resets)))
    sampled = None if mu is None else _Sampled(search, Goal(unit("mu", mu), unit("delta", delta), None), seed)
    return Exploration(search, sampled, starts, max_states, action_names).go_on()


@final
@dataclass(eq=False, repr=False)
class Exploration:
    """An exploration that may be stopped, and goes on from there."""

    search: Simulator
    sampled: _Sampled | None
    starts: dict[Hashable, float]
    max_states: int
    action_names: Sequence[str] | None

    def __post_init__(self) -> None:
        self.action_names = checked_names("action", self.action_names, exactly=self.search.num_actions)

    def go_on(self) -> Any:
        """Explore what is left; what was played before is not played again."""
        try:
            with self.search.uncut():
                return self._explored()
        except KeyboardInterrupt:
            less = "" if self.sampled is None else " A larger mu or delta takes fewer plays."
            raise Interrupted(
                f"interrupted after {self}. All of it is kept: `except almostsure.errors.Interrupted as stopped:` and "
                "`stopped.kept.go_on()` explores the rest, in a notebook `sys.last_value.kept.go_on()`. A key that "
                f"leaves out what does not matter makes fewer states.{less}",
                kept=self,
            ) from None

    def _explored(self) -> Any:
        search, sampled, shown = self.search, self.sampled, _Shown(self.search.key)
        outcomes = search.outcomes if sampled is None else sampled.outcomes
        options: dict[str, Any] = {"key": shown, "max_states": self.max_states}
        model = from_function(outcomes, initial=self.starts, actions=search.actions, **options)
        shown.found(search.snapshots, cast("Encode", model.encode).index)
        model = self._named(model)
        if sampled is not None:
            return sampled.learned(model)
        search.check_keys()
        return model

    def _named(self, model: MDP) -> MDP:
        """That an episode ended is part of a state's name only where another may go on from what it shows there."""
        index, running = cast("Encode", model.encode).index, self.search.snapshots
        plain = [s.state if isinstance(s, Ended) and s.state not in running else s for s in index]
        naming = model.naming() | {"state_names": names_of(plain), "action_names": self.action_names}
        starts = model.initial_states, model.initial_probabilities
        statement = f"{PLAYED} {self.search.starts_in_words}" if self.sampled is None else ""
        return MDP(model.arrays, initial=starts, **naming, origin=Origin(statement=statement))

    def __str__(self) -> str:
        choices = len(self.search.arrivals if self.sampled is None else self.sampled.seen)
        plays, states = counted(self.search.plays, "play"), counted(len(self.search.snapshots), "state")
        return f"{plays}: {counted(choices, 'choice')} explored, {states} found"

    def __repr__(self) -> str:
        return f"<Exploration: {self}; go_on() explores the rest>"


@final
class _Shown:
    """The state that an observation shows, also where an episode ended; it holds no snapshots, and can be pickled."""

    def __init__(self, key: Callable[[Any], Hashable]) -> None:
        self.key = key
        self.running: set[Any] = set()  # the states in which an episode goes on
        self.ended: set[Any] = set()  # those that an episode showed when it ended

    def found(self, running: Iterable[Any], states: Iterable[Any]) -> None:
        """Remember what was found: where an episode goes on, and all states."""
        self.running.update(running)
        self.ended.update(state.state for state in states if isinstance(state, Ended))

    def __call__(self, observation: Any) -> Hashable:
        state = self.key(observation)
        if state in self.running:
            return state
        if state in self.ended:
            return Ended(state)
        raise ModelError(f"{brief(state)} was not found when the environment was explored. {NOT_FOUND}")


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


class _Seen(NamedTuple):
    """How often an outcome was seen, and its mean reward."""

    times: int
    reward: float


@final
class _Sampled:
    """Outcomes by playing each choice as often as its share of delta takes."""

    def __init__(self, search: Simulator, goal: Goal, seed: int) -> None:
        self.search, self.goal, self.seed = search, goal, seed
        self.rng = np.random.default_rng([seed, 1])
        self.seen: dict[tuple[Any, int], dict[tuple[Hashable, int], _Seen]] = {}

    def outcomes(self, state: Any, action: int) -> list[tuple[float, Hashable, float, int]]:
        """What was seen, with its frequencies."""
        if (state, action) not in self.seen:
            ways: Ways = {}
            seen = self._played(state, action, ways)
            with uninterrupted():
                self.search.keep(ways)
                self.seen[state, action] = seen
        found = self.seen[state, action]
        plays = sum(seen.times for seen in found.values())
        return [(seen.times / plays, after, seen.reward, hurt) for (after, hurt), seen in found.items()]

    def _played(self, state: Any, action: int, ways: Ways) -> dict[tuple[Hashable, int], _Seen]:
        mu, delta, _ = self.goal
        share = 6 * delta / (math.pi * (len(self.seen) + 1)) ** 2
        plays = math.ceil(math.log(math.floor(1 / mu) / share) / -math.log1p(-mu) * (1 + 1e-12))
        rewards: dict[tuple[Hashable, int], list[float]] = {}
        for _ in range(plays):
            after, reward, hurt = self.search.play(state, action, ways)
            rewards.setdefault((after, hurt), []).append(reward)
        return {outcome: _Seen(len(r), math.fsum(r) / len(r)) for outcome, r in rewards.items()}

    def check_keys(self) -> None:
        """On whichever way a state is reached, nothing must happen that was not seen on the first way."""
        for state, action, arrival in chain(self.search.after_resets(), self._walks()):
            found = self.seen[state, action]
            if (arrival.state, arrival.damage) not in found:
                plays = sum(seen.times for seen in found.values())
                raise ModelError(
                    f"the state {state!r} does not decide what comes next: action {action} led to {arrival} on "
                    f"one way to it, and never in {plays:,} plays on another. Pass a key that "
                    "tells the two apart, or a smaller mu."
                )

    def _walks(self) -> Iterator[tuple[Any, int, Arrival]]:
        starts = list(self.search.snapshots)
        with Bar("checking", len(starts)) as bar:
            for number, start in enumerate(starts):
                bar.update(number)
                yield from self.search.walk(start, self.rng)

    def learned(self, model: MDP) -> LearnedBudget:
        """The minimal budget of what was counted."""
        caveat = f"{HIDDEN} {self.search.starts_in_words}"
        index = cast("Encode", model.encode).index
        ended = (at for state, at in index.items() if isinstance(state, Ended))
        counts = Counts(model, seed=self.seed, caveat=caveat, ended=ended)
        for (state, action), found in self.seen.items():
            choice = model.choice(index[state], action)
            for (after, hurt), seen in found.items():
                counts.see(choice, index[after], hurt, seen.reward, times=seen.times)
        check_mu(counts, self.goal.mu)
        self.check_keys()
        return budget_of_learned(model, counts, np.ones(model.num_choices, np.bool_), self.goal)
