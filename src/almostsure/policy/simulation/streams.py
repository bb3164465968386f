"""Random numbers that depend on the seed, the episode and the position in it, and on nothing else.

Every episode has a stream of its own: a SplitMix64 generator (Steele, Lea and Flood, 2014) whose starting point
and odd increment are both drawn from the seed and the episode's number.  So it does not matter which thread plays
an episode, in which order, or whether compiled code does; and one episode can be played again alone.

The functions work alike on NumPy arrays, on NumPy scalars and inside compiled code: all arithmetic is on unsigned
64-bit integers, modulo 2⁶⁴.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S27, S30, S31, S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
ONE = np.uint64(1)
UNIT = 2.0**-53


def mix(z: Any) -> Any:
    """Scramble 64 bits, one to one."""
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
