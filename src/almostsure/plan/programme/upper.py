"""A proved upper bound of what is possible under an expectation or chance constraint: the price paid, the rest free.

For every price λ ≥ 0 of a constraint E[Σ cost] ≤ limit, no policy within the limit returns more than

    λ limit  +  the best E[Σ (reward − λ cost)] of any policy at all.

The second summand is a problem without a constraint, and :mod:`almostsure.plan.assured` encloses its value, rounding
included; rewards less the price are rounded upwards.  The bound is close where λ is the right price.  A price that is
a little too low makes costly cycles worth going round for ever; then it is raised.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.assured.layers import solve_pairs
from almostsure.plan.programme.flow import with_layers
from almostsure.policy.evaluation.wide import two_product, two_sum

RAISES = (0.0, 1e-15, 1e-13, 1e-11, 1e-10, 1e-9)  # by how much a price is raised, times the price if above 1
SHARE = 0.1  # of the tolerance


def upper_bound(
    mdp: MDP, price: float, limit: float, *, budget: int | None, discount: float, tolerance: float
) -> tuple[MDP, Floats, float]:
    """A model without a constraint, the upper bounds of its initial states, and what the price of the limit adds.

    The cost is the damage or, with a budget, that it is overspent.
    """
    for extra in RAISES:
        raised = price + extra * max(price, 1.0) / max(limit, 1.0)
        free = _paying(mdp, raised, budget)
        nothing = np.zeros(free.num_choices, np.int32)
        starts = free.initial_states.astype(np.int64)
        nowhere = np.full(starts.size, np.inf)
        try:
            found = solve_pairs(
                free, nothing, starts, discount=discount, tolerance=SHARE * tolerance, values_only=True
            )  # fmt: skip
            upper = found.upper[found.at(starts)] if found.proved else nowhere
        except LimitReached:  # it cannot be told whether cycles are worth their price
            upper = nowhere
        if not np.isposinf(upper).any():
            break
    return free, upper, math.nextafter(raised * limit, math.inf)


def _paying(mdp: MDP, price: float, budget: int | None) -> MDP:
    """The model in which damage or, with a budget, overspending costs its price instead."""
    arrays, cost, starts = with_layers(mdp, budget)
    return MDP(replace(arrays, reward=_less(arrays.reward, price, cost)), initial=(starts, mdp.initial_probabilities))


def _less(reward: Floats, price: float, cost: Floats) -> Floats:
    """What is left of rewards after costs at a price: exactly where floats hold it, and otherwise rounded upwards."""
    paid = two_product(np.full_like(cost, price), cost)
    rest = two_sum(reward, -paid.high)
    result = rest.high + (rest.low - paid.low)
    is_exact = (rest.low == 0) & (paid.low == 0)
    return np.where(is_exact, result, np.nextafter(result, np.inf))
