"""How many samples it takes to have seen everything, and what the samples at hand are worth.

Only the support matters for k*: which outcomes (s', d) a choice can have, not how probable they are.  So a learner
has to *see* each of them once.  Write |S||A| for the number of choices, D for the number of different damages (2 in
the paper) and suppose that no outcome is rarer than μ.  A given outcome is missed by n samples of its choice with
probability at most (1 − μ)ⁿ, and by the union bound all of them are seen with probability at least 1 − δ if

==================  =========================================================================
``"paper"``         n ≥ ln(D |S|² |A| / δ) / μ, as a choice has at most D |S| outcomes (Lemma 4)
``"sharp"``         n ≥ ln(|S| |A| m / δ) / −ln(1 − μ) with m = min(D |S|, ⌊1/μ⌋)
==================  =========================================================================

The second one counts outcomes better: their probabilities add up to 1 and none is below μ, so there are at most
⌊1/μ⌋.  It also does without the estimate −ln(1 − μ) ≥ μ.  With different numbers of samples n(s, a), the same
argument gives δ ≤ Σ over choices of m (1 − μ)^{n(s, a)}: see :func:`confidence`.

The choice of where to sample next may depend on what was seen: imagine that the samples of each choice had been
drawn beforehand.  The bound is about the first n of each of these lists, and in which order they are read does not
change them.

Everything is rounded to the safe side: sample numbers up, probabilities of failure up, ⌊1/μ⌋ up where 1/μ is an
integer but for rounding (1/0.1 has 10 outcomes, although the double nearest to 0.1 is a little larger than it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_real, count, names_right_word, one_of, whole_array
from almostsure.errors import ArgumentError
from almostsure.model.build.validate import SUM_TOLERANCE

BOUNDS = ("sharp", "paper")
Bound = Literal["sharp", "paper"]

DIGITS = 40  # decimal digits beyond those that 1 − μ needs
TIE = Decimal("1e-30")  # closer to an integer than this is the integer
MOST_NINES = 15  # digits of a probability that anybody reads
SMALLEST = float(np.finfo(np.float64).tiny)  # below, floating-point numbers lose digits, and at last everything
MOST = 10**300  # outcomes that a float can count; where there may be more, the samples promise nothing anyway
UPWARD = 1 + 1e-12  # more than double-precision logarithms and exponentials can be wrong by


@names_right_word
def samples_needed(
    num_states: int,
    num_actions: int,
    *,
    mu: float,
    delta: float,
    bound: Bound = "sharp",
    num_damages: int = 2,
) -> int:
    """How many samples of every choice suffice to see all outcomes with probability 1 − δ.

    Parameters
    ----------
    num_states, num_actions
        The size of the model, |S| and |A|.
    mu
        No outcome is rarer than this, in (0, 1).
    delta
        The probability of failure that is acceptable, in (0, 1).
    bound
        ``"sharp"``, or ``"paper"`` for that of Lemma 4.
    num_damages
        How many different damages an outcome may have: 2 if it hurts by 1 or not at all.

    Examples
    --------
    >>> samples_needed(100, 4, mu=0.01, delta=0.001), samples_needed(100, 4, mu=0.01, delta=0.001, bound="paper")
    (1742, 1820)
    """
    union = _UnionBound.checked(num_states, num_actions, num_damages, bound)
    return union.samples(unit("mu", mu), unit("delta", delta))


@names_right_word
def delta_bought(
    samples: int,
    num_states: int,
    num_actions: int,
    *,
    mu: float,
    bound: Bound = "sharp",
    num_damages: int = 2,
) -> float:
    """The probability of failure that ``samples`` of every choice leave: the inverse of :func:`samples_needed`.

    1.0 means that they promise nothing.

    Parameters
    ----------
    samples
        Of every choice.
    num_states, num_actions, mu, bound, num_damages
        As for :func:`samples_needed`.

    Examples
    --------
    >>> round(delta_bought(1742, 100, 4, mu=0.01), 7)
    0.0009967
    """
    union = _UnionBound.checked(num_states, num_actions, num_damages, bound)
    return union.failure(count("samples", samples, least=0), unit("mu", mu))


@names_right_word
def mu_bought(
    samples: int,
    num_states: int,
    num_actions: int,
    *,
    delta: float,
    bound: Bound = "sharp",
    num_damages: int = 2,
) -> float:
    """How rare an outcome may be and still have been seen: the other inverse of :func:`samples_needed`.

    With ``samples`` of every choice, all outcomes that have at least this probability were seen, with probability
    1 − δ.  1.0 means that the samples promise nothing about anything random.

    Parameters
    ----------
    samples
        Of every choice.
    num_states, num_actions, delta, bound, num_damages
        As for :func:`samples_needed`.

    Examples
    --------
    >>> round(mu_bought(1742, 100, 4, delta=0.001), 5)
    0.01
    """
    union = _UnionBound.checked(num_states, num_actions, num_damages, bound)
    number, delta = count("samples", samples), unit("delta", delta)
    low, high = 0.0, 1.0  # failure is likelier than δ at low, and not at high
    while (middle := (low + high) / 2) not in (low, high):
        if union.failure(number, middle) <= delta:
            high = middle
        else:
            low = middle
    return min(high * UPWARD, 1.0)


# ---------------------------------------------------------------------- counts at hand


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """What samples say about a learned budget; ``print`` it for the sentence.

    Examples
    --------
    >>> print(confidence([40, 50, 60], 0.2, num_states=3))
    If no outcome is rarer than 20 %, this budget equals k* with probability at least 0.99925.
    """

    mu: float  # if no outcome is rarer than this, …
    delta: float  # … the budget is wrong with at most this probability
    subject: str = "this budget equals k*"
    caveat: str = ""

    @property
    def probability(self) -> float:
        """The probability with which the budget is right, at least: 1 − δ."""
        return 1 - self.delta

    @property
    def statement(self) -> str:
        """The sentence that a reviewer may be given."""
        rare = f"If no outcome is rarer than {percent(self.mu)}"
        if self.delta >= 1:
            return f"{rare}, these samples still promise nothing; there are too few of them.{self._tail()}"
        return f"{rare}, {self.subject} with probability at least {at_least(self.delta)}.{self._tail()}"

    def _tail(self) -> str:
        return f" {self.caveat}" if self.caveat else ""

    def __str__(self) -> str:
        return self.statement


@names_right_word
def confidence(counts: npt.ArrayLike, mu: float, *, num_states: int | None = None, num_damages: int = 2) -> Confidence:
    """What samples at hand say: the probability that every outcome has been seen.

    Parameters
    ----------
    counts
        How often each choice was sampled, in any shape, *every* choice once: also those that were never sampled.
    mu
        No outcome is rarer than this, in (0, 1).
    num_states
        Of the model; it helps only if it has fewer than 1/(2μ).
    num_damages
        How many different damages an outcome may have.

    Examples
    --------
    >>> print(confidence([[1500, 1200], [2000, 1100]], 0.01))
    If no outcome is rarer than 1 %, this budget equals k* with probability at least 0.9978.
    """
    number = whole_array("counts", counts).ravel()
    if number.size == 0 or number.min() < 0:
        raise ArgumentError("counts must be whole numbers, 0 or more, at least one of them")
    mu = unit("mu", mu)
    outcomes = most_outcomes(mu)
    if num_states is not None:
        outcomes = min(outcomes, count("num_states", num_states) * count("num_damages", num_damages))
    missed = math.fsum(np.maximum(np.exp(number * math.log1p(-mu)), SMALLEST).tolist())
    return Confidence(mu=mu, delta=min(min(outcomes, MOST) * missed * UPWARD, 1.0))


def most_outcomes(mu: float) -> int:
    """⌊1/μ⌋: how many outcomes a choice can have if none is rarer than μ, within the tolerance of a model's sums."""
    return math.floor((1 + Fraction(SUM_TOLERANCE)) / Fraction(mu))


# ---------------------------------------------------------------------- pieces


@dataclass(frozen=True, slots=True)
class _UnionBound:
    """Either bound, for a model of some size."""

    choices: int
    pairs: int  # (next state, damage)
    paper: bool

    @classmethod
    def checked(cls, num_states: object, num_actions: object, num_damages: object, bound: object) -> _UnionBound:
        one_of("bound", bound, BOUNDS)
        states = count("num_states", num_states)
        pairs = states * count("num_damages", num_damages)
        return cls(states * count("num_actions", num_actions), pairs, bound == "paper")

    def outcomes(self, mu: float) -> int:
        """How many outcomes there may be, of all choices."""
        return self.choices * (self.pairs if self.paper else min(self.pairs, most_outcomes(mu)))

    def failure(self, samples: int, mu: float) -> float:
        """The probability that one of them is missed, rounded up."""
        power = math.log(self.outcomes(mu)) - samples * (mu if self.paper else -math.log1p(-mu))
        return min(max(math.exp(power), SMALLEST) * UPWARD, 1.0) if power < 0 else 1.0

    def samples(self, mu: float, delta: float) -> int:
        """⌈ln(outcomes / δ) / rate⌉, computed with so many digits that the rounding is right."""
        number = self.outcomes(mu)
        with localcontext() as context:
            context.prec = DIGITS + math.ceil(-math.log10(mu)) + len(str(number))
            rate = Decimal(mu) if self.paper else -(1 - Decimal(mu)).ln()
            quotient = (Decimal(number) / Decimal(delta)).ln() / rate
            nearest = quotient.to_integral_value()
            if abs(quotient - nearest) <= TIE * nearest:
                return int(nearest)
            return int(quotient.to_integral_value(rounding=ROUND_CEILING))


def unit(name: str, value: object) -> float:
    """``value`` as a float strictly between 0 and 1."""
    number = check_real(name, value)
    if not 0 < number < 1:
        raise ArgumentError(f"{name} must lie strictly between 0 and 1; got {number:g}")
    return number


# ---------------------------------------------------------------------- for people


def percent(mu: float) -> str:
    """A probability as a percentage, rounded up: the assumption must not read weaker than it is."""
    value = Decimal(repr(float(mu))) * 100
    if len(value.as_tuple().digits) > 4:
        with localcontext() as context:
            context.prec, context.rounding = 4, ROUND_CEILING
            value = +value
    return f"{value.normalize():f} %"


def at_least(delta: float) -> str:
    """1 − δ, rounded down to one digit more than δ needs."""
    small = Decimal(repr(float(delta)))
    with localcontext() as context:
        context.rounding = ROUND_FLOOR  # also where 1 − δ has more digits than are kept
        rest = 1 - small
        digits = min(max(2, 1 - small.adjusted(), 1 - rest.adjusted()), MOST_NINES)
        value = rest.quantize(Decimal(1).scaleb(-digits))
    return f"{value.normalize():f}" if value else "0"
