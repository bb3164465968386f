"""Conditions 2, 3 and 4 of :mod:`almostsure.budget.certificate` as one compiled pass."""

# mypy: ignore-errors
# Numba infers the types of these functions, and ignores annotations.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from almostsure.kernels import njit

INFINITE = 2**31 - 1
unsigned = np.uint64  # for indices: Numba then omits the test for negative ones


class ClaimArrays(NamedTuple):
    """A model's support, and the claimed budgets and ranks."""

    choice_ptr: Any  # [num_states + 1]
    outcome_ptr: Any  # [num_choices + 1]
    successor: Any  # [num_outcomes]
    damage: Any  # [num_outcomes]
    of_state: Any  # [num_states]
    of_choice: Any  # [num_choices]
    rank: Any  # [num_states]


@njit(cache=True, borrows=True, nogil=True)
def first_broken(claim, cap, first, last):
    """The first condition violated by the states first … last − 1 and the choice that violates it, or (0, 0)."""
    choice_ptr, outcome_ptr, successor, damage, of_state, of_choice, rank = claim
    owed_for_infinite = np.int64(cap) + 1
    for s in range(unsigned(first), unsigned(last)):
        owed = np.int64(of_state[s])
        if owed == INFINITE:
            owed = owed_for_infinite
        for c in range(unsigned(choice_ptr[s]), unsigned(choice_ptr[s + unsigned(1)])):
            worst = np.int64(0)
            justified = owed == 0
            for j in range(unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + unsigned(1)])):
                t = unsigned(successor[j])
                d = np.int64(damage[j])
                v = np.int64(of_state[t])
                worst = max(worst, v + d)
                if not justified and (owed < INFINITE or v == INFINITE):
                    offered = min(v, owed_for_infinite)
                    if offered + d >= owed:
                        justified = d >= 1 or offered > owed or rank[t] < rank[s]
            if worst > cap:
                worst = np.int64(INFINITE)
            if worst > of_choice[c]:
                return 2, c
            if worst < of_choice[c]:
                return 3, c
            if not justified:
                return 4, c
    return 0, unsigned(0)
