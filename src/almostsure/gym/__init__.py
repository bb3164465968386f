"""Gymnasium environments: out of models, and around other environments."""

from almostsure.gym.damage import DamageTracker
from almostsure.gym.model_env import ModelEnv, to_gymnasium
from almostsure.gym.observation import BudgetObservation
from almostsure.gym.shielded import ShieldedEnv
from almostsure.gym.shielded_vector import ShieldedVectorEnv
from almostsure.gym.vector import VectorBudgetObservation, VectorDamageTracker

__all__ = [
    "BudgetObservation",
    "DamageTracker",
    "ModelEnv",
    "ShieldedEnv",
    "ShieldedVectorEnv",
    "VectorBudgetObservation",
    "VectorDamageTracker",
    "to_gymnasium",
]
