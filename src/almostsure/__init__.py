"""Planning and learning under damage budgets that hold with probability one."""

from almostsure.budget.answer import INFINITE
from almostsure.budget.certificate import check_budget
from almostsure.budget.grow import GrowingBudget
from almostsure.budget.result import Budget
from almostsure.budget.solve import solve_budget
from almostsure.errors import AlmostSureError
from almostsure.model.build import from_transitions
from almostsure.model.mdp import MDP

__all__ = ["INFINITE", "MDP", "AlmostSureError", "Budget", "GrowingBudget", "check_budget", "from_transitions", "solve_budget"]
