"""Gymnasium environments: out of models, and around other environments.

Importing it registers ``almostsure/Paper-v0``, ``almostsure/HazardMap-v0``, ``almostsure/Warehouse-v0`` and others:
see :mod:`almostsure.gym.registration`.
"""

from almostsure.gym.damage import DamageTracker
from almostsure.gym.known import Ready, damage_of, ready
from almostsure.gym.model_env import ModelEnv, to_gymnasium
from almostsure.gym.model_vector import ModelVectorEnv
from almostsure.gym.observation import BudgetObservation
from almostsure.gym.registration import environment_names, register
from almostsure.gym.shielded import ShieldedEnv
from almostsure.gym.shielded_vector import ShieldedVectorEnv
from almostsure.gym.tensorboard import TensorBoardSink
from almostsure.gym.vector import VectorBudgetObservation, VectorDamageTracker
from almostsure.learn.ledger import Ledger, read_ledger

__all__ = [
    "BudgetObservation",
    "DamageTracker",
    "Ledger",
    "ModelEnv",
    "ModelVectorEnv",
    "Ready",
    "ShieldedEnv",
    "ShieldedVectorEnv",
    "TensorBoardSink",
    "VectorBudgetObservation",
    "VectorDamageTracker",
    "damage_of",
    "environment_names",
    "read_ledger",
    "ready",
    "to_gymnasium",
]

register()
