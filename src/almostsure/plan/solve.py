"""``solve_policy``: the best return under one of the three constraints, with bounds.

**Objective.**  The return is E[Σ discountᵗ R]; with ``discount=1``, the default, it is E[Σ R].

- ``AlmostSure(budget)`` limits the damage of every trajectory, and the discount does not apply to it.
- ``Expected(limit)`` discounts damage like reward: E[Σ D] undiscounted, E[Σ discountᵗ D] with a discount.  (If the
  discount is the probability that an episode continues after each step, both sums are over the same steps.  With
  different discounts for return and damage, stationary policies would not suffice.)
- ``Chance(budget, risk)`` limits the damage of whole trajectories.  A policy on (state, remaining) cannot trade a
  discounted return against an undiscounted risk optimally, so a risk strictly between 0 and 1 needs ``discount=1``.
  For episodes that may break off, add a transition to a terminal state to the model.
- Once the budget of a chance constraint is overspent, the policy maximises the return alone.

**Horizon.**  With a horizon T only the first T steps count, for the return and for the damage.  ``AlmostSure`` is then
solved by recursion over the steps left (:mod:`almostsure.plan.within`), and the other constraints as linear programmes
on the model that counts the steps, ``product(mdp, Steps(T))``.

**Infinite returns.**  An unbounded return is an error that names a cycle.  If the constraint can be kept, but only at
costs that add up for ever, the value is −∞, with a policy that keeps the constraint; for ``Expected`` and ``Chance``
that is an assured policy, and if there is none, ``Infeasible`` says that no finite return is within the limit.  A best
policy need not end if going on costs nothing.  The printed solution says so for models of moderate size, and
``solution.evaluate().ends`` for all.

**Bounds.**  ``lower`` and ``upper`` enclose the optimum.  For ``AlmostSure`` they are proved component by component,
rounding included (:mod:`almostsure.plan.assured.steps`).  For the others ``lower`` is the evaluated return of the
policy, and ``upper`` comes from a problem without a constraint in which damage has a price
(:mod:`almostsure.plan.programme.upper`).  ``proved`` is False in three cases:

- rewards on a cycle cancel out up to rounding, but not exactly, and are taken for 0 (models with at most 40 pairs are
  solved in fractions instead, :mod:`almostsure.plan.assured.exact`);
- the same in the problem with a price: then ``upper`` is a dual value of the linear programme, for which not all
  rounding errors are counted;
- the limit is the least possible and the policy exceeds it by rounding: then ``lower`` is reduced by the excess times
  the price.

Bounds further apart than ``tolerance`` (relative for values above 1) are an error.
"""

from __future__ import annotations

import math
from dataclasses import replace

from almostsure.arguments import check_discount, check_horizon, check_tolerance, names_right_word
from almostsure.errors import ArgumentError, Infeasible
from almostsure.model.mdp import MDP
from almostsure.model.monitors import Steps
from almostsure.model.products import product
from almostsure.model.source import Model, as_model
from almostsure.plan.almost_sure import solve_assured, solve_assured_within
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected, budget_of, limit_of
from almostsure.plan.programme.flow import flow_of
from almostsure.plan.programme.occupation import NoEnd, Programme
from almostsure.plan.programme.solve import solve_programme
from almostsure.plan.solution import Solution
from almostsure.plan.within import without_steps
from almostsure.policy.policy import Policy


@names_right_word
def solve_policy(
    mdp: Model,
    constraint: Constraint,
    *,
    discount: float = 1.0,
    tolerance: float = 1e-8,
    horizon: int | None = None,
    everywhere: bool = False,
) -> Solution:
    """The best policy under a constraint on damage.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file; the policy starts in the initial state or distribution.
    constraint
        ``AlmostSure(budget)``, ``Expected(limit)`` or ``Chance(budget, risk)``.
    discount
        The discount of the return, in (0, 1].  For ``AlmostSure`` damage is never discounted; ``Expected`` discounts it
        like reward; ``Chance`` with a risk strictly between 0 and 1 needs ``discount=1``.
    tolerance
        How far apart the bounds may be; relative for values above 1.
    horizon
        Count only this many steps, for the return and for the damage.  The policy then also depends on the number of
        steps left; for ``AlmostSure``, ``solution.within`` has the best returns for every such number.
    everywhere
        For ``AlmostSure``: solve all states and remaining budgets, not only those reachable from the start.  The policy
        is then defined wherever the budget suffices, and ``solution.layers`` (``solution.within``) has all bounds.

    Raises
    ------
    Infeasible
        No policy meets the constraint; ``needed`` is the least budget, limit or risk that suffices.
    UnboundedReturn
        The return has no bound; ``cycle`` holds the states of a cycle on which reward is collected for ever.
    LimitReached
        The bounds are further apart than the tolerance; ``solution`` is the solution with these bounds.
    Interrupted
        Ctrl-C; for ``AlmostSure``, ``kept`` is a solution with a policy that keeps the budget, but is not optimal.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> solve_policy(mdp, AlmostSure(5)).value
    5.0
    >>> print(solve_policy(mdp, Expected(3)).policy)
    Policy: randomised, on states, of 2 states
    state  plays
    0      0 0.75, 1 0.25
    1      0
    """
    mdp, discount, tolerance = as_model(mdp), check_discount(discount), check_tolerance(tolerance)
    mdp.require_probabilities("solve_policy")
    return _solve(mdp, constraint, discount, tolerance, horizon, everywhere=everywhere)


def _solve(
    mdp: MDP, constraint: Constraint, discount: float, tolerance: float, horizon: int | None, *, everywhere: bool
) -> Solution:
    if horizon is not None and isinstance(constraint, Constraint):
        steps = check_horizon(horizon)
        return _within(mdp, constraint, steps, discount, tolerance, everywhere=everywhere)
    match constraint:
        case AlmostSure():
            return solve_assured(mdp, constraint, discount, tolerance, everywhere=everywhere)
        case Chance(risk=risk) if discount < 1 and 0 < risk < 1:
            raise ArgumentError(
                f"a chance constraint with a risk between 0 and 1 must have discount=1; got {discount:g}. "
                "If episodes may break off, put that into the model: a transition to a terminal state."
            )
        case Expected() | Chance():
            if limit_of(constraint) == 0:
                return _solve_zero(mdp, constraint, discount, tolerance)
            return solve_programme(mdp, constraint, _programme(mdp, constraint, discount), tolerance)
    raise ArgumentError(
        f"constraint must be AlmostSure, Expected or Chance; got {constraint!r}. For a budget that is never "
        "exceeded, pass AlmostSure(budget)."
    )


def _within(
    mdp: MDP, constraint: Constraint, horizon: int, discount: float, tolerance: float, *, everywhere: bool
) -> Solution:
    """The best policy for a number of steps."""
    if isinstance(constraint, AlmostSure):
        return solve_assured_within(mdp, constraint, horizon, discount, tolerance, everywhere=everywhere)
    limit = Steps(horizon)
    solution = solve_policy(product(mdp, limit), constraint, discount=discount, tolerance=tolerance)
    return replace(solution, mdp=mdp, policy=without_steps(solution.policy, mdp, limit), layers=None)


def _programme(mdp: MDP, constraint: Expected | Chance, discount: float) -> Programme:
    return Programme(flow_of(mdp, budget_of(constraint)), discount)


def _solve_zero(mdp: MDP, constraint: Expected | Chance, discount: float, tolerance: float) -> Solution:
    """The best policy for an expected damage or a risk of 0, which is an almost-sure constraint."""
    what = "risk" if isinstance(constraint, Chance) else "damage"
    try:
        assured = solve_assured(mdp, AlmostSure(budget_of(constraint) or 0), discount, tolerance)
    except Infeasible as error:
        raise Infeasible(f"without any {what}, {error}", needed=_least(mdp, constraint)) from None
    choice = assured.policy.choice
    is_plain = isinstance(constraint, Expected) and choice is not None
    policy = Policy(mdp, choice=choice) if is_plain else assured.policy  # with budget 0 nothing is carried
    return replace(assured, constraint=constraint, policy=policy, used=0.0, layers=None)


def _least(mdp: MDP, constraint: Expected | Chance) -> float:
    try:
        return _programme(mdp, constraint, 1.0).least_cost
    except NoEnd:
        return math.nan
