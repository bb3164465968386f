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

__all__ = [
    "Barrier",
    "LagrangianQ",
    "MaskedQ",
    "SauteQ",
    "ShieldedQ",
    "UnconstrainedQ",
    "as_learner",
    "learn_barrier",
    "learners",
]
