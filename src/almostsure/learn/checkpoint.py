"""Keeping long runs on disk: a run that was killed goes on where its last checkpoint was, with the same result.

A checkpoint holds the tally, how far the run has come and, for a run in rounds, what its present round takes.  It
belongs to one run: the same sampler and choices, the same seed, the same kind of run with the same numbers.  Any other
run refuses it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from os import PathLike
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import CorruptFile, FileError
from almostsure.files import load_tensors, save_tensors
from almostsure.learn.sampler import Source
from almostsure.learn.tally import DAMAGES, Tally

KIND = "sampling checkpoint"
ARRAYS = {"key": "i", "count": "i", "reward": "f", "samples": "i", "latest": "i"}


@final
class Checkpoint:
    """Where a run keeps what it has; without a path, nowhere.

    Parameters
    ----------
    path
        The file, or None.
    source
        What is sampled.
    run
        What kind of run it is, as text by name: a checkpoint must agree in all of them.
    seconds
        How much work may be lost.
    """

    def __init__(
        self, path: str | PathLike[str] | None, source: Source, run: Mapping[str, str], seconds: float
    ) -> None:
        self.path, self.source, self.seconds = path, source, seconds
        self.run = {"sampler": source.identity, **run}
        self.plan: npt.NDArray[np.int64] | None = None  # [num_choices] samples that the present round takes, if any
        self._saved_at = time.monotonic()

    def read(self, seed: int | None, start: Mapping[str, int]) -> tuple[Tally, dict[str, int], int] | None:
        """The tally, how far the run had come since ``start``, and its seed; None if there is no file yet."""
        if self.path is None or not os.path.exists(self.path):
            return None
        arrays, strings = load_tensors(self.path, kind=KIND, model=self.source.blank.fingerprint)
        for name, mine in self.run.items():
            if strings.get(name) != mine:
                self._refuse(name, strings.get(name), mine)
        try:
            known, position = int(strings["seed"]), json.loads(strings["position"])
            done = {str(name): int(value) for name, value in position.items()}
            if done.keys() != start.keys() or min(done.values()) < 0:
                raise ValueError(f"it has {position}")
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise CorruptFile(f"{self.path!s} does not say how far its run was: {error}", path=self.path) from error
        if seed is not None and seed != known:
            self._refuse("seed", str(known), str(seed))
        return self._tally(arrays), done, known

    def _refuse(self, name: str, theirs: str | None, mine: str) -> None:
        raise FileError(
            f"the checkpoint {os.fspath(self.path or '')!r} belongs to another run: its {name} is {theirs!r}, "
            f"this one's is {mine!r}. Choose another name, or delete it.",
            path=self.path,
        )

    def _tally(self, arrays: Mapping[str, Any]) -> Tally:
        blank = self.source.blank
        tally = Tally(blank.num_choices, blank.num_states)
        sizes = {name: arrays[name].shape for name in ARRAYS if name in arrays}
        entries = sizes.get("key", (0,))
        wanted = dict.fromkeys(("key", "count", "reward"), entries) | dict.fromkeys(
            ("samples", "latest"), (blank.num_choices,)
        )
        fits = sizes == wanted and all(arrays[name].dtype == f"{kind}8" for name, kind in ARRAYS.items())
        self.plan = arrays["plan"].astype(np.int64) if "plan" in arrays else None
        fits &= self.plan is None or (self.plan.shape == (blank.num_choices,) and bool((self.plan >= 0).all()))
        if not fits or not _sound(arrays, blank.num_choices * blank.num_states * DAMAGES):
            raise CorruptFile(f"{self.path!s} does not hold a tally of its sampler's choices", path=self.path)
        tally.restore(*(arrays[name] for name in ARRAYS))
        return tally

    def write(self, tally: Tally, position: Mapping[str, int], seed: int, *, now: bool = True) -> None:
        """Keep the tally; without ``now``, only if the last time is long ago."""
        if self.path is None or not (now or time.monotonic() - self._saved_at >= self.seconds):
            return
        arrays = {
            "key": tally.key, "count": tally.count, "reward": tally.reward, "samples": tally.samples,
            "latest": tally.latest,
        }  # fmt: skip
        if self.plan is not None:
            arrays["plan"] = self.plan
        strings = {**self.run, "seed": str(seed), "position": json.dumps(dict(position))}
        save_tensors(self.path, kind=KIND, model=self.source.blank.fingerprint, arrays=arrays, strings=strings)
        self._saved_at = time.monotonic()


def _sound(arrays: Mapping[str, Any], limit: int) -> bool:
    """Whether the numbers can be those of a tally: a damaged file must not be counted on from."""
    key, count = arrays["key"], arrays["count"]
    if key.size and not (key[0] >= 0 and key[-1] < limit and (np.diff(key) > 0).all() and count.min() > 0):
        return False
    per_choice = np.bincount(key // (limit // arrays["samples"].size), weights=count, minlength=arrays["samples"].size)
    latest, samples = arrays["latest"], arrays["samples"]
    if not ((latest >= 0) & (latest <= samples)).all():
        return False
    return bool((per_choice == samples).all() and np.isfinite(arrays["reward"]).all())
