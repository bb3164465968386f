"""Checks that a budget suffices at the start."""

from __future__ import annotations

import math

from almostsure.budget.certificate import show
from almostsure.budget.minimal import INFINITE, MinimalBudget, known_budget
from almostsure.errors import Infeasible


def require_budget(minimal: MinimalBudget, budget: object) -> int:
    """``budget`` as an int, if it is at most the cap and suffices for every initial state."""
    number = known_budget(minimal, budget)
    require_start(minimal, number)
    return number


def require_start(minimal: MinimalBudget, budget: int, *, seen: bool = False) -> None:
    """Raise Infeasible if an initial state needs more than ``budget``; if ``seen``, because of observed outcomes."""
    mdp = minimal.mdp
    needed = minimal.smallest_budget()
    if needed <= budget:
        return
    where = mdp.describe_state(minimal.worst_start())
    observed = f"the observed outcomes force {show(needed)} at {where}"
    why = observed if seen else f"{where} {minimal.need_in_words(needed)}"
    never = needed == INFINITE and minimal.cap is None
    too_few = never and mdp.unknown is not None
    doubt = "known to be " if minimal.less_may_do or too_few else ""
    if never:
        remedy = " Learn from more samples, or from a longer log." if too_few and not seen else ""
        raise Infeasible(f"no budget is {doubt}enough at the start: {why}.{remedy}", needed=math.inf)
    enough = needed if needed < INFINITE else None
    raise Infeasible(f"a budget of {budget} is not {doubt}enough at the start: {why}.", needed=enough)
