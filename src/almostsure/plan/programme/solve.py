"""``Expected`` and ``Chance``: the best return within a limit on the expected damage or the risk, with bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible, LimitReached, PolicyError, UnboundedReturn
from almostsure.model.mdp import MDP, Ints
from almostsure.plan.almost_sure import solve_assured
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected, budget_of, limit_of
from almostsure.plan.programme.extract import TINY, extract
from almostsure.plan.programme.flow import Flow, reachable
from almostsure.plan.programme.lagrange import PricedFlow, Proof
from almostsure.plan.programme.occupation import Endless, NoEnd, Programme
from almostsure.plan.programme.upper import upper_bound
from almostsure.plan.solution import Solution, at_start, check_gap
from almostsure.policy.evaluation.evaluate import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.wording import precise

SHY = 2.0**-44  # the share of a limit that is left unused, so that rounding does not exceed it
APART = "probabilities differ by too many orders of magnitude. Pass a horizon, such as 1,000 steps."
UNSEEN = " Choices that the learned model does not know count as unsafe: learn from more data."
SURE = 1e-6  # a least cost that is proved up to this share of it is given as it is
TRIES = 4  # solves with a smaller and smaller limit, until rounding does not exceed the given one
ROUNDING = 1e-9  # by how much a policy may exceed the limit; relative for limits above 1


def solve_programme(mdp: MDP, constraint: Expected | Chance, programme: Programme, tolerance: float) -> Solution:
    """Solve a programme for the constraint's limit, and prove bounds.

    Where rounding hides the best policy, the error carries an assured one within the limit, if there is one.
    """
    try:
        return _solve(mdp, constraint, programme, tolerance)
    except LimitReached as reached:
        if reached.solution is not None:
            raise
        assured = _assured(mdp, constraint, programme.discount, tolerance)
        if assured is None:
            raise
        text = str(reached)
    upper = _upper_without_limit(mdp, constraint, programme.discount, tolerance)
    raise LimitReached(
        f"{text} The error's solution never takes more than {assured.policy.budget} damage and returns "
        f"{precise(assured.value)}; no policy returns more than {precise(upper)}.",
        solution=replace(assured, upper=upper),
    )


def _solve(mdp: MDP, constraint: Expected | Chance, programme: Programme, tolerance: float) -> Solution:
    try:
        found = _within_limit(mdp, constraint, programme)
    except Endless as endless:
        raise _unbounded(mdp, endless.states % mdp.num_states, constraint) from None
    except NoEnd as stuck:
        return _assured_or_raise(mdp, constraint, _no_end(mdp, constraint, stuck.free), programme.discount, tolerance)
    if found is None:
        least, limit = programme.least_cost, limit_of(constraint)
        if least < limit - ROUNDING * max(1.0, limit):
            raise LimitReached(
                f"no best policy was found, though {least:.10g} of the limit {limit:g} suffices: {APART}"
            )
        proved = programme.proved_least()
        if proved <= limit:
            raise LimitReached(f"it could not be decided whether the limit {limit:g} can be kept: {APART}")
        reason = _above_limit(mdp, constraint, least, proved)
        return _assured_or_raise(mdp, constraint, reason, programme.discount, tolerance)
    answer, policy, result = found.answer, found.policy, found.result
    value, lower = result.expected_return, result.lower - found.proof.price * max(found.excess, 0.0)
    upper, proved = _upper(mdp, constraint, found.proof, answer, programme.discount, tolerance)
    proved = proved and found.excess <= 0
    if not mdp.reward.any():
        value, lower, upper, proved = 0.0, 0.0, 0.0, found.excess <= 0
    if upper < lower:
        raise LimitReached(
            f"the policy's return, {lower:.12g}, is above the upper bound, {upper:.12g}: HiGHS was too inexact. "
            "Scale the rewards, or report this."
        )
    if upper - lower > tolerance * max(1.0, abs(lower)):
        _check_attained(mdp, programme.flow, answer, upper)
    solution = Solution(
        mdp=mdp, constraint=constraint, value=min(value, upper), lower=lower, upper=upper, policy=policy,
        discount=programme.discount, tolerance=tolerance, used=found.used, price=answer.price, proved=proved,
    )  # fmt: skip
    check_gap(solution)
    return solution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Found:
    """An optimal flow, its policy, and the evaluation of the policy."""

    answer: PricedFlow
    proof: Proof
    policy: Policy
    result: Evaluation
    used: float  # the expected damage or the risk
    excess: float  # an upper bound of how far that exceeds the limit


def _within_limit(mdp: MDP, constraint: Expected | Chance, programme: Programme) -> _Found | None:
    """The best policy within the limit; None if there is none.

    If rounding makes the policy exceed the limit, the programme is solved again with a limit reduced by the excess.  If
    that is infeasible, because the limit is the least possible, the first policy is returned with its excess.
    """
    limit = limit_of(constraint)
    first, less, rounding = None, SHY * limit, ROUNDING * max(1.0, limit)
    for _ in range(TRIES):
        answer = programme.solve(limit - less) if less <= limit else None
        if answer is None and first is None and programme.least_cost <= limit + rounding / 2:
            answer = programme.solve(limit + rounding)
        if answer is None:
            break
        found = _found(mdp, constraint, programme, answer)
        if found.excess <= 0:
            return found
        first, less = first or found, less + 2 * found.excess
    if first is not None and not first.excess <= 2 * rounding:
        raise LimitReached(f"the policy found may use {first.excess:.3g} more than the limit, {limit:g}: {APART}")
    return first


def _found(mdp: MDP, constraint: Expected | Chance, programme: Programme, answer: PricedFlow) -> _Found:
    """The policy of an answer, evaluated."""
    proof = Proof(programme.solver.priced, answer.price, answer.potential)
    try:
        policy = extract(mdp, programme.flow, programme.visits(answer), proof, budget_of(constraint))
    except PolicyError:  # the flow is not conserved
        raise LimitReached(f"the flow found is not that of a policy: {APART}") from None
    result = evaluate(mdp, policy, discount=programme.discount)
    used, most = (result.discounted_damage, math.inf) if isinstance(constraint, Expected) else (result.overspends, 1.0)
    excess = min(used + result.accuracy, most) - limit_of(constraint)
    return _Found(answer=answer, proof=proof, policy=policy, result=result, used=used, excess=excess)


def _upper(
    mdp: MDP, constraint: Expected | Chance, proof: Proof, answer: PricedFlow, discount: float, tolerance: float
) -> tuple[float, bool]:
    """An upper bound of the return of any policy within the limit, and whether it includes all rounding errors.

    Where rewards and the price cancel out on a cycle, no price makes the problem without a limit finite in floating
    point; then the bound is that of the dual values of the linear programme, raised by some rounding errors.
    """
    limit, budget = limit_of(constraint), budget_of(constraint)
    paid = answer.price * limit
    tolerance *= max(1.0, abs(answer.value)) / max(1.0, abs(answer.value - paid))  # of the remaining value
    free, values, paid = upper_bound(mdp, answer.price, limit, budget=budget, discount=discount, tolerance=tolerance)
    _, upper = at_start(free, values, values)
    return (proof.upper(limit), False) if upper == math.inf else (math.nextafter(upper + paid, math.inf), True)


def _upper_without_limit(mdp: MDP, constraint: Expected | Chance, discount: float, tolerance: float) -> float:
    """An upper bound of the return of any policy, within the limit or not."""
    budget, limit = budget_of(constraint), limit_of(constraint)
    free, values, paid = upper_bound(mdp, 0.0, limit, budget=budget, discount=discount, tolerance=tolerance)
    return math.nextafter(at_start(free, values, values)[1] + paid, math.inf)


def _assured_or_raise(
    mdp: MDP, constraint: Expected | Chance, reason: Infeasible, discount: float, tolerance: float
) -> Solution:
    """Where no policy within the limit has a finite return: an assured policy with −∞, or else raise the reason."""
    assured = None if discount < 1 else _assured(mdp, constraint, discount, tolerance)
    if assured is None:
        raise reason from None
    if assured.value != -math.inf:
        raise LimitReached(f"no policy within the limit was found, though some exist: {APART}") from None
    return assured


def _assured(mdp: MDP, constraint: Expected | Chance, discount: float, tolerance: float) -> Solution | None:
    """The best policy that surely keeps within the limit, if there is one."""
    needed = minimal_budget(mdp).smallest_budget()
    budget, limit = (constraint.budget,) * 2 if isinstance(constraint, Chance) else (needed, constraint.limit)
    if needed > limit or needed == INFINITE:
        return None
    try:
        assured = solve_assured(mdp, AlmostSure(budget), discount, tolerance)
    except LimitReached as reached:
        if reached.solution is None:
            raise
        assured = reached.solution
    used = 0.0 if isinstance(constraint, Chance) else assured.evaluate().discounted_damage
    return replace(assured, constraint=constraint, used=used, layers=None)


def _check_attained(mdp: MDP, flow: Flow, answer: PricedFlow, upper: float) -> None:
    """Raise if the flow has a part that no policy attains: a circulation that is not reachable from the start.

    It is the limit of ever rarer and ever longer visits.
    """
    used = flow.keep(np.ones(flow.num_states, np.bool_), answer.flow > TINY)
    there = np.bincount(flow.owner, answer.flow, minlength=flow.num_states) > TINY
    apart = flow.state[there & ~reachable(used)]
    if apart.size:
        shown = "; ".join(mdp.state_name(s) for s in np.unique(apart % mdp.num_states)[:6].tolist())
        raise LimitReached(
            f"no policy attains the best return, {upper:.10g}; it is approached by ever rarer and ever longer visits "
            f"to {shown}. Use a discount below 1, or end the episode there."
        )


def _unbounded(mdp: MDP, states: Ints, constraint: Constraint) -> UnboundedReturn:
    cycle = tuple(np.unique(states).tolist())
    shown = "; ".join(mdp.state_name(s) for s in cycle[:6]) + (f"; … ({len(cycle)} states)" if len(cycle) > 6 else "")
    return UnboundedReturn(
        f"with {constraint} the return has no bound: reward can be collected for ever in {shown}. "
        "Use a discount below 1, or end the episode there.",
        cycle=cycle,
    )


def _no_end(mdp: MDP, constraint: Expected | Chance, free: bool) -> Infeasible:
    if free:
        return Infeasible(
            f"with {constraint} every policy has a return of minus infinity, or one that is not defined: the run never "
            "ends, and its rewards add up to no finite number. Use a discount below 1, or end the episode somewhere."
        )
    if mdp.unknown is not None:
        return Infeasible(f"no policy is known to have a finite expected damage.{UNSEEN}", needed=math.inf)
    return Infeasible("no policy has a finite expected damage: damage can be forced again and again.", needed=math.inf)


def _above_limit(mdp: MDP, constraint: Expected | Chance, least: float, proved: float) -> Infeasible:
    if isinstance(constraint, Expected):
        what, limit = "the expected damage", constraint.limit
    else:
        what, limit = f"the risk of more than {constraint.budget} damage", constraint.risk
    sure = proved >= (1 - SURE) * least
    needed = least if sure else proved
    held, such, seen = "cannot be held", "the least", ""
    if mdp.unknown is not None:
        held, such, seen = "is not known to be held", "the least known", UNSEEN
    which = f"{needed:.10g} is {such}" if sure else f"{such} is above {needed:.10g}"
    return Infeasible(f"{what} {held} at {limit:.10g} (with a finite return); {which}.{seen}", needed=needed)
