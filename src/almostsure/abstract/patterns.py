"""``Patterns``: the action sequences that are choices, and the rests of those that have begun.

With single steps there is often no safe set, although the system is easy to control: a step moves the state by less
than a cell, and the enclosure drifts.  A sequence of m actions moves far enough.  The shield still allows single
actions.  It remembers which *rests* (remaining actions) of begun patterns agree with the actions played; this set is
stored as bits, ``WORD`` of them per integer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import whole
from almostsure.errors import ArgumentError

WORD = 62  # bits used of an int64
MOST = 4096  # patterns

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Patterns:
    """Sequences of actions: all of a given length, or a list of them.

    Parameters
    ----------
    pattern
        The length, for all sequences of that length; or the sequences of action ids.
    num_actions
        The number of actions.
    """

    def __init__(self, pattern: int | Sequence[Sequence[int]], num_actions: int) -> None:
        self.num_actions = num_actions
        self.sequences = _sequences(pattern, num_actions)
        rests = sorted({seq[i:] for seq in self.sequences for i in range(1, len(seq))}, key=lambda r: (-len(r), r))
        number = {rest: i for i, rest in enumerate(rests)}
        self.rests: tuple[tuple[int, ...], ...] = tuple(rests)
        self.first: Ints = np.array([seq[0] for seq in self.sequences], np.int64)  # of each pattern
        self.rest: Ints = np.array([number.get(seq[1:], -1) for seq in self.sequences], np.int64)  # after one action
        self.rest_first: Ints = np.array([rest[0] for rest in rests], np.int64)
        self.rest_rest: Ints = np.array([number.get(rest[1:], -1) for rest in rests], np.int64)

    @property
    def count(self) -> int:
        """The number of patterns."""
        return len(self.sequences)

    @property
    def longest(self) -> int:
        """The length of the longest pattern."""
        return max(map(len, self.sequences))

    @property
    def words(self) -> int:
        """The number of integers that hold a set of rests."""
        return -(-len(self.rests) // WORD)

    # ------------------------------------------------------------------ sets of rests, many at once

    def unpacked(self, words: Sequence[Any], size: int) -> Bools:
        """Sets of rests as masks, [size, rests]."""
        bits = np.zeros((size, len(self.rests)), np.bool_)
        for w, word in enumerate(words):
            here = np.arange(w * WORD, min((w + 1) * WORD, len(self.rests)))
            bits[:, here] = (np.asarray(word, np.int64)[..., None] >> (here - w * WORD)) & 1
        return bits

    def packed(self, bits: Bools) -> tuple[Ints, ...]:
        """Masks of rests, [size, rests], as words."""
        weights = np.int64(1) << np.arange(WORD, dtype=np.int64)
        pieces = (bits[:, w * WORD : (w + 1) * WORD] for w in range(self.words))
        return tuple((piece * weights[: piece.shape[1]]).sum(axis=1) for piece in pieces)

    def actions(self, safe: Bools, begun: Bools) -> Bools:
        """The mask, [size, num_actions], of actions that begin a safe pattern or continue a begun one.

        ``safe`` is [size, patterns], and ``begun`` [size, rests].
        """
        actions = range(self.num_actions)
        begins = [safe[:, self.first == action].any(axis=1) for action in actions]
        continues = [begun[:, self.rest_first == action].any(axis=1) for action in actions]
        return np.stack(begins, axis=1) | np.stack(continues, axis=1)

    def after(self, safe: Bools, begun: Bools, actions: Ints) -> Bools:
        """The rests that remain after ``actions``, [size, rests]."""
        left = np.zeros((len(safe), len(self.rests)), np.bool_)
        begins, continues = safe & (self.first == actions[:, None]), begun & (self.rest_first == actions[:, None])
        for rest in range(len(self.rests)):
            left[:, rest] = begins[:, self.rest == rest].any(axis=1) | continues[:, self.rest_rest == rest].any(axis=1)
        return left


def _sequences(pattern: int | Sequence[Sequence[int]], num_actions: int) -> tuple[tuple[int, ...], ...]:
    if hasattr(pattern, "tolist"):  # an array
        pattern = pattern.tolist()
    if isinstance(pattern, Sequence):
        if not all(isinstance(sequence, Sequence) for sequence in pattern):
            raise ArgumentError(
                f"pattern must be a length, or a list of sequences such as [(0, 1), (1,)]; got {pattern}"
            )
        listed = tuple(tuple(whole("pattern", action) for action in sequence) for sequence in pattern)
        if not listed or not all(listed):
            raise ArgumentError("pattern must list sequences of at least one action; got an empty one")
        wrong = [action for sequence in listed for action in sequence if not 0 <= action < num_actions]
        if wrong:
            raise ArgumentError(f"pattern must hold action ids 0 … {num_actions - 1}; got {wrong[0]}")
        return tuple(dict.fromkeys(listed))
    length = whole("pattern", pattern)
    if length < 1:
        raise ArgumentError(f"pattern must be a length of at least 1, or a list of sequences; got {length}")
    if num_actions**length > MOST:
        raise ArgumentError(
            f"pattern={length} makes {num_actions}^{length} = {num_actions**length:,} sequences; at most {MOST:,} are "
            "supported. Use shorter patterns, or list the sequences that matter."
        )
    return tuple(itertools.product(range(num_actions), repeat=length))
