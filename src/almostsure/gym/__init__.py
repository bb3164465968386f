"""Gymnasium environments: out of models, and around other environments."""

from almostsure.gym.model_env import ModelEnv, to_gymnasium

__all__ = ["ModelEnv", "to_gymnasium"]
