"""Policies: what they play, what they achieve exactly, and what happens when they are played."""

from almostsure.exports import on_demand

with on_demand(globals()):
    from almostsure.policy.evaluation.evaluate import Evaluation, evaluate
    from almostsure.policy.evaluation.worst import worst_damage
    from almostsure.policy.policy import Policy
    from almostsure.policy.simulation.episodes import Episodes, Trajectory
    from almostsure.policy.simulation.simulate import simulate

__all__ = ["Episodes", "Evaluation", "Policy", "Trajectory", "evaluate", "simulate", "worst_damage"]
