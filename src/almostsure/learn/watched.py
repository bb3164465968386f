"""``Watched``: what an online shield was told: which outcomes happened how often, where episodes began and ended.

Where a space has an end of its own (that of an environment has), episodes end there.  Where it has none, a state in
which one ended is a state in which nothing happens any more, so no other episode can have gone on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, ModelError, ModelMismatch
from almostsure.learn.counts import ARRAYS, Counts
from almostsure.model.naming import Logged

WATCHED = (*ARRAYS, "ended", "began")
ITS_COUNTS = "Make the shield of the counts: OnlineShield(counts, known=counts)."


@final
class Watched:
    """Counts of outcomes, the states in which runs began, and those in which episodes ended."""

    def __init__(self, counts: Counts) -> None:
        self.counts, self.space = counts, counts.space
        self.states = counts.space.choice_states()  # the state of each choice
        self._began: Counter[int] = Counter()
        self._ended: set[int] = set()

    def learn(self, known: Counts) -> None:
        """Take in what others have counted, before anything is watched."""
        if not isinstance(known, Counts):
            raise ArgumentError(f"known must be counts; got {type(known).__name__}")
        if not self.space.has_same_choices(known.space):
            theirs, ours = (
                f"{space.num_observed:,} states with {space.num_choices:,}" for space in (known.space, self.space)
            )
            raise ModelMismatch(
                f"the counts belong to other states and actions: {theirs} choices, those given are {ours}. Give the "
                "shield what was counted: OnlineShield(sampler, known=count_outcomes(sampler, n))."
            )
        other, log = known.space.otherwise_named(self.space), known.space.encode
        if isinstance(log, Logged) and (
            (log.names_states and self.space.state_names is None)
            or (log.names_actions and self.space.action_names is None)
        ):
            other = "theirs have names, in the order of the alphabet, and those given have numbers"
        if other:
            raise ModelMismatch(f"the counts number their states and actions otherwise: {other}. {ITS_COUNTS}")
        self.counts.restore(known.to_arrays())
        self.counts.ended |= known.ended
        if known.caveat not in self.counts.caveat:
            self.counts.caveat = f"{self.counts.caveat} {known.caveat}".lstrip()

    def begin(self, states: Iterable[int]) -> None:
        """Take in that runs began in these states."""
        self._began.update(states)

    def go_on(self, state: int) -> None:
        """Take in that an episode went on from a state, which is counted; ModelError if another one ended there."""
        if state in self._ended or state in self.counts.ended:
            raise self._both(state)

    def end(self, state: int, times: int) -> bool:
        """Take in that an episode ended in a state, as if all of its choices had been seen to stay so many times.

        Returns whether that is news; raises ModelError if another episode went on from there.
        """
        if state in self._ended or state in self.counts.ended:
            return False
        if self._was_left(state):
            raise self._both(state)
        self._ended.add(state)
        for choice in self.space.choices(state):
            self.counts.see(choice, state, 0, 0.0, times=times)
        return True

    def _both(self, state: int) -> ModelError:
        return ModelError(
            f"one episode ended in {self.space.describe_state(state)}, and another went on from there. Give the "
            "OnlineShield the environment itself, or num_states and actions: then it has a state for the end.",
            state=state,
        )

    @property
    def starts(self) -> dict[int, float]:
        """Where episodes start, and how probable that is: as the space says, or else as was seen; {} if nothing was.

        A space that says that all states are equally probable says that nobody knows.
        """
        number = self.space.initial_states.size
        if number == 1 or number < self.space.num_observed or np.ptp(self.space.initial_probabilities) > 0:
            return self.space.starts
        return {state: times / self._began.total() for state, times in sorted(self._began.items())}

    # ------------------------------------------------------------------ files

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it, as :meth:`restore` takes it."""
        ended = np.array(sorted(self._ended | self.counts.ended - {self.space.end}), np.int64)
        began = np.array(sorted(self._began.items()), np.int64).reshape(-1, 2)
        return {**self.counts.to_arrays(), "ended": ended, "began": began}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take in what :meth:`to_arrays` returned; ValueError where that is something else."""
        self.counts.restore(arrays)
        ended, began = arrays["ended"], arrays["began"]
        if ended.dtype.kind != "i" or ended.ndim != 1:
            raise ValueError("ended must hold states")
        self._ended = {self.space.state(state) for state in ended.tolist()}
        self.counts.ended |= {s for s in self._ended if not any(self.counts.samples[c] for c in self.space.choices(s))}
        pairs = began.dtype.kind == "i" and began.ndim == 2 and began.shape[1] == 2
        if not pairs or (began[:, 1] < 1).any() or (began[:, 0] >= self.space.num_observed).any():
            raise ValueError("began must hold states, and how often runs began there")
        self._began = Counter({self.space.state(state): times for state, times in began.tolist()})

    def _was_left(self, state: int) -> bool:
        """Whether something was counted there that an end does not do: to leave, or to hurt."""
        here = self.states[self.counts.choice] == state
        return bool((here & ((self.counts.next_state != state) | (self.counts.damage > 0))).any())
