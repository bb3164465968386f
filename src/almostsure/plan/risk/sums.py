"""q̄(s, K, a), the risk of a choice: a sum over its outcomes, rounded up.

Products and sums are scaled up by more than rounding can have lost, so that what the proof of
:mod:`almostsure.plan.risk.shield` needs holds for the numbers as they are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.arrays import spans
from almostsure.model.mdp import MDP, Floats, Ints

EPSILON = 2.0**-52
TINY = 5e-324  # the least positive number: a product of positive numbers is not 0


class Sums(NamedTuple):
    """What the sums q(s, K, a) are made of."""

    choice_ptr: Ints  # [num_states + 1]
    outcome_ptr: Ints  # [num_choices + 1]
    successor: Ints  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]
    probability: Floats  # [num_outcomes]
    owner: Ints  # [num_choices] the state of each choice
    margin: Floats  # [num_choices] by which a quotient of two sums is multiplied so that it is never too small
    scale: Floats  # [num_choices] the same for one sum, divided by what the probabilities sum to


def sums_of(mdp: MDP, *, times: int = 1) -> Sums:
    """The sums of a model.  Values are found with the margin taken twice: asking with it once then allows something."""
    margin = (
        1.0 + times * (3.0 * np.diff(mdp.outcome_ptr) + 8.0) * EPSILON
    )  # more than products, sums and quotient round off
    shares = np.add.reduceat(mdp.probability, mdp.outcome_ptr[:-1].astype(np.int64))
    columns = mdp.choice_ptr, mdp.outcome_ptr, mdp.successor, mdp.damage, mdp.probability
    return Sums(*columns, mdp.choice_states(), margin, margin / shares)


def risks_of(sums: Sums, upper: Floats, remaining: Ints, choices: Ints, first: Ints | None = None) -> Floats:
    """q̄(s, K, a): an upper bound of the risk of each choice with what remains, 0 or more.

    With steps left, ``first`` is the first row of the table with one step less.
    """
    direct, through = both_sums(sums, upper, remaining, choices, up=True, first=first)
    if first is not None:
        return direct
    return np.minimum(direct, np.maximum(through, upper[remaining, sums.owner[choices]]))


def both_sums(
    sums: Sums, table: Floats, remaining: Ints, choices: Ints, *, up: bool, first: Ints | None = None
) -> tuple[Floats, Floats]:
    """Σ p · p(s', K') of each choice over all outcomes, and over those that leave (s, K), divided by their share."""
    outcome, owner = spans(sums.outcome_ptr, choices)
    begin = np.searchsorted(owner, np.arange(choices.size))
    left = remaining[owner] - sums.damage[outcome]
    row = np.maximum(left, 0) if first is None else np.maximum(left, 0) + first[owner]
    after = np.where(left < 0, 1.0, table[row, sums.successor[outcome]])
    share = sums.probability[outcome]
    terms = share * after
    if up:
        terms[(terms == 0) & (after > 0)] = TINY
    leaves = (sums.successor[outcome] != sums.owner[choices][owner]) | (sums.damage[outcome] > 0)
    scale = sums.scale[choices] if up else 2.0 - sums.scale[choices]
    margin = sums.margin[choices] if up else 2.0 - sums.margin[choices]
    with np.errstate(invalid="ignore"):  # 0/0: a choice that only loops
        through = np.add.reduceat(terms * leaves, begin) / np.add.reduceat(share * leaves, begin) * margin
    direct = np.add.reduceat(terms, begin) * scale
    return np.minimum(direct, 1.0), np.where(np.isnan(through), 1.0 if up else 0.0, np.minimum(through, 1.0))
