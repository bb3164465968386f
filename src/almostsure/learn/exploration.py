"""``explore``: the model of a simulator that can be copied, found by playing every action in every state.

The exploration starts in the states after resets.  In every state that is found, breadth first, every action is played
in a copy of the simulator.  The state is the observation, or what ``key`` makes of it.

Determinism is tested, not proved.  Every action is played four times, from copies that share their random generators
(:mod:`almostsure.learn.copies`), so random transitions differ.  States that were reached by two paths are played from
both snapshots, and every action is played once after each reset.  A difference is an error that names the state and
action.

*Random transitions.*  With ``mu`` and ``delta`` every choice is played many times instead, and the plays are
independent.  Let δ_i = 6 δ / (π² i²).  The i-th choice that is found is played ⌈ln(⌊1/μ⌋ / δ_i) / −ln(1 − μ)⌉ times.
If no outcome is rarer than μ, it has at most ⌊1/μ⌋ outcomes, one of which is missed with probability at most δ_i, and
the δ_i sum to δ.  So with probability 1 − δ all reachable states were found, with all of their outcomes, and the
minimal budget of the empirical model is k*.  Then every action is played once after each reset, and a random walk
starts from every state.  A step with an outcome that the plays did not show is an error, since then the state does not
determine what happens next, or μ is too large.  Like the test of determinism, this finds hidden state often, not
always.
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
from almostsure.learn.bounds import UPWARD, most_outcomes, unit
from almostsure.learn.counts import Counts
from almostsure.learn.evidence import check_mu
from almostsure.learn.minimal import Goal, LearnedBudget, budget_of_learned
from almostsure.learn.simulator import PLAYS, Arrival, Ended, Simulator, Snapshots, as_key
from almostsure.model.build.damage import Damage
from almostsure.model.build.environment import one_environment
from almostsure.model.build.function import MAX_STATES, Encode, from_function, names_of
from almostsure.model.mdp import MDP
from almostsure.model.naming import checked_names
from almostsure.model.origin import Origin
from almostsure.progress import Bar
from almostsure.wording import brief, counted

NOT_FOUND = (
    "If episodes may start there, explore with more resets=, until all starts are seen. If a step led there, the "
    "environment has transitions that it did not show then: if they are random, explore with mu= and delta=. If a "
    "wrapper inside the shield changes observations, move it outside."
)
HIDDEN = "This assumes that the observed state determines what happens next."
PLAYED = (
    f"Found by playing every action {PLAYS} times; that transitions are deterministic and no state is hidden was "
    "tested, not proved."
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
    """Find the model of an environment, by playing every action in every state that is found.

    Parameters
    ----------
    env
        A Gymnasium environment with Discrete actions, or its id (``gym:MODULE:ID`` if a module registers it).
    action_names
        The names of the actions, by number.
    mu, delta
        For random transitions: no outcome is rarer than ``mu``, and the probability that one of them is missed is at
        most ``delta``.  The result is then a :class:`almostsure.learn.LearnedBudget`, with the usual statement.
    damage
        ``damage(observation, action, next_observation, reward, terminated)``, a rule, or the key of the damage in
        ``info``; by default ``"damage"`` or ``"cost"``, or the known damage of a toy-text environment.
    key
        A function from an observation to the state, a hashable value; by default the state is the whole observation.
    get_state, set_state
        ``get_state(env)`` takes a snapshot and ``set_state(env, snapshot)`` restores it, if the environment cannot be
        copied, or only slowly.  Random generators other than those of NumPy and ``random`` would repeat their draws:
        let ``set_state`` reseed them.
    seed, resets
        The environment is reset this many times, with the seeds ``seed``, ``seed + 1``, …  The initial states and their
        probabilities are those of these resets.  Starts that none of them showed, and states that only they can reach,
        are not part of the model, whatever ``delta`` is.
    max_states
        The most states; more are an error.

    Raises
    ------
    ModelError
        The environment is not deterministic, a state does not determine what happens next, or restoring one fails.
    Interrupted
        Ctrl-C; ``kept.go_on()`` explores the rest.

    Examples
    --------
    >>> explore("CliffWalking-v1")
    <MDP: 38 states, 149 choices, 149 outcomes, starts in 36>
    """
    env = one_environment(env)
    if (mu is None) != (delta is None):
        raise ArgumentError("mu and delta must be given together")
    seed, search = check_seed(seed), Simulator(env, damage, key or as_key, get_state, set_state)
    starts = search.starts(range(seed, seed + count("resets", resets)))
    sampled = None if mu is None else _Sampled(search, Goal(unit("mu", mu), unit("delta", delta), None), seed)
    return Exploration(search, sampled, starts, max_states, action_names).go_on()


@final
@dataclass(eq=False, repr=False)
class Exploration:
    """An exploration that can be interrupted and continued."""

    search: Simulator
    sampled: _Sampled | None
    starts: dict[Hashable, float]
    max_states: int
    action_names: Sequence[str] | None

    def __post_init__(self) -> None:
        self.action_names = checked_names("action", self.action_names, exactly=self.search.num_actions)

    def go_on(self) -> Any:
        """Explore the rest; choices that were played before are not played again."""
        try:
            with self.search.untruncated():
                return self._explored()
        except KeyboardInterrupt:
            less = "" if self.sampled is None else " A larger mu or delta takes fewer plays."
            raise Interrupted(
                f"interrupted after {self}. All of it is kept: `except almostsure.errors.Interrupted as stopped:` and "
                "`stopped.kept.go_on()` explores the rest, in a notebook `sys.last_value.kept.go_on()`. A key without "
                f"irrelevant parts of the observation makes fewer states.{less}",
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
        """The model with names; those of ended states say so only if an episode may continue with that observation."""
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
    """The state of an observation, also after an episode ended; it holds no snapshots, and can be pickled."""

    def __init__(self, key: Callable[[Any], Hashable]) -> None:
        self.key = key
        self.running: set[Any] = set()  # the states in which episodes continue
        self.ended: set[Any] = set()  # the last states of episodes

    def found(self, running: Iterable[Any], states: Iterable[Any]) -> None:
        """Set the states that were found: those in which episodes continue, and all."""
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
    """``state_of`` for an explored model that was saved and loaded: it finds the state of an observation by its name.

    A file keeps the names of states, but not the function from observations to states.

    Parameters
    ----------
    mdp
        The loaded model, made by :func:`explore`, or by ``from_function`` from states that are the observations.
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
        """The state with the name of the observation, or of the end of an episode with it."""
        state = self.key(observation)
        for shown in (state, Ended(state)):
            found = {self.names[name] for name in (str(shown), repr(shown)) if name in self.names}
            if len(found) > 1:
                raise ModelError(f"two states have the name of the observation {brief(state)}; write state_of yourself")
            if found:
                return found.pop()
        hint = " If explore was given a key: ByName(mdp, key=…)." if self.key is as_key else ""
        raise ModelError(f"no state of the model has the name of the observation, {brief(str(state))}.{hint}")


class _Seen(NamedTuple):
    """How often an outcome was seen, and its mean reward."""

    times: int
    reward: float


@final
class _Sampled:
    """The outcomes of choices, each played as often as its share of delta requires."""

    def __init__(self, search: Simulator, goal: Goal, seed: int) -> None:
        self.search, self.goal, self.seed = search, goal, seed
        self.rng = np.random.default_rng([seed, 1])
        self.seen: dict[tuple[Any, int], dict[tuple[Hashable, int], _Seen]] = {}

    def outcomes(self, state: Any, action: int) -> list[tuple[float, Hashable, float, int]]:
        """The outcomes of a choice with their relative frequencies; it is played when it is first asked for."""
        if (state, action) not in self.seen:
            new: Snapshots = {}
            seen = self._play(state, action, new)
            with uninterrupted():
                self.search.keep(new)
                self.seen[state, action] = seen
        found = self.seen[state, action]
        plays = sum(seen.times for seen in found.values())
        return [(seen.times / plays, after, seen.reward, damage) for (after, damage), seen in found.items()]

    def _play(self, state: Any, action: int, new: Snapshots) -> dict[tuple[Hashable, int], _Seen]:
        mu, delta, _ = self.goal
        share = 6 * delta / (math.pi * (len(self.seen) + 1)) ** 2
        plays = math.ceil(math.log(most_outcomes(mu) / share) / -math.log1p(-mu) * UPWARD)
        rewards: dict[tuple[Hashable, int], list[float]] = {}
        for _ in range(plays):
            after, reward, damage = self.search.play(state, action, new)
            rewards.setdefault((after, damage), []).append(reward)
        return {outcome: _Seen(len(r), math.fsum(r) / len(r)) for outcome, r in rewards.items()}

    def check_keys(self) -> None:
        """Check that after other paths to a state no outcome occurs that the plays did not show."""
        for state, action, arrival in chain(self.search.after_resets(), self._walks()):
            found = self.seen[state, action]
            if (arrival.state, arrival.damage) not in found:
                plays = sum(seen.times for seen in found.values())
                raise ModelError(
                    f"the state {state!r} does not determine what happens next: action {action} led to {arrival} "
                    f"after one path to it, and never in {plays:,} plays after another. Pass a key that "
                    "distinguishes the two, or a smaller mu."
                )

    def _walks(self) -> Iterator[tuple[Any, int, Arrival]]:
        starts = list(self.search.snapshots)
        with Bar("checking", len(starts)) as bar:
            for number, start in enumerate(starts):
                bar.update(number)
                yield from self.search.walk(start, self.rng)

    def learned(self, model: MDP) -> LearnedBudget:
        """The minimal budget of the empirical model."""
        caveat = f"{HIDDEN} {self.search.starts_in_words}"
        index = cast("Encode", model.encode).index
        ended = (at for state, at in index.items() if isinstance(state, Ended))
        counts = Counts(model, seed=self.seed, caveat=caveat, ended=ended)
        for (state, action), found in self.seen.items():
            choice = model.choice(index[state], action)
            for (after, damage), seen in found.items():
                counts.see(choice, index[after], damage, seen.reward, times=seen.times)
        check_mu(counts, self.goal.mu)
        self.check_keys()
        return budget_of_learned(model, counts, np.ones(model.num_choices, np.bool_), self.goal)
