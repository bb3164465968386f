"""Where a model comes from, and what the file of another program says besides damage and reward.

None of it changes minimal budgets or policies, with one exception: if the probabilities of the file are intervals or
have parameters, only the possible outcomes are known, and policies are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from almostsure.model.products import Parts

INTERVALS = "its probabilities are intervals"
FROM_ZERO = "its probabilities are intervals, some of which begin at 0"
PARAMETERS = "its probabilities have parameters"
IF_POSITIVE = " if all intervals are positive"
NO_STATEMENT = "Learned from samples; the confidence that they show every outcome is not recorded."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """Reward structures, variables, the unit of damage, whether probabilities are known, how the model was found."""

    rewards: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)  # each [num_choices]
    variables: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)  # each [num_states]
    scale: Fraction = Fraction(1)  # one unit of the model's damage, in the unit of the file
    uncertain: str | None = None  # why only the possible outcomes are known, not their probabilities
    counted: bool = False  # whether probabilities are empirical frequencies
    statement: str = ""  # how the model was learned or explored, under which assumptions and with which guarantee
    parts: Parts | None = None  # the components of a product; not written to files

    def in_its_unit(self, damage: int) -> str:
        """A damage in the unit of the file, as a decimal number or, if that is not exact, a fraction."""
        exact = damage * self.scale
        short = f"{float(exact):.12g}"
        return short if Fraction(short) == exact else str(exact)

    @property
    def learned(self) -> str:
        """The statement of a learned or explored model, shown with every proved result; empty for other models."""
        return self.statement or (NO_STATEMENT if self.counted else "")

    @property
    def how_found(self) -> str:
        """How a model with such a statement was found, in three words; empty for other models."""
        return "learned from samples" if self.counted else "found by playing" if self.statement else ""

    def derived(self, **changes: Any) -> Origin:
        """The origin of a model derived from this one, to which a statement about samples does not apply."""
        return replace(self, statement="" if self.counted else self.statement, **changes)

    @property
    def is_bound(self) -> bool:
        """Whether some outcomes may be impossible, so that minimal budgets are only upper bounds."""
        return self.uncertain == FROM_ZERO

    def at_most(self, needed: object) -> str:
        """A minimal budget as messages show it: "at most 3" if it is an upper bound, otherwise "3"."""
        return f"at most {needed}" if self.is_bound else str(needed)

    @property
    def if_positive(self) -> str:
        """The condition after a claim that more damage can be forced, if outcomes may be impossible; else empty."""
        return IF_POSITIVE if self.is_bound else ""
