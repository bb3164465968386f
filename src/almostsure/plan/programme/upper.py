"""A proved upper bound of the return under an expectation or chance constraint, by Lagrangian relaxation.

For every price λ ≥ 0 of a constraint E[Σ cost] ≤ limit, no policy within the limit returns more than

    λ limit  +  max over all policies of E[Σ (reward − λ cost)].

The maximum is that of a problem without a constraint, and :mod:`almostsure.plan.assured` encloses it, rounding
included; rewards less the price are rounded upwards.  The bound is close if λ is the optimal price.  With a price that
is slightly too low, costly cycles may be worth going round for ever; then it is raised.
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

RAISES = (0.0, 1e-15, 1e-13, 1e-11, 1e-10, 1e-9)  # by how much a price is raised; relative for prices above 1
SHARE = 0.1  # the share of the tolerance that this bound may use


def upper_bound(
    mdp: MDP, price: float, limit: float, *, budget: int | None, discount: float, tolerance: float
) -> tuple[MDP, Floats, float]:
    """The model without a constraint, upper bounds of its initial states, and λ · limit, which is to be added.

    The cost is the damage or, with a budget, 1 for overspending it.
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
        except LimitReached:  # whether cycles are worth their price is undecided
            upper = nowhere
        if not np.isposinf(upper).any():
            break
    return free, upper, math.nextafter(raised * limit, math.inf)


def _paying(mdp: MDP, price: float, budget: int | None) -> MDP:
    """The model without damage in which each unit of it or, with a budget, overspending, costs the price."""
    arrays, cost, starts = with_layers(mdp, budget)
    return MDP(replace(arrays, reward=_less(arrays.reward, price, cost)), initial=(starts, mdp.initial_probabilities))


def _less(reward: Floats, price: float, cost: Floats) -> Floats:
    """Rewards minus costs times the price: exact where floats can represent them, otherwise rounded upwards."""
    paid = two_product(np.full_like(cost, price), cost)
    rest = two_sum(reward, -paid.high)
    result = rest.high + (rest.low - paid.low)
    is_exact = (rest.low == 0) & (paid.low == 0)
    return np.where(is_exact, result, np.nextafter(result, np.inf))
