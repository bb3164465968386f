"""Gymnasium environments: out of models, and around other environments."""

from almostsure.gym.model_env import ModelEnv, to_gymnasium
from almostsure.gym.shielded import ShieldedEnv

__all__ = ["ModelEnv", "ShieldedEnv", "to_gymnasium"]
