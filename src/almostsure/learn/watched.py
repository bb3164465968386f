"""``Watched``: what an online shield has watched: counts of outcomes, and where episodes began and ended.

If the space has an extra state for ended episodes (that of an environment has), episodes end there.  Otherwise nothing
happens any more in a state in which an episode ended, so no other episode can have gone on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, ModelError, ModelMismatch
from almostsure.learn.counts import ARRAYS, Counts
from almostsure.model.naming import Logged

WATCHED = (*ARRAYS, "ended", "began")


@final
class Watched:
    """Counts of outcomes, the states in which episodes began, and those in which episodes ended."""

    def __init__(self, counts: Counts) -> None:
        self.counts, self.space = counts, counts.space
        self.began: Counter[int] = Counter()  # how many episodes began in each state
        self._ended: set[int] = set()

    def learn(self, known: Counts) -> None:
        """Start with the outcomes of other counts; nothing may have been watched yet."""
        if not isinstance(known, Counts):
            raise ArgumentError(f"known must be counts; got {type(known).__name__}")
        if not self.space.has_same_choices(known.space):
            theirs, ours = (
                f"{space.num_observed:,} states with {space.num_choices:,}" for space in (known.space, self.space)
            )
            raise ModelMismatch(
                f"the counts must have the states and actions of the shield, {ours} choices; they have {theirs}. Use "
                "one sampler for both: OnlineShield(sampler, known=count_outcomes(sampler, n))."
            )
        other, log = known.space.otherwise_named(self.space), known.space.encode
        if isinstance(log, Logged) and (
            (log.names_states and self.space.state_names is None)
            or (log.names_actions and self.space.action_names is None)
        ):
            other = "theirs have names, in alphabetical order, and the shield's have numbers"
        if other:
            raise ModelMismatch(
                f"the counts number states and actions differently: {other}. Make the shield from the counts: "
                "OnlineShield(counts, known=counts)."
            )
        self.counts.restore(known.to_arrays())
        self.counts.ended |= known.ended
        if known.caveat not in self.counts.caveat:
            self.counts.caveat = f"{self.counts.caveat} {known.caveat}".lstrip()

    def check_goes_on(self, state: int) -> None:
        """Raise ModelError if an episode ended in a state from which this one goes on."""
        if state in self._ended or state in self.counts.ended:
            raise self._contradiction(state)

    def end(self, state: int, times: int) -> bool:
        """Note that an episode ended in a state: each of its choices is counted ``times`` times as staying there.

        Returns whether that is new; raises ModelError if another episode went on from there.
        """
        if state in self._ended or state in self.counts.ended:
            return False
        if self._went_on(state):
            raise self._contradiction(state)
        self._ended.add(state)
        for choice in self.space.choices(state):
            self.counts.see(choice, state, 0, 0.0, times=times)
        return True

    def _contradiction(self, state: int) -> ModelError:
        return ModelError(
            f"one episode ended in {self.space.describe_state(state)}, and another went on from there. Give the "
            "OnlineShield the environment itself, or num_states and actions: then it has a state for the end.",
            state=state,
        )

    @property
    def starts(self) -> dict[int, float]:
        """The initial states and their probabilities: those of the space if it has any, or else as watched; {} if none.

        A space in which episodes start everywhere with the same probability is one without initial states.
        """
        number = self.space.initial_states.size
        if number == 1 or number < self.space.num_observed or np.ptp(self.space.initial_probabilities) > 0:
            return self.space.starts
        return {state: times / self.began.total() for state, times in sorted(self.began.items())}

    # ------------------------------------------------------------------ files

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays for :meth:`restore`."""
        ended = np.array(sorted(self._ended | self.counts.ended - {self.space.end}), np.int64)
        began = np.array(sorted(self.began.items()), np.int64).reshape(-1, 2)
        return {**self.counts.to_arrays(), "ended": ended, "began": began}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore from the arrays of :meth:`to_arrays`; ValueError for others."""
        self.counts.restore(arrays)
        ended, began = arrays["ended"], arrays["began"]
        if ended.dtype.kind != "i" or ended.ndim != 1:
            raise ValueError("ended must hold states")
        self._ended = {self.space.state(state) for state in ended.tolist()}
        self.counts.ended |= {s for s in self._ended if not any(self.counts.samples[c] for c in self.space.choices(s))}
        pairs = began.dtype.kind == "i" and began.ndim == 2 and began.shape[1] == 2
        if not pairs or (began[:, 1] < 1).any() or (began[:, 0] >= self.space.num_observed).any():
            raise ValueError("began must hold states, and how many episodes began there")
        self.began = Counter({self.space.state(state): times for state, times in began.tolist()})

    def _went_on(self, state: int) -> bool:
        """Whether an outcome was counted that an ended state cannot have: with another next state, or with damage."""
        here = self.space.choice_states()[self.counts.choice] == state
        return bool((here & ((self.counts.next_state != state) | (self.counts.damage > 0))).any())
