"""The three constraints on the damage of a trajectory, and the ranges of the numbers that go with them.

==========================  =============================  ==========================================
``AlmostSure(total)``       P(Σ D ≤ total) = 1             no trajectory, ever, takes more damage
``Expected(limit)``         E[Σ D] ≤ limit                 the average trajectory takes no more
``Chance(total, risk)``     P(Σ D > total) ≤ risk          few trajectories take more
==========================  =============================  ==========================================

Each is contained in the next-weaker one: ``AlmostSure(n)`` implies ``Expected(n)`` and ``Chance(n, 0)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import final

from almostsure.errors import ArgumentError

MAX_TOTAL = 2**31 - 2  # one below what reads "no finite budget suffices"


@final
@dataclass(frozen=True, slots=True)
class AlmostSure:
    """The total damage of every trajectory is at most ``total``, a whole number."""

    total: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", check_total(self.total))

    def __str__(self) -> str:
        return f"never more than {self.total} damage"


@final
@dataclass(frozen=True, slots=True)
class Expected:
    """The total damage is at most ``limit`` on average; a single trajectory may take any amount."""

    limit: float

    def __post_init__(self) -> None:
        limit = check_real("limit", self.limit)
        if not (limit >= 0 and math.isfinite(limit)):
            raise ArgumentError(f"limit must be a finite number, 0 or more; got {limit:g}")
        object.__setattr__(self, "limit", limit)

    def __str__(self) -> str:
        return f"at most {self.limit:g} damage on average"


@final
@dataclass(frozen=True, slots=True)
class Chance:
    """The total damage exceeds ``total`` with a probability of at most ``risk``."""

    total: int
    risk: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", check_total(self.total))
        risk = check_real("risk", self.risk)
        if not 0 <= risk <= 1:
            raise ArgumentError(f"risk must be a probability, 0 … 1; got {risk:g}")
        object.__setattr__(self, "risk", risk)

    def __str__(self) -> str:
        return f"more than {self.total} damage with probability {self.risk:g} at most"


Constraint = AlmostSure | Expected | Chance


def check_total(total: object, name: str = "total") -> int:
    """``total`` as an int, if it is a whole number from 0; 3.0 and NumPy integers are."""
    value = check_real(name, total)
    if not (value >= 0 and value.is_integer()):
        raise ArgumentError(f"{name} must be a whole number, 0 or more; got {total!r}")
    if value > MAX_TOTAL:
        raise ArgumentError(f"{name} must be at most {MAX_TOTAL}; got {total!r}")
    return int(value)


def check_discount(discount: object) -> float:
    """``discount`` as a float in (0, 1]."""
    value = check_real("discount", discount)
    if not 0 < value <= 1:
        raise ArgumentError(f"discount must lie in (0, 1]; got {value:g}. The default, 1, does not discount.")
    return value


def check_tolerance(tolerance: object) -> float:
    """``tolerance`` as a positive float."""
    value = check_real("tolerance", tolerance)
    if not (value > 0 and math.isfinite(value)):
        raise ArgumentError(f"tolerance must be positive and finite; got {value:g}")
    return value


def check_real(name: str, value: object) -> float:
    """``value`` as a float, if it is a real number; not a bool, not NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentError(f"{name} must be a number; got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = -math.inf if str(value).startswith("-") else math.inf
    if math.isnan(number):
        raise ArgumentError(f"{name} must be a number; got NaN")
    return number
