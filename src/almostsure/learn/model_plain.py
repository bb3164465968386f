"""Counting outcomes of a model with NumPy, and the tables that this and the compiled twin read.

Each chunk of samples has a random stream of its own (:mod:`almostsure.policy.streams`).  Its i-th number, a plain
function of seed, chunk and i, decides the i-th sample: the first outcome whose cumulative probability exceeds it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.policy.streams import mix, uniform


class Tables(NamedTuple):
    """What drawing outcomes of a model needs."""

    outcome_ptr: npt.NDArray[np.int64]  # [num_choices + 1]
    cumulative: Floats  # [num_outcomes], running sums within each choice; the last is 2, above every draw


def build_tables(mdp: MDP) -> Tables:
    """The tables of a model."""
    ptr = mdp.outcome_ptr.astype(np.int64)
    return Tables(ptr, running_sums(mdp.probability, ptr))


def running_sums(values: Floats, ptr: npt.NDArray[np.int64]) -> Floats:
    """Sums that start again at every offset: summed anew, not subtracted, so that rare outcomes keep their digits."""
    result = values.copy()
    begin, lengths = ptr[:-1], np.diff(ptr)
    active, position = np.flatnonzero(lengths > 1), 1
    while active.size:
        at = begin[active] + position
        result[at] += result[at - 1]
        position += 1
        active = active[lengths[active] > position]
    result[ptr[1:] - 1] = 2.0
    return result


def count_outcomes(
    choices: Ints, lengths: Ints, slots: Ints, outcome_ptr: Ints, cumulative: Floats, bits: Any, increment: Any,
    counts: Ints, first: Ints,
) -> None:  # fmt: skip
    """Draw ``lengths[i]`` outcomes of ``choices[i]``; see the compiled twin."""
    budget = int(lengths.sum())
    with np.errstate(over="ignore"):
        draws = uniform(mix(bits + increment * np.arange(1, budget + 1, dtype=np.uint64)))
    piece = np.repeat(np.arange(choices.size), lengths)
    begin, end = outcome_ptr[choices], outcome_ptr[choices + 1]
    slot = _first_above(cumulative, begin[piece], end[piece], draws) + (slots - begin)[piece]
    counts += np.bincount(slot, minlength=counts.size)
    found, at = np.unique(slot, return_index=True)
    first[found] = at - (np.cumsum(lengths) - lengths)[piece[at]]


def _first_above(cumulative: Floats, begin: Ints, end: Ints, draws: Floats) -> Ints:
    """The first index in begin … end − 1 whose cumulative probability exceeds the draw, by bisection."""
    low, high = begin.copy(), end - 1
    active = np.flatnonzero(low < high)
    while active.size:
        middle = (low[active] + high[active]) >> 1
        above = cumulative[middle] > draws[active]
        high[active[above]] = middle[above]
        low[active[~above]] = middle[~above] + 1
        active = active[low[active] < high[active]]
    return low
