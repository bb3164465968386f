"""``suggest_budget``: how to choose the budget.

Three numbers help to choose Δ.  Below the *least* budget nothing is safe.  No budget returns more than the *limit*, the
best return without a budget over all choices with a finite k* (:mod:`almostsure.plan.assured.plateau`).  From
``pays_until`` on, all that a larger budget could still add is a small share of the gain from the least budget on.
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

TOLERANCE = 0.01  # the default tolerance
TEN = 10  # budgets above the least one that are solved first, and that a default budget is chosen from
MANY = 1024  # at most, unless ``most`` is given
AFTER = 2  # budgets that are shown beyond ``pays_until``
ROUNDING = 1e-7  # differences below this, relative for limits above 1, are within the solver's tolerance


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Suggestion:
    """How much budget is needed, and how much pays off: the result of :func:`suggest_budget`.  Print it.

    Examples
    --------
    >>> found = suggest_budget("corridor")
    >>> found.least, found.budget, round(found.limit, 6)
    (0, 3, 13.0)
    """

    mdp: MDP
    least: int  # the least budget from which safety is possible at the start
    curve: Floats  # [most + 1], best returns for the budgets 0 … most; NaN below the least
    limit: float  # an upper bound of the return for every budget; plus infinity if there is none
    pays_until: int | None  # the least budget on the curve within the tolerance of the limit; None if there is none
    tolerance: float  # relative to the limit minus the return with the least budget

    @property
    def most(self) -> int:
        """The largest budget on the curve."""
        return len(self.curve) - 1

    @property
    def budget(self) -> int:
        """The budget to try first: ``pays_until``, or the largest budget on the curve if there is none."""
        return self.most if self.pays_until is None else self.pays_until

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve on Matplotlib axes (by default new ones), and return the axes."""
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
    """How to choose the budget: the least that is safe, the return for each further unit, and where more stops paying.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    most
        The largest budget to consider; by default, until more stops paying (or 1,280 above the least).
    tolerance
        A budget is enough if a larger one could add at most this share of the gain from the least budget to the limit.

    Returns
    -------
    Suggestion
        ``least``, ``curve``, ``limit`` and ``pays_until``; it prints as a table, and ``plot()`` draws it.

    Raises
    ------
    Infeasible
        If no budget suffices at the start, or none up to ``most``; the message shows how damage is forced.

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
        solve_policy(mdp, AlmostSure(most or 0))  # raises Infeasible
    limit = _limit(mdp, minimal)
    curve = (
        assured_curve(mdp, check_budget(most, "most")) if most is not None else _until_it_pays(mdp, least, limit, share)
    )
    until = _pays_until(curve, least, limit, share)
    if most is None and until is not None:
        curve = curve[: until + AFTER + 1]
    return Suggestion(mdp=mdp, least=least, curve=curve, limit=limit, pays_until=until, tolerance=share)


def default_budget(curve: Floats, least: int) -> int:
    """The budget to use if none is given: the first after which more hardly pays, among the least and the next ten.

    Parameters
    ----------
    curve
        The best returns, by budget; infinite values and NaN are ignored.
    least
        The least budget that is safe at the start.
    """
    known = np.where(np.isfinite(curve), curve, -math.inf)[: least + TEN + 1]
    best = float(known.max(initial=-math.inf))
    until = _pays_until(known, least, best, TOLERANCE)
    return least if until is None or best == -math.inf else until


def _limit(mdp: MDP, minimal: MinimalBudget) -> float:
    """An upper bound of the return for every budget."""
    try:
        above = without_budget(mdp, minimal.of_choice)
    except UnboundedReturn:
        return math.inf
    return float(above.upper[0, mdp.initial_states] @ mdp.initial_probabilities)


def _until_it_pays(mdp: MDP, least: int, limit: float, share: float) -> Floats:
    """The curve for more and more budgets (twice as many above the least each time), until more stops paying."""
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
