"""Linear programmes in HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np

from almostsure.model.mdp import Floats, Ints

FEASIBLE = 1e-9  # HiGHS's feasibility tolerance


def highs(owner: Ints, moves: Any, weight: Floats, objective: Floats, lower: Floats, upper: Floats) -> Any:
    """A HiGHS instance that maximises ``objective`` over non-negative flows through choices.

    The rows are outflow − inflow of every state, by the transitions ``moves``, and last the sum weighted by ``weight``.
    """
    import highspy
    from scipy.sparse import csc_array, csr_array, vstack

    choices, states = moves.shape
    outgoing = csr_array((np.ones(choices), (owner, np.arange(choices))), shape=(states, choices))
    columns = csc_array(vstack([outgoing - moves.T, csr_array(weight[None])]))
    programme = highspy.HighsLp()
    programme.num_row_, programme.num_col_ = columns.shape
    programme.sense_ = highspy.ObjSense.kMaximize
    programme.col_cost_ = objective
    programme.col_lower_, programme.col_upper_ = np.zeros(columns.shape[1]), np.full(columns.shape[1], np.inf)
    programme.row_lower_, programme.row_upper_ = lower, upper
    programme.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    programme.a_matrix_.start_ = columns.indptr
    programme.a_matrix_.index_ = columns.indices
    programme.a_matrix_.value_ = columns.data
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(option, FEASIBLE)
    solver.setOptionValue("small_matrix_value", 1e-12)  # HiGHS drops smaller entries
    # Where probabilities differ by many orders of magnitude, the simplex method may cycle for ever.
    solver.setOptionValue("simplex_iteration_limit", 10_000 + 100 * sum(columns.shape))
    solver.passModel(programme)
    return solver


def is_optimal(solver: Any) -> bool:
    """Whether the last run found an optimum."""
    import highspy

    return bool(solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)
