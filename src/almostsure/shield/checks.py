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
    why = f"what was seen forces {show(needed)} at {where}" if seen else f"{where} {minimal.need_in_words(needed)}"
    doubt = "known to be " if minimal.less_may_do else ""
    if needed == INFINITE and minimal.cap is None:
        known = "" if mdp.unknown is None else "known to be "
        known = known or doubt
        raise Infeasible(f"no budget is {known}enough at the start: {why}.", needed=math.inf)
    enough = needed if needed < INFINITE else None
    raise Infeasible(f"a budget of {budget} is not {doubt}enough at the start: {why}.", needed=enough)
