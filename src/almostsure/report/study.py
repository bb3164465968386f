"""Computes the results that a report shows: minimal budgets, and the best policies under the three kinds of constraint.

Solving for one budget gives the assured policies for all smaller budgets, so the slider of the report and its curve
need a single solve.  An infeasible constraint, an unbounded return, or a method that would take too long becomes a
sentence of the report instead of an error.

The only limit is on time.  The time of a method is estimated from the size of the model and the speeds below, not
measured, so that the same arguments give the same report on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from almostsure.budget.certificate import check_minimal_budget
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import AlmostSureError, CertificateError, UnboundedReturn
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected
from almostsure.plan.solution import Solution
from almostsure.plan.solve import solve_policy
from almostsure.plan.tradeoff.frontiers import Frontier, frontier
from almostsure.plan.tradeoff.suggest import TEN, default_budget
from almostsure.policy.evaluation.evaluate import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.episodes import Episodes
from almostsure.policy.simulation.simulate import simulate

MARGIN = 4  # budgets that the curve has beyond the given one
TIME_LIMIT = 20.0  # seconds per part of a report, estimated
EXTRA = 1 / 30  # the share of it for budgets beyond the given one
SPEEDS = {  # pairs of state and remaining budget per second; and the overhead of each budget, in pairs
    "solve": (600_000, 2_400),
    "programme": (600, 0),
    "frontier": (300, 90),
    "evaluate": (20_000, 400),
}
FILL_IN = 1_000  # states, in a model without a map, above which exact evaluation slows down by fill-in
TOLERANCE = 1e-8  # of returns
LIMITS = 21  # on the average damage, of the frontier
EPISODES = 10_000
MAX_STEPS = 1_000  # of a simulated episode that may never end
PATIENCE = 20  # expected lengths after which an episode that almost surely ends is truncated
LONGEST = 10_000  # steps of a simulated episode
NEARLY = 0.999  # probability of an end above which almost all episodes are awaited
RISK = 0.05
KINDS: dict[type[Constraint], str] = {AlmostSure: "assured", Expected: "expected", Chance: "chance"}
SAME = 1e-6  # returns with a smaller difference count as equal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The best policy under one constraint, or the reason why there is none."""

    constraint: Constraint
    value: float = math.nan
    policy: Policy | None = None
    problem: str = ""  # a sentence, if there is no policy
    evaluation: Evaluation | None = None
    episodes: Episodes | None = None

    @property
    def kind(self) -> str:
        """The page's name of this kind of constraint."""
        return KINDS[type(self.constraint)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByBudget:
    """The assured policies and returns for the budgets 0 … top, which the slider of the report selects."""

    curve: Floats  # [top + 1], NaN if infeasible, infinite if the return is unbounded; [1] if nothing is solved
    solution: Solution | None = None  # of the largest budget whose return is bounded
    problem: str = ""

    @property
    def solved(self) -> int:
        """The largest budget with a policy, or −1."""
        policy = None if self.solution is None else self.solution.policy
        return -1 if policy is None or policy.budget is None else policy.budget


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """The results about a model and a budget."""

    mdp: MDP
    minimal: MinimalBudget
    broken: str  # the error of the certificate's checker, or ""
    least: int  # the minimal budget of the start, or INFINITE
    budget: int
    given: bool  # whether the user gave the budget
    seed: int
    discount: float
    by_budget: ByBudget
    plans: tuple[Plan, ...]
    frontier: Frontier | None
    notes: tuple[str, ...]  # the parts that were left out, with reasons


class Time:
    """The time limit of each part of a report, notes on the parts left out, and the discount of returns."""

    def __init__(self, limit: float, discount: float) -> None:
        self.limit, self.discount = limit, discount
        self.notes: list[str] = []

    def suffices(self, method: str, states: float, budgets: int, share: float = 1.0) -> bool:
        """Whether the estimated time of a method is within the limit, or a share of it."""
        pairs, per_budget = SPEEDS[method]
        return (states + per_budget) * budgets <= share * self.limit * pairs


def study(
    mdp: MDP, *, budget: int | None, limit: float | None, risk: float | None, seed: int, discount: float,
    time_limit: float, progress: Callable[[str], None],
) -> Study:  # fmt: skip
    """Compute a report's results; ``progress`` is called with the name of each part when it begins."""
    progress("minimal budgets")
    minimal = minimal_budget(mdp)
    least = minimal.smallest_budget()
    time = Time(time_limit, discount)
    progress("the best policies")
    by_budget = _solve_by_budget(mdp, minimal, budget, time)
    chosen = 0 if budget is None else budget
    if budget is None and least < INFINITE:
        chosen = default_budget(by_budget.curve[: max(by_budget.solved, least) + 1], least)
    by_budget = _trimmed(by_budget, chosen)
    progress("averages and risks")
    plans = (
        _assured(mdp, by_budget, AlmostSure(chosen), discount),
        _by_programme(mdp, Expected(chosen if limit is None else limit), time),
        _by_programme(mdp, Chance(chosen, RISK if risk is None else risk), time),
    )
    progress("episodes")
    results = tuple(_with_results(mdp, plan, chosen, seed, time) for plan in plans)
    progress("returns against budgets")
    found = _frontier(mdp, chosen, by_budget.curve.size, time)
    return Study(
        mdp=mdp, minimal=minimal, broken=_broken(mdp, minimal), least=least, budget=chosen, given=budget is not None,
        seed=seed, discount=discount, by_budget=by_budget, plans=results, frontier=found,
        notes=tuple(dict.fromkeys(time.notes)),
    )  # fmt: skip


def _broken(mdp: MDP, minimal: MinimalBudget) -> str:
    try:
        check_minimal_budget(mdp, minimal)
    except CertificateError as error:
        return str(error)
    return ""


# ---------------------------------------------------------------------- the assured policy for many budgets


def _solve_by_budget(mdp: MDP, minimal: MinimalBudget, budget: int | None, time: Time) -> ByBudget:
    """The assured policies up to the given budget, and for a few more budgets if they take little time."""
    least = minimal.smallest_budget()
    if least == INFINITE:
        return ByBudget(curve=np.full(1, math.nan))
    needed = least if budget is None else max(budget, least)
    top = needed + (TEN if budget is None else MARGIN)
    while top > needed + 2 and not time.suffices("solve", mdp.num_states, top + 1, EXTRA):
        top -= 1
    for highest in (top, needed):
        if time.suffices("solve", mdp.num_states, highest + 1):
            return _solve_up_to(mdp, least, highest, time.discount)
    size = f"{mdp.num_states:,} states with {needed + 1:,} remaining budgets"
    reason = f"solving {size} would take longer than the time limit."
    time.notes.append(f"The best policy: {reason} Use solve_policy.")
    return ByBudget(curve=np.full(1, math.nan), problem=f"The policy was left out: {reason}")


def _solve_up_to(mdp: MDP, least: int, top: int, discount: float) -> ByBudget:
    """Solve for ``top`` or, if its return is unbounded or cannot be proved, for the largest budget that can be solved.

    The search is a bisection: if one budget cannot be solved, larger ones cannot either.
    """
    curve, best, problem, beyond = np.full(top + 1, math.nan), None, "", math.nan
    low, high, middle = least, top, top
    while low <= high:
        found = _solved(mdp, AlmostSure(middle), discount)
        if isinstance(found, Solution):
            best, low = found, middle + 1
        else:
            problem, high = str(found), middle - 1
            beyond = math.inf if isinstance(found, UnboundedReturn) else math.nan
        middle = (low + high) // 2
    curve[low:] = beyond
    if best is not None:
        curve[:low] = best.curve
    return ByBudget(curve=curve, solution=best, problem=problem)


def _solved(mdp: MDP, constraint: Constraint, discount: float) -> Solution | AlmostSureError:
    """The solution, or the error."""
    try:
        return solve_policy(mdp, constraint, discount=discount, tolerance=TOLERANCE, everywhere=True)
    except AlmostSureError as error:
        return error


def _trimmed(by_budget: ByBudget, budget: int) -> ByBudget:
    """The same without the largest budgets that add nothing to the return, except for two of them."""
    curve = by_budget.curve
    rises = np.flatnonzero(~np.isclose(curve[1:], curve[:-1], rtol=SAME, atol=SAME, equal_nan=True)) + 1
    last = int(rises.max()) if rises.size else 0
    return replace(by_budget, curve=curve[: max(last, budget) + 3])


# ---------------------------------------------------------------------- the three kinds of constraint


def _assured(mdp: MDP, by_budget: ByBudget, constraint: AlmostSure, discount: float) -> Plan:
    budget, curve = constraint.budget, by_budget.curve
    if by_budget.solution is not None and budget <= by_budget.solved and not math.isnan(curve[budget]):
        return Plan(constraint=constraint, value=float(curve[budget]), policy=by_budget.solution.policy)
    problem = by_budget.problem
    if not problem or by_budget.solution is not None:
        problem = str(_solved(mdp, constraint, discount)).split("\n", 1)[0]
    return Plan(constraint=constraint, problem=problem)


def _by_programme(mdp: MDP, constraint: Expected | Chance, time: Time) -> Plan:
    layers = constraint.budget + 2 if isinstance(constraint, Chance) else 1
    if not time.suffices("programme", mdp.num_states, layers):
        which = "With a risk" if isinstance(constraint, Chance) else "On average"
        time.notes.append(
            f"{which}: a linear programme over {mdp.num_states:,} states would take longer than the time limit. "
            "Use solve_policy."
        )
        return Plan(constraint=constraint, problem="Left out: it would take longer than the time limit.")
    solution = _solved(mdp, constraint, time.discount)
    if not isinstance(solution, Solution):
        return Plan(constraint=constraint, problem=str(solution).split("\n", 1)[0])
    return Plan(constraint=constraint, value=solution.value, policy=solution.policy)


def _with_results(mdp: MDP, plan: Plan, budget: int, seed: int, time: Time) -> Plan:
    """The plan with the evaluation and simulated episodes of its policy."""
    if plan.policy is None:
        return plan
    found = _evaluated(mdp, plan.policy, budget, time)
    steps = LONGEST
    if found is not None:
        endless = LONGEST if found.ends > NEARLY else 0.0  # if some runs are infinite but hardly any, await the others
        length = found.expected_length if math.isfinite(found.expected_length) else endless
        steps = int(min(max(MAX_STEPS, PATIENCE * length), LONGEST))
    return replace(plan, evaluation=found, episodes=_simulated(mdp, plan.policy, budget, seed, steps, time))


def _evaluated(mdp: MDP, policy: Policy, budget: int, time: Time) -> Evaluation | None:
    size = float(mdp.num_states)
    if mdp.layout is None:
        size *= max(1.0, size / FILL_IN)
    if not time.suffices("evaluate", size, budget + 1):
        time.notes.append("Exact distributions of damage: they were sampled instead. Use evaluate.")
        return None
    try:
        return evaluate(mdp, policy, budget=budget, discount=time.discount)
    except AlmostSureError as error:
        time.notes.append(f"An exact evaluation: {error}")
        return None


def _simulated(mdp: MDP, policy: Policy, budget: int, seed: int, steps: int, time: Time) -> Episodes | None:
    try:
        return simulate(mdp, policy, EPISODES, budget=budget, seed=seed, max_steps=steps, discount=time.discount)
    except AlmostSureError as error:
        time.notes.append(f"Simulated episodes: {error}")
        return None


def _frontier(mdp: MDP, budget: int, budgets: int, time: Time) -> Frontier | None:
    if not time.suffices("frontier", mdp.num_states, max(budget + 2, budgets)):
        return None
    try:
        limits = np.unique(np.linspace(0, budgets - 1, LIMITS).round())
        return frontier(mdp, budget, limits=limits, discount=time.discount)
    except AlmostSureError:
        return None
