"""The assured return against the budget, also where it is infeasible or has no bound."""

from __future__ import annotations

import math

import numpy as np

from almostsure.errors import Infeasible, UnboundedReturn
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy


def assured_curve(mdp: MDP, budget: int, *, discount: float = 1.0, tolerance: float = 1e-8) -> Floats:
    """The best assured return for the budgets 0 … budget; NaN where infeasible, plus infinity where it has no bound.

    More budget never returns less.  So if the return has no bound at ``budget``, halving finds from where on.
    """

    def solve(minimal: int) -> Floats | None:
        try:
            return solve_policy(mdp, AlmostSure(minimal), discount=discount, tolerance=tolerance).curve
        except Infeasible:
            return np.full(minimal + 1, math.nan)
        except UnboundedReturn:
            return None

    below = solve(budget)
    if below is not None:
        return below
    below, bounded, unbounded = np.zeros(0), -1, budget
    while unbounded - bounded > 1:
        middle = (bounded + unbounded) // 2
        found = solve(middle)
        if found is None:
            unbounded = middle
        else:
            below, bounded = found, middle
    return np.concatenate([below, np.full(budget - bounded, math.inf)])
