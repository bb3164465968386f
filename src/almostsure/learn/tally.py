"""Counting what was seen: a sparse table of outcomes that grows with what is seen, not with how often.

A *block* is what one chunk of samples contained; blocks are added in the order of their chunks.  Whoever adds the same
blocks in the same order gets the same tally to the bit, however the run was cut into pieces: counts are integers,
and the rewards of an outcome are always summed block by block from the left.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import LimitReached
from almostsure.model.mdp import Floats, Ints

DAMAGES = 256
MANY = 1 << 20  # entries that wait before they are merged, at least


class Block(NamedTuple):
    """The outcomes that some samples showed, ascending by (choice, next state, damage)."""

    choice: Ints
    next_state: Ints
    damage: Ints
    times: Ints  # how often each was seen
    reward: Floats  # its rewards, summed
    first: Ints  # which sample of the choice, counted from 0 within the block, showed the outcome first
    sampled: Ints  # the choices that were sampled, ascending …
    samples: Ints  # … and how often


def block_of(
    choices: Ints, lengths: Ints, next_state: Ints, reward: Floats, damage: Ints, num_states: int
) -> Block:  # fmt: skip
    """The block of samples that stand in a line: ``lengths[i]`` of ``choices[i]``, which are distinct and ascending."""
    drawn = np.repeat(choices, lengths).astype(np.int64)
    key = (drawn * num_states + next_state) * DAMAGES + damage
    _, at, group = np.unique(key, return_index=True, return_inverse=True)
    position = np.searchsorted(choices, drawn[at])
    return Block(
        choice=drawn[at], next_state=next_state[at], damage=damage[at], times=np.bincount(group),
        reward=weighted(group, reward, at.size), first=at - (np.cumsum(lengths) - lengths)[position],
        sampled=choices, samples=lengths,
    )  # fmt: skip


@final
class Tally:
    """Counts of outcomes (choice, next state, damage) with their rewards."""

    def __init__(self, num_choices: int, num_states: int) -> None:
        if num_choices * num_states * DAMAGES >= 2**63:
            raise LimitReached(f"{num_choices:,} choices and {num_states:,} states are too many to count outcomes of")
        self.num_choices, self.num_states = num_choices, num_states
        self.samples: npt.NDArray[np.int64] = np.zeros(num_choices, np.int64)  # of each choice
        self.latest: npt.NDArray[np.int64] = np.zeros(num_choices, np.int64)  # its newest outcome's sample
        self._key: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # ascending
        self._count: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._reward: Floats = np.zeros(0)
        self._waiting: list[tuple[Ints, Ints, Floats, Ints]] = []
        self._size = 0

    def add(self, block: Block) -> None:
        """Take in a block."""
        key = (block.choice.astype(np.int64) * self.num_states + block.next_state) * DAMAGES + block.damage
        seen_at = self.samples[block.choice] + block.first + 1
        self._waiting.append((key, block.times, block.reward, seen_at))
        self._size += key.size
        self.samples[block.sampled] += block.samples
        if self._size > max(MANY, self._key.size):
            self.merge()

    def merge(self) -> None:
        """Put what waits into order, all of it or nothing: Ctrl-C in between loses and doubles no sample."""
        if not self._waiting:
            return
        old = self._key.size
        none = np.zeros(old, np.int64)
        columns = zip((self._key, self._count, self._reward, none), *self._waiting, strict=True)
        keys, counts, rewards, seen_at = (np.concatenate(column) for column in columns)
        key, first, group = np.unique(keys, return_index=True, return_inverse=True)
        count = np.bincount(group, weights=counts, minlength=key.size).astype(np.int64)
        reward = weighted(group, rewards, key.size)
        new = first >= old
        np.maximum.at(self.latest, key[new] // (self.num_states * DAMAGES), seen_at[first[new]])  # twice does no harm
        # Nothing is called from here on, and Python looks for signals only around calls and loops.
        self._key, self._count, self._reward = key, count, reward
        self._waiting, self._size = [], 0

    # ------------------------------------------------------------------ what was seen

    @property
    def choice(self) -> npt.NDArray[np.int64]:
        """The choice of each outcome seen, ascending."""
        self.merge()
        return self._key // (self.num_states * DAMAGES)

    @property
    def next_state(self) -> npt.NDArray[np.int64]:
        """The next state of each outcome seen."""
        self.merge()
        return self._key // DAMAGES % self.num_states

    @property
    def damage(self) -> npt.NDArray[np.uint8]:
        """The damage of each outcome seen."""
        self.merge()
        return (self._key % DAMAGES).astype(np.uint8)

    @property
    def count(self) -> npt.NDArray[np.int64]:
        """How often each outcome was seen."""
        self.merge()
        return self._count

    @property
    def reward(self) -> Floats:
        """The sum of the rewards of each outcome seen."""
        self.merge()
        return self._reward

    def restore(self, key: Ints, count: Ints, reward: Floats, samples: Ints, latest: Ints) -> None:
        """Take over what another tally, of the same choices, had seen."""
        self._key, self._count, self._reward = key.astype(np.int64), count.astype(np.int64), reward.copy()
        self.samples, self.latest = samples.astype(np.int64), latest.astype(np.int64)

    @property
    def key(self) -> npt.NDArray[np.int64]:
        """Choice, next state and damage of each outcome seen, in one number."""
        self.merge()
        return self._key


def weighted(group: Ints, weights: Floats, size: int) -> Floats:
    """The sum of the weights of each group, added up in their order."""
    sums: Floats = np.bincount(group, weights=weights, minlength=size).astype(np.float64, copy=False)
    return sums
