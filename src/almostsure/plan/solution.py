"""``Solution``: the best return under a constraint, with bounds, and a policy that attains it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from almostsure.errors import AlmostSureError, ArgumentError, LimitReached
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.constraints import Chance, Constraint, Expected
from almostsure.policy.evaluation.evaluate import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.wording import counted, precise

if TYPE_CHECKING:
    from almostsure.plan.assured.layers import Layers
    from almostsure.plan.within import Within

ASKED = 100_000  # pairs up to which printing a solution evaluates its policy
MOST_POINTS = 12  # of a printed curve
SURELY = 1e-9  # a policy counts as ending almost surely if it misses the end with at most this probability


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """The best return under a constraint, with bounds, and a policy that attains it.

    Examples
    --------
    >>> import almostsure as asure
    >>> solution = asure.solve_policy("corridor", asure.AlmostSure(3))
    >>> solution.value, solution.proved, solution.curve.tolist()
    (13.0, True, [9.0, 9.0, 9.0, 13.0])
    """

    mdp: MDP
    constraint: Constraint
    value: float  # at the initial state or distribution; NaN if nothing is known
    lower: float
    upper: float
    policy: Policy
    discount: float
    tolerance: float
    used: float  # the policy's expected damage or risk; for AlmostSure the budget
    price: float  # return per further unit of the limit or of the risk, at most; NaN for AlmostSure
    layers: Layers | None = None  # AlmostSure with everywhere=True: bounds for every remaining budget and state
    within: Within | None = None  # AlmostSure with a horizon: returns for every number of steps left
    proved: bool = True  # whether the bounds include all rounding errors

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper):
            raise LimitReached("the return is too large for floating-point numbers. Scale the rewards down.")

    @cached_property
    def curve(self) -> Floats:
        """The best return for the budgets 0 … budget; NaN where infeasible.  Computed on first access.

        For ``Expected``, for the limits 0, 1, … up to the limit.
        """
        from almostsure.plan.tradeoff.curve import curve_of

        return curve_of(self)

    @property
    def promise(self) -> str:
        """The constraint in words, with the horizon if there is one."""
        steps = "" if self.policy.horizon is None else f", within {counted(self.policy.horizon, 'step')}"
        return f"{self.constraint}{steps}"

    def evaluate(self) -> Evaluation:
        """Evaluate the policy exactly."""
        return evaluate(self.mdp, self.policy, discount=self.discount)

    def reaches(self, label: str) -> float:
        """The probability that a run of the policy ends in a state with a label, such as a goal.

        It may be below 1 for the best policy: if a failure ends the costs as well, it may be cheaper than the goal.
        """
        mdp, policy, there = self.mdp, self.policy, self.mdp.label(label)
        if policy.horizon is not None or (there > mdp.is_terminal()).any():
            ends = f"states that all end runs, not {label!r}"
            what = ends if policy.horizon is None else "a policy without a horizon"
            raise ArgumentError(f"the probability of reaching a label can only be computed for {what}.")
        arrival = mdp.with_reward({label: 1.0})
        same = Policy(
            arrival, choice=policy.choice, probability=policy.probability, budget=policy.budget, rest=policy.rest
        )
        begins = float(mdp.initial_probabilities[there[mdp.initial_states]].sum())
        return begins + evaluate(arrival, same).expected_return

    def __repr__(self) -> str:
        return f"<Solution: return {precise(self.value)} with {self.promise}>"

    def __str__(self) -> str:
        return "\n".join(f"{name:<13}{text}" for name, text in self._facts())

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import card
        from almostsure.policy.text import policy_map

        return card("Solution", self._facts(), self._curve_table(), policy_map(self.policy))

    def _curve_table(self) -> str:
        """The curve as HTML if it is known; a long one is cut in the middle."""
        from almostsure.model.show.html import table

        if self.within is None and "curve" not in vars(self):
            return ""
        curve = self.curve
        shown = list(range(curve.size)) if curve.size <= MOST_POINTS else [*range(MOST_POINTS - 1), curve.size - 1]
        values = ["infeasible" if np.isnan(curve[k]) else precise(curve[k], 6) for k in shown]
        note = "" if len(shown) == curve.size else f"… of the budgets 0 … {curve.size - 1}"
        return table(["budget", *map(str, shown)], [["best return", *values]], note)

    def _facts(self) -> list[tuple[str, str]]:
        """The rows of the printed table: name and text."""
        bounds = f"{precise(self.lower, 12)} … {precise(self.upper, 12)}"
        how = self.mdp.origin.how_found
        where = f"in the model, which was {how}: " if how else ""
        facts = [
            ("best return", precise(self.value) + (f" (discount {self.discount:g})" if self.discount < 1 else "")),
            ("constraint", self.promise),
            ("bounds", f"{where}{bounds}{'' if self.proved else ', not proved'}"),
            ("policy", self.policy.description()),
        ]
        match self.constraint:
            case Expected(limit=limit):
                worth = "" if math.isnan(self.price) else _worth(self.price, "one unit")
                facts.append(("damage", f"{self.used:.6g} of {limit:g} on average{worth}"))
            case Chance(risk=risk):
                can_grow = risk < 1 and not math.isnan(self.price)
                worth = _worth(self.price / 100, "1 %") if can_grow else ""
                facts.append(("risk", f"{self.used:.6g} of {risk:g} is used{worth}"))
        learned = [("model", self.mdp.origin.learned)] if self.mdp.origin.learned else []
        return [*facts, *self._may_never_end(), *learned]

    def _may_never_end(self) -> list[tuple[str, str]]:
        """A row for policies that do not end almost surely, if that is cheap to find out."""
        if self.policy.horizon is not None or self.policy.num_layers * self.mdp.num_states > ASKED:
            return []
        if self.value == -math.inf and not self.mdp.is_terminal().any():
            return [("ends", "never, and costs add up for ever: name a goal when reading the model")]
        try:
            ends = self.evaluate().ends
        except AlmostSureError:
            return []
        if ends >= 1 - SURELY:
            return []
        how = f"with probability {ends:.6g} only" if ends > 0 else "never"
        costs = ", and costs add up for ever: suggest_budget says which budgets end" if self.value == -math.inf else ""
        return [("ends", f"{how}{costs}")]


def _worth(price: float, unit: str) -> str:
    """The marginal value of damage or risk; the best return is concave in it, so further units add no more."""
    return f"; {unit} more is worth at most {price:.6g}"


def check_gap(solution: Solution, *doubts: str) -> None:
    """Raise an error that carries the solution if its bounds are too far apart, with the first of the reasons."""
    lower, upper, tolerance = solution.lower, solution.upper, solution.tolerance
    if lower == upper or (math.isfinite(lower) and upper - lower <= tolerance * max(1.0, abs(lower))):
        return
    remedy = "Pass a larger tolerance" if math.isfinite(upper - lower) else "Scale the rewards down"
    advice = f"{remedy}; the error's solution has these bounds."
    if doubts and not math.isfinite(upper - lower):
        advice = f"The error's solution has these bounds: {doubts[0]}"
    digits = 12 if precise(lower, 12) != precise(upper, 12) else 17  # as many as it takes for them to differ
    bounds = f"{precise(lower, digits)} … {precise(upper, digits)}"
    raise LimitReached(
        f"the bounds {bounds} are further apart than the tolerance {tolerance:g} allows. {advice}",
        solution=solution,
    )


def at_start(mdp: MDP, lower: Floats, upper: Floats) -> tuple[float, float]:
    """Bounds of the mean over the initial distribution, given those of the initial states; NaN if one is infeasible."""
    return _mean(mdp, lower)[0], _mean(mdp, upper)[1]


def _mean(mdp: MDP, values: Floats) -> tuple[float, float]:
    """The mean over the initial distribution, rounded down and rounded up."""
    if values.size == 1 or not np.isfinite(values).all():
        mean = float(values @ mdp.initial_probabilities) if values.size > 1 else float(values[0])
        return mean, mean
    chance = mdp.initial_probabilities
    mean, size = (float(side @ chance) / float(chance.sum()) for side in (values, np.abs(values)))
    rounding = (values.size + 4) * float(np.finfo(np.float64).eps) * size
    return mean - rounding, mean + rounding


def middle(lower: float, upper: float) -> float:
    """The value between two bounds; NaN if they are −∞ and ∞."""
    if lower == -math.inf < upper == math.inf:
        return math.nan
    return lower if lower == upper else lower / 2 + upper / 2
