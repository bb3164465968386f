"""``AlmostSure``: the best return when no trajectory takes more than a budget, by :mod:`almostsure.plan.assured`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible, Interrupted
from almostsure.memory import require
from almostsure.model.mdp import MDP, Ints
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.instead import instead
from almostsure.plan.solution import Solution, at_start, check_gap, middle
from almostsure.plan.within import require_within, solve_within
from almostsure.policy.policy import Policy
from almostsure.progress import Bar

BYTES_PER_PAIR = 9  # per state and remaining budget, reachable or not: a number and a choice
BOUNDS_PER_PAIR = 16  # bytes more if all pairs are solved

# What a solver found: choices, [budget + 1, num_states], bounds at the start, whether they are proved, and doubts
Found = tuple[Ints, tuple[float, float], bool, tuple[str, ...]]


def solve_assured(
    mdp: MDP, constraint: AlmostSure, discount: float, tolerance: float, *, everywhere: bool = False
) -> Solution:
    """The best policy for a budget; see :func:`almostsure.plan.solve_policy`."""
    from almostsure.plan.assured.plateau import is_large, solve_large

    budget = constraint.budget
    minimal = minimal_budget(mdp, cap=budget)
    if minimal.smallest_budget() > budget:
        raise _infeasible(mdp, budget)
    all_pairs = everywhere or is_large(mdp, minimal.of_choice, budget)
    require(
        (BYTES_PER_PAIR + BOUNDS_PER_PAIR * all_pairs) * (budget + 1) * mdp.num_states,
        f"the best policy for budgets up to {budget:,}",
        "Solve for a smaller budget: a policy for it keeps larger ones too.",
    )
    layers = None
    try:
        with Bar("solving", None) as bar:
            options: dict[str, Any] = {
                "discount": discount, "tolerance": tolerance,
                "report": lambda done, components: bar.update(done, f"{done:,} of {components:,} components"),
            }  # fmt: skip
            if all_pairs:
                layers = solve_large(mdp, minimal.of_choice, budget, **options)
                bounds = at_start(mdp, *(side[-1, mdp.initial_states] for side in (layers.lower, layers.upper)))
                found: Found = layers.choice, bounds, layers.proved, layers.doubts
            else:
                found = _solve_reachable(mdp, minimal.of_choice, budget, options)
    except KeyboardInterrupt:
        safe = Policy(mdp, choice=_safe_table(minimal, budget), budget=budget)
        raise Interrupted(
            "interrupted before the best policy was found; .kept is a solution with a policy that keeps the budget, "
            "without bounds on its return.",
            kept=_solution(constraint, safe, (-math.inf, math.inf), discount, tolerance),
        ) from None
    choice, bounds, proved, doubts = found
    solution = _solution(constraint, Policy(mdp, choice=choice, budget=budget), bounds, discount, tolerance)
    solution = replace(solution, layers=layers, proved=proved)
    check_gap(solution, *doubts)
    return solution


def solve_assured_within(
    mdp: MDP, constraint: AlmostSure, horizon: int, discount: float, tolerance: float, *, everywhere: bool
) -> Solution:
    """The best policy for a budget and a number of steps."""
    budget = constraint.budget
    require_within(mdp, budget, horizon)
    if minimal_budget(mdp, horizon=horizon, cap=budget).smallest_budget() > budget:
        minimal = minimal_budget(mdp, horizon=horizon)
        needed = minimal.smallest_budget()
        worst = int(mdp.initial_states[np.argmax(minimal.of_state[mdp.initial_states])])
        suffice = "does not" if mdp.unknown is None else "is not known to"
        raise Infeasible(
            f"a budget of {budget} {suffice} suffice for {horizon:,} steps.\n{minimal.explain(worst)}",
            needed=math.inf if needed == INFINITE else needed,
        )
    try:
        policy, within = solve_within(mdp, budget, horizon, discount=discount, everywhere=everywhere)
    except KeyboardInterrupt:
        raise Interrupted("interrupted before the best policy was found; nothing is kept") from None
    best = within.returns[-1, -1] + 0.0  # not −0
    lower, upper = at_start(mdp, best, best)
    bounds = lower - within.error[-1], upper + within.error[-1]
    solution = replace(_solution(constraint, policy, bounds, discount, tolerance), within=within)
    check_gap(solution)
    return solution


def _solution(
    constraint: AlmostSure, policy: Policy, bounds: tuple[float, float], discount: float, tolerance: float
) -> Solution:
    return Solution(
        mdp=policy.mdp, constraint=constraint, value=middle(*bounds), lower=bounds[0], upper=bounds[1], policy=policy,
        discount=discount, tolerance=tolerance, used=float(constraint.budget), price=math.nan,
    )  # fmt: skip


def _safe_table(minimal: MinimalBudget, budget: int) -> Ints:
    """By remaining budget and state, the choice that needs the least budget; −1 where that is not enough."""
    mdp = minimal.mdp
    order = np.lexsort((minimal.of_choice, mdp.choice_states()))
    first = order[mdp.choice_ptr[:-1]]
    enough = minimal.of_choice[first] <= np.arange(budget + 1)[:, None]
    return np.where(enough, first, -1).astype(np.int32)


def _solve_reachable(mdp: MDP, of_choice: Ints, budget: int, options: dict[str, Any]) -> Found:
    """Solve the pairs that are reachable from the start."""
    from almostsure.plan.assured import layers

    starts = budget * mdp.num_states + mdp.initial_states.astype(np.int64)
    pairs = layers.solve_pairs(mdp, of_choice, starts, **options)
    at = pairs.at(starts)
    layers.check_bounded(mdp, pairs, at)
    bounds, proved, doubts = at_start(mdp, pairs.lower[at], pairs.upper[at]), pairs.proved, pairs.doubts
    graph, play, plainly = pairs.graph, pairs.play, pairs.plainly
    del pairs  # its array of numbers is as large as the table
    return layers.choice_table(graph, play, (budget + 1, mdp.num_states), plainly), bounds, proved, doubts


def _infeasible(mdp: MDP, budget: int) -> Infeasible:
    minimal = minimal_budget(mdp)
    worst = minimal.worst_start()
    needed = minimal.smallest_budget()
    why = minimal.explain(worst)
    if why.is_unknown:
        text = f"no budget is known to be enough from {mdp.describe_state(worst)}"
    elif needed == INFINITE:
        text = f"no budget suffices from {mdp.describe_state(worst)}: damage can be forced again and again"
    else:
        shown = mdp.show_damage(needed)
        text = f"a budget of {budget} does not suffice from {mdp.describe_state(worst)}; {shown} would"
    help_ = "".join(f"\n{line}" for line in instead(minimal))
    return Infeasible(f"{text}.\n{why}{help_}", needed=math.inf if needed == INFINITE else needed)
