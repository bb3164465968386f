"""What a model brings along from the file of another program, beside damage and reward.

None of it changes minimal budgets or policies, but for one thing: where the probabilities of the file are intervals or
have parameters, only which outcomes are possible is known, and policies are refused.
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
NO_STATEMENT = "Learned from samples; how surely they show every outcome is not recorded."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """Reward structures, variables, the unit of damage, and whether probabilities are known."""

    rewards: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)  # each [num_choices]
    variables: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)  # each [num_states]
    scale: Fraction = Fraction(1)  # of the file's damage, how much is one unit of ours
    uncertain: str | None = None  # why only the possible outcomes are known, and not how probable they are
    counted: bool = False  # whether probabilities are frequencies that were counted
    statement: str = ""  # of a learned or played model: how it was found, what was assumed, and what that promises
    parts: Parts | None = None  # of a product: what its states are made of; not written to files

    def in_its_unit(self, damage: int) -> str:
        """A damage in the unit of the file, as people write it: a decimal number, or a fraction."""
        exact = damage * self.scale
        short = f"{float(exact):.12g}"
        return short if Fraction(short) == exact else str(exact)

    @property
    def learned(self) -> str:
        """What a model rests on that was learned or found by playing, to be said beside whatever is proved of it.

        Nothing for other models.
        """
        return self.statement or (NO_STATEMENT if self.counted else "")

    @property
    def how_found(self) -> str:
        """In three words, how a model with such a statement came about; nothing for other models."""
        return "learned from samples" if self.counted else "found by playing" if self.statement else ""

    def of_changed(self, **changes: Any) -> Origin:
        """That of a model which was made from this one: what samples promise is said of this one alone."""
        return replace(self, statement="" if self.counted else self.statement, **changes)

    @property
    def is_bound(self) -> bool:
        """Whether an outcome may be impossible after all, so that minimal budgets are upper bounds."""
        return self.uncertain == FROM_ZERO

    def at_most(self, needed: object) -> str:
        """A minimal budget as messages show it: "at most 3" where it is an upper bound, "3" elsewhere."""
        return f"at most {needed}" if self.is_bound else str(needed)

    @property
    def if_positive(self) -> str:
        """What follows a claim that more damage can be forced, where an outcome may be impossible; else nothing."""
        return IF_POSITIVE if self.is_bound else ""
