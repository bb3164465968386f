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

__getattr__ = on_demand(
    __name__,
    {
        "almostsure.plan.constraints": "AlmostSure Chance Constraint Expected",
        "almostsure.plan.risk.shield": "RiskShield",
        "almostsure.plan.solution": "Solution",
        "almostsure.plan.solve": "solve_policy",
        "almostsure.plan.tradeoff.budget_frontiers": "BudgetFrontier budget_frontier",
        "almostsure.plan.tradeoff.frontiers": "Frontier frontier",
        "almostsure.plan.tradeoff.suggest": "Suggestion suggest_budget",
    },
)
