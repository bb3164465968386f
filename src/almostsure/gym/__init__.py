"""Gymnasium environments that sample models, and wrappers that shield environments.

Importing this package registers ``almostsure/Paper-v0``, ``almostsure/HazardMap-v0``, ``almostsure/Warehouse-v0`` and
others: see :mod:`almostsure.gym.envs.registration`.
"""

from almostsure.gym.damage import BudgetObservation, DamageTracker, VectorBudgetObservation, VectorDamageTracker
from almostsure.gym.envs.model_env import ModelEnv, ModelVectorEnv, to_gymnasium
from almostsure.gym.envs.ready import Ready, ready
from almostsure.gym.envs.registration import environment_names, register
from almostsure.gym.shielded import ShieldedEnv
from almostsure.gym.shielded_vector import ShieldedVectorEnv
from almostsure.gym.tensorboard import TensorBoardSink
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
    "environment_names",
    "read_ledger",
    "ready",
    "to_gymnasium",
]

register()
