"""The best policy under a constraint on damage, and how its return depends on the budget."""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected
    from almostsure.plan.risk.shield import RiskShield
    from almostsure.plan.solution import Solution
    from almostsure.plan.solve import solve_policy
    from almostsure.plan.tradeoff.budget_frontiers import BudgetFrontier, budget_frontier
    from almostsure.plan.tradeoff.frontiers import Frontier, frontier
    from almostsure.plan.tradeoff.suggest import Suggestion, suggest_budget
else:
    __getattr__ = on_demand(__name__)

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
