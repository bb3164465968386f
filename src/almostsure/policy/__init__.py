"""Policies: what they play, what they achieve exactly, and what happens when they are played."""

from almostsure.policy.evaluate import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.simulate import Episodes, Trajectory, simulate
from almostsure.policy.worst import worst_damage

__all__ = ["Episodes", "Evaluation", "Policy", "Trajectory", "evaluate", "simulate", "worst_damage"]
