"""What a shield asks of the budget that it is given."""

from __future__ import annotations

import math

from almostsure.budget.certificate import show
from almostsure.budget.minimal import INFINITE, MinimalBudget, known_budget
from almostsure.errors import Infeasible


def require_budget(minimal: MinimalBudget, budget: object) -> int:
    """``budget`` as an int that the budget knows about and that every initial state can do with."""
    number = known_budget(minimal, budget)
    require_start(minimal, number)
    return number


def require_start(minimal: MinimalBudget, budget: int, *, seen: bool = False) -> None:
    """Raise Infeasible if some initial state needs more than ``budget``, in what was ``seen`` or in the model."""
    mdp = minimal.mdp
    needed = minimal.smallest_budget()
    if needed <= budget:
        return
    where = mdp.describe_state(minimal.worst_start())
    why = f"what was seen forces {show(needed)} at {where}" if seen else f"{where} {need_in_words(minimal, needed)}"
    if needed == INFINITE and minimal.cap is None:
        known = "" if mdp.unknown is None else "known to be "
        raise Infeasible(f"no budget is {known}enough at the start: {why}.", needed=math.inf)
    enough = needed if needed < INFINITE else None
    raise Infeasible(f"a budget of {budget} is not enough at the start: {why}.", needed=enough)


def need_in_words(minimal: MinimalBudget, needed: int) -> str:
    """What follows "this state" or "this choice" where that needs so much."""
    if needed < INFINITE:
        return f"needs {needed}"
    if minimal.cap is not None:
        return f"needs more than the cap {minimal.cap}"
    if minimal.mdp.unknown is not None:
        return "may lead to what was never seen, so that what it needs is unknown"
    return "needs ∞"
