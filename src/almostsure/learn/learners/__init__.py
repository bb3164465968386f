"""Tabular learners on (state, remaining budget), as small objects with one method, ``train``.

``docs/agents.md`` describes each of them and its guarantee.
"""

from almostsure.learn.learners.barrier import Barrier, learn_barrier
from almostsure.learn.learners.qlearning import (
    LagrangianQ,
    MaskedQ,
    SauteQ,
    ShieldedQ,
    UnconstrainedQ,
    as_learner,
    learners,
)
from almostsure.learn.learners.training import Training

__all__ = [
    "Barrier",
    "LagrangianQ",
    "MaskedQ",
    "SauteQ",
    "ShieldedQ",
    "Training",
    "UnconstrainedQ",
    "as_learner",
    "learn_barrier",
    "learners",
]
