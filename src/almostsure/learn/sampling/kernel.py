"""Counting outcomes of a model with compiled code: the twin of :func:`almostsure.learn.sampling.count.draw`."""

from __future__ import annotations

from typing import Any

from almostsure.kernels import njit
from almostsure.policy.simulation.kernel import first_above, mix, uniform


@njit(cache=True, nogil=True)
def draw(tables: Any, slots: Any, bits: Any, increment: Any, found: Any) -> None:
    """Draw ``lengths[i]`` outcomes of ``choices[i]``, in order, from one stream of random numbers."""
    for i in range(slots.choices.size):
        choice = slots.choices[i]
        begin, end = tables.outcome_ptr[choice], tables.outcome_ptr[choice + 1]
        shift = slots.slots[i] - begin
        for sample in range(slots.lengths[i]):
            bits += increment
            slot = first_above(tables.cumulative, begin, end, uniform(mix(bits))) + shift
            if found.times[slot] == 0:
                found.first[slot] = sample
            found.times[slot] += 1
