"""Bounds of the best assured return, and a policy: from the start, for other budgets, or for every state.

:mod:`almostsure.plan.assured.engine` does the work.  Here it is given the pairs to start from, and is run again with a
smaller tolerance if its bounds are too far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from almostsure.errors import LimitReached, UnboundedReturn
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.plan.assured import explore
from almostsure.plan.assured.engine import Engine, Pairs, call
from almostsure.plan.assured.exact import in_fractions
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.ties import break_ties

ATTEMPTS = 3  # runs with a smaller and smaller tolerance, until the bounds are close enough


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """Bounds of the best return and a policy, for every state and remaining budget."""

    lower: Floats  # [budget + 1, num_states], NaN where infeasible
    upper: Floats  # [budget + 1, num_states]
    choice: npt.NDArray[np.int32]  # [budget + 1, num_states], −1 where infeasible
    proved: bool  # see Pairs
    doubts: tuple[str, ...] = ()  # see Pairs


def solve_pairs(
    mdp: MDP,
    of_choice: Ints,
    starts: Ints,
    *,
    aims: Ints | None = None,
    discount: float = 1.0,
    tolerance: float = 1e-8,
    values_only: bool = False,
    report: Callable[[int, int], None] | None = None,
) -> Pairs:
    """The best return inside the shield of all pairs that are reachable from ``starts``.

    Parameters
    ----------
    mdp
        The model.
    of_choice
        k* of each choice.
    starts
        Pairs as remaining · num_states + state.
    aims
        The pairs at which bounds within the tolerance are attempted; they may stay further apart.  By default
        ``starts``; if given, ties are broken at every pair.
    discount, tolerance
        See :func:`almostsure.solve_policy`.
    values_only
        Whether the policy is not needed, so that ties need not be broken.
    report
        Called with the number of settled components and the number of all.
    """
    budget = int(starts.max(initial=0)) // mdp.num_states
    engine = Engine(mdp, of_choice, budget, starts, discount)
    aim = tolerance
    for _ in range(ATTEMPTS):
        engine.solve(aim, report)
        found = engine.answer()
        at = found.at(starts if aims is None else aims)
        gap = widest(found, at)
        if gap <= tolerance or not np.isfinite(gap):
            break
        aim *= 0.3 * tolerance / gap
    if gap > tolerance or not found.proved:
        found = in_fractions(engine, found)
    return found if values_only else break_ties(engine, found, None if aims is not None else at, at, tolerance)


def widest(pairs: Pairs, at: Ints) -> float:
    """The largest distance between the bounds of some pairs, relative for values above 1."""
    lower, upper = pairs.lower[at], pairs.upper[at]
    apart = lower != upper
    with np.errstate(invalid="ignore"):
        gap = (upper - lower)[apart] / np.maximum(1.0, np.abs(lower / 2 + upper / 2)[apart])
    return float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0))


def check_bounded(mdp: MDP, pairs: Pairs, at: Ints) -> None:
    """Raise if the return of a start is unbounded or undefined; the message names a cycle."""
    if np.isposinf(pairs.lower[at]).any():
        first = min((*pairs.cycles, *_loops(pairs)), key=lambda found: int(found.min()))
        cycle = np.unique(pairs.graph.state[first])
        raise UnboundedReturn(
            "the return has no bound: reward can be collected for ever, without damage, among: "
            f"{_names(mdp, cycle)}. Give the cycle a cost, or use a discount below 1.",
            cycle=tuple(cycle.tolist()),
        )
    if np.isin(at, pairs.undefined).any():
        cycle = np.unique(pairs.graph.state[pairs.undefined])
        raise LimitReached(
            "the return is not defined: within this budget no run ends, and gains and losses cancel out for ever "
            f"among: {_names(mdp, cycle)}. Name a goal, give the cycle a cost, or use a discount below 1."
        )


def _names(mdp: MDP, cycle: Ints) -> str:
    return "; ".join(mdp.state_name(int(s)) for s in cycle[:8]) + ("; …" if cycle.size > 8 else "")


def _loops(pairs: Pairs) -> list[Ints]:
    """The first pair with value +∞ whose choice is a self-loop, as a list of at most one cycle."""
    graph, endless = pairs.graph, np.flatnonzero(np.isposinf(pairs.lower))
    for pair in endless.tolist():
        targets = graph.target[graph.entry_ptr[pairs.play[pair]] : graph.entry_ptr[pairs.play[pair] + 1]]
        if (targets == pair).all():
            return [np.array([pair])]
    return []


def feasible_pairs(mdp: MDP, of_choice: Ints, budget: int) -> Ints:
    """All pairs inside the shield, as remaining · num_states + state, the largest remaining budget first."""
    least = np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1])
    layers = (left * mdp.num_states + np.flatnonzero(least <= left) for left in range(budget, -1, -1))
    return np.concatenate(list(layers))


def solve_layers(
    mdp: MDP,
    of_choice: Ints,
    budget: int,
    *,
    discount: float = 1.0,
    tolerance: float = 1e-8,
    report: Callable[[int, int], None] | None = None,
) -> Layers:
    """The best return inside the shield for every state and every remaining budget up to ``budget``.

    Bounds within the tolerance are attempted at the initial states with the whole budget.
    """
    starts = budget * mdp.num_states + mdp.initial_states.astype(np.int64)
    least = np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1])
    starts = starts[least[mdp.initial_states] <= budget]
    pairs = solve_pairs(
        mdp, of_choice, feasible_pairs(mdp, of_choice, budget), aims=starts, discount=discount, tolerance=tolerance,
        report=report,
    )  # fmt: skip
    check_bounded(mdp, pairs, pairs.at(starts))
    return tabulate(mdp, pairs, budget)


def tabulate(mdp: MDP, pairs: Pairs, budget: int) -> Layers:
    """Bounds and choices as tables, one row per remaining budget."""
    shape = (budget + 1, mdp.num_states)
    lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
    call(explore.tabulate_bounds, pairs.graph, pairs.lower, pairs.upper, lower, upper, plainly=pairs.plainly)
    return Layers(
        lower=lower,
        upper=upper,
        choice=choice_table(pairs.graph, pairs.play, shape, pairs.plainly),
        proved=pairs.proved,
        doubts=pairs.doubts,
    )


def choice_table(graph: Graph, play: Ints, shape: tuple[int, int], plainly: bool) -> npt.NDArray[np.int32]:
    """The policy's choices, one row per remaining budget; −1 for pairs that are not covered."""
    table = np.full(shape, -1, np.int32)
    call(explore.tabulate, graph, play, table, plainly=plainly)
    table.flags.writeable = False  # so that policies need no copy
    return table


def warm_up() -> None:
    """Compile the kernels now, on small models that need all of them."""
    from almostsure.budget.solve import minimal_budget
    from almostsure.model.build.grid import grid_family

    mdp, wide = grid_family(60, seed=1), grid_family(200, seed=0)  # solved directly, and by sweeps
    for model in (mdp, mdp.with_reward(-1.0), grid_family(80, seed=1), wide.with_reward(-1.0)):
        of_choice = minimal_budget(model).of_choice
        solve_layers(model, of_choice, 3, tolerance=1e-6)
        solve_pairs(model, of_choice, 3 * model.num_states + model.initial_states.astype(np.int64), tolerance=1e-6)
