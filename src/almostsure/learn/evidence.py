"""When a choice has been sampled enough, if what is sampled next may depend on all samples so far.

Suppose that no outcome is rarer than μ, so a choice has at most M = ⌊1/μ⌋ of them.  Say that a choice is at *level*
j if j different outcomes of it were seen, and *incomplete* there if it has more than j.  Each sample of an
incomplete choice takes it to the next level with probability at least μ, whatever happened before.  A choice is
*known* by one of two rules; the first errs with probability at most δ₁ in all, the second with δ₂, and δ₁ + δ₂ = δ.

**By count.**  Known at level j after N_j samples in all, the least number with (j + 1)(1 − μ)^{N_j} ≤ x, where
x = ε / (1 + ε) and ε = δ₁ / C for C choices.

*Proof.*  A choice with m outcomes that is known by count at level j < m has u = m − j unseen ones.  They were unseen
after its first N_j samples, too.  There are at most binom(m, u) ways to choose them, each with
probability at most (1 − uμ)^{N_j} ≤ (1 − μ)^{u N_j} ≤ (x / (j + 1))^u.  As binom(m, u) is the product of 1 + j/i
over i = 1 … u, it is at most (j + 1)^u.  So the probability is at most x^u, and summed over u = 1, 2, … at most x /
(1 − x) = ε.  The samples of each choice may be regarded as drawn beforehand, so the order in which choices are sampled
does not matter.  The union bound over the C choices gives δ₁.  ∎

This is like the union bound of :mod:`almostsure.learn.bounds`, but with j + 1 instead of M outcomes.

**By silence.**  Known at level j after ℓ samples at that level, none of which was new, if (1 − μ)^ℓ ≤ δ₂ a_j
w_{e+1}.  Here e is the number of choices that *left* level j, plus the number of those that are at level j and not
known by any rule; the shares a_j of the levels 1 … M − 1 sum to 1; and the weights w_1 > w_2 > … sum to at most
1.

*Proof.*  Number the incomplete choices at level j in the order in which they reach it.  The k-th has the *stake*
(j, k), worth a_j w_k until it reaches the level.  Whenever the choice is sampled at level j, the worth becomes 0 if the
choice leaves the level, and is divided by 1 − μ if it stays.  It leaves with probability at least μ, so the expected
worth never rises, and the worth W of all stakes together is a supermartingale that starts at 1 or less.
By Ville's inequality, W ever reaches 1/δ₂ with probability at most δ₂; so the rule may be checked at any time, and
samples may be chosen adaptively.  Suppose now that some choice is known by silence at level j although it is
incomplete, and take the one that reached the level first.  Each of the incomplete choices that reached it earlier has
left, or is still there and not known by silence.  In the latter case it is not known, or wrongly known by count, which
is already among the errors of the first rule.  So at most e reached it earlier, its number k is at most e + 1, and its
stake is worth a_j w_k (1 − μ)^{−ℓ} ≥ 1/δ₂.  ∎

The second rule needs no union bound over the choices.  It needs fewer samples if no choice leaves the level: in most
models choices have the same few numbers of outcomes, and a choice that showed as many as the others is complete.  Then
it takes about ln(1/δ)/μ samples instead of ln(C/δ)/μ.

At level M no outcome can be unseen, so every choice is known.

**What refutes μ.**  The rules assume that no outcome is rarer than μ, and the counts may contradict this.  An outcome
with probability at least μ is seen at most k times in n samples with probability at most P(Bin(n, μ) ≤ k), the exact
lower tail (the test that Clopper and Pearson's interval inverts).  If that is below ``REFUTED`` divided by the number
of outcomes seen, μ is refused.  If the number of samples depends on what was seen, testing after each of 10⁶ samples
costs at most a factor of 10⁶, which ``REFUTED`` allows for.

That test is about one outcome.  Many choices whose outcomes are each a little too rare refute μ together.  For q < μ,
the *likelihood ratio* of an outcome that was seen k times in n samples of its choice is L = (q/μ)^k ((1 − q)/(1 −
μ))^(n − k).  Let E be 1 − w plus w times the mean of L over the outcomes that a choice has shown (1 before it was
sampled), and W the mean over a few q and w of the product of E over all choices.  If W is 1/``TOGETHER`` or more, μ is
refused.  A right μ is refused with probability at most ``TOGETHER``.

*Proof.*  Another sample of the choice multiplies the L of an outcome with probability p ≥ μ by p q/μ + (1 − p)(1 −
q)/(1 − μ) on average, whatever happened before, which is 1 if p = μ and falls with p.  So L is a supermartingale
that starts at 1, and so is its mean over *all* outcomes of a choice.  Those that were not seen have k = 0, hence the
largest L, so the mean over those that were seen is no larger.  So every E is at most a supermartingale that starts at
1.  As a sample changes only one of them, so is their product, whichever choice is sampled next, and so is W.  By
Ville's inequality it ever reaches 1/α with probability at most α: sampling may stop depending on what was seen, and the
order of the samples does not matter.  ∎

A choice that showed more than ⌊1/μ⌋ outcomes refutes μ for certain.  ``learn_minimal_budget`` therefore draws a few
more samples of choices that showed exactly that many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError
from almostsure.learn.bounds import UPWARD, most_outcomes, percent
from almostsure.model.mdp import Bools, Floats, Ints

if TYPE_CHECKING:
    from almostsure.learn.counts import Counts

REFUTED = 1e-9  # the probability that one test of single outcomes refuses a right μ
TOGETHER = 1e-4  # the probability that the test of all choices together ever refuses a right μ
RARER = 0.5, 0.2, 0.05  # q, in units of μ
STAKES = 0.5, 0.1, 0.02  # w
LARGEST_LOG = 700.0  # logarithms of likelihood ratios are capped here, so that exp does not overflow
BY_COUNT = 0.25  # the share δ₁/δ of the first rule if both are used
COMMON_LEVELS = 3  # in most models, most choices have at most this many outcomes
ZETA_3 = 1.2020569031595943  # Σ 1/k³, rounded up


@final
@dataclass(frozen=True)
class Evidence:
    """The two rules, for given μ, δ and numbers of choices and of pairs (next state, damage)."""

    mu: float
    delta: float
    num_choices: int
    num_pairs: int
    count_share: float = BY_COUNT  # of δ, for the first rule

    @cached_property
    def top(self) -> int:
        """M: the level at which no outcome can be unseen."""
        return min(most_outcomes(self.mu), self.num_pairs)

    def by_count(self, levels: Ints) -> npt.NDArray[np.int64]:
        """The number of samples that makes a choice known by count, for each of the given levels."""
        error = self.count_share * self.delta / self.num_choices
        power = np.log(levels + 1.0) + math.log1p(error) - math.log(error)
        return np.where(levels >= self.top, 1, self._samples(power))

    def by_silence(self, level: int, before: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The number of samples without a new outcome that makes a choice known by silence at a level.

        At most ``before`` incomplete choices reached the level earlier.
        """
        earlier = np.asarray(before, np.float64)
        if level >= self.top:
            return np.zeros(earlier.shape, np.int64)
        error = (1 - self.count_share) * self.delta
        power = 3 * np.log(earlier + 1) + math.log(ZETA_3) - math.log(error) - self._log_share(level)
        return self._samples(power)

    def _samples(self, power: Floats) -> npt.NDArray[np.int64]:
        """The least ℓ with (1 − μ)^ℓ ≤ exp(−power), rounded up."""
        samples = np.ceil(np.minimum(power / -math.log1p(-self.mu) * UPWARD, 2.0**62))
        return samples.astype(np.int64)

    def _log_share(self, level: int) -> float:
        """The logarithm of a_j: equal for the common levels, and a quarter of the one below for each further level.

        The share itself would be 0 in floating point for choices with many hundreds of outcomes.
        """
        others = self.top - 1 - COMMON_LEVELS
        budget = min(self.top - 1, COMMON_LEVELS) + (1 - 0.25**others) / 3 if others > 0 else self.top - 1
        return math.log(0.25) * max(0, level - COMMON_LEVELS) - math.log(budget)

    # ------------------------------------------------------------------ the state of a run

    def known(self, levels: Ints, samples: Ints, silent: Ints) -> Bools:
        """Which choices are known, [num_choices].

        Parameters
        ----------
        levels, samples, silent
            For each choice the number of outcomes seen, of samples, and of samples since the last new outcome.
        """
        result = self.known_by_count(levels, samples)
        for level in np.unique(levels[(samples > 0) & ~result]).tolist():
            result |= self._known_by_silence(level, levels, silent, result)
        return result

    def known_by_count(self, levels: Ints, samples: Ints) -> Bools:
        """Which choices are known by the first rule, which does not depend on the order of the samples."""
        _check_levels(levels, self.mu)
        return np.asarray((samples > 0) & (samples >= self.by_count(levels)))

    def _known_by_silence(self, level: int, levels: Ints, silent: Ints, by_count: Bools) -> Bools:
        """Which choices at a level are known by silence; each of them lowers e for the others, so there may be many."""
        here = (levels == level) & ~by_count
        left = int(np.count_nonzero(levels > level))
        descending = np.sort(silent[here])[::-1]
        unknown = np.arange(descending.size)[::-1]  # the choices that remain if those up to here are known
        possible = np.flatnonzero(descending >= self.by_silence(level, left + unknown))
        if not possible.size:
            return np.zeros_like(here)
        return np.asarray(here & (silent >= descending[possible[-1]]))


def check_mu(counts: Counts, mu: float) -> None:
    """Refuse a μ that the counts refute; see the module's docstring."""
    from scipy.special import bdtr

    times, samples = counts.times, counts.samples[counts.choice]
    if not times.size:
        return
    chance = bdtr(times, samples, mu)
    at = int(np.argmin(chance))
    if chance[at] * times.size < REFUTED:
        _refuse(counts, mu, at, f", which has a probability of at most {max(chance[at], 1e-300):.1g} if mu is right")
    _check_levels(counts.outcomes_seen(), mu)
    against, suspicious = evidence_against(counts, mu)
    if against >= -math.log(TOGETHER):
        shown = (
            f"; {suspicious:,} choices show outcomes that are seen too rarely, and together that has a probability of "
            f"at most {math.exp(-min(against, LARGEST_LOG)):.1g} if mu is right"
        )
        _refuse(counts, mu, at, shown)


def evidence_against(counts: Counts, mu: float) -> tuple[float, int]:
    """The logarithm of W (see the module's docstring), and the number of choices with outcomes that are too rare."""
    sampled = np.flatnonzero(counts.outcomes_seen())
    choice, times, number = np.searchsorted(sampled, counts.choice), counts.times, counts.outcomes_seen()[sampled]
    missed = counts.samples[counts.choice] - times
    bets, suspicious = [], 0
    for share in RARER:
        log_ratio = times * math.log(share) + missed * (math.log1p(-share * mu) - math.log1p(-mu))
        mean = np.bincount(choice, np.exp(np.minimum(log_ratio, LARGEST_LOG))) / number
        suspicious = max(suspicious, int(np.count_nonzero(mean > 1)))
        bets += [float(np.log1p(stake * (mean - 1)).sum()) for stake in STAKES]
    return float(np.logaddexp.reduce(bets)) - math.log(len(bets)), suspicious


def _refuse(counts: Counts, mu: float, at: int, shown: str) -> NoReturn:
    """Raise the error that names the outcome at ``at``, which is the most suspicious one."""
    choice, times = int(counts.choice[at]), int(counts.times[at])
    samples = int(counts.samples[choice])
    raise ArgumentError(
        f"mu must be at most the probability of the rarest outcome; got {mu:g}, but "
        f"{counts.space.describe_choice(choice)} led to {counts.space.describe_state(int(counts.next_state[at]))} with "
        f"damage {int(counts.damage[at])} in {times:,} of {samples:,} samples ({percent(times / samples)}){shown}. "
        "Choose a smaller mu."
    )


def _check_levels(levels: Ints, mu: float) -> None:
    """Refuse a μ that does not permit as many outcomes as some choice showed."""
    most, seen = most_outcomes(mu), int(levels.max(initial=0))
    if seen > most:
        raise ArgumentError(
            f"mu must be at most the probability of the rarest outcome; got {mu:g}, but one choice showed {seen} "
            f"different outcomes, of which no more than {most} can be that probable. Choose a smaller one."
        )
