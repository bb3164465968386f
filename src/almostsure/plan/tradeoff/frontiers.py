"""``frontier``: the best return against the budget, the expected damage and the risk, and the price of certainty."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from almostsure.arguments import check_budget, check_discount, check_tolerance, names_right_word
from almostsure.errors import ArgumentError, Infeasible, Interrupted, UnboundedReturn
from almostsure.model.mdp import MDP, Floats
from almostsure.model.source import Model, as_model
from almostsure.plan.constraints import Chance, Expected, budget_of, limit_of
from almostsure.plan.programme.flow import flow_of
from almostsure.plan.programme.occupation import Programme
from almostsure.plan.programme.solve import solve_programme
from almostsure.plan.tradeoff.curve import assured_curve
from almostsure.progress import Bar
from almostsure.wording import number

if TYPE_CHECKING:
    from almostsure.plots import Axes

POINTS = 21
RISKS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frontier:
    """Three curves of the best return on one model.  NaN: infeasible; plus infinity: unbounded.

    Examples
    --------
    >>> curves = frontier("corridor", 3, limits=[1.5])
    >>> curves.limits.tolist(), [round(value, 6) for value in curves.expected.tolist()]
    ([1.5], [11.0])
    """

    budget: int
    discount: float
    budgets: Floats  # [budget + 1], the budgets 0 … budget
    assured: Floats  # [budget + 1], the best return when no trajectory takes more
    limits: Floats  # [l], limits of the expected damage
    expected: Floats  # [l], the best return within them
    risks: Floats  # [e], probabilities of more than ``budget`` damage
    chance: Floats  # [e], the best return with them

    @property
    def price_of_certainty(self) -> Floats:
        """The best return within k damage on average minus that with never more than k, for each budget k.

        NaN for budgets that are not among the limits.
        """
        at = {float(limit): value for limit, value in zip(self.limits, self.expected, strict=True)}
        return np.array([at.get(float(k), math.nan) - v for k, v in zip(self.budgets, self.assured, strict=True)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw return against damage on the axes given, or on new ones with return against risk beside it."""
        from almostsure.plan.tradeoff.pictures import draw_frontier

        return draw_frontier(self, ax)

    def __repr__(self) -> str:
        sizes = f"{self.budgets.size} budgets, {self.limits.size} averages, {self.risks.size} risks"
        return f"<Frontier: best returns up to a budget of {self.budget} ({sizes}); print it, or plot it>"

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("Frontier", str(self))

    def __str__(self) -> str:
        rows = [("budget", "never more", "on average")]
        at = {float(limit): value for limit, value in zip(self.limits, self.expected, strict=True)}
        for k, value in zip(self.budgets, self.assured, strict=True):
            rows.append((f"{k:g}", _show(value), _show(at[float(k)]) if float(k) in at else ""))
        rows.append((f"risk of more than {self.budget}", "best return", ""))
        rows += [(f"{risk:g}", _show(value), "") for risk, value in zip(self.risks, self.chance, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join(lines)


@names_right_word
def frontier(
    mdp: Model,
    budget: int,
    *,
    limits: Iterable[float] | None = None,
    risks: Iterable[float] | None = None,
    discount: float = 1.0,
    tolerance: float = 1e-8,
) -> Frontier:
    """The best return against the budget, the expected damage and the risk, in one call.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    budget
        The largest budget; the risks are those of more damage than that.
    limits
        Limits of the expected damage; by default 21 from 0 to ``budget``, and all whole numbers in between.
    risks
        Probabilities of more than ``budget`` damage; by default 0, 0.001, … 1.  With a discount only 0 and 1 can be
        solved (see :func:`solve_policy`), and are the default.
    discount, tolerance
        As for :func:`solve_policy`.

    Raises
    ------
    Interrupted
        Ctrl-C; ``kept`` has all budgets, and the limits and risks solved so far.

    Examples
    --------
    >>> curves = frontier("corridor", 3)
    >>> curves.budgets.tolist(), curves.assured.tolist()
    ([0.0, 1.0, 2.0, 3.0], [9.0, 9.0, 9.0, 13.0])
    """
    mdp, budget, discount = as_model(mdp), check_budget(budget), check_discount(discount)
    mdp.require_probabilities("frontier")
    tolerance = check_tolerance(tolerance)
    by_default = np.union1d(np.linspace(0, budget, POINTS), np.arange(budget + 1))
    means = [Expected(x) for x in (by_default.tolist() if limits is None else limits)]
    chances = [Chance(budget, x) for x in ((RISKS if discount == 1 else (0.0, 1.0)) if risks is None else risks)]
    if discount < 1 and any(0 < x.risk < 1 for x in chances):
        raise ArgumentError("with a discount, only the risks 0 and 1 can be solved; leave risks out")
    return _curves(mdp, budget, means, chances, discount, tolerance)


def _curves(
    mdp: MDP, budget: int, means: list[Expected], chances: list[Chance], discount: float, tolerance: float
) -> Frontier:
    assured = assured_curve(mdp, budget, discount=discount, tolerance=tolerance)
    programmes = {most: Programme(flow_of(mdp, most), discount) for most in (None, budget)}
    constraints: list[Expected | Chance] = [*means, *chances]
    values, stopped = list[float](), False
    try:
        with Bar("best returns", len(constraints)) as bar:
            for constraint in constraints:
                most = budget_of(constraint)
                surely = limit_of(constraint) == 0
                values.append(assured[most or 0] if surely else _value(mdp, constraint, programmes[most], tolerance))
                bar.update(len(values))
    except KeyboardInterrupt:
        stopped = True
    expected, chance = values[: len(means)], values[len(means) :]
    curves = Frontier(
        budget=budget,
        discount=discount,
        budgets=np.arange(budget + 1, dtype=np.float64),
        assured=assured,
        limits=np.array([x.limit for x in means[: len(expected)]]),
        expected=np.array(expected),
        risks=np.array([x.risk for x in chances[: len(chance)]]),
        chance=np.array(chance),
    )
    if stopped:
        found = f"{len(expected)} of {len(means)} averages and {len(chance)} of {len(chances)} risks"
        raise Interrupted(f"interrupted after {found}; .kept has these and all budgets.", kept=curves)
    return curves


def _value(mdp: MDP, constraint: Expected | Chance, programme: Programme, tolerance: float) -> float:
    try:
        return solve_programme(mdp, constraint, programme, tolerance).value
    except Infeasible:
        return math.nan
    except UnboundedReturn:
        return math.inf


def _show(value: Any) -> str:
    return "infeasible" if math.isnan(value) else number(value)
