"""Random numbers that depend only on the seed, the episode and the position in it.

Every episode has its own stream: a SplitMix64 generator (Steele, Lea and Flood, 2014) whose starting point and odd
increment are computed from the seed and the number of the episode.  So results do not depend on threads, on the order
of episodes, or on whether the code is compiled; and a single episode can be played again.

The functions work on NumPy arrays, on NumPy scalars and inside compiled code: all arithmetic is on unsigned 64-bit
integers, modulo 2⁶⁴.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.arrays import Floats, Ints

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S27, S30, S31, S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
ONE = np.uint64(1)
UNIT = 2.0**-53


def mix(z: Any) -> Any:
    """Scramble 64 bits, bijectively."""
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    return z ^ (z >> S31)


def uniform(bits: Any) -> Any:
    """A number in [0, 1) from 64 bits."""
    return (bits >> S11) * UNIT


class Streams(NamedTuple):
    """The streams of some episodes."""

    start: npt.NDArray[np.uint64]  # [episodes], starting points
    step: npt.NDArray[np.uint64]  # [episodes], increments


def open_streams(seed: int, episodes: Any) -> Streams:
    """The streams of episodes, given by their numbers."""
    key = mix(np.array([seed], np.uint64))[0]
    with np.errstate(over="ignore"):
        number = np.asarray(episodes, np.uint64)
        start = mix(key + (number * np.uint64(2)) * GOLDEN)
        step = mix(key ^ mix((number * np.uint64(2) + ONE) * GOLDEN)) | ONE
    return Streams(start, step)


# ---------------------------------------------------------------------- drawing from a distribution


def running_sums(values: Floats, ptr: npt.NDArray[np.int64]) -> Floats:
    """Cumulative sums that restart at every offset: added up, not subtracted, so that rare outcomes keep their digits.

    From the last possible item of a range on they are 2, above all draws: an impossible item is never drawn, even if
    rounding leaves the sum below 1.
    """
    result = values.copy()
    begin, lengths = ptr[:-1], np.diff(ptr)
    active, position = np.flatnonzero(lengths > 1), 1
    while active.size:
        at = begin[active] + position
        result[at] += result[at - 1]
        position += 1
        active = active[lengths[active] > position]
    whole = np.repeat(result[ptr[1:] - 1], lengths)
    result[(result == whole) & (whole > 0)] = 2.0
    return result


def first_above(cumulative: Floats, first: Ints, last: Ints, draw: Floats) -> Ints:
    """The first index in first … last − 1 whose cumulative sum exceeds the draw, by bisection; else the last one."""
    low, high = first.copy(), last - 1
    while (low < high).any():
        middle = (low + high) >> 1
        above = cumulative[middle] > draw
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return low
