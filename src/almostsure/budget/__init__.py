"""The minimal budget k*: reference algorithm, exact engines, certificate and explanations.

The exports are imported on demand, so a process that checks a certificate loads no engine.
"""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.budget.certificate import check_minimal_budget, check_upper
    from almostsure.budget.explain import Explanation
    from almostsure.budget.grow import GrowingBudget
    from almostsure.budget.horizon import HorizonBudget
    from almostsure.budget.minimal import INFINITE, MinimalBudget
    from almostsure.budget.solve import minimal_budget
    from almostsure.budget.tank import least_capacity, least_levels
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    "INFINITE",
    "Explanation",
    "GrowingBudget",
    "HorizonBudget",
    "MinimalBudget",
    "check_minimal_budget",
    "check_upper",
    "least_capacity",
    "least_levels",
    "minimal_budget",
]
