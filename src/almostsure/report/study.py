"""Everything that a report shows, worked out: budgets, the three kinds of plans, and what had to be left out.

One run up to ``top`` gives the assured policy for every smaller budget too, so the slider of the report and its curve
cost one solve.  Whatever cannot be had (an infeasible constraint, a return without bound, a method that would take too
long) becomes a sentence instead of an error: a report about a hopeless model says why it is hopeless.

There is one limit, on time.  How long a method takes is estimated from the size of the model and the speeds below, not
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

MARGIN = 4  # budgets above the one asked for that the curve goes on for
TIME_LIMIT = 20.0  # seconds that each part of a report may take, by the estimate
EXTRA = 1 / 30  # of that: what solving for budgets that were not asked about may take
SPEEDS = {  # pairs of state and remaining budget per second; and pairs that each budget costs besides
    "solve": (600_000, 2_400),
    "programme": (600, 0),
    "frontier": (300, 90),
    "evaluate": (20_000, 400),
}
SCATTERED = 1_000  # states without a map from which on exact evaluation slows down: its factors fill up
TOLERANCE = 1e-8  # of returns
LIMITS = 21  # on the average damage, of the frontier
EPISODES = 10_000
MAX_STEPS = 1_000  # of a simulated episode that may never end
PATIENCE = 20  # expected lengths after which an episode that surely ends is cut
LONGEST = 10_000
NEARLY = 0.999  # of all runs end
RISK = 0.05
KINDS: dict[type[Constraint], str] = {AlmostSure: "assured", Expected: "expected", Chance: "chance"}
SAME = 1e-6  # returns closer than this, relative to the range, are equal for a reader


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The best policy under one constraint, or why there is none."""

    constraint: Constraint
    value: float = math.nan
    policy: Policy | None = None
    problem: str = ""  # in words, where there is no policy
    evaluation: Evaluation | None = None
    episodes: Episodes | None = None

    @property
    def kind(self) -> str:
        """What the page calls a plan under such a constraint."""
        return KINDS[type(self.constraint)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ladder:
    """The assured answers for the budgets 0 … top in one: what the slider of the report climbs."""

    curve: Floats  # [top + 1], NaN where infeasible, infinite where the return has no bound; [1] if nothing is solved
    solution: Solution | None = None  # of the largest budget whose return is bounded
    problem: str = ""

    @property
    def solved(self) -> int:
        """The largest budget with a policy, or −1."""
        policy = None if self.solution is None else self.solution.policy
        return -1 if policy is None or policy.budget is None else policy.budget


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """What was found about a model and a budget."""

    mdp: MDP
    minimal: MinimalBudget
    broken: str  # what the certificate's checker objected to, or nothing
    least: int  # from which budget on the start is safe, or INFINITE
    budget: int
    asked: bool  # whether the budget was asked for
    seed: int
    discount: float
    ladder: Ladder
    plans: tuple[Plan, ...]
    frontier: Frontier | None
    notes: tuple[str, ...]  # what was left out, and why


class Time:
    """The time that each part of a report may take, what was left out for it, and the discount of returns."""

    def __init__(self, limit: float, discount: float) -> None:
        self.limit, self.discount = limit, discount
        self.notes: list[str] = []

    def suffices(self, method: str, states: float, budgets: int, share: float = 1.0) -> bool:
        """Whether a method is estimated to keep within the limit, or a share of it."""
        pairs, per_budget = SPEEDS[method]
        return (states + per_budget) * budgets <= share * self.limit * pairs


def study(
    mdp: MDP, *, budget: int | None, limit: float | None, risk: float | None, seed: int, discount: float,
    time_limit: float, tell: Callable[[str], None],
) -> Study:  # fmt: skip
    """Work out a report's content, and tell what begins; nothing but Ctrl-C and a broken argument stops it."""
    tell("minimal budgets")
    minimal = minimal_budget(mdp)
    least = minimal.smallest_budget()
    time = Time(time_limit, discount)
    tell("the best policies")
    ladder = _ladder(mdp, minimal, budget, time)
    chosen = 0 if budget is None else budget
    if budget is None and least < INFINITE:
        chosen = default_budget(ladder.curve[: max(ladder.solved, least) + 1], least)
    ladder = _shortened(ladder, chosen)
    tell("averages and risks")
    plans = (
        _assured(mdp, ladder, AlmostSure(chosen), discount),
        _programmed(mdp, Expected(chosen if limit is None else limit), time),
        _programmed(mdp, Chance(chosen, RISK if risk is None else risk), time),
    )
    tell("episodes")
    tried = tuple(_tried(mdp, plan, chosen, seed, time) for plan in plans)
    tell("returns against budgets")
    return Study(
        mdp=mdp, minimal=minimal, broken=_broken(mdp, minimal), least=least, budget=chosen, asked=budget is not None,
        seed=seed, discount=discount, ladder=ladder,
        plans=tried, frontier=_frontier(mdp, chosen, ladder.curve.size, time), notes=tuple(dict.fromkeys(time.notes)),
    )  # fmt: skip


def _broken(mdp: MDP, minimal: MinimalBudget) -> str:
    try:
        check_minimal_budget(mdp, minimal)
    except CertificateError as error:
        return str(error)
    return ""


# ---------------------------------------------------------------------- the assured policy for many budgets


def _ladder(mdp: MDP, minimal: MinimalBudget, budget: int | None, time: Time) -> Ladder:
    """The assured answers up to the budget asked for, and a little further where that is quick."""
    least = minimal.smallest_budget()
    if least == INFINITE:
        return Ladder(curve=np.full(1, math.nan))
    asked = least if budget is None else max(budget, least)
    top = asked + (TEN if budget is None else MARGIN)
    while top > asked + 2 and not time.suffices("solve", mdp.num_states, top + 1, EXTRA):
        top -= 1
    for highest in (top, asked):
        if time.suffices("solve", mdp.num_states, highest + 1):
            return _climb(mdp, least, highest, time.discount)
    size = f"{mdp.num_states:,} states with {asked + 1:,} remaining budgets"
    refused = f"solving {size} would take longer than a report may."
    time.notes.append(f"The best policy: {refused} Use solve_policy.")
    return Ladder(curve=np.full(1, math.nan), problem=f"The policy was left out: {refused}")


def _climb(mdp: MDP, least: int, top: int, discount: float) -> Ladder:
    """Solve for ``top``; where its return has no bound or cannot be proved, for the largest budget that has one."""
    curve, best, problem, refused = np.full(top + 1, math.nan), None, "", math.nan
    low, high, step = least, top, top
    while low <= high:  # what cannot be had with some budget cannot be had with more either
        found = _solved(mdp, AlmostSure(step), discount)
        if isinstance(found, Solution):
            best, low = found, step + 1
        else:
            problem, high = str(found), step - 1
            refused = math.inf if isinstance(found, UnboundedReturn) else math.nan
        step = (low + high) // 2
    curve[low:] = refused
    if best is not None:
        curve[:low] = best.curve
    return Ladder(curve=curve, solution=best, problem=problem)


def _solved(mdp: MDP, constraint: Constraint, discount: float) -> Solution | AlmostSureError:
    """The solution, or why there is none."""
    try:
        return solve_policy(mdp, constraint, discount=discount, tolerance=TOLERANCE, everywhere=True)
    except AlmostSureError as error:
        return error


def _shortened(ladder: Ladder, budget: int) -> Ladder:
    """Without the budgets at the end that add nothing to the return, but for two."""
    curve = ladder.curve
    rises = np.flatnonzero(~np.isclose(curve[1:], curve[:-1], rtol=SAME, atol=SAME, equal_nan=True)) + 1
    last = int(rises.max()) if rises.size else 0
    return replace(ladder, curve=curve[: max(last, budget) + 3])


# ---------------------------------------------------------------------- the three kinds of constraint


def _assured(mdp: MDP, ladder: Ladder, constraint: AlmostSure, discount: float) -> Plan:
    budget = constraint.budget
    if ladder.solution is not None and budget <= ladder.solved and not math.isnan(ladder.curve[budget]):
        return Plan(constraint=constraint, value=float(ladder.curve[budget]), policy=ladder.solution.policy)
    problem = ladder.problem
    if not problem or ladder.solution is not None:
        problem = str(_solved(mdp, constraint, discount)).split("\n", 1)[0]
    return Plan(constraint=constraint, problem=problem)


def _programmed(mdp: MDP, constraint: Expected | Chance, time: Time) -> Plan:
    layers = constraint.budget + 2 if isinstance(constraint, Chance) else 1
    if not time.suffices("programme", mdp.num_states, layers):
        which = "With a risk" if isinstance(constraint, Chance) else "On average"
        time.notes.append(
            f"{which}: a linear programme over {mdp.num_states:,} states would take longer than a report may. "
            "Use solve_policy."
        )
        return Plan(constraint=constraint, problem="Left out: it would take longer than a report may.")
    solution = _solved(mdp, constraint, time.discount)
    if not isinstance(solution, Solution):
        return Plan(constraint=constraint, problem=str(solution).split("\n", 1)[0])
    return Plan(constraint=constraint, value=solution.value, policy=solution.policy)


def _tried(mdp: MDP, plan: Plan, budget: int, seed: int, time: Time) -> Plan:
    """The plan with its policy evaluated and played."""
    if plan.policy is None:
        return plan
    found = _evaluated(mdp, plan.policy, budget, time)
    steps = LONGEST
    if found is not None:
        endless = LONGEST if found.ends > NEARLY else 0.0  # where hardly any run goes on for ever, wait for the others
        length = found.expected_length if math.isfinite(found.expected_length) else endless
        steps = int(min(max(MAX_STEPS, PATIENCE * length), LONGEST))
    return replace(plan, evaluation=found, episodes=_played(mdp, plan.policy, budget, seed, steps, time))


def _evaluated(mdp: MDP, policy: Policy, budget: int, time: Time) -> Evaluation | None:
    size = float(mdp.num_states)
    if mdp.layout is None:
        size *= max(1.0, size / SCATTERED)
    if not time.suffices("evaluate", size, budget + 1):
        time.notes.append("Exact distributions of damage: they are sampled instead. Use evaluate.")
        return None
    try:
        return evaluate(mdp, policy, budget=budget, discount=time.discount)
    except AlmostSureError as error:
        time.notes.append(f"An exact evaluation: {error}")
        return None


def _played(mdp: MDP, policy: Policy, budget: int, seed: int, steps: int, time: Time) -> Episodes | None:
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
