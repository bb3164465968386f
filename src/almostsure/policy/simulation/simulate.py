"""Playing a policy: many episodes at once, the same numbers whatever plays them.

Small jobs are played by NumPy, all episodes in step; larger ones by compiled code on all cores, one episode after
the other.  Both follow the same rules to the bit: every episode has its own random stream
(:mod:`almostsure.policy.simulation.streams`), draws in the same order (initial state if there are several, then in each
step rest, action, outcome, the first two only for policies that need them), picks the first outcome whose cumulative
probability exceeds the draw, and adds up rewards in the order in which they come.

An episode ends in a terminal state; when it comes to rest (see :mod:`almostsure.policy.policy`), where nothing
happens any more; or after ``max_steps``, or the steps of the policy's horizon.  All but the first are *truncated*.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import MAX_BUDGET, check_budget, check_discount, count, names_right_word
from almostsure.errors import ArgumentError, Interrupted, NoSafeAction
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.model.source import Model, as_model
from almostsure.policy.policy import Policy, as_policy
from almostsure.policy.simulation.plain import (
    ENDED,
    OVERSPENT,
    SILENT,
    Lanes,
    Results,
    Rules,
    Tables,
    build_tables,
    no_results,
    play_plain,
)
from almostsure.policy.simulation.streams import Streams, open_streams
from almostsure.progress import Bar

if TYPE_CHECKING:
    from almostsure.plots import Axes

MAX_STEPS = 100_000
MOST_STEPS = 40  # of a trajectory that are printed
PIECE = 40_000_000  # steps in a piece of work, at most: so that progress shows and Ctrl-C is heard
PLAIN_STEPS = 5_000_000  # what NumPy plays before loading compiled code would have paid
BYTES_PER_EPISODE = 48
UNLIMITED = np.int64(2**62)  # the remaining budget of an episode without one


class Crew(Protocol):
    """Workers who do pieces of work, here or elsewhere; see :mod:`almostsure.learn.sampling.crew`."""

    def open(
        self, task: Callable[[Any], Any], *, threads: bool = False
    ) -> AbstractContextManager[Callable[[Iterable[Any]], Iterator[Any]]]:
        """Have the workers ready for a task; what is opened gives the results of items, in their order."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Episodes:
    """What happened in each episode, as arrays, and how to see one of them again.

    Examples
    --------
    >>> import almostsure as asure
    >>> policy = asure.solve_policy("corridor", asure.AlmostSure(3)).policy
    >>> episodes = simulate(asure.example("corridor"), policy, 100, seed=0)
    >>> len(episodes), int(episodes.overspent.sum())
    (100, 0)
    """

    returns: Floats  # [episodes], discounted if a discount was given
    damages: npt.NDArray[np.int64]  # [episodes]
    lengths: npt.NDArray[np.int64]  # [episodes]
    truncated: Bools  # [episodes], True where no terminal state was reached
    seed: int
    budget: int | None  # the starting budget
    mdp: MDP
    policy: Policy
    _tables: Tables = field(repr=False)
    _rules: Rules = field(repr=False)

    def __len__(self) -> int:
        return self.returns.size

    @property
    def overspent(self) -> Bools:
        """Which episodes took more damage than the starting budget, [episodes]."""
        if self.budget is None:
            raise ArgumentError("there is no budget to overspend: simulate with budget=")
        return self.damages > self.budget

    def trajectory(self, episode: int) -> Trajectory:
        """Everything that happened in one episode; it is played again, with the same result."""
        if not 0 <= episode < len(self):
            raise ArgumentError(f"episode must lie in 0 … {len(self) - 1}; got {episode}")
        return _replay(self.mdp, self._tables, self._rules, self.seed, int(episode))

    def __repr__(self) -> str:
        cut = int(self.truncated.sum())
        note = f", {cut:,} of them truncated" if cut else ""
        return f"<Episodes: {len(self):,}, return {self.returns.mean():.6g} on average{note}, seed {self.seed}>"

    def __str__(self) -> str:
        count = len(self)
        lines = [
            f"{count:,} episodes (seed {self.seed})",
            f"return   {_summary(self.returns)}",
            f"damage   {_summary(self.damages)}",
            f"length   {_summary(self.lengths)}",
        ]
        if self.budget is not None:
            lines.append(f"overspent {int(self.overspent.sum()):,} of {count:,} (more than {self.budget})")
        if self.truncated.any():
            lines.append(f"truncated {int(self.truncated.sum()):,} of {count:,}{self._where_cut()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("Episodes", str(self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how many episodes took how much damage, with the budget."""
        from almostsure.plots import axes_for, tidy

        axes, counts = axes_for(ax, 6.0, 3.5), np.bincount(self.damages)
        axes.bar(np.arange(counts.size), counts / len(self), color="#1b6ca8")
        if self.budget is not None:
            axes.axvline(self.budget + 0.5, color="#d1603d", linestyle="--", label=f"budget {self.budget}")
            axes.legend(frameon=False)
        axes.set_xlabel("damage")
        axes.set_ylabel("share of episodes")
        tidy(axes)
        return axes

    def _where_cut(self) -> str:
        """Whether episodes were cut, or came to rest: only the former may have had more to tell."""
        cut = int((self.truncated & (self.lengths >= self._rules.max_steps)).sum())
        if not cut:
            return ", come to rest"
        if self._rules.max_steps == self._rules.horizon:
            return f", {cut:,} of them after the {self._rules.horizon:,} steps of the horizon"
        return f", {cut:,} of them after max_steps = {self._rules.max_steps:,}: the policy may never end"


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """One episode, step by step.  Print it: it names its states and actions.

    Examples
    --------
    >>> import almostsure as asure
    >>> policy = asure.solve_policy("paper", asure.AlmostSure(2)).policy
    >>> one = simulate(asure.example("paper"), policy, 1, seed=0).trajectory(0)
    >>> one.actions.tolist(), one.damages.tolist()
    ([0, 0, 1], [1, 1, 0])
    """

    mdp: MDP = field(repr=False)
    states: npt.NDArray[np.int64]  # [steps + 1]
    actions: npt.NDArray[np.int64]  # [steps]
    rewards: Floats  # [steps]
    damages: npt.NDArray[np.int64]  # [steps]

    def history(self, length: int | None = None) -> tuple[Any, ...]:
        """The history (s0, a0, r1, d1, s1, …) of the first ``length`` steps, as history policies take it."""
        result: list[Any] = [int(self.states[0])]
        for t in range(self.actions.size if length is None else length):
            result += [int(self.actions[t]), float(self.rewards[t]), int(self.damages[t]), int(self.states[t + 1])]
        return tuple(result)

    def __repr__(self) -> str:
        first, last = (self.mdp.state_name(int(self.states[at])) for at in (0, -1))
        return (
            f"<Trajectory: {self.actions.size:,} steps from {first} to {last}, "
            f"return {self.rewards.sum():.6g}, damage {int(self.damages.sum())}>"
        )

    def __str__(self) -> str:
        steps = [self._step(t) for t in range(min(self.actions.size, MOST_STEPS))]
        more = self.actions.size - len(steps)
        cut = [f"… and {more:,} more steps"] if more else []
        return "\n".join([repr(self)[1:-1], *steps, *cut])

    def _step(self, t: int) -> str:
        before, after = (self.mdp.state_name(int(self.states[at])) for at in (t, t + 1))
        gained = f", reward {self.rewards[t]:.6g}" if self.rewards[t] else ""
        hurt = f", damage {self.damages[t]}" if self.damages[t] else ""
        return f"{before}  {self.mdp.action_name(int(self.actions[t]))}  {after}{gained}{hurt}"


@names_right_word
def simulate(
    mdp: Model,
    policy: Any,
    episodes: int,
    *,
    budget: int | None = None,
    seed: int | None = None,
    max_steps: int = MAX_STEPS,
    discount: float = 1.0,
    crew: Crew | None = None,
) -> Episodes:
    """Play a policy many times from the model's initial state or distribution.

    Parameters
    ----------
    policy
        A Policy of it, a Solution that holds one, or a table, mapping or function that is one (see
        :meth:`Policy.from_table` and :meth:`Policy.from_function`).
    budget
        The starting budget where the policy carries none, or another one than it carries.
    seed
        0 … 2⁶⁴ − 1; by default a fresh one, which the result tells.  The same seed gives the same episodes on every
        machine, with any number of threads, compiled or not.
    max_steps
        Longer episodes are cut and marked as truncated.  A policy for a horizon plays no more steps than that.
    crew
        Who plays, if not this process: a crew of :mod:`almostsure.learn.sampling.crew`, such as a Ray cluster.  The
        episodes are the same.

    Raises
    ------
    NoSafeAction
        An episode overspends and the policy says nothing about that (an assured policy never does), or it reaches a
        state about which the policy says nothing.  The state, what remained and the episode are named.
    Interrupted
        Ctrl-C.  Its ``kept`` has the first episodes, or is None if none was complete.

    Examples
    --------
    >>> import almostsure as asure
    >>> float(simulate("corridor", asure.solve_policy("corridor", asure.AlmostSure(3)), 100, seed=0).returns.mean())
    13.0
    """
    mdp = as_model(mdp)
    mdp.require_probabilities("simulate")
    number = count("episodes", episodes, most=MAX_BUDGET)
    require(
        number * BYTES_PER_EPISODE, f"simulating {number:,} episodes", "Simulate fewer at a time, with different seeds."
    )
    budget = None if budget is None else check_budget(budget)
    policy = as_policy(mdp, policy, budget=budget)
    start = policy.budget if budget is None else budget
    tables, rules = build_tables(mdp, policy), _rules(policy, start, max_steps, discount)
    told = _Told(mdp, policy, start, _check_seed(seed), tables, rules)
    try:
        return told.episodes(_play(tables, rules, told.seed, number, crew))
    except KeyboardInterrupt as stop:
        kept = told.episodes(stop.results) if isinstance(stop, Stopped) and stop.results.fate.size else None
        some = "nothing of it is kept" if kept is None else f"the first {len(kept):,} are the error's .kept"
        raise Interrupted(f"the simulation of {number:,} episodes was stopped; {some}.", kept=kept) from None


class _Told(NamedTuple):
    """What is played, and how."""

    mdp: MDP
    policy: Policy
    budget: int | None
    seed: int
    tables: Tables
    rules: Rules

    def episodes(self, results: Results) -> Episodes:
        """What became of it; NoSafeAction where an episode overspent or the policy had nothing to say."""
        _raise_first_violation(self.mdp, self.tables, self.rules, self.seed, results.fate)
        returns, damages, lengths, fate = results
        return Episodes(
            returns=returns, damages=damages, lengths=lengths, truncated=fate != ENDED, seed=self.seed,
            budget=self.budget, mdp=self.mdp, policy=self.policy, _tables=self.tables, _rules=self.rules,
        )  # fmt: skip


def _rules(policy: Policy, start: int | None, max_steps: int, discount: float) -> Rules:
    return Rules(
        budget=int(UNLIMITED) if start is None else start,
        top=-1 if policy.budget is None else policy.budget,
        overspent=policy.budget + 1 if policy.budget is not None and policy.knows_overspent else -1,
        max_steps=min(count("max_steps", max_steps, most=MAX_BUDGET), policy.horizon or max_steps),
        discount=check_discount(discount),
        randomised=policy.probability is not None,
        rests=policy.rest is not None,
        horizon=policy.horizon or 0,
    )


# ---------------------------------------------------------------------- choosing who plays


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with the results of the first episodes."""

    def __init__(self, results: Results) -> None:
        super().__init__()
        self.results = results


def _play(tables: Tables, rules: Rules, seed: int, count: int, crew: Crew | None) -> Results:
    if crew is not None:
        return _play_together(tables, rules, seed, count, crew)
    if count <= PLAIN_STEPS:
        results = play_plain(tables, rules, seed, count, limit=PLAIN_STEPS)
        if results is not None:
            return results
    return play_compiled(tables, rules, seed, count)


def play_compiled(tables: Tables, rules: Rules, seed: int, count: int, threads: int | None = None) -> Results:
    """Play with compiled code, in ``threads`` threads (all cores by default)."""
    results, done = no_results(count), 0
    try:
        from almostsure.policy.simulation.kernel import play

        warm_up()
        start, step = open_streams(seed, np.arange(count))

        def part(piece: tuple[int, int]) -> None:
            at = slice(*piece)
            play(tables, rules, Streams(start[at], step[at]), results.part(*piece))

        # A thread that is done takes the next piece, so that long episodes do not hold up the others.
        pieces = _pieces(count, max(1, min(4096, count // 16, PIECE // rules.max_steps)))
        with Bar("playing", count) as bar, _pool(threads or os.cpu_count() or 1) as pool:
            for piece, _ in zip(pieces, pool.map(part, pieces), strict=True):
                done = piece[1]
                bar.update(done)
    except KeyboardInterrupt:
        raise Stopped(results.part(0, done)) from None
    return results


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that take no further work once the block has ended, by Ctrl-C or otherwise."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _play_together(tables: Tables, rules: Rules, seed: int, count: int, crew: Crew) -> Results:
    """Let a crew play pieces; the episodes do not depend on who plays them."""
    results, done = no_results(count), 0
    pieces = _pieces(count, max(1, min(65536, count // 16, PIECE // rules.max_steps)))
    try:
        with crew.open(_Job(tables, rules, seed), threads=True) as each, Bar("playing", count) as bar:
            for piece, played in zip(pieces, each(pieces), strict=True):
                for name, column in zip(Results._fields, played, strict=True):
                    getattr(results, name)[slice(*piece)] = column
                done = piece[1]
                bar.update(done)
    except KeyboardInterrupt:
        raise Stopped(results.part(0, done)) from None
    return results


@dataclass(frozen=True, slots=True)
class _Job:
    """What a member of a crew needs to know to play some of the episodes."""

    tables: Tables
    rules: Rules
    seed: int

    def __call__(self, piece: tuple[int, int]) -> Results:
        """Play the episodes first … last − 1."""
        from almostsure.policy.simulation.kernel import play

        warm_up()
        results = no_results(piece[1] - piece[0])
        play(self.tables, self.rules, open_streams(self.seed, np.arange(*piece)), results)
        return results


def _pieces(count: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, count)) for first in range(0, count, size)]


@functools.cache
def warm_up() -> None:
    """Compile the kernel, or load it from the cache, for models with fewer than 2³¹ states."""
    from almostsure.model.build.transitions import from_transitions
    from almostsure.policy.simulation.kernel import play

    mdp = from_transitions([0], [0], [1], [1], [0], [0], terminal=[1])
    rules = Rules(budget=0, top=-1, overspent=-1, max_steps=1, discount=1.0, randomised=False, rests=False, horizon=0)
    tables = build_tables(mdp, Policy.from_table(mdp, [0, 0]))
    play(tables, rules, open_streams(0, np.arange(1)), no_results(1))


# ---------------------------------------------------------------------- pieces


def _raise_first_violation(mdp: MDP, tables: Tables, rules: Rules, seed: int, fate: npt.NDArray[np.uint8]) -> None:
    wrong = np.flatnonzero((fate == OVERSPENT) | (fate == SILENT))
    if not wrong.size:
        return
    episode = int(wrong[0])
    path = _replay(mdp, tables, rules, seed, episode)
    state, spent = int(path.states[-1]), int(path.damages.sum())
    remaining = None if rules.budget == UNLIMITED else rules.budget - spent
    where = f"in episode {episode} of seed {seed}, after {path.actions.size} steps, at {mdp.describe_state(state)}"
    if fate[episode] == OVERSPENT:
        text = f"the policy overspent its budget: {spent} damage, with {rules.budget} to spend, {where}"
    else:
        left = "" if remaining is None else f" with {remaining} left"
        text = f"the policy says nothing about what it reached {where}{left}"
    raise NoSafeAction(f"{text} ({wrong.size:,} of {fate.size:,} episodes)", state=state, remaining=remaining)


def _replay(mdp: MDP, tables: Tables, rules: Rules, seed: int, episode: int) -> Trajectory:
    lanes = Lanes(tables, rules, seed, np.array([episode]))
    states, outcomes = [int(lanes.state[0])], []
    while lanes.active.size:
        before = int(lanes.lengths[0])
        lanes.step()
        if lanes.lengths[0] > before:
            outcomes.append(int(lanes.played[0]))
            states.append(int(lanes.state[0]))
    at = np.array(outcomes, np.int64)
    choice = np.searchsorted(tables.outcome_ptr, at, side="right") - 1
    return Trajectory(
        mdp=mdp,
        states=np.array(states, np.int64),
        actions=mdp.choice_action[choice].astype(np.int64),
        rewards=mdp.reward[at],
        damages=mdp.damage[at].astype(np.int64),
    )


def _check_seed(seed: int | None) -> int:
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ArgumentError(f"seed must be a whole number, 0 … 2**64 − 1; got {seed!r}")
    return int(seed)


def _summary(values: npt.NDArray[Any]) -> str:
    return f"mean {values.mean():.6g}, from {values.min():.6g} to {values.max():.6g}"
