"""Algorithm 2: count the outcomes of N samples of every choice, and call what was counted the model.

For k* only which outcomes occurred matters.  What was seen is possible, so the k* of the counted model is never
above that of the real one (its maxima run over fewer outcomes), and equal to it once every outcome of every choice
was seen.  How many samples that takes is in :mod:`almostsure.learn.bounds`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, CorruptFile, Interrupted, LimitReached, UnknownName
from almostsure.learn.bounds import Confidence, confidence, count
from almostsure.learn.checkpoint import Checkpoint
from almostsure.learn.parallel import Cluster, Workers, cores, open_crew, uninterrupted
from almostsure.learn.plan import Counter, Plan
from almostsure.learn.sampler import Source, as_source
from almostsure.learn.tally import Tally
from almostsure.model.mdp import MDP, Arrays, Bools, Floats, Ints, index_dtype
from almostsure.progress import Bar

UNKNOWN = ("refuse", "allow")
Unknown = Literal["refuse", "allow"]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """How often which outcome of which choice was seen, and with which reward.  Made by :func:`build_kernel`.

    The arrays of outcomes are ordered by (choice, next state, damage).
    """

    blank: MDP = field(repr=False)  # the choices, and nothing else: see almostsure.learn.sampler
    choice: npt.NDArray[np.int64]  # [outcomes seen]
    next_state: npt.NDArray[np.int64]  # [outcomes seen]
    damage: npt.NDArray[np.uint8]  # [outcomes seen]
    count: npt.NDArray[np.int64]  # [outcomes seen]
    reward: Floats  # [outcomes seen] on average
    samples: npt.NDArray[np.int64]  # [num_choices]
    seed: int | None  # None: nobody drew them
    num_damages: int = 256  # how many different ones are possible
    caveat: str = ""  # what every statement about it must add
    end: int | None = None  # a state in which nothing happens any more, so that it needs no samples

    @property
    def budget(self) -> int:
        """How many samples were drawn."""
        return int(self.samples.sum())

    @property
    def source(self) -> Source:
        """Where its states and actions come from, for those who go on from there; it cannot be sampled."""
        return Source(
            sampler=None, blank=self.blank, model=None, max_damage=self.num_damages - 1, identity="kernel",
            caveat=self.caveat, end=self.end,
        )  # fmt: skip

    def to_mdp(self, unknown: Unknown = "refuse", *, known: Bools | None = None) -> MDP:
        """The model in which every outcome is as probable as it was frequent.

        Parameters
        ----------
        unknown
            What becomes of choices that were never sampled.  ``"refuse"`` makes them lead to an extra state, the
            last one, that hurts for ever, so that every shield refuses them (it is there only if there are such
            choices); ``"allow"`` makes them do nothing at all, so that they cost nothing until more is known.
        known
            Which choices to believe, [num_choices]; by default those that were sampled.
        """
        check_unknown(unknown)
        believed = self.samples > 0
        if known is not None:
            if np.shape(known) != believed.shape or np.asarray(known).dtype != np.bool_:
                raise ArgumentError(f"known must be {believed.size} booleans, one a choice; got {np.shape(known)}")
            believed &= known
        stays = self.blank.successor[~believed].astype(np.int64)  # of a self-loop
        refused = np.full(stays.size, unknown == "refuse") & (stays != (-1 if self.end is None else self.end))
        if not refused.any():
            return self._model(self.blank, believed, stays)
        return self._model(with_trap(self.blank), believed, np.where(refused, self.blank.num_states, stays))

    def _model(self, frame: MDP, believed: Bools, elsewhere: Ints) -> MDP:
        """The choices of ``frame``: those believed as counted, the others leading ``elsewhere``, the rest as it is."""
        kept, missing = believed[self.choice], np.flatnonzero(~believed)
        more = np.arange(believed.size, frame.num_choices)
        choice = np.concatenate([self.choice[kept], missing, more])
        order = np.argsort(choice, kind="stable")
        none, share = np.zeros(missing.size), (self.count / self.samples[self.choice])[kept]
        columns: tuple[tuple[npt.NDArray[Any], ...], ...] = (
            (self.next_state[kept], elsewhere, frame.successor[more]), (share, none + 1, frame.probability[more]),
            (self.reward[kept], none, frame.reward[more]),
            (self.damage[kept], none.astype(np.uint8), frame.damage[more]),
        )  # fmt: skip
        successor, probability, reward, damage = (np.concatenate(parts)[order] for parts in columns)
        ptr = np.zeros(frame.num_choices + 1, index_dtype(choice.size + 1))
        np.cumsum(np.bincount(choice, minlength=frame.num_choices), out=ptr[1:])
        arrays = Arrays(
            choice_ptr=frame.choice_ptr, choice_action=frame.choice_action, outcome_ptr=ptr,
            successor=successor.astype(index_dtype(frame.num_states)), probability=probability, reward=reward + 0.0,
            damage=damage,
        )  # fmt: skip
        return MDP(
            arrays, initial=(frame.initial_states, frame.initial_probabilities), state_names=frame.state_names,
            action_names=frame.action_names, layout=frame.layout,
        )  # fmt: skip

    def confidence(self, mu: float) -> Confidence:
        """With which probability every outcome was seen, if none is rarer than ``mu``."""
        counts = self.samples if self.end is None else self.samples[self.blank.successor != self.end]
        result = confidence(counts, mu, num_states=self.blank.num_states, num_damages=self.num_damages)
        return replace(result, caveat=self.caveat)

    def __str__(self) -> str:
        sampled = int(np.count_nonzero(self.samples))
        return (
            f"{self.budget:,} samples of {sampled:,} of {self.samples.size:,} choices "
            f"showed {self.choice.size:,} outcomes{'' if self.seed is None else f' (seed {self.seed})'}"
        )


def build_kernel(
    sampler: Any,
    samples: int,
    *,
    seed: int | None = None,
    workers: Workers | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
) -> Kernel:
    """Draw ``samples`` outcomes of every choice and count them: Algorithm 2.

    Parameters
    ----------
    sampler
        A :class:`almostsure.learn.Sampler`, a model, or the name of an example or file.
    samples
        How many of each choice; see :func:`almostsure.samples_needed`.
    seed
        The same seed gives the same kernel on every machine, with any number of workers.  By default a fresh one,
        which the result tells.
    workers
        How many cores to use: threads for a model, processes for anything else.  By default all cores for a model,
        one for anything else.  Or a :class:`almostsure.learn.RayCluster`.
    checkpoint
        A file in which the run keeps what it has.  If it exists, the run goes on from there; the result is the same as
        that of a run that was never interrupted.
    checkpoint_seconds
        How much work may be lost.

    Raises
    ------
    ModelError
        The sampler returns something that it must not.
    FileError
        The checkpoint belongs to another run.
    Interrupted
        On Ctrl-C.  The checkpoint is up to date, and ``kept`` is the kernel of what was drawn so far.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.learn import build_kernel
    >>> kernel = build_kernel(asure.example("paper", damage_probability=0.6), 50, seed=1)
    >>> print(kernel)
    150 samples of 3 of 3 choices showed 4 outcomes (seed 1)
    >>> asure.minimal_budget(kernel.to_mdp()).of("circle", "left")
    1
    """
    source, number = as_source(sampler), count("samples", samples)
    if number * source.blank.num_choices >= 2**62:
        raise LimitReached(f"{number:.3g} samples of {source.blank.num_choices:,} choices are too many to count.")
    seed = None if seed is None else count("seed", seed, least=0)
    store = Checkpoint(checkpoint, source, {"samples of every choice": str(number)}, check_seconds(checkpoint_seconds))
    start = {"chunk": 0}
    resumed = store.read(seed, start)
    tally, done, seed = resumed or (new_tally(source), start, fresh_seed() if seed is None else seed)
    counter, choices = Counter(source), np.arange(source.blank.num_choices)
    plan = counter.plan(choices, np.full(choices.size, number), seed)
    if int(tally.samples.sum()) != min(done["chunk"] * plan.size, plan.total):
        raise CorruptFile(f"{checkpoint!s} holds other samples than those that it says were drawn", path=checkpoint)
    try:
        with Bar("sampling", plan.total, notice=f"{plan.total:,} samples") as bar:
            _draw(plan, counter, store, tally, done, check_workers(workers, source), bar)
    except KeyboardInterrupt:
        store.write(tally, done, seed)
        where = "" if checkpoint is None else f", which are in the checkpoint {checkpoint!s}: run it again to go on"
        kept = kernel_of(source, tally, seed)
        raise Interrupted(f"interrupted after {kept.budget:,} of {plan.total:,} samples{where}.", kept=kept) from None
    store.write(tally, done, seed)
    return kernel_of(source, tally, seed)


def _draw(
    plan: Plan, counter: Counter, store: Checkpoint, tally: Tally, done: dict[str, int], workers: Workers, bar: Bar
) -> None:
    with open_crew(counter.count, workers, processes=counter.source.model is None) as crew:
        for block in crew.in_order(plan.chunks(done["chunk"])):
            with uninterrupted():
                tally.add(block)
                done["chunk"] += 1
            store.write(tally, done, plan.seed, now=False)
            bar.update(min(done["chunk"] * plan.size, plan.total))


def with_trap(blank: MDP) -> MDP:
    """The blank model and one more state, the last one, that hurts for ever: where what is unknown leads."""
    a, names, layout = blank.arrays, blank.state_names, blank.layout
    count = blank.num_choices
    if names is not None:
        names = (*names, next(name for name in _trap_names() if name not in names))
    return MDP(
        Arrays(
            choice_ptr=np.append(a.choice_ptr, count + 1).astype(index_dtype(count + 2)),
            choice_action=np.append(a.choice_action, a.choice_action.dtype.type(0)),
            outcome_ptr=np.arange(count + 2, dtype=index_dtype(count + 2)),
            successor=np.append(a.successor, blank.num_states).astype(index_dtype(blank.num_states + 1)),
            probability=np.ones(count + 1), reward=np.zeros(count + 1),
            damage=np.append(a.damage, np.uint8(1)),
        ),
        initial=(blank.initial_states, blank.initial_probabilities), state_names=names,
        action_names=blank.action_names,
        layout=layout and replace(layout, cell=np.append(layout.cell, layout.cell.dtype.type(-1))),
    )  # fmt: skip


def _trap_names() -> Iterator[str]:
    yield "unknown"
    yield from (f"unknown {number}" for number in itertools.count(2))


# ---------------------------------------------------------------------- pieces that other learners use too


def check_unknown(unknown: Unknown) -> None:
    """Refuse what is no way of dealing with unknown choices."""
    if unknown not in UNKNOWN:
        raise UnknownName("value of unknown", unknown, UNKNOWN, f"Choose from {', '.join(UNKNOWN)}.")


def new_tally(source: Source) -> Tally:
    """A tally that has seen nothing."""
    return Tally(source.blank.num_choices, source.blank.num_states)


def kernel_of(source: Source, tally: Tally, seed: int | None) -> Kernel:
    """The kernel of a tally."""
    counted = tally.count
    return Kernel(
        blank=source.blank, choice=tally.choice, next_state=tally.next_state, damage=tally.damage,
        count=counted.copy(), reward=tally.reward / counted, samples=tally.samples.copy(), seed=seed,
        num_damages=source.max_damage + 1, caveat=source.caveat, end=source.end,
    )  # fmt: skip


def fresh_seed() -> int:
    """A seed that nobody chose."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def check_workers(workers: Workers | None, source: Source) -> Workers:
    """How many workers to use, or which."""
    if workers is None:
        return 1 if source.model is None else cores()
    if isinstance(workers, Cluster):
        return workers
    return count("workers", workers)


def check_seconds(seconds: float) -> float:
    """``seconds`` as a number, 0 or more."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise ArgumentError(f"checkpoint_seconds must be a number, 0 or more; got {seconds!r}")
    return float(seconds)
