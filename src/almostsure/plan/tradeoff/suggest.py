"""``suggest_budget``: which budget to ask for.

Three numbers frame the choice of Δ.  Below the *least* budget nothing is safe.  Above the *limit* no budget returns:
that is the best return of all choices whose k* is finite, had their damage no price
(:mod:`almostsure.plan.assured.plateau`).
And from ``pays_until`` on, what more budget could still add is a small share of what it adds in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from almostsure.arguments import check_budget, check_real, names_right_word
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, UnboundedReturn
from almostsure.model.mdp import MDP, Floats
from almostsure.model.source import Model, as_model
from almostsure.plan.assured.plateau import without_budget
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy
from almostsure.plan.tradeoff.curve import assured_curve

if TYPE_CHECKING:
    from almostsure.plots import Axes

TOLERANCE = 0.01  # by default: more budget has stopped paying when all that it could add is this share
TEN = 10  # budgets above the least one that are looked at first, and where none was asked for
MANY = 1024  # and at most, unless the user says
AFTER = 2  # budgets that are shown beyond the one from which more hardly pays
ROUNDING = 1e-7  # times the limit, if above 1: what the solver's tolerance may hide


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Suggestion:
    """How much budget is needed, and how much pays.  Made by :func:`suggest_budget`; print it.

    Examples
    --------
    >>> found = suggest_budget("corridor")
    >>> found.least, found.budget, round(found.limit, 6)
    (0, 3, 13.0)
    """

    mdp: MDP
    least: int  # the least budget from which safety is possible at the start
    curve: Floats  # [most + 1], best returns for the budgets 0 … most; NaN below the least
    limit: float  # no total returns more; plus infinity if more budget can return any amount
    pays_until: (
        int | None
    )  # the least budget that comes within the tolerance of the limit; None if none on the curve does
    tolerance: float  # as a share of what the limit is worth above the least budget

    @property
    def most(self) -> int:
        """The largest budget on the curve."""
        return len(self.curve) - 1

    @property
    def budget(self) -> int:
        """The budget to try first: where more stops paying, or the largest one known if it never does."""
        return self.most if self.pays_until is None else self.pays_until

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve on Matplotlib axes, by default on new ones; they are returned."""
        from almostsure.plan.tradeoff.pictures import draw_suggestion

        return draw_suggestion(self, ax)

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("Suggestion", self._text())

    def __repr__(self) -> str:
        return f"<Suggestion: {self._text()}>"

    def _text(self) -> str:
        from almostsure.plan.tradeoff.suggest_text import text

        return text(self)


@names_right_word
def suggest_budget(mdp: Model, *, most: int | None = None, tolerance: float = TOLERANCE) -> Suggestion:
    """How to choose the budget: the least that is safe, what each further unit returns, and where that stops paying.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    most
        The largest budget to look at; by default, until more stops paying (or 1,024 above the least).
    tolerance
        More budget has stopped paying when all that it could still add is at most this share of what it adds in all.

    Returns
    -------
    Suggestion
        ``least``, ``curve``, ``limit`` and ``pays_until``; it prints as a table, and ``plot()`` draws it.

    Raises
    ------
    Infeasible
        If no budget suffices at the start, or none up to ``most``; it says how damage is forced.

    Examples
    --------
    >>> import almostsure as asure
    >>> suggest_budget("corridor")
    <Suggestion: at least 0, and more than 3 hardly pays
      budget  best return    gain
      0                 9          ▏
      3                13      +4  ████████████████████████
      the budgets in between add next to nothing; .curve has all
      no budget returns more than 13
      next: solve_policy(mdp, AlmostSure(3))>
    """
    mdp, share = as_model(mdp), check_real("tolerance", tolerance)
    if not 0 <= share < 1:
        raise ArgumentError(f"tolerance must be a share, 0 or more and below 1; got {tolerance:g}")
    mdp.require_probabilities("suggest_budget")
    minimal = minimal_budget(mdp)
    least = minimal.smallest_budget()
    if least == INFINITE or (most is not None and check_budget(most, "most") < least):
        solve_policy(mdp, AlmostSure(most or 0))  # says what is needed, and why
    limit = _limit(mdp, minimal)
    curve = (
        assured_curve(mdp, check_budget(most, "most")) if most is not None else _until_it_pays(mdp, least, limit, share)
    )
    until = _pays_until(curve, least, limit, share)
    if most is None and until is not None:
        curve = curve[: until + AFTER + 1]
    return Suggestion(mdp=mdp, least=least, curve=curve, limit=limit, pays_until=until, tolerance=share)


def default_budget(curve: Floats, least: int) -> int:
    """The budget where none was asked for: the first after which more hardly pays, among the least and the next ten.

    Parameters
    ----------
    curve
        The best returns, by budget; what is infinite or NaN is not looked at.
    least
        The least budget that is safe at the start.
    """
    known = np.where(np.isfinite(curve), curve, -math.inf)[: least + TEN + 1]
    best = float(known.max(initial=-math.inf))
    until = _pays_until(known, least, best, TOLERANCE)
    return least if until is None or best == -math.inf else until


def _limit(mdp: MDP, minimal: MinimalBudget) -> float:
    """What no budget returns more than."""
    try:
        above = without_budget(mdp, minimal.of_choice)
    except UnboundedReturn:
        return math.inf
    return float(above.upper[0, mdp.initial_states] @ mdp.initial_probabilities)


def _until_it_pays(mdp: MDP, least: int, limit: float, share: float) -> Floats:
    """The curve up to a budget that is twice as large each time, until more stops paying."""
    rows = TEN
    while True:
        curve = assured_curve(mdp, least + rows)
        if rows >= MANY or limit == math.inf or _pays_until(curve, least, limit, share) is not None:
            return curve
        rows *= 2


def _pays_until(curve: Floats, least: int, limit: float, share: float) -> int | None:
    finite = np.flatnonzero(np.isfinite(curve))
    if limit == math.inf or limit == -math.inf or not finite.size:
        there = np.flatnonzero(curve[least:] == limit)
    else:
        slack = max(share * (limit - float(curve[finite[0]])), ROUNDING * max(1.0, abs(limit)))
        there = np.flatnonzero(curve[least:] >= limit - slack)
    return least + int(there[0]) if there.size else None
