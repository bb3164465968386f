"""``simulate``: plays many episodes of a policy.

Small simulations run in NumPy, all episodes in lockstep; larger ones in compiled code on all cores, one episode after
the other.  The results are identical to the bit: every episode has its own random stream
(:mod:`almostsure.policy.simulation.streams`), draws in the same order (the initial state if there are several, then in
each step rest, action, outcome, the first two only for policies that need them), takes the first outcome whose
cumulative probability exceeds the draw, and adds up rewards in chronological order.

An episode ends in a terminal state; or when it comes to rest (see :mod:`almostsure.policy.policy`), after which there
are no rewards and no damage; or after ``max_steps``, or the steps of the policy's horizon.  In all but the first case
it is *truncated*.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import MAX_BUDGET, check_discount, check_seed, count, names_right_word
from almostsure.crew import Crew, LocalCrew, cores
from almostsure.errors import Interrupted, NoSafeAction
from almostsure.memory import require
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.policy.policy import Policy, played_with
from almostsure.policy.read import other_budget
from almostsure.policy.simulation.episodes import Episodes, replay
from almostsure.policy.simulation.kernel import play
from almostsure.policy.simulation.plain import (
    ENDED,
    OVERSPENT,
    UNDEFINED,
    PlayRules,
    PlayTables,
    Results,
    build_tables,
    no_results,
    play_plain,
)
from almostsure.policy.simulation.streams import open_streams
from almostsure.progress import Bar
from almostsure.wording import counted

MAX_STEPS = 100_000
PIECE = 40_000_000  # the most steps per task, so that progress is shown and Ctrl-C works
PLAIN_STEPS = 5_000_000  # steps that NumPy plays in the time that loading compiled code takes
BYTES_PER_EPISODE = 48
UNLIMITED = np.int64(2**62)  # the remaining budget of an episode without one


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
        A Policy of the model, a Solution that has one, or a table, mapping or function (see
        :meth:`Policy.from_table` and :meth:`Policy.from_function`).
    budget
        The starting budget; by default that of the policy, if it has one.
    seed
        0 … 2⁶⁴ − 1; by default a new one, which is a field of the result.  The same seed gives the same episodes on all
        machines, with any number of threads, compiled or not.
    max_steps
        Longer episodes are cut and marked as truncated.  A policy with a horizon never plays more steps than that.
    crew
        Plays the episodes in place of this process: a crew of :mod:`almostsure.crew`, such as a Ray cluster.  The
        results are the same.

    Raises
    ------
    NoSafeAction
        If an episode overspends and the policy is undefined for that (an assured policy never overspends), or it
        reaches a state at which the policy is undefined.  The message names the state, the remaining budget and the
        episode.
    Interrupted
        On Ctrl-C.  Its ``kept`` has the first episodes, or is None if none was complete.

    Examples
    --------
    >>> import almostsure as asure
    >>> float(simulate("corridor", asure.solve_policy("corridor", asure.AlmostSure(3)), 100, seed=0).returns.mean())
    13.0
    """
    mdp = as_model(mdp)
    mdp.require_probabilities("simulate")
    number = count("episodes", episodes, most=MAX_BUDGET)
    fewer = "Simulate fewer at a time, with different seeds."
    require(number * BYTES_PER_EPISODE, f"simulating {counted(number, 'episode')}", fewer)
    policy, start = played_with(mdp, policy, budget)
    chosen = check_seed(np.random.SeedSequence().generate_state(1, np.uint64)[0] if seed is None else seed)
    tables, rules = build_tables(mdp, policy), _rules(policy, start, max_steps, discount)
    episodes_of = partial(_episodes, mdp, policy, start, chosen, tables, rules)
    try:
        return episodes_of(_play(tables, rules, chosen, number, crew))
    except KeyboardInterrupt as stop:
        kept = episodes_of(stop.results) if isinstance(stop, Stopped) and stop.results.fate.size else None
        some = "none of them is kept" if kept is None else f"the first {len(kept):,} are the error's .kept"
        raise Interrupted(f"the simulation of {number:,} episodes was interrupted; {some}.", kept=kept) from None


def _episodes(
    mdp: MDP, policy: Policy, budget: int | None, seed: int, tables: PlayTables, rules: PlayRules, results: Results
) -> Episodes:
    _raise_first_violation(mdp, tables, rules, seed, results.fate)
    returns, damages, lengths, fate = results
    return Episodes(
        returns=returns, damages=damages, lengths=lengths, truncated=fate != ENDED, seed=seed, budget=budget,
        mdp=mdp, policy=policy, _tables=tables, _rules=rules,
    )  # fmt: skip


def _rules(policy: Policy, start: int | None, max_steps: int, discount: float) -> PlayRules:
    return PlayRules(
        budget=int(UNLIMITED) if start is None else start,
        top=-1 if policy.budget is None else policy.budget,
        overspent=policy.budget + 1 if policy.budget is not None and policy.knows_overspent else -1,
        max_steps=min(count("max_steps", max_steps, most=MAX_BUDGET), policy.horizon or max_steps),
        discount=check_discount(discount),
        randomised=policy.probability is not None,
        rests=policy.rest is not None,
        horizon=policy.horizon or 0,
    )


# ---------------------------------------------------------------------- NumPy, threads or a crew


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with the results of the first episodes."""

    def __init__(self, results: Results) -> None:
        super().__init__()
        self.results = results


def _play(tables: PlayTables, rules: PlayRules, seed: int, count: int, crew: Crew | None) -> Results:
    if crew is None and count <= PLAIN_STEPS:
        results = play_plain(tables, rules, seed, count, limit=PLAIN_STEPS)
        if results is not None:
            return results
    return play_compiled(tables, rules, seed, count, crew)


def play_compiled(tables: PlayTables, rules: PlayRules, seed: int, count: int, crew: Crew | None = None) -> Results:
    """Play with compiled code, in threads on all cores or with a crew.  The results do not depend on that."""
    results, done = no_results(count), 0
    columns: tuple[npt.NDArray[Any], ...] = results
    # Tasks are small, so that long episodes do not delay the others.
    size = max(1, min(4096 if crew is None else 65536, count // 16, PIECE // rules.max_steps))
    pieces = [(first, min(first + size, count)) for first in range(0, count, size)]
    try:
        if crew is None:
            warm_up()
            crew = LocalCrew(cores())
        task = partial(_play_piece, tables, rules, seed)
        with crew.open(task, threads=True) as each, Bar("playing", count) as bar:
            for (first, last), played in zip(pieces, each(pieces), strict=True):
                for column, part in zip(columns, played, strict=True):
                    column[first:last] = part
                done = last
                bar.update(done)
    except KeyboardInterrupt:
        raise Stopped(Results._make(column[:done] for column in columns)) from None
    return results


def _play_piece(tables: PlayTables, rules: PlayRules, seed: int, piece: tuple[int, int]) -> Results:
    """The task of a worker: play the episodes first … last − 1."""
    warm_up()
    results = no_results(piece[1] - piece[0])
    play(tables, rules, open_streams(seed, np.arange(*piece)), results)
    return results


@cache
def warm_up() -> None:
    """Compile the kernel, or load it from the cache, for models with fewer than 2³¹ states."""
    from almostsure.model.build.transitions import from_transitions

    mdp = from_transitions([0], [0], [1], [1], [0], [0], terminal=[1])
    rules = PlayRules(
        budget=0, top=-1, overspent=-1, max_steps=1, discount=1.0, randomised=False, rests=False, horizon=0
    )
    tables = build_tables(mdp, Policy.from_table(mdp, [0, 0]))
    play(tables, rules, open_streams(0, np.arange(1)), no_results(1))


# ---------------------------------------------------------------------- errors


def _raise_first_violation(
    mdp: MDP, tables: PlayTables, rules: PlayRules, seed: int, fate: npt.NDArray[np.uint8]
) -> None:
    wrong = np.flatnonzero((fate == OVERSPENT) | (fate == UNDEFINED))
    if not wrong.size:
        return
    episode = int(wrong[0])
    path = replay(mdp, tables, rules, seed, episode)
    state, spent = int(path.states[-1]), int(path.damages.sum())
    remaining = None if rules.budget == UNLIMITED else rules.budget - spent
    when = f"in episode {episode} of seed {seed}, after {counted(path.actions.size, 'step')}"
    where = f"{when}, at {mdp.describe_state(state)}"
    remedy = ""
    if fate[episode] == OVERSPENT:
        text = f"the policy overspent its budget: {spent} damage, with a budget of {rules.budget}, {where}"
    else:
        left = "" if remaining is None else f" with {remaining} left"
        text = f"the policy reached a pair at which it is undefined {where}{left}"
        remedy = "" if rules.top < 0 else other_budget(rules.top, rules.budget)
    raise NoSafeAction(f"{text} ({wrong.size:,} of {fate.size:,} episodes){remedy}", state=state, remaining=remaining)
