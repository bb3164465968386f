"""Planning and learning under damage budgets that hold with probability one."""

from almostsure.errors import AlmostSureError
from almostsure.model.build import from_transitions
from almostsure.model.mdp import MDP

__all__ = ["MDP", "AlmostSureError", "from_transitions"]
