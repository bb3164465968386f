"""The best assured return for every budget, also where it is infeasible or unbounded."""

from __future__ import annotations

import math

import numpy as np

from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible, UnboundedReturn
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.constraints import AlmostSure, Chance, Expected
from almostsure.plan.solution import Solution, at_start, middle
from almostsure.plan.solve import solve_policy


def no_sure_end(curve: Floats, least: int) -> str:
    """A sentence for a least budget that is safe, but with which no policy ends almost surely; otherwise empty."""
    if least >= curve.size or curve[least] != -math.inf:
        return ""
    ends = np.flatnonzero(curve > -math.inf)
    rest = f"from {ends[0]:,} on it ends" if ends.size else f"nor does it with any budget up to {curve.size - 1:,}"
    return f"with {least:,} it is safe, but does not surely end, and costs add up for ever; {rest}"


def assured_curve(mdp: MDP, budget: int, *, discount: float = 1.0, tolerance: float = 1e-8) -> Floats:
    """The best assured return for the budgets 0 … budget; NaN where infeasible, plus infinity where unbounded.

    The return never falls with the budget, so bisection finds the least budget with which it is unbounded.
    """

    def solve(most: int) -> Floats | None:
        try:
            return solve_policy(mdp, AlmostSure(most), discount=discount, tolerance=tolerance).curve
        except Infeasible:
            return np.full(most + 1, math.nan)
        except UnboundedReturn:
            return None

    below = solve(budget)
    if below is not None:
        return below
    below, bounded, unbounded = np.zeros(0), -1, budget
    while unbounded - bounded > 1:
        between = (bounded + unbounded) // 2
        found = solve(between)
        if found is None:
            unbounded = between
        else:
            below, bounded = found, between
    return np.concatenate([below, np.full(budget - bounded, math.inf)])


def curve_of(solution: Solution) -> Floats:
    """The best returns for all budgets or whole limits up to a solution's; NaN where infeasible."""
    match solution.constraint:
        case Expected(limit=limit):
            return np.array([_value_at(solution, Expected(step)) for step in range(math.floor(limit) + 1)])
        case Chance(budget=budget, risk=risk) if risk > 0 or solution.policy.horizon is not None:
            return np.array([_value_at(solution, Chance(step, risk)) for step in range(budget + 1)])
    return _assured_curve(solution)


def _value_at(solution: Solution, at: Expected | Chance) -> float:
    if at == solution.constraint:
        return solution.value
    discount, tolerance, horizon = solution.discount, solution.tolerance, solution.policy.horizon
    try:
        return solve_policy(solution.mdp, at, discount=discount, tolerance=tolerance, horizon=horizon).value
    except Infeasible:
        return math.nan


def _assured_curve(solution: Solution) -> Floats:
    """The best assured return for the budgets 0 … budget; NaN where it is infeasible or not defined."""
    from almostsure.plan.assured import layers

    mdp, budget = solution.mdp, solution.policy.budget or 0
    found, within = solution.layers, solution.within
    if within is not None:
        lower = upper = np.where(np.isfinite(within.returns[-1]), within.returns[-1] + 0.0, np.nan)
    elif found is not None:
        lower, upper = (side[:, mdp.initial_states] for side in (found.lower, found.upper))
    else:
        minimal = minimal_budget(mdp, cap=budget)
        first = minimal.smallest_budget()
        codes = np.arange(first, budget + 1)[:, None] * mdp.num_states + mdp.initial_states.astype(np.int64)
        pairs = layers.solve_pairs(
            mdp, minimal.of_choice, codes.ravel(), discount=solution.discount, tolerance=solution.tolerance,
            values_only=True,
        )  # fmt: skip
        at = pairs.at(codes)
        above = np.full((first, mdp.initial_states.size), np.nan)
        known = ~np.isin(at, pairs.undefined)
        lower, upper = (
            np.concatenate([above, np.where(known, side[at], np.nan)]) for side in (pairs.lower, pairs.upper)
        )
    return np.array([middle(*at_start(mdp, *bounds)) for bounds in zip(lower, upper, strict=True)])
