"""The paper, reproduced: its claims as executable checks, both experiments as figures, and its objects in plain form.

Castellano, Min, Bazerque and Mallada, *Reinforcement Learning with Almost Sure Constraints* (L4DC 2022).  Statements
are named as in the paper, and numbered by kind, in the order of the paper.

    >>> from almostsure import paper
    >>> paper.check("Theorem 2").verdict
    'holds'
    >>> paper.check("Theorem 2", "quicksand").verdict  # on your own model
    'holds'

:data:`CLAIMS` lists all of them, and :func:`reproduce` runs them and writes tables, figures and a report.
"""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.budget.reference import algorithm_1, barrier, budget_operator
    from almostsure.paper.claim import Check, Claim
    from almostsure.paper.experiments import experiment
    from almostsure.paper.history import augment_history, forget_budget, from_history_policy, to_history_policy
    from almostsure.paper.reproduction import CLAIMS, Reproduction, check, reproduce
    from almostsure.policy.augment import augment
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    # Claims
    "CLAIMS",
    "Check",
    "Claim",
    "Reproduction",
    "check",
    "experiment",
    "reproduce",
    # Objects
    "algorithm_1",
    "augment",
    "augment_history",
    "barrier",
    "budget_operator",
    "forget_budget",
    "from_history_policy",
    "to_history_policy",
]
