"""What a shield asks of the budget that it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.minimal import INFINITE, MinimalBudget, known_budget
from almostsure.errors import Infeasible


def require_budget(minimal: MinimalBudget, budget: object) -> int:
    """``budget`` as an int that the budget knows about and that every initial state can do with."""
    number = known_budget(minimal, budget)
    require_start(minimal, number)
    return number


def require_start(minimal: MinimalBudget, budget: int) -> None:
    """Raise Infeasible if some initial state needs more than ``budget``."""
    mdp = minimal.mdp
    needs: npt.NDArray[Any] = minimal.of_state[mdp.initial_states]
    needed = int(needs.max())
    if needed <= budget:
        return
    where = mdp.describe_state(int(mdp.initial_states[int(np.argmax(needs))]))
    if needed < INFINITE:
        raise Infeasible(f"a budget of {budget} is not enough at the start: {where} needs {needed}.", needed=needed)
    if minimal.cap is not None:
        raise Infeasible(
            f"a budget of {budget} is not enough at the start: {where} needs more than the cap {minimal.cap}."
        )
    raise Infeasible(f"no budget is enough at the start: {where} needs ∞.", needed=float("inf"))
