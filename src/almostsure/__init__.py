"""Plan and learn policies that never exceed a damage budget, with probability one.

Three lines compute which budget the start needs:

    import almostsure as asure
    mdp = asure.example("hazard-map")
    print(asure.minimal_budget(mdp).smallest_budget())

Nothing is imported before it is used.  The documentation begins at ``docs/index.md``.
"""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure import budget, errors, gym, learn, model, paper, plan, policy, report, shield, testing  # noqa: F401
    from almostsure.abstract import Grid, abstract
    from almostsure.budget import INFINITE, MinimalBudget, check_minimal_budget, check_upper, minimal_budget
    from almostsure.errors import AlmostSureError
    from almostsure.gym import to_gymnasium
    from almostsure.learn import OnlineShield, compare, explore, learn_from_logs, learn_minimal_budget, samples_needed
    from almostsure.model import (
        MDP,
        example,
        from_function,
        from_gymnasium,
        from_map,
        from_prism,
        from_transitions,
        load,
        product,
    )
    from almostsure.plan import AlmostSure, Chance, Expected, RiskShield, Solution, solve_policy
    from almostsure.policy import Episodes, Evaluation, Policy, evaluate, simulate
    from almostsure.shield import Shield
else:
    __getattr__ = on_demand(__name__)

__version__ = "0.1.0"

__all__ = [
    # Models
    "MDP",
    "example",
    "from_function",
    "from_gymnasium",
    "from_map",
    "from_prism",
    "from_transitions",
    "load",
    "product",
    "to_gymnasium",
    # Budgets
    "INFINITE",
    "MinimalBudget",
    "check_minimal_budget",
    "check_upper",
    "minimal_budget",
    # Continuous systems
    "Grid",
    "abstract",
    # Shields
    "OnlineShield",
    "RiskShield",
    "Shield",
    # Policies
    "AlmostSure",
    "Chance",
    "Episodes",
    "Evaluation",
    "Expected",
    "Policy",
    "Solution",
    "evaluate",
    "simulate",
    "solve_policy",
    # Learning
    "compare",
    "explore",
    "learn_from_logs",
    "learn_minimal_budget",
    "samples_needed",
    # Errors; the others are in almostsure.errors
    "AlmostSureError",
]
