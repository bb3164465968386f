"""Checkpoints of long runs: a run that was killed resumes from its last checkpoint, with the same result.

A checkpoint holds the counts, the position of the run and, for a run in rounds, the samples of its present round.  It
belongs to one run: the same sampler and choices, the same seed, the same kind of run with the same parameters.  Any
other run refuses it.

A sampler is recognised by its identity (:mod:`almostsure.learn.sampling.identity`), which may be wrong if the user
gives it.  So on resuming, some choices that always had the same outcome are sampled again, and a checkpoint that they
contradict is refused.  If n samples had the same outcome, and j of m new ones differ, then the order of all n + m
samples is exchangeable, and the probability that all j are among the last m is C(m, j) / C(n + m, j).  If this is below
``LEVEL``, divided by the number of choices that are tried, it is a contradiction.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_real, count
from almostsure.errors import ArgumentError, FileError, Interrupted
from almostsure.files import load_tensors, must_hold, save_tensors
from almostsure.learn.counts import ARRAYS, Counts
from almostsure.learn.sampling.identity import obstacle_in
from almostsure.learn.sampling.samplers import CheckedSampler

KIND = "sampling checkpoint"
TRIED, AGAIN = 16, 32  # choices that are sampled again on resuming, and how often
LEVEL = 1e-6  # the probability that a right checkpoint is refused


@final
class Checkpoint:
    """The checkpoint of a run; without a path, nothing is saved.

    Parameters
    ----------
    path
        The file, or None.
    source
        The sampler.
    run
        The parameters of the run, as text by name: a checkpoint must agree in all of them.
    seconds
        The time between two saves: so much work may be lost.
    """

    def __init__(
        self, path: str | PathLike[str] | None, source: CheckedSampler, run: Mapping[str, str], seconds: float
    ) -> None:
        self.path, self.source, self.seconds = path, source, check_real("checkpoint_seconds", seconds)
        if self.seconds < 0:
            raise ArgumentError(f"checkpoint_seconds must be 0 or more; got {seconds!r}")
        if path is not None and source.identity is None:
            raise ArgumentError(
                "the sampler of a checkpoint must have an identity, and none can be computed for this one, because it "
                f"holds {obstacle_in(source.sampler)}. Name the sampler with identity='…', and change the name "
                "whenever the sampler changes."
            )
        self.run = {"sampler": str(source.identity), **run}
        self.lengths: npt.NDArray[np.int64] | None = None  # [num_choices] samples of the present round, if any
        self._saved_at = time.monotonic()

    def begin(self, seed: int | None, start: dict[str, int]) -> tuple[Counts, dict[str, int]]:
        """The counts and the position of the run: those in the file, or empty counts and ``start``."""
        seed = None if seed is None else count("seed", seed, least=0)
        if self.path is None or not os.path.exists(self.path):
            fresh = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
            return self.source.new_counts(fresh if seed is None else seed), start
        arrays, strings = load_tensors(self.path, kind=KIND, model=self.source.space.fingerprint)
        for name, mine in self.run.items():
            if strings.get(name) != mine:
                self._refuse(name, strings.get(name), mine)
        with must_hold(self.path, "the position of its run"):
            known, done = int(strings["seed"]), json.loads(strings["position"])
            good = isinstance(done, dict) and done.keys() == start.keys()
            if not (good and all(isinstance(number, int) and number >= 0 for number in done.values())):
                raise ValueError(f"it has {done}")
        if seed is not None and seed != known:
            self._refuse("seed", str(known), str(seed))
        counts = self.source.new_counts(known)
        with must_hold(self.path, "counts of its sampler's choices"):
            counts.restore({name: arrays[name] for name in ARRAYS})
            if "lengths" in arrays:
                self.lengths = arrays["lengths"].astype(np.int64)
                if self.lengths.shape != counts.samples.shape or not (self.lengths >= 0).all():
                    raise ValueError("its round is not one of these choices")
        if self.source.model is None:
            self._sample_again(counts)
        return counts, done

    def _refuse(self, name: str, theirs: str | None, mine: str) -> None:
        raise FileError(
            f"the checkpoint {str(self.path)!r} belongs to another run: its {name} is {theirs!r}, "
            f"this one's is {mine!r}. Choose another name, or delete it.",
            path=self.path,
        )

    def _sample_again(self, counts: Counts) -> None:
        """Refuse a checkpoint that new samples contradict."""
        certain = np.flatnonzero((counts.outcomes_seen() == 1) & ~counts.is_end())
        certain = certain[np.argsort(-counts.samples[certain], kind="stable")][:TRIED]
        if not certain.size:
            return
        rng = np.random.default_rng([counts.seed or 0, counts.total])  # a stream that the run itself does not use
        target, _, damage = self.source.draw(np.repeat(certain, AGAIN), rng)
        at = np.searchsorted(counts.choice, certain)
        wanted = counts.next_state[at], counts.damage[at]
        same = (target.reshape(-1, AGAIN) == wanted[0][:, None]) & (damage.reshape(-1, AGAIN) == wanted[1][:, None])
        for choice, others in zip(certain.tolist(), (~same).sum(axis=1).tolist(), strict=True):
            before = int(counts.samples[choice])
            chance = math.comb(AGAIN, others) / math.comb(before + AGAIN, others)
            if chance < LEVEL / certain.size:
                raise FileError(
                    f"the checkpoint {str(self.path)!r} belongs to another sampler: in it "
                    f"{counts.space.describe_choice(choice)} had the same outcome in all of {before:,} samples, and "
                    f"this one shows another one in {others} of {AGAIN}. Choose another name, or delete it.",
                    path=self.path,
                )

    @contextlib.contextmanager
    def keeping(self, counts: Counts, position: Mapping[str, int], said: Callable[[], str]) -> Iterator[None]:
        """Save the counts when the run is over; on Ctrl-C raise Interrupted, with what ``said`` returns in its text."""
        try:
            yield
        except KeyboardInterrupt:
            self.write(counts, position)
            where = "" if self.path is None else f", which are in the checkpoint {self.path!s}: run it again to resume"
            raise Interrupted(f"interrupted after {said()}{where}.", kept=counts) from None
        self.write(counts, position)

    def write(self, counts: Counts, position: Mapping[str, int], *, now: bool = True) -> None:
        """Save the counts; without ``now``, only if the last save was long enough ago."""
        if self.path is None or not (now or time.monotonic() - self._saved_at >= self.seconds):
            return
        arrays = counts.to_arrays()
        if self.lengths is not None:
            arrays["lengths"] = self.lengths
        strings = {**self.run, "seed": str(counts.seed), "position": json.dumps(dict(position))}
        save_tensors(self.path, kind=KIND, model=self.source.space.fingerprint, arrays=arrays, strings=strings)
        self._saved_at = time.monotonic()
