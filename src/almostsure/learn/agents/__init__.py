"""Learners on (state, remaining budget), as small objects with one method, ``train``.

``docs/agents.md`` says what each of them is and which guarantee it has.
"""

from almostsure.learn.agents.barrier import Barrier, learn_barrier
from almostsure.learn.agents.optimistic import OptimisticModel
from almostsure.learn.agents.qlearning import LagrangianQ, MaskedQ, SauteQ, ShieldedQ, UnconstrainedQ
from almostsure.learn.agents.registry import as_learner, learners

__all__ = [
    "Barrier",
    "LagrangianQ",
    "MaskedQ",
    "OptimisticModel",
    "SauteQ",
    "ShieldedQ",
    "UnconstrainedQ",
    "as_learner",
    "learn_barrier",
    "learners",
]
