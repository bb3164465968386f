"""Plain twins: the results for a union of random models, by their definitions.

They iterate the definitions on the raw columns, with NumPy and without this package: T from 0 for minimal budgets and
horizons, least probabilities of overspending from below.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from almostsure.testing.unions import Union

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NEVER = 1 << 40  # means ∞ in twins


def sweep(union: Union, values: Ints) -> tuple[Ints, Ints]:
    """(T k) of each choice, and their minimum per state."""
    of_choice = np.maximum.reduceat(union.damage + values[union.target], union.outcome_ptr[:-1])
    return of_choice, np.minimum.reduceat(of_choice, union.choice_ptr[:-1])


def minimal_budgets(union: Union) -> tuple[Ints, Ints]:
    """k* of states and choices: T is iterated from 0 until nothing changes.

    If a finite budget suffices, damage is taken at most once in each state of the model, since otherwise it could be
    forced again and again.  So values above the sum of the states' largest damages are ∞.
    """
    of_choice = np.maximum.reduceat(union.damage, union.outcome_ptr[:-1])
    most = np.maximum.reduceat(of_choice, union.choice_ptr[:-1])
    bound = np.repeat(np.add.reduceat(most, union.first[:-1]), np.diff(union.first))
    values = np.zeros(union.num_states, np.int64)
    while True:
        of_choice, swept = sweep(union, values)
        swept[swept > bound] = NEVER
        if np.array_equal(swept, values):
            return values, np.minimum(of_choice, NEVER)
        values = swept


def forced_within(union: Union, steps: int) -> list[Ints]:
    """The least damage that can be forced within 0, 1, …, ``steps`` steps, for each state."""
    values = [np.zeros(union.num_states, np.int64)]
    for _ in range(steps):
        values.append(sweep(union, values[-1])[1])
    return values


def least_risks(union: Union, budget: int, sweeps: int) -> tuple[Floats, bool]:
    """A lower bound on the least probability of overspending, [budget + 1, states], and whether it is close."""
    risk = np.zeros((budget + 2, union.num_states))
    risk[-1] = 1.0  # the row for "overspent": −1
    left = np.maximum(np.arange(budget + 1)[:, None] - union.damage, -1)
    for _ in range(sweeps):
        of_choice = np.add.reduceat(union.probability * risk[left, union.target], union.outcome_ptr[:-1], axis=1)
        swept = np.minimum.reduceat(of_choice, union.choice_ptr[:-1], axis=1)
        change = float(np.abs(swept - risk[:-1]).max())
        risk[:-1] = swept
        if change < 1e-13:
            return risk[:-1], True
    return risk[:-1], False
