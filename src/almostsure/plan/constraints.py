"""The three constraints on the damage of a trajectory, and checks of their parameters.

==========================  =============================  ==========================================
``AlmostSure(budget)``       P(Σ D ≤ budget) = 1             no trajectory, ever, takes more damage
``Expected(limit)``         E[Σ D] ≤ limit                 trajectories take no more on average
``Chance(budget, risk)``     P(Σ D > budget) ≤ risk          few trajectories take more
==========================  =============================  ==========================================

``AlmostSure(n)`` implies ``Expected(n)``, and is the same as ``Chance(n, 0)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from almostsure.arguments import check_budget, check_real, names_right_word
from almostsure.errors import ArgumentError


@names_right_word
@final
@dataclass(frozen=True, slots=True)
class AlmostSure:
    """The total damage of every trajectory is at most ``budget``, a whole number.

    Parameters
    ----------
    budget
        Δ, a whole number, 0 or more.

    Examples
    --------
    >>> import almostsure as asure
    >>> asure.solve_policy("paper", AlmostSure(5)).value
    5.0
    """

    budget: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", check_budget(self.budget))

    def __str__(self) -> str:
        return f"never more than {self.budget} damage"


@names_right_word
@final
@dataclass(frozen=True, slots=True)
class Expected:
    """The total damage is at most ``limit`` on average; a single trajectory may take any amount.

    Parameters
    ----------
    limit
        A number, 0 or more.

    Examples
    --------
    >>> import almostsure as asure
    >>> round(asure.solve_policy("paper", Expected(5)).value, 6)
    5.0
    """

    limit: float

    def __post_init__(self) -> None:
        limit = check_real("limit", self.limit)
        if not (limit >= 0 and math.isfinite(limit)):
            raise ArgumentError(f"limit must be a finite number, 0 or more; got {limit:g}")
        object.__setattr__(self, "limit", limit)

    def __str__(self) -> str:
        return f"at most {self.limit:g} damage on average"


@names_right_word
@final
@dataclass(frozen=True, slots=True)
class Chance:
    """The total damage exceeds ``budget`` with a probability of at most ``risk``.

    Parameters
    ----------
    budget, risk
        Δ, a whole number, and the probability with which it may be exceeded, 0 … 1.

    Examples
    --------
    >>> import almostsure as asure
    >>> round(asure.solve_policy("corridor", Chance(2, 0.5)).value, 6)
    11.0
    """

    budget: int
    risk: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", check_budget(self.budget))
        object.__setattr__(self, "risk", check_risk(self.risk))

    def __str__(self) -> str:
        return f"more than {self.budget} damage with probability at most {self.risk:g}"


Constraint = AlmostSure | Expected | Chance


def limit_of(constraint: Expected | Chance) -> float:
    """The upper limit of the expected damage or of the risk."""
    return constraint.limit if isinstance(constraint, Expected) else constraint.risk


def budget_of(constraint: Expected | Chance) -> int | None:
    """The budget of a chance constraint; None for ``Expected``."""
    return constraint.budget if isinstance(constraint, Chance) else None


def check_risk(risk: object) -> float:
    """``risk`` as a float in [0, 1]."""
    value = check_real("risk", risk)
    if not 0 <= value <= 1:
        raise ArgumentError(f"risk must be a probability, 0 … 1; got {value:g}")
    return value
