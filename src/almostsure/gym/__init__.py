"""Gymnasium environments: out of models, and around other environments."""

from almostsure.gym.damage import DamageTracker
from almostsure.gym.model_env import ModelEnv, to_gymnasium
from almostsure.gym.observation import BudgetObservation
from almostsure.gym.shielded import ShieldedEnv

__all__ = ["BudgetObservation", "DamageTracker", "ModelEnv", "ShieldedEnv", "to_gymnasium"]
