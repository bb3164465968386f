"""How many samples suffice to see all outcomes, and how confident given samples make us.

Only the support matters for k*: which outcomes (s', d) a choice can have, not how probable they are.  So a learner
has to *see* each of them once.  Let |S||A| be the number of choices and D the number of different damages (2 in the
paper), and suppose that no outcome is rarer than μ.  A given outcome is missed by n samples of its choice with
probability at most (1 − μ)ⁿ, and by the union bound all of them are seen with probability at least 1 − δ if

==================  =========================================================================
``"paper"``         n ≥ ln(D |S|² |A| / δ) / μ, as a choice has at most D |S| outcomes (Lemma 4)
``"sharp"``         n ≥ ln(|S| |A| m / δ) / −ln(1 − μ) with m = min(D |S|, ⌊1/μ⌋)
==================  =========================================================================

The second has a smaller number of outcomes: their probabilities sum to 1 and none is below μ, so a choice has at most
⌊1/μ⌋.  It also avoids the estimate −ln(1 − μ) ≥ μ.  With different numbers of samples n(s, a), the same argument gives
δ ≤ Σ over choices of m (1 − μ)^{n(s, a)}: see :func:`confidence`.

Which choice is sampled next may depend on earlier samples: think of the samples of each choice as a list that was
drawn beforehand.  The bound is about the first n entries of each list, whatever the order in which they are read.

Everything is rounded to the safe side: sample numbers up, probabilities of failure up, ⌊1/μ⌋ up where 1/μ is an
integer except for rounding (μ = 0.1 permits 10 outcomes, although the double nearest to 0.1 is a little larger).
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

DIGITS = 40  # decimal digits of the computation, beyond those that 1 − μ needs
TIE = Decimal("1e-30")  # a quotient this close to an integer, relatively, counts as the integer
MOST_NINES = 15  # the most decimal places of a probability that are printed
SMALLEST = float(np.finfo(np.float64).tiny)  # smaller floating-point numbers lose digits, or underflow
MOST = 10**300  # a number of outcomes that fits into a float; if there may be more, delta is 1 anyway
UPWARD = 1 + 1e-12  # exceeds the relative error of logarithms and exponentials in double precision


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
    """The number of samples of every choice that suffices to see all outcomes with probability 1 − δ.

    Parameters
    ----------
    num_states, num_actions
        The size of the model, |S| and |A|.
    mu
        No outcome is rarer than this, in (0, 1).
    delta
        The acceptable probability of failure, in (0, 1).
    bound
        ``"sharp"``, or ``"paper"`` for that of Lemma 4.
    num_damages
        The number of different damages that an outcome may have: 2 if damage is 0 or 1.

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
    """The probability of failure after ``samples`` samples of every choice: the inverse of :func:`samples_needed`.

    1.0 means that there is no guarantee.

    Parameters
    ----------
    samples
        The number of samples of every choice.
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
    """The least μ for which ``samples`` samples of every choice suffice: the other inverse of :func:`samples_needed`.

    If every outcome has at least this probability, all of them were seen with probability 1 − δ.  1.0 means that there
    is no guarantee for random transitions.

    Parameters
    ----------
    samples
        The number of samples of every choice.
    num_states, num_actions, delta, bound, num_damages
        As for :func:`samples_needed`.

    Examples
    --------
    >>> round(mu_bought(1742, 100, 4, delta=0.001), 5)
    0.01
    """
    union = _UnionBound.checked(num_states, num_actions, num_damages, bound)
    number, delta = count("samples", samples), unit("delta", delta)
    low, high = 0.0, 1.0  # the probability of failure exceeds δ at low, but not at high
    while (middle := (low + high) / 2) not in (low, high):
        if union.failure(number, middle) <= delta:
            high = middle
        else:
            low = middle
    return min(high * UPWARD, 1.0)


# ---------------------------------------------------------------------- given counts


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """The confidence in what was learned from samples; ``print`` it for the sentence.

    Examples
    --------
    >>> print(confidence([40, 50, 60], 0.2, num_states=3))
    If no outcome is rarer than 20 %, this budget equals k* with probability at least 0.99925.
    """

    mu: float  # if no outcome is rarer than this, …
    delta: float  # … the subject is wrong with at most this probability
    subject: str = "this budget equals k*"
    caveat: str = ""

    @property
    def probability(self) -> float:
        """A lower bound on the probability that the subject is right: 1 − δ."""
        return 1 - self.delta

    @property
    def statement(self) -> str:
        """The confidence as a sentence, for reports."""
        claim = f"{self.subject} with probability at least {at_least(self.delta)}"
        if self.delta >= 1:
            claim = "these samples still promise nothing; there are too few of them"
        return f"If no outcome is rarer than {percent(self.mu)}, {claim}. {self.caveat}".rstrip()

    def __str__(self) -> str:
        return self.statement


@names_right_word
def confidence(counts: npt.ArrayLike, mu: float, *, num_states: int | None = None, num_damages: int = 2) -> Confidence:
    """The probability that every outcome has been seen, for given numbers of samples.

    Parameters
    ----------
    counts
        The number of samples of *every* choice, in an array of any shape: 0 for those that were never sampled.
    mu
        No outcome is rarer than this, in (0, 1).
    num_states
        The number of states; it matters only if it is below 1/(2μ).
    num_damages
        The number of different damages that an outcome may have.

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
    """⌊1/μ⌋: the most outcomes of a choice if none is rarer than μ, within the tolerance of a model's sums."""
    return math.floor((1 + Fraction(SUM_TOLERANCE)) / Fraction(mu))


# ---------------------------------------------------------------------- the union bound


@dataclass(frozen=True, slots=True)
class _UnionBound:
    """Either bound, for a model of a given size."""

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
        """The most outcomes that all choices together may have."""
        return self.choices * (self.pairs if self.paper else min(self.pairs, most_outcomes(mu)))

    def failure(self, samples: int, mu: float) -> float:
        """The bound on the probability that any outcome is missed, rounded up."""
        power = math.log(self.outcomes(mu)) - samples * (mu if self.paper else -math.log1p(-mu))
        return min(max(math.exp(power), SMALLEST) * UPWARD, 1.0) if power < 0 else 1.0

    def samples(self, mu: float, delta: float) -> int:
        """⌈ln(outcomes / δ) / rate⌉, computed with enough digits for the right rounding."""
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
        remedy = ". If nothing is random, pass 0.999" if name == "mu" and number == 1 else ""
        raise ArgumentError(f"{name} must lie strictly between 0 and 1; got {number:g}{remedy}")
    return number


# ---------------------------------------------------------------------- text


def percent(mu: float) -> str:
    """μ as a percentage, rounded up: the stated assumption must not be weaker than the one that was made."""
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
        context.rounding = ROUND_FLOOR  # also for the subtraction, if 1 − δ has more digits than the context
        rest = 1 - small
        digits = min(max(2, 1 - small.adjusted(), 1 - rest.adjusted()), MOST_NINES)
        value = rest.quantize(Decimal(1).scaleb(-digits))
    return f"{value.normalize():f}" if value else "0"
