"""What an engine hands over, before it becomes a Budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import Ints

INFINITE = 2**31 - 1  #: no finite budget suffices (or, with a cap, none up to the cap)
NO_CAP = INFINITE - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Minimal budgets and their certificate."""

    of_state: npt.NDArray[np.int32]  # [num_states]
    of_choice: npt.NDArray[np.int32]  # [num_choices]
    rank: Ints  # [num_states] steps at which states were found bad; they make the answer provable
    cap: int

    def capped(self) -> Answer:
        """Everything above the cap reads INFINITE.  Changes the arrays in place."""
        if self.cap < NO_CAP:
            for array in (self.of_state, self.of_choice):
                array[array > self.cap] = INFINITE
        return self


class Halted(Exception):
    """An engine was interrupted; ``answer`` is exact up to its cap, None if nothing is."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__()
        self.answer = answer
