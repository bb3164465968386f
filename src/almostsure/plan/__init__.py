"""The best policy under a constraint on damage, and how its return depends on the budget."""

from almostsure.plan.budget_frontier import BudgetFrontier, budget_frontier
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected
from almostsure.plan.frontier import Frontier, frontier
from almostsure.plan.risk import RiskShield
from almostsure.plan.solve import Solution, solve_policy
from almostsure.plan.suggest import Suggestion, suggest_budget

__all__ = [
    "AlmostSure",
    "BudgetFrontier",
    "Chance",
    "Constraint",
    "Expected",
    "Frontier",
    "RiskShield",
    "Solution",
    "Suggestion",
    "budget_frontier",
    "frontier",
    "solve_policy",
    "suggest_budget",
]
