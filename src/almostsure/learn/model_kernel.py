"""Counting outcomes of a model with compiled code: the twin of :mod:`almostsure.learn.model_plain`."""

from __future__ import annotations

from typing import Any

from numba import njit

from almostsure.policy.simulate_kernel import first_above, mix, uniform


@njit(cache=True, nogil=True)
def count_outcomes(
    choices: Any, lengths: Any, slots: Any, outcome_ptr: Any, cumulative: Any, bits: Any, increment: Any,
    counts: Any, first: Any,
) -> None:  # fmt: skip
    """Draw ``lengths[i]`` outcomes of ``choices[i]``, in order, from one stream of random numbers.

    The outcomes of choice i are counted from ``slots[i]`` on; ``first`` receives which of the choice's draws was the
    first to show each of them.
    """
    for i in range(choices.size):
        begin, end = outcome_ptr[choices[i]], outcome_ptr[choices[i] + 1]
        shift = slots[i] - begin
        for draw in range(lengths[i]):
            bits += increment
            slot = first_above(cumulative, begin, end, uniform(mix(bits))) + shift
            if counts[slot] == 0:
                first[slot] = draw
            counts[slot] += 1
