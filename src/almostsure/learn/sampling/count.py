"""Algorithm 2: draw samples of every choice and count what they show.

Which choices are sampled how often is a *schedule*.  Its samples stand in one long line: all of the first choice, then
all of the second, and so on.  Chunks are equal pieces of that line.  Random numbers depend on seed, round and chunk, so
it does not matter who draws a chunk, or when; and a chunk that was lost can be drawn again, with the same result.

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

MODEL_CHUNK = 1 << 18  # samples of a model that are drawn together
OTHER_CHUNK = 1 << 11  # a simulator is slower
COMPILE_FROM = 3_000_000  # samples of a model from which on waiting for a compiler pays


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
        How many of each choice; see :func:`almostsure.samples_needed`.
    seed
        The same seed gives the same counts on every machine, with any number of workers; by default a fresh one.
    identity
        A text that tells the sampler from others, where a checkpoint is wanted and it cannot be found out.
    workers
        How many threads (for a model: by default all cores) or processes (for anything else: by default one) to use;
        or a :class:`almostsure.learn.RayCluster`.
    checkpoint, checkpoint_seconds
        A file in which the run keeps what it has, so often.  If it exists, the run goes on from there, with the same
        result.

    Raises
    ------
    ModelError
        The sampler returns something that it must not.
    FileError
        The checkpoint belongs to another run.
    Interrupted
        On Ctrl-C.  The checkpoint is up to date, and ``kept`` has the counts of what was drawn so far.

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
    """The counts of so many samples of each choice, from where the checkpoint is on."""
    counts, done = store.begin(seed, {"chunk": 0})
    counter = Counter(source)
    schedule = counter.schedule(choices, np.full(choices.size, number), counts.seed or 0)
    if counts.total != min(done["chunk"] * schedule.size, schedule.total):
        raise CorruptFile(f"{store.path!s} holds other samples than those that it says were drawn", path=store.path)
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
    """Count the chunks that are left, and keep what there is now and then."""
    for block in each(schedule.chunks(done["chunk"])):
        with uninterrupted():
            counts.add(block)
            done["chunk"] += 1
        store.write(counts, done, now=False)
        bar.update(counts.total)


# ---------------------------------------------------------------------- schedules


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
    """Draws chunks from a sampler, and counts what they contain."""

    def __init__(self, source: CheckedSampler) -> None:
        self.source = source
        self._tables: Tables | None = None
        if source.model is not None:
            ptr = source.model.outcome_ptr.astype(np.int64)
            self._tables = Tables(ptr, running_sums(source.model.probability, ptr))

    def schedule(self, choices: Ints, lengths: Ints, seed: int, number: int = 0) -> Schedule:
        """A schedule whose chunks suit the sampler."""
        return Schedule(choices, lengths, seed, number, OTHER_CHUNK if self.source.model is None else MODEL_CHUNK)

    def crew(self, workers: Workers | None) -> AbstractContextManager[Each]:
        """Who counts; by default all cores for a model, one for anything else."""
        is_model = self.source.model is not None
        return as_crew(workers, default=cores() if is_model else 1).open(self.count, threads=is_model)

    def count(self, chunk: Chunk) -> Block:
        """What a chunk contains."""
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
        found = Found(np.zeros(int(ends[-1]), np.int64), np.zeros(int(ends[-1]), np.int64))
        count_drawn = kernel.draw if chunk.compiled else draw
        count_drawn(self._tables, Slots(choices, lengths, ends - sizes), *chunk.stream(), found)
        seen = np.flatnonzero(found.times)
        position, times = np.searchsorted(ends, seen, side="right"), found.times[seen]
        outcome = seen + (outcome_ptr[choices] - (ends - sizes))[position]
        # Outcomes of a choice that differ in their reward only are one.
        key = outcome_key(mdp, choices[position], mdp.successor[outcome], mdp.damage[outcome])
        return Block(merged(key, times, times * mdp.reward[outcome], found.first[seen]), choices, lengths)


# ---------------------------------------------------------------------- drawing outcomes of a model


class Tables(NamedTuple):
    """What drawing outcomes of a model needs."""

    outcome_ptr: npt.NDArray[np.int64]  # [num_choices + 1]
    cumulative: Floats  # [num_outcomes], running sums within each choice; the last is 2, above every draw


class Slots(NamedTuple):
    """``lengths[i]`` samples of ``choices[i]`` are counted from ``slots[i]`` on."""

    choices: Ints
    lengths: Ints
    slots: Ints


class Found(NamedTuple):
    """How often each outcome was drawn, and which of its choice's draws was the first to show it."""

    times: Ints
    first: Ints


def draw(tables: Tables, slots: Slots, bits: Any, increment: Any, found: Found) -> None:
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
    tables = Tables(np.arange(2), np.full(1, 2.0))
    kernel.draw(tables, Slots(none, one, none), np.uint64(0), np.uint64(1), Found(one.copy(), one.copy()))
