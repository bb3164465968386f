"""Planning and learning under damage budgets that hold with probability one.

Three lines answer the first question, what the least budget is from which safety is possible:

    import almostsure as asure
    mdp = asure.example("hazard-map")
    print(asure.minimal_budget(mdp).smallest_budget())

See the README and ``docs/`` for the rest.
"""

from typing import TYPE_CHECKING, Any

from almostsure.budget.answer import INFINITE
from almostsure.budget.certificate import check_minimal_budget
from almostsure.budget.grow import GrowingBudget
from almostsure.budget.reference import algorithm_1, barrier, budget_operator
from almostsure.budget.result import MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import AlmostSureError
from almostsure.learn.bounds import samples_needed
from almostsure.learn.compare import compare
from almostsure.learn.data import learn_from_logs
from almostsure.learn.kernel import build_kernel
from almostsure.learn.minimal import learn_minimal_budget
from almostsure.learn.online import OnlineShield
from almostsure.model.build import from_transitions
from almostsure.model.convert import from_dense, from_sparse
from almostsure.model.draw import draw
from almostsure.model.examples import example, example_names
from almostsure.model.files import load
from almostsure.model.grid import from_map
from almostsure.model.mdp import MDP
from almostsure.model.source import as_model
from almostsure.model.storm import from_prism, to_storm
from almostsure.model.tables import from_gymnasium, from_table
from almostsure.plan.constraints import AlmostSure, Chance, Expected
from almostsure.plan.frontier import frontier
from almostsure.plan.solve import solve_policy
from almostsure.plan.suggest import suggest_budget
from almostsure.policy.augment import augment
from almostsure.policy.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.policy.simulate import simulate
from almostsure.shield import Shield
from almostsure.shield.inside import trim

if TYPE_CHECKING:
    from almostsure.gym.model_env import to_gymnasium

__version__ = "0.1.0"

__all__ = [
    "INFINITE",
    "MDP",
    "AlmostSure",
    "AlmostSureError",
    "MinimalBudget",
    "Chance",
    "Expected",
    "GrowingBudget",
    "OnlineShield",
    "Policy",
    "Shield",
    "algorithm_1",
    "as_model",
    "augment",
    "barrier",
    "budget_operator",
    "build_kernel",
    "check_minimal_budget",
    "compare",
    "draw",
    "evaluate",
    "example",
    "example_names",
    "from_dense",
    "from_gymnasium",
    "from_map",
    "from_prism",
    "from_sparse",
    "from_table",
    "from_transitions",
    "frontier",
    "learn_minimal_budget",
    "learn_from_logs",
    "load",
    "samples_needed",
    "simulate",
    "minimal_budget",
    "solve_policy",
    "suggest_budget",
    "to_gymnasium",
    "to_storm",
    "trim",
]


def __getattr__(name: str) -> Any:
    """Import what takes long, such as Gymnasium, only when it is asked for."""
    if name == "to_gymnasium":
        from almostsure.gym.model_env import to_gymnasium

        return to_gymnasium
    if name in ("gym", "paper", "report", "testing"):
        import importlib

        return importlib.import_module(f"almostsure.{name}")
    raise AttributeError(f"module 'almostsure' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
