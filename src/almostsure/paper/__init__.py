"""The paper, reproduced: every claim as a check that runs, and both experiments as figures.

Castellano, Min, Bazerque and Mallada, *Reinforcement Learning with Almost Sure Constraints* (L4DC 2022).  Statements
are named as in the paper and numbered by kind, in the order in which they appear there.  Each check returns a
:class:`Claim`::

    >>> from almostsure import paper
    >>> claim = paper.theorem_2()
    >>> claim.name, claim.verdict
    ('Theorem 2', 'holds')

:data:`CHECKS` lists all of them, and :func:`reproduce` runs them and writes tables, figures and a report.
"""

from almostsure.budget.reference import barrier, budget_operator
from almostsure.paper.claim import Check, Claim
from almostsure.paper.experiments import (
    conclusions,
    experiment,
    experiment_1_assured,
    experiment_1_expected,
    experiment_1_variability,
    experiment_2_concentration,
    experiment_2_damage,
    experiment_2_expected,
    experiment_2_minimum,
    experiment_2_policy,
    experiment_2_sensitivity,
)
from almostsure.paper.feasibility import (
    definition_4,
    lemma_3_bellman,
    lemma_3_decomposition,
    monotonicity,
    theorem_1,
    theorem_2,
)
from almostsure.paper.fixed_point import algorithm_1, definition_5, definition_7, proposition_2, theorem_3
from almostsure.paper.memory import (
    definition_1,
    definition_2,
    definition_3,
    lemma_1,
    lemma_2,
    proposition_1,
    termination,
)
from almostsure.paper.reproduce import CHECKS, Reproduction, reproduce
from almostsure.paper.sampling import algorithm_2, definition_6, lemma_4, lemma_5, remark_1, remark_2
from almostsure.policy.augment import augment

__all__ = [
    "augment", "barrier", "budget_operator",
    "CHECKS", "Check", "Claim", "Reproduction", "reproduce", "experiment",
    "termination", "definition_1", "proposition_1", "definition_2", "definition_3", "lemma_1", "lemma_2",
    "lemma_3_decomposition", "lemma_3_bellman", "monotonicity", "definition_4", "theorem_1", "theorem_2",
    "definition_5", "algorithm_1", "theorem_3", "definition_7", "proposition_2",
    "definition_6", "algorithm_2", "lemma_4", "lemma_5", "remark_1", "remark_2",
    "experiment_1_assured", "experiment_1_expected", "experiment_1_variability",
    "experiment_2_minimum", "experiment_2_concentration", "experiment_2_policy", "experiment_2_expected",
    "experiment_2_sensitivity", "experiment_2_damage", "conclusions",
]  # fmt: skip
