"""q̄(s, K, a), the risk of a choice: a sum over its outcomes, rounded up.

Products and sums are scaled up by more than their rounding error, so that the inequalities in the proof of
:mod:`almostsure.plan.risk.shield` hold for the stored numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.arrays import spans
from almostsure.model.mdp import MDP, Bools, Floats, Ints

EPSILON = 2.0**-52
TINY = 5e-324  # the least positive number: a product of positive numbers is not 0


class Sums(NamedTuple):
    """The arrays for the sums q(s, K, a)."""

    choice_ptr: Ints  # [num_states + 1]
    outcome_ptr: Ints  # [num_choices + 1]
    successor: Ints  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]
    probability: Floats  # [num_outcomes]
    owner: Ints  # [num_choices] the state of each choice
    margin: (
        Floats  # [num_choices] the factor by which a quotient of two sums is scaled up, so that it is never too small
    )
    scale: Floats  # [num_choices] the same for one sum, divided by the sum of the probabilities
    leaves: Bools  # [num_outcomes] whether the outcome leads out of (s, K)
    leaving: Floats  # [num_choices] the probability of these outcomes


def sums_of(mdp: MDP, *, times: int = 1) -> Sums:
    """The sums of a model, with this many ``times`` the margin for rounding.

    p̄ is computed with twice the margin, and q̄ with once, so that some action always has q̄ ≤ p̄.
    """
    margin = 1.0 + times * (3.0 * np.diff(mdp.outcome_ptr) + 8.0) * EPSILON  # exceeds the rounding of all operations
    begin, owner = mdp.outcome_ptr[:-1].astype(np.int64), mdp.choice_states()
    shares = np.add.reduceat(mdp.probability, begin)
    leaves = (mdp.successor != owner[mdp.outcome_choices()]) | (mdp.damage > 0)
    leaving = np.add.reduceat(mdp.probability * leaves, begin)
    columns = mdp.choice_ptr, mdp.outcome_ptr, mdp.successor, mdp.damage, mdp.probability
    return Sums(*columns, owner, margin, margin / shares, leaves, leaving)


class SumsPart(NamedTuple):
    """Some choices with remaining budgets, and their outcomes."""

    choices: Ints | slice
    outcomes: Ints | slice
    begin: Ints  # offsets of each choice's outcomes
    remaining: Ints | int  # the remaining budget of each choice, or of all
    left: Ints  # the remaining budget after each outcome
    first: Ints | int | None  # if the table has steps: the first row with one step less, of each outcome or of all


def part_of(sums: Sums, remaining: Ints, choices: Ints, first: Ints | None = None) -> SumsPart:
    """Any choices, each with a remaining budget."""
    outcomes, owner = spans(sums.outcome_ptr, choices)
    begin = np.searchsorted(owner, np.arange(choices.size))
    left = remaining[owner] - sums.damage[outcomes]
    return SumsPart(choices, outcomes, begin, remaining, left, None if first is None else first[owner])


def part_at(sums: Sums, remaining: int, state: int, first: int | None = None) -> SumsPart:
    """All choices of one state, as slices, so that nothing is copied."""
    choices = slice(int(sums.choice_ptr[state]), int(sums.choice_ptr[state + 1]))
    ptr = sums.outcome_ptr[choices.start : choices.stop + 1].astype(np.int64)
    outcomes = slice(int(ptr[0]), int(ptr[-1]))
    return SumsPart(choices, outcomes, ptr[:-1] - ptr[0], remaining, np.int64(remaining) - sums.damage[outcomes], first)


def risks_of(sums: Sums, upper: Floats, part: SumsPart) -> Floats:
    """q̄(s, K, a): an upper bound of the risk of each choice with its remaining budget (0 or more)."""
    row = np.maximum(part.left, 0) if part.first is None else np.maximum(part.left, 0) + part.first
    after = np.where(part.left < 0, 1.0, upper[row, sums.successor[part.outcomes]])
    terms: Floats = sums.probability[part.outcomes] * after
    terms[(terms == 0) & (after > 0)] = TINY
    result: Floats = np.minimum(np.add.reduceat(terms, part.begin) * sums.scale[part.choices], 1.0)
    if part.first is not None:
        return result
    # the mean over the outcomes that leave (s, K)
    leaving = sums.leaving[part.choices]
    only_loops = leaving == 0
    total = np.add.reduceat(terms * sums.leaves[part.outcomes], part.begin)
    through = total / (leaving + only_loops) * sums.margin[part.choices]
    through[only_loops] = 1.0
    result = np.minimum(result, np.maximum(through, upper[part.remaining, sums.owner[part.choices]]))
    return result
