"""Learners on (state, remaining budget), as small objects with one method, ``train``.

``docs/agents.md`` says what each of them is and which guarantee it has.
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
