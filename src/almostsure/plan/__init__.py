"""The best policy under a constraint on damage, and how its return depends on the budget."""

from almostsure.exports import on_demand

with on_demand(globals()):
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
