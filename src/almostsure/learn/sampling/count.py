"""Algorithm 2: draw samples of every choice and count the outcomes.

A *schedule* says how often each choice is sampled.  Its samples form one sequence: all of the first choice, then all of
the second, and so on.  *Chunks* are parts of equal length of this sequence.  Random numbers depend only on seed, round
and chunk, so any worker can draw any chunk at any time, and a lost chunk can be drawn again with the same result.

Each chunk of a model has its own random stream (:mod:`almostsure.policy.simulation.streams`).  Its i-th number, a plain
function of seed, chunk and i, decides the i-th sample: the first outcome whose cumulative probability exceeds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import count, names_right_word
from almostsure.crew import Each, Workers, as_crew, cores
from almostsure.errors import CorruptFile, LimitReached, uninterrupted
from almostsure.learn.counts import Block, Counts, merged, outcome_key
from almostsure.learn.sampling import kernel
from almostsure.learn.sampling.checkpoint import Checkpoint
from almostsure.learn.sampling.samplers import CheckedSampler, as_sampler
from almostsure.model.arrays import Floats, Ints
from almostsure.model.mdp import MDP
from almostsure.policy.simulation.streams import first_above, mix, open_streams, running_sums, uniform
from almostsure.progress import Bar

MODEL_CHUNK = 1 << 18  # samples per chunk, for a model
OTHER_CHUNK = 1 << 11  # for a simulator, which is slower
COMPILE_FROM = 3_000_000  # samples of a model from which compiled code is faster, including compilation


@names_right_word
def count_outcomes(
    sampler: Any,
    samples: int,
    *,
    seed: int | None = None,
    identity: str | None = None,
    workers: Workers | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
) -> Counts:
    """Draw ``samples`` outcomes of every choice and count them: Algorithm 2.

    Parameters
    ----------
    sampler
        A :class:`almostsure.learn.Sampler`, a Gymnasium environment that can be sampled (or its id), a model, or the
        name of an example or file.
    samples
        The number of samples of each choice; see :func:`almostsure.samples_needed`.
    seed
        The same seed gives the same counts on every machine, with any number of workers; by default a fresh one.
    identity
        A name of the sampler for checkpoints, if it cannot be identified by a hash.
    workers
        The number of threads (for a model: by default all cores) or processes (for anything else: by default one); or a
        :class:`almostsure.learn.RayCluster`.
    checkpoint, checkpoint_seconds
        A file in which the run saves its counts, and the time between two saves.  If the file exists, the run continues
        from there, with the same result.

    Raises
    ------
    ModelError
        The sampler returns something invalid.
    FileError
        The checkpoint belongs to another run.
    Interrupted
        On Ctrl-C.  The checkpoint is up to date, and ``kept`` has the counts so far.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.learn import count_outcomes
    >>> counts = count_outcomes(asure.example("paper", damage_probability=0.6), 50, seed=1)
    >>> print(counts)
    150 samples of 3 of 3 choices showed 4 outcomes (seed 1)
    >>> asure.minimal_budget(counts.to_mdp()).of("circle", "left")
    1
    """
    source, number = as_sampler(sampler, identity=identity), count("samples", samples)
    choices = np.flatnonzero(~source.new_counts(None).is_end())
    if number * choices.size >= 2**62:
        raise LimitReached(f"{number:.3g} samples of {choices.size:,} choices are too many to count.")
    store = Checkpoint(checkpoint, source, {"samples of every choice": str(number)}, checkpoint_seconds)
    return _counted(source, choices, number, store, seed=seed, workers=workers)


def _counted(
    source: CheckedSampler, choices: Ints, number: int, store: Checkpoint, *, seed: int | None, workers: Any
) -> Counts:
    """The counts of this many samples of each choice, starting from the checkpoint if there is one."""
    counts, done = store.begin(seed, {"chunk": 0})
    counter = Counter(source)
    schedule = counter.schedule(choices, np.full(choices.size, number), counts.seed or 0)
    if counts.total != (drawn := min(done["chunk"] * schedule.size, schedule.total)):
        what = f"it holds {counts.total:,} samples, and the position of its run says {drawn:,}"
        raise CorruptFile(f"{store.path!s} is damaged: {what}", path=store.path)
    with (
        store.keeping(counts, done, lambda: f"{counts.total:,} of {schedule.total:,} samples"),
        Bar("sampling", schedule.total, notice=f"{schedule.total:,} samples") as bar,
        counter.crew(workers) as each,
    ):
        draw_chunks(schedule, each, store, counts, done, bar)
    counts.merge()
    return counts


def draw_chunks(
    schedule: Schedule, each: Each, store: Checkpoint, counts: Counts, done: dict[str, int], bar: Bar
) -> None:
    """Count the remaining chunks, and save a checkpoint from time to time."""
    for block in each(schedule.chunks(done["chunk"])):
        with uninterrupted():
            counts.add(block)
            done["chunk"] += 1
        store.write(counts, done, now=False)
        bar.update(counts.total)


# ---------------------------------------------------------------------- schedules


class Chunk(NamedTuple):
    """``lengths[i]`` samples of ``choices[i]``, and what determines their random numbers."""

    choices: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    seed: int
    round: int
    number: int
    compiled: bool  # whether compiled code draws them

    def rng(self) -> np.random.Generator:
        """The random numbers, for simulators."""
        key = (self.round, self.number)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=key)))

    def stream(self) -> tuple[np.uint64, np.uint64]:
        """The random numbers, for models: start and increment of a stream."""
        key = np.random.SeedSequence(self.seed, spawn_key=(self.round,)).generate_state(1, np.uint64)
        start, step = open_streams(int(key[0]), np.array([self.number]))
        return start[0], step[0]


@final
@dataclass(frozen=True, eq=False)
class Schedule:
    """``lengths[i]`` samples of ``choices[i]``, which are distinct and ascending."""

    choices: Ints
    lengths: Ints
    seed: int
    round: int
    size: int  # samples per chunk

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """The ends of the samples of each choice, in the sequence of all samples."""
        return np.cumsum(self.lengths, dtype=np.int64)

    @property
    def total(self) -> int:
        """The number of samples."""
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
    """Draws chunks from a sampler, and counts their outcomes."""

    def __init__(self, source: CheckedSampler) -> None:
        self.source = source
        self._tables: DrawTables | None = None
        if source.model is not None:
            ptr = source.model.outcome_ptr.astype(np.int64)
            self._tables = DrawTables(ptr, running_sums(source.model.probability, ptr))

    def schedule(self, choices: Ints, lengths: Ints, seed: int, number: int = 0) -> Schedule:
        """A schedule with chunks of a size for this sampler."""
        return Schedule(choices, lengths, seed, number, OTHER_CHUNK if self.source.model is None else MODEL_CHUNK)

    def crew(self, workers: Workers | None) -> AbstractContextManager[Each]:
        """The workers: by default all cores for a model, one process for anything else."""
        is_model = self.source.model is not None
        return as_crew(workers, default=cores() if is_model else 1).open(self.count, threads=is_model)

    def count(self, chunk: Chunk) -> Block:
        """Draw a chunk and count its outcomes."""
        if self.source.model is None:
            return self._count_simulated(chunk)
        return self._count_model(self.source.model, chunk)

    def _count_simulated(self, chunk: Chunk) -> Block:
        choice = np.repeat(chunk.choices, chunk.lengths)
        after, reward, damage = self.source.draw(choice, chunk.rng())
        number = np.arange(choice.size) - np.repeat(np.cumsum(chunk.lengths) - chunk.lengths, chunk.lengths)
        key = outcome_key(self.source.space, choice, after, damage)
        return Block(merged(key, np.ones_like(choice), reward, number), chunk.choices, chunk.lengths)

    def _count_model(self, mdp: MDP, chunk: Chunk) -> Block:
        assert self._tables is not None
        choices, lengths, outcome_ptr = chunk.choices, chunk.lengths, self._tables.outcome_ptr
        sizes = outcome_ptr[choices + 1] - outcome_ptr[choices]
        ends = np.cumsum(sizes)
        found = Drawn(np.zeros(int(ends[-1]), np.int64), np.zeros(int(ends[-1]), np.int64))
        count_drawn = kernel.draw if chunk.compiled else draw
        count_drawn(self._tables, Slots(choices, lengths, ends - sizes), *chunk.stream(), found)
        seen = np.flatnonzero(found.times)
        position, times = np.searchsorted(ends, seen, side="right"), found.times[seen]
        outcome = seen + (outcome_ptr[choices] - (ends - sizes))[position]
        # Outcomes of a choice that differ only in the reward are counted as one.
        key = outcome_key(mdp, choices[position], mdp.successor[outcome], mdp.damage[outcome])
        return Block(merged(key, times, times * mdp.reward[outcome], found.first[seen]), choices, lengths)


# ---------------------------------------------------------------------- drawing outcomes of a model


class DrawTables(NamedTuple):
    """The arrays that are needed for drawing outcomes of a model."""

    outcome_ptr: npt.NDArray[np.int64]  # [num_choices + 1]
    cumulative: Floats  # [num_outcomes], running sums within each choice; the last is 2, above every draw


class Slots(NamedTuple):
    """``lengths[i]`` samples of ``choices[i]``, whose outcomes are counted from ``slots[i]`` on."""

    choices: Ints
    lengths: Ints
    slots: Ints


class Drawn(NamedTuple):
    """How often each outcome was drawn, and the first draw of its choice that showed it."""

    times: Ints
    first: Ints


def draw(tables: DrawTables, slots: Slots, bits: Any, increment: Any, found: Drawn) -> None:
    """Draw and count, with NumPy: the plain twin of :mod:`almostsure.learn.sampling.kernel`."""
    choices, lengths, first_slot = slots
    total = int(lengths.sum())
    with np.errstate(over="ignore"):
        draws = uniform(mix(bits + increment * np.arange(1, total + 1, dtype=np.uint64)))
    piece = np.repeat(np.arange(choices.size), lengths)
    begin, end = tables.outcome_ptr[choices], tables.outcome_ptr[choices + 1]
    slot = first_above(tables.cumulative, begin[piece], end[piece], draws) + (first_slot - begin)[piece]
    found.times[:] += np.bincount(slot, minlength=found.times.size)
    seen, at = np.unique(slot, return_index=True)
    found.first[seen] = at - (np.cumsum(lengths) - lengths)[piece[at]]


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    tables = DrawTables(np.arange(2), np.full(1, 2.0))
    kernel.draw(tables, Slots(none, one, none), np.uint64(0), np.uint64(1), Drawn(one.copy(), one.copy()))
