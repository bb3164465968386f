"""Sampling by plan: which choices, how often, cut into chunks that can be drawn anywhere in any order.

The samples of a plan stand in one long line: all of the first choice, then all of the second, and so on.  Chunks are
equal pieces of that line.  Random numbers depend on seed, round and chunk, so it does not matter who draws a chunk, or
when; and a chunk that was lost can be drawn again, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast, final

import numpy as np
import numpy.typing as npt

from almostsure.learn.model_plain import Tables, build_tables, count_outcomes
from almostsure.learn.sampler import Source
from almostsure.learn.tally import Block, block_of, weighted
from almostsure.model.mdp import MDP, Ints
from almostsure.policy.streams import open_streams

MODEL_CHUNK = 1 << 18  # samples of a model that are drawn together
OTHER_CHUNK = 1 << 11  # a simulator is slower
COMPILE_FROM = 3_000_000  # samples of a model from which on waiting for a compiler pays


class Chunk(NamedTuple):
    """``lengths[i]`` samples of ``choices[i]``, and where their random numbers come from."""

    choices: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    seed: int
    round: int
    number: int
    compiled: bool  # whether waiting for a compiler pays

    def rng(self) -> np.random.Generator:
        """The random numbers, for simulators."""
        key = (self.round, self.number)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=key)))

    def stream(self) -> tuple[np.uint64, np.uint64]:
        """The random numbers, for models: starting point and increment."""
        key = np.random.SeedSequence(self.seed, spawn_key=(self.round,)).generate_state(1, np.uint64)
        start, step = open_streams(int(key[0]), np.array([self.number]))
        return start[0], step[0]


@final
@dataclass(frozen=True)
class Plan:
    """``lengths[i]`` samples of ``choices[i]``, which are distinct and ascending."""

    choices: Ints
    lengths: Ints
    seed: int
    round: int
    size: int  # samples a chunk

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where the samples of each choice end, in the line of all of them."""
        return np.cumsum(self.lengths, dtype=np.int64)

    @property
    def total(self) -> int:
        """How many samples there are."""
        return int(self.ends[-1]) if self.ends.size else 0

    def chunks(self, first: int = 0) -> Iterator[Chunk]:
        """The chunks, from the given one on."""
        return map(self.chunk, range(first, -(-self.total // self.size)))

    def chunk(self, number: int) -> Chunk:
        """One chunk."""
        begin, end = number * self.size, min((number + 1) * self.size, self.total)
        first, last = np.searchsorted(self.ends, [begin, end - 1], side="right").tolist()
        choices = self.choices[first : last + 1].astype(np.int64)
        lengths = np.diff(np.minimum(self.ends[first : last + 1], end), prepend=begin)
        return Chunk(choices, lengths, self.seed, self.round, number, self.total >= COMPILE_FROM)


class Counter:
    """Draws chunks from a source, and counts what they contain."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._tables: Tables | None = None if source.model is None else build_tables(source.model)

    def plan(self, choices: Ints, lengths: Ints, seed: int, number: int = 0) -> Plan:
        """A plan whose chunks suit the source."""
        return Plan(choices, lengths, seed, number, OTHER_CHUNK if self.source.model is None else MODEL_CHUNK)

    def count(self, chunk: Chunk) -> Block:
        """What a chunk contains."""
        if self.source.model is None:
            return self._count_simulated(chunk)
        return self._count_model(self.source.model, chunk)

    def _count_simulated(self, chunk: Chunk) -> Block:
        choices, lengths = chunk.choices, chunk.lengths
        drawn = np.repeat(choices, lengths)
        return block_of(choices, lengths, *self.source.draw(drawn, chunk.rng()), self.source.blank.num_states)

    def _count_model(self, mdp: MDP, chunk: Chunk) -> Block:
        assert self._tables is not None
        choices, lengths = chunk.choices, chunk.lengths
        outcome_ptr, cumulative = self._tables
        sizes = outcome_ptr[choices + 1] - outcome_ptr[choices]
        ends = np.cumsum(sizes)
        counts, first = np.zeros(int(ends[-1]), np.int64), np.zeros(int(ends[-1]), np.int64)
        kernel = _compiled() if chunk.compiled else count_outcomes
        kernel(choices, lengths, ends - sizes, outcome_ptr, cumulative, *chunk.stream(), counts, first)
        seen = np.flatnonzero(counts)
        position = np.searchsorted(ends, seen, side="right")
        outcome = seen + (outcome_ptr[choices] - (ends - sizes))[position]
        return _merged(mdp, choices[position], outcome, counts[seen], first[seen], choices, lengths)


def _compiled() -> Callable[..., None]:
    from almostsure.learn.model_kernel import count_outcomes as kernel

    return cast(Callable[..., None], kernel)


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    pointer, sums = np.arange(2), np.full(1, 2.0)
    _compiled()(none, one, none, pointer, sums, np.uint64(0), np.uint64(1), one.copy(), one.copy())


def _merged(
    mdp: MDP, choice: Ints, outcome: Ints, counts: Ints, first: Ints, sampled: Ints, samples: Ints
) -> Block:  # fmt: skip
    """A block of the outcomes; those of a choice that differ in their reward only are one."""
    target, damage = mdp.successor[outcome].astype(np.int64), mdp.damage[outcome].astype(np.int64)
    new = np.ones(outcome.size, np.bool_)
    new[1:] = (choice[1:] != choice[:-1]) | (target[1:] != target[:-1]) | (damage[1:] != damage[:-1])
    starts, group = np.flatnonzero(new), np.cumsum(new) - 1
    return Block(
        choice=choice[starts], next_state=target[starts], damage=damage[starts],
        times=np.add.reduceat(counts, starts), reward=weighted(group, counts * mdp.reward[outcome], starts.size),
        first=np.minimum.reduceat(first, starts), sampled=sampled, samples=samples,
    )  # fmt: skip
