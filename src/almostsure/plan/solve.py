"""``solve_policy``: the best return under one of the three constraints, with bounds.

What is counted.  The return is E[Σ discountᵗ R]; with ``discount=1``, the default, it is E[Σ R].

- ``AlmostSure(budget)`` is about every trajectory, so the discount does not touch it.
- ``Expected(limit)`` counts damage as it counts reward: E[Σ D] undiscounted, E[Σ discountᵗ D] with a discount.  (Read
  the discount as the chance that an episode goes on after each step: both sums are then over the same steps.  With one
  discount for the return and another for the damage, stationary policies would not be enough.)
- ``Chance(budget, risk)`` is about whole trajectories.  A policy on (state, remaining) cannot trade a discounted return
  against an undiscounted risk optimally, so a risk strictly between 0 and 1 needs ``discount=1``.  To plan for episodes
  that may break off, put that into the model: a transition to a terminal state.
- Once the budget of a chance constraint is overspent, nothing can make it worse, and the policy goes on for the return.

With a *horizon* only the first T steps count, for the return and for the damage, and what follows does not matter.  For
``AlmostSure`` that is a recursion over the steps that are left (:mod:`almostsure.plan.within`); for the others, the
programme of the model that counts them, ``product(mdp, Steps(T))``.

Infinite returns.  A return without bound is an error that names a cycle.  Where the constraint can be kept, but costs
then add up for ever, the answer is −∞, with a policy that keeps the constraint; for ``Expected`` and ``Chance`` this
is an assured one, and where there is none, ``Infeasible`` says that no finite return is within the limit.  A best
policy need not ever end, where going on costs nothing; printing the solution says so for models of moderate size,
``solution.evaluate().ends`` for all.

Bounds.  ``lower`` and ``upper`` enclose the optimum.  For ``AlmostSure`` they are proved component by component,
rounding included (:mod:`almostsure.plan.assured.steps`).  For the others ``lower`` is the evaluated return of the
policy that is returned, less what it would cost to make up for an excess by rounding over the limit, and ``upper`` is
that of a problem in which damage has a price (:mod:`almostsure.plan.programme.upper`).  Where that problem has no
finite value, because rewards and the price cancel out on a cycle, ``upper`` is a dual value of the programme whose
roundings are not all counted: then ``proved`` is False.  Bounds further apart than ``tolerance`` (times the value, if
that is above 1) are an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from almostsure.arguments import check_discount, check_tolerance, names_right_word
from almostsure.budget.horizon import check_steps
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import AlmostSureError, ArgumentError, Infeasible, Interrupted, LimitReached, UnboundedReturn
from almostsure.memory import require
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.model.monitors import Steps
from almostsure.model.products import product
from almostsure.model.source import Model, as_model
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected
from almostsure.plan.instead import instead
from almostsure.plan.programme.extract import TINY, extract
from almostsure.plan.programme.flow import Flow, layered_flow, plain_flow, reachable
from almostsure.plan.programme.lagrange import Answer, Proof
from almostsure.plan.programme.occupation import Endless, NoEnd, Programme
from almostsure.plan.programme.upper import upper_bound
from almostsure.plan.within import Within, solve_within, without_steps
from almostsure.policy.evaluation import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.progress import Bar

if TYPE_CHECKING:
    from almostsure.plan.assured.layers import Layers

BYTES_PER_PAIR = 9  # of state and remaining budget, reachable or not: a number and a choice
ASKED = 100_000  # pairs up to which printing a solution evaluates its policy
SURELY = 1e-9  # an end that is missed with no more probability than this is sure
SHY = 2.0**-44  # the share of a limit that is not used, so that rounding does not exceed it
ROUNDING = 1e-9  # by how much a policy may miss the limit of an expectation or a risk, times the limit if above 1


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """The best return under a constraint, a policy that attains it, and how they are known."""

    mdp: MDP
    constraint: Constraint
    value: float  # at the initial state or distribution
    lower: float
    upper: float
    policy: Policy
    discount: float
    tolerance: float
    used: float  # the policy's expected damage, or its risk; for AlmostSure the most damage that it may take
    price: float  # what one more unit of the limit or of the risk would add to the return; NaN for AlmostSure
    layers: Layers | None = None  # AlmostSure everywhere: bounds for every remaining budget and state
    within: Within | None = None  # AlmostSure with a horizon: returns for every number of steps left
    proved: bool = True  # whether the bounds allow for every rounding; only Expected and Chance may say no
    _kept: dict[str, Floats] = field(default_factory=dict)  # the curve, once it was asked for

    def __post_init__(self) -> None:
        if any(map(math.isnan, (self.value, self.lower, self.upper))):
            raise LimitReached("the return is beyond what floating-point numbers hold. Scale the rewards down.")

    @property
    def curve(self) -> Floats:
        """The best return for the budgets 0 … budget; NaN where infeasible.  It is computed when it is first asked for.

        For Expected: for the limits 0, 1, … up to the limit.
        """
        if "curve" not in self._kept:
            self._kept["curve"] = self._solve_curve()
        return self._kept["curve"]

    def _solve_curve(self) -> Floats:
        match self.constraint:
            case AlmostSure() | Chance(risk=0):
                return _assured_curve(self)
            case Expected(limit=limit):
                steps = range(math.floor(limit) + 1)
            case Chance(budget=budget):
                steps = range(budget + 1)
        return np.array([self._value_at(step) for step in steps])

    def _value_at(self, step: int) -> float:
        at = Chance(step, self.constraint.risk) if isinstance(self.constraint, Chance) else Expected(step)
        if at == self.constraint:
            return self.value
        try:
            options: dict[str, Any] = {"discount": self.discount, "tolerance": self.tolerance}
            return solve_policy(self.mdp, at, horizon=self.policy.horizon, **options).value
        except Infeasible:
            return math.nan

    def evaluate(self) -> Evaluation:
        """Evaluate the policy exactly."""
        return evaluate(self.mdp, self.policy, discount=self.discount)

    def __repr__(self) -> str:
        return f"<Solution: return {self.value:.10g} with {self.constraint}>"

    def __str__(self) -> str:
        return "\n".join(f"{name:<13}{text}" for name, text in self._facts())

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import card
        from almostsure.policy.text import curve_table, policy_map

        return card("Solution", self._facts(), curve_table(self._kept.get("curve")), policy_map(self.policy))

    def _facts(self) -> list[tuple[str, str]]:
        """What there is to say, by name."""
        steps = "" if self.policy.horizon is None else f", within {self.policy.horizon:,} steps"
        facts = [
            ("best return", f"{self.value:.10g}" + (f" (discount {self.discount:g})" if self.discount < 1 else "")),
            ("constraint", f"{self.constraint}{steps}"),
            ("bounds", f"{self.lower:.12g} … {self.upper:.12g}{'' if self.proved else ', the upper one not proved'}"),
            ("policy", self.policy.description()),
        ]
        match self.constraint:
            case Expected(limit=limit):
                worth = f"another unit is worth {self.price:.6g}"
                facts.append(("damage", f"{self.used:.6g} of {limit:g} on average, {worth}"))
            case Chance(risk=risk):
                worth = "" if math.isnan(self.price) else f", another per cent is worth {self.price / 100:.6g}"
                facts.append(("risk", f"{self.used:.6g} of {risk:g} is used{worth}"))
        return [*facts, *self._may_never_end()]

    def _may_never_end(self) -> list[tuple[str, str]]:
        """What to say of policies that do not surely end, where that is cheap to know."""
        if self.policy.horizon is not None or self.policy.num_layers * self.mdp.num_states > ASKED:
            return []
        if self.value == -math.inf and not self.mdp.is_terminal().any():
            return [("ends", "never, and costs add up for ever: name a goal when you read the model")]
        try:
            ends = self.evaluate().ends
        except AlmostSureError:
            return []
        return [("ends", f"with probability {ends:.6g} only")] if ends < 1 - SURELY else []


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
        In (0, 1], of the return.  ``AlmostSure`` is about every trajectory, so its damage counts in full.
        ``Expected`` discounts damage as it discounts reward.  ``Chance`` with a risk strictly between 0 and 1 needs
        ``discount=1``: a policy on (state, remaining) cannot trade a discounted return against an undiscounted risk
        optimally.
    tolerance
        How far apart the bounds may be, times the value if that is above 1.
    horizon
        Count only so many steps, for the return and for the damage.  The policy then looks at the steps that are left,
        too; for ``AlmostSure``, ``solution.within`` has the best returns for every number of them.
    everywhere
        For ``AlmostSure``: solve all states and remaining budgets, not only what the start can reach.  The policy then
        answers wherever the budget suffices, and ``solution.layers`` (``solution.within``) has all bounds.

    Raises
    ------
    Infeasible
        No policy meets the constraint; ``needed`` is the least budget, limit or risk that would do.
    UnboundedReturn
        The return has no bound; ``cycle`` holds the states that give it.
    LimitReached
        The bounds are further apart than the tolerance; ``solution`` is the whole solution, with the best of them.
    Interrupted
        Ctrl-C; for ``AlmostSure``, ``kept`` is a solution whose policy keeps the budget, not yet the best one.

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
        steps = check_steps("horizon", horizon)
        if not steps:
            raise ArgumentError("horizon must be at least 1: with no step there is nothing to play")
        return _within(mdp, constraint, steps, discount, tolerance, everywhere=everywhere)
    match constraint:
        case AlmostSure():
            return _assured(mdp, constraint, discount, tolerance, everywhere=everywhere)
        case Expected():
            return solve_programme(mdp, constraint, Programme(plain_flow(mdp), discount), tolerance)
        case Chance():
            return _chance(mdp, constraint, discount, tolerance)
    raise ArgumentError(
        f"constraint must be AlmostSure, Expected or Chance; got {constraint!r}. For a budget that is never "
        "exceeded, pass AlmostSure(budget)."
    )


# ---------------------------------------------------------------------- almost sure


def _assured(
    mdp: MDP, constraint: AlmostSure, discount: float, tolerance: float, *, everywhere: bool = False
) -> Solution:
    from almostsure.plan.assured.plateau import is_large, solve_budgets

    budget = constraint.budget
    minimal = minimal_budget(mdp, cap=budget)
    if minimal.smallest_budget() > budget:
        raise _too_little(mdp, budget)
    require(
        BYTES_PER_PAIR * (budget + 1) * mdp.num_states, f"the best policy for budgets up to {budget:,}",
        "Solve for a smaller budget: a policy for it keeps larger ones too.",
    )  # fmt: skip
    layers, options = None, {"discount": discount, "tolerance": tolerance}
    choice: Ints
    try:
        with Bar("solving", None) as bar:
            shown: dict[str, Any] = {**options, "report": _shown(bar)}
            if everywhere or is_large(mdp, minimal.of_choice, budget):
                layers = solve_budgets(mdp, minimal.of_choice, budget, **shown)
                choice, bounds = layers.choice, (layers.lower[-1], layers.upper[-1])
                lower, upper = (_at_start(mdp, side[mdp.initial_states]) for side in bounds)
            else:
                choice, lower, upper = _from_the_start(mdp, minimal.of_choice, budget, shown)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted before the best policy was found; .kept is a solution whose policy keeps the budget, and "
            "whose bounds say nothing.",
            kept=_assured_solution(mdp, constraint, _safe_table(minimal, budget), (-math.inf, math.inf), options),
        ) from None
    solution = _assured_solution(mdp, constraint, choice, (lower[0], upper[1]), options, layers)
    _check_gap(solution)
    return solution


def _assured_solution(
    mdp: MDP, constraint: AlmostSure, choice: Ints, bounds: tuple[float, float], options: dict[str, float],
    layers: Layers | None = None,
) -> Solution:  # fmt: skip
    budget = constraint.budget
    return Solution(
        mdp=mdp, constraint=constraint, value=_middle(*bounds), lower=bounds[0], upper=bounds[1],
        policy=Policy(mdp, choice=choice, budget=budget), discount=options["discount"], tolerance=options["tolerance"],
        used=float(budget), price=math.nan, layers=layers,
    )  # fmt: skip


def _safe_table(minimal: MinimalBudget, budget: int) -> Ints:
    """The choice of each state that needs the least budget, wherever that suffices; −1 elsewhere."""
    mdp = minimal.mdp
    order = np.lexsort((minimal.of_choice, mdp.choice_states()))
    first = order[mdp.choice_ptr[:-1]]
    enough = minimal.of_choice[first] <= np.arange(budget + 1)[:, None]
    return np.where(enough, first, -1).astype(np.int32)


def _within(
    mdp: MDP, constraint: Constraint, horizon: int, discount: float, tolerance: float, *, everywhere: bool
) -> Solution:
    """The best policy for a number of steps."""
    if isinstance(constraint, AlmostSure):
        return _assured_within(mdp, constraint, horizon, discount, tolerance, everywhere=everywhere)
    limit = Steps(horizon)
    solution = solve_policy(product(mdp, limit), constraint, discount=discount, tolerance=tolerance)
    return replace(solution, mdp=mdp, policy=without_steps(solution.policy, mdp, limit), layers=None, _kept={})


def _assured_within(
    mdp: MDP, constraint: AlmostSure, horizon: int, discount: float, tolerance: float, *, everywhere: bool
) -> Solution:
    budget = constraint.budget
    minimal = minimal_budget(mdp, horizon=horizon)
    needed = minimal.smallest_budget()
    if needed > budget:
        worst = int(mdp.initial_states[np.argmax(minimal.of_state[mdp.initial_states])])
        raise Infeasible(
            f"a budget of {budget} does not suffice for {horizon:,} steps.\n{minimal.explain(worst)}",
            needed=math.inf if needed == INFINITE else needed,
        )
    try:
        policy, within = solve_within(mdp, budget, horizon, discount=discount, everywhere=everywhere)
    except KeyboardInterrupt:
        raise Interrupted("the search for the best policy was stopped; nothing of it is kept") from None
    at_start = within.returns[-1] + 0.0
    at_start[~np.isfinite(at_start)] = np.nan
    means = [_at_start(mdp, row) for row in at_start]
    curve = np.array([_middle(*mean) for mean in means])
    lower, upper = means[-1][0] - within.error[-1], means[-1][1] + within.error[-1]
    solution = Solution(
        mdp=mdp, constraint=constraint, value=_middle(lower, upper), lower=lower, upper=upper, policy=policy,
        discount=discount, tolerance=tolerance, used=float(budget), price=math.nan, within=within,
        _kept={"curve": curve},
    )  # fmt: skip
    _check_gap(solution)
    return solution


def _shown(bar: Bar) -> Callable[[int, int], None]:
    def report(done: int, components: int) -> None:
        bar.update(done, f"{done:,} of {components:,} components")

    return report


def _from_the_start(
    mdp: MDP, of_choice: Ints, budget: int, options: dict[str, Any]
) -> tuple[Ints, tuple[float, float], tuple[float, float]]:
    """The table of choices, and the bounds at the start, by solving what can be reached from there."""
    from almostsure.plan.assured import layers

    starts = budget * mdp.num_states + mdp.initial_states.astype(np.int64)
    pairs = layers.solve_pairs(mdp, of_choice, starts, **options)
    at = pairs.at(starts)
    layers.check_bounded(mdp, pairs, at)
    choice = layers.choice_table(pairs, (budget + 1, mdp.num_states))
    return choice, _at_start(mdp, pairs.lower[at]), _at_start(mdp, pairs.upper[at])


def _assured_curve(solution: Solution) -> Floats:
    """The best return at the start for the budgets 0 … budget."""
    from almostsure.plan.assured import layers

    mdp, budget = solution.mdp, solution.policy.budget or 0
    found = solution.layers
    if found is not None:
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
        lower, upper = (np.concatenate([above, side[at]]) for side in (pairs.lower, pairs.upper))
    bounds = ((_at_start(mdp, below)[0], _at_start(mdp, over)[1]) for below, over in zip(lower, upper, strict=True))
    return np.array([_middle(*both) for both in bounds])


def _at_start(mdp: MDP, values: Floats) -> tuple[float, float]:
    """The mean over the initial distribution, from below and from above; NaN if one initial state is infeasible."""
    if values.size == 1 or not np.isfinite(values).all():
        mean = float(values @ mdp.initial_probabilities) if values.size > 1 else float(values[0])
        return mean, mean
    chance = mdp.initial_probabilities
    mean, size = (float(side @ chance) / float(chance.sum()) for side in (values, np.abs(values)))
    rounding = (values.size + 4) * float(np.finfo(np.float64).eps) * size
    return mean - rounding, mean + rounding


def _middle(lower: float, upper: float) -> float:
    if lower == -math.inf < upper == math.inf:
        return 0.0  # nothing is known
    return lower if lower == upper else lower / 2 + upper / 2


def _check_gap(solution: Solution) -> None:
    """Raise, with the whole solution, where the bounds are too far apart."""
    lower, upper, tolerance = solution.lower, solution.upper, solution.tolerance
    if lower == upper or (math.isfinite(lower) and upper - lower <= tolerance * max(1.0, abs(lower))):
        return
    remedy = "Pass a larger tolerance" if math.isfinite(upper - lower) else "Scale the rewards down"
    raise LimitReached(
        f"the bounds {lower:.12g} … {upper:.12g} are further apart than the tolerance {tolerance:g} allows. "
        f"{remedy}; the error's solution has these bounds.",
        solution=solution,
    )


def _too_little(mdp: MDP, budget: int) -> Infeasible:
    minimal = minimal_budget(mdp)
    worst = int(mdp.initial_states[np.argmax(minimal.of_state[mdp.initial_states])])
    needed = minimal.smallest_budget()
    if needed == INFINITE:
        text = f"no budget suffices from {mdp.describe_state(worst)}: damage can be forced again and again"
    else:
        shown = mdp.show_damage(needed)
        text = f"a budget of {budget} does not suffice from {mdp.describe_state(worst)}; {shown} would"
    help_ = "".join(f"\n{line}" for line in instead(minimal))
    return Infeasible(f"{text}.{_why(minimal, worst)}{help_}", needed=math.inf if needed == INFINITE else needed)


def _why(minimal: MinimalBudget, state: int) -> str:
    try:
        return f"\n{minimal.explain(state)}"
    except ImportError:
        return ""


# ---------------------------------------------------------------------- expectation and chance


def _chance(mdp: MDP, constraint: Chance, discount: float, tolerance: float) -> Solution:
    if discount < 1 and 0 < constraint.risk < 1:
        raise ArgumentError(
            f"a chance constraint with a risk between 0 and 1 must have discount=1; got {discount:g}. "
            "If episodes may break off, put that into the model: a transition to a terminal state."
        )
    if constraint.risk == 0:
        return _without_risk(mdp, constraint, discount, tolerance)
    return solve_programme(mdp, constraint, Programme(layered_flow(mdp, constraint.budget), discount), tolerance)


def _without_risk(mdp: MDP, constraint: Chance, discount: float, tolerance: float) -> Solution:
    """A risk of 0 is certainty: the assured solution, under the name of the chance constraint."""
    try:
        assured = _assured(mdp, AlmostSure(constraint.budget), discount, tolerance)
    except Infeasible as error:
        least = Programme(layered_flow(mdp, constraint.budget), 1.0)
        raise Infeasible(f"without any risk, {error}", needed=_least(least)) from None
    return Solution(
        mdp=mdp, constraint=constraint, value=assured.value, lower=assured.lower, upper=assured.upper,
        policy=assured.policy, discount=discount, tolerance=tolerance, used=0.0, price=math.nan,
    )  # fmt: skip


def _least(programme: Programme) -> float:
    try:
        return programme.least_cost()
    except NoEnd:
        return math.nan


def solve_programme(mdp: MDP, constraint: Expected | Chance, programme: Programme, tolerance: float) -> Solution:
    """Solve one limit of a programme, and prove the answer."""
    limit = constraint.limit if isinstance(constraint, Expected) else constraint.risk
    try:
        answer = programme.solve(limit - SHY * limit)
        flow = programme.flow
    except Endless as endless:
        raise _unbounded(mdp, endless.states % mdp.num_states, constraint) from None
    except NoEnd as stuck:
        return _hopeless(mdp, constraint, _no_end(constraint, stuck.free), programme.discount, tolerance)
    if answer is None:
        reason = _above_limit(constraint, programme.least_cost())
        return _hopeless(mdp, constraint, reason, programme.discount, tolerance)
    proof = Proof(programme.priced, answer.price, answer.potential)
    budget = constraint.budget if isinstance(constraint, Chance) else None
    policy = extract(mdp, flow, answer, proof, budget)
    value, used, lower = _achieved(mdp, policy, constraint, programme.discount, proof.price)
    upper, proved = _most(mdp, constraint, proof, answer.price, programme.discount, tolerance)
    if not mdp.reward.any():
        value, lower, upper, proved = 0.0, 0.0, 0.0, True
    if upper < lower:
        raise LimitReached(
            f"the policy's return, {lower:.12g}, is above what was proved to be the most, {upper:.12g}: HiGHS was too "
            "inexact. Scale the rewards, or report this."
        )
    if upper - lower > tolerance * max(1.0, abs(lower)):
        _check_attained(mdp, flow, answer, upper)
    solution = Solution(
        mdp=mdp, constraint=constraint, value=min(value, upper), lower=lower, upper=upper, policy=policy,
        discount=programme.discount, tolerance=tolerance, used=used, price=answer.price, proved=proved,
    )  # fmt: skip
    _check_gap(solution)
    return solution


def _most(
    mdp: MDP, constraint: Expected | Chance, proof: Proof, price: float, discount: float, tolerance: float
) -> tuple[float, bool]:
    """What no policy within the limit exceeds, and whether that allows for every rounding.

    Where rewards and the price cancel out on a cycle, no price makes the problem without a limit finite in floating
    point; then the dual values of the linear programme, raised by its roundings, are what there is.
    """
    limit, budget = (
        (constraint.limit, None) if isinstance(constraint, Expected) else (constraint.risk, constraint.budget)
    )
    free, values, paid = upper_bound(mdp, price, limit, budget=budget, discount=discount, tolerance=tolerance)
    upper = _at_start(free, values)[1]
    return (proof.upper(limit), False) if upper == math.inf else (math.nextafter(upper + paid, math.inf), True)


def _hopeless(
    mdp: MDP, constraint: Expected | Chance, reason: Infeasible, discount: float, tolerance: float
) -> Solution:
    """No policy within the limit has a finite return: −∞ with an assured one, if there is any, or else the reason."""
    needed = minimal_budget(mdp).smallest_budget()
    budget, limit = (constraint.budget,) * 2 if isinstance(constraint, Chance) else (needed, constraint.limit)
    if discount < 1 or needed > limit:
        raise reason from None
    assured = _assured(mdp, AlmostSure(budget), discount, tolerance)
    if assured.value != -math.inf:
        raise reason from None
    used = 0.0 if isinstance(constraint, Chance) else assured.evaluate().expected_damage
    return Solution(
        mdp=mdp, constraint=constraint, value=-math.inf, lower=-math.inf, upper=-math.inf, policy=assured.policy,
        discount=discount, tolerance=tolerance, used=used, price=math.nan,
    )  # fmt: skip


def _achieved(
    mdp: MDP, policy: Policy, constraint: Expected | Chance, discount: float, price: float
) -> tuple[float, float, float]:
    """What the policy returns, how much of the limit it uses, and what it surely returns within the limit."""
    result = evaluate(mdp, policy, discount=discount)
    if isinstance(constraint, Expected):
        used, limit = result.discounted_damage, constraint.limit
    else:
        used, limit = result.overspends, constraint.risk
    excess = used + result.accuracy - limit
    if not excess <= ROUNDING * max(1.0, limit):
        raise LimitReached(
            f"the policy found uses {used:.12g} of {limit:.12g}: HiGHS was too inexact. Please report this."
        )
    lower = result.lower - price * max(excess, 0.0)
    return result.expected_return, used, lower


def _check_attained(mdp: MDP, flow: Flow, answer: Answer, upper: float) -> None:
    """A flow that goes round where nothing arrives stands for ever rarer and ever longer visits: a limit, no policy."""
    used = flow.keep(np.ones(flow.num_states, np.bool_), answer.flow > TINY)
    there = np.bincount(flow.owner, answer.flow, minlength=flow.num_states) > TINY
    apart = flow.state[there & ~reachable(used)]
    if apart.size:
        shown = ", ".join(mdp.state_name(s) for s in np.unique(apart % mdp.num_states)[:6].tolist())
        raise LimitReached(
            f"no policy attains the best return, {upper:.10g}; it is approached by ever rarer and ever longer visits "
            f"to {shown}. Use a discount below 1, or end the episode there."
        )


# ---------------------------------------------------------------------- what goes wrong, in words


def _unbounded(mdp: MDP, states: Ints, constraint: Constraint) -> UnboundedReturn:
    cycle = tuple(np.unique(states).tolist())
    shown = ", ".join(mdp.state_name(s) for s in cycle[:6]) + (f", … ({len(cycle)} states)" if len(cycle) > 6 else "")
    return UnboundedReturn(
        f"with {constraint} the return has no bound: reward can be collected for ever in {shown}. "
        "Use a discount below 1, or end the episode there.",
        cycle=cycle,
    )


def _no_end(constraint: Expected | Chance, free: bool) -> Infeasible:
    if free:
        return Infeasible(
            f"with {constraint} every policy has a return of minus infinity, or none: it must collect rewards for ever "
            "that do not add up. Use a discount below 1."
        )
    return Infeasible("no policy has a finite expected damage: damage can be forced again and again.", needed=math.inf)


def _above_limit(constraint: Expected | Chance, needed: float) -> Infeasible:
    if isinstance(constraint, Expected):
        what = f"the expected damage cannot be held at {constraint.limit:g}"
    else:
        what = f"the risk of more than {constraint.budget} damage cannot be held at {constraint.risk:g}"
    return Infeasible(f"{what} (with a finite return); {needed:.10g} is the least.", needed=needed)
