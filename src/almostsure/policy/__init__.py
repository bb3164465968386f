"""Policies, their exact evaluation, and their simulation."""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.policy.evaluation.evaluate import Evaluation, evaluate
    from almostsure.policy.evaluation.worst import worst_damage
    from almostsure.policy.policy import Policy
    from almostsure.policy.simulation.episodes import Episodes, Trajectory
    from almostsure.policy.simulation.simulate import simulate
else:
    __getattr__ = on_demand(__name__)

__all__ = ["Episodes", "Evaluation", "Policy", "Trajectory", "evaluate", "simulate", "worst_damage"]
