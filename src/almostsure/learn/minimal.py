"""``learn_minimal_budget``: the minimal budgets of a model that can only be sampled, from few samples.

Let k be the minimal budgets of the *empirical* model so far, in which a choice that was never sampled does nothing.

- *Refused choices are unsafe.*  Outcomes that were seen are possible, so k ≤ k*.  A choice whose k is above Δ is unsafe
  for certain, after however few samples.
- *Allowed choices are complete.*  Only choices that are *known* (to be complete: :mod:`almostsure.learn.evidence`) are
  ever allowed.

So, to learn the shield from the start with a budget of Δ, the learner works in rounds: it finds the choices that the
shield of k allows on runs from the start, samples those that are not known yet, and stops when there are none.  Nothing
else is sampled: neither refused choices nor states that these runs do not reach.

**The result.**  Let A be the known choices, and k' the budgets of the model in which every other choice is refused (∞).
With probability at least 1 − δ, if no outcome is rarer than μ,

1. k' ≥ k* everywhere: a shield made of k' never overspends, from any state with any remaining budget;
2. from the start with Δ or less, the shield of k' allows exactly what the shield of k* allows.

*Proof.*  With that probability all of A is complete, for any way of choosing what to sample (this is proved in
:mod:`almostsure.learn.evidence`).  Then (1): k' solves T k' ≤ k', since T is exact on A and k' = ∞ elsewhere; and k* is
the least such function.  (2): take any pair (s, K) that runs under the shield of k reach from the start with Δ.  What k
refuses there, k* refuses too, as k ≤ k*.  What k allows there is in A.  A run that continues from an allowed choice
with the cheapest choices by k stays among the reached pairs, hence in A, and takes at most k(s, a) damage; so k'(s, a)
≤ k(s, a) ≤ k*(s, a) ≤ k'(s, a) there.  So all three shields allow the same choices, and by induction reach the same
pairs.  With less than Δ, fewer choices are allowed at fewer pairs: (s, K) is reached only if (s, K + more) is.  ∎

Without a budget, all choices are sampled until they are known, and k' = k* with probability at least 1 − δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, names_right_word
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.crew import Workers
from almostsure.errors import LimitReached, ModelError, uninterrupted
from almostsure.learn.bounds import Confidence, most_outcomes, samples_needed, unit
from almostsure.learn.counts import Counts, Unknown
from almostsure.learn.evidence import Evidence, check_mu
from almostsure.learn.sampling.checkpoint import Checkpoint
from almostsure.learn.sampling.count import Counter, draw_chunks
from almostsure.learn.sampling.env_sampler import EnvSampler
from almostsure.learn.sampling.samplers import CheckedSampler, as_sampler
from almostsure.model.arrays import Bools, Ints
from almostsure.model.mdp import MDP
from almostsure.policy.explore import all_within, explore
from almostsure.progress import Bar
from almostsure.shield.checks import require_start
from almostsure.shield.shield import Shield
from almostsure.wording import counted

FIRST_LOOK = 0.5  # the samples of a choice, in units of 1/μ, before the rules are checked
STRIDE = 0.25  # the most samples of a choice, in units of 1/μ, between two checks
DOUBT = 1.0  # the samples without a new outcome, in units of 1/μ, that choices with ⌊1/μ⌋ outcomes must have
MOST_SAMPLES = 10**14  # the most samples of a run: days, even for a model on many cores
MOST_AT_ONCE = 1 << 20  # the most samples of a simulator per round, so that their results are used soon
WALK = 1_000  # random steps from resets that are compared with what was learned
OPTIMISM = "What it refuses is unsafe for certain; what it allows may be."


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedBudget:
    """A minimal budget learned from samples, and the confidence in it.  ``print`` it.

    Examples
    --------
    >>> learned = learn_minimal_budget("corridor", mu=1 / 3, delta=0.05, seed=0)
    >>> learned.minimal.smallest_budget(), bool(learned.known.all())
    (0, True)
    """

    minimal: MinimalBudget  # of the empirical model
    counts: Counts = field(repr=False)  # all samples
    known: Bools = field(repr=False)  # [num_choices] the choices whose outcomes were all seen, with probability 1 − δ
    mu: float
    delta: float
    budget: int | None
    uniform_samples: dict[str, int]  # the samples that sampling all choices equally often would have taken, by bound
    unknown: Unknown = "refuse"  # how choices that are not known are treated

    @property
    def mdp(self) -> MDP:
        """The empirical model, to which the budget belongs; choices that are refused lead to its state ``unknown``."""
        return self.minimal.mdp

    @property
    def shield(self) -> Shield:
        """The shield of the budget; it refuses choices that are not known, unless ``unknown`` is "allow"."""
        return Shield(self.minimal)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self.counts.total

    @property
    def confidence(self) -> Confidence:
        """The probability that the budget is right."""
        return _confidence(self.counts, self.known, Goal(self.mu, self.delta, self.budget), self.unknown)

    @property
    def statement(self) -> str:
        """The confidence as a sentence."""
        return self.confidence.statement

    def __repr__(self) -> str:
        known = f"{int(np.count_nonzero(self.known)):,} of {self.known.size:,} choices are known"
        start = self.minimal.smallest_budget()
        needs = f"the start needs {start}" if start < INFINITE else "what the start needs is unknown"
        return f"<LearnedBudget: {needs}; {known}, from {counted(self.samples, 'sample')}; print it>"

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("LearnedBudget", str(self))

    def __str__(self) -> str:
        known, choices = int(np.count_nonzero(self.known)), self.known.size
        fate = "refused" if self.unknown == "refuse" else "allowed"
        rest = "" if known == choices else f"; the other {choices - known:,} are {fate}"
        paper = self.uniform_samples["paper"]
        return (
            f"{self.statement}\n"
            f"  {counted(self.samples, 'sample')}, {self.samples / paper:.0%} of the paper's sample bound ({paper:,})\n"
            f"  {known:,} of {choices:,} choices are known{rest}"
        )


@names_right_word
def learn_minimal_budget(
    sampler: Any,
    *,
    mu: float,
    delta: float,
    budget: int | None = None,
    seed: int | None = None,
    identity: str | None = None,
    workers: Workers | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
) -> LearnedBudget:
    """Learn the minimal budget from samples, whose number adapts to what they show.

    The shield of the result fits the environment that it was learned from: ``ShieldedEnv(env, learned.shield, 2)``.

    Parameters
    ----------
    sampler
        A Gymnasium environment that can be sampled, or its id (see :class:`almostsure.learn.EnvSampler`); any
        :class:`almostsure.learn.Sampler`; a model, or the name of an example or file.
    mu, delta
        No outcome is rarer than ``mu``, and the result may be wrong with probability ``delta``; both in (0, 1).
    budget
        Learn only what the shield from the start with this budget needs, from far fewer samples; it refuses the rest.
    seed, identity, workers, checkpoint, checkpoint_seconds
        As for :func:`almostsure.learn.count_outcomes`; so are the errors.

    Raises
    ------
    Infeasible, ArgumentError
        ``budget`` is not enough at the start, for certain; or the samples refute ``mu``.

    Examples
    --------
    >>> import almostsure as asure
    >>> learned = asure.learn_minimal_budget(asure.example("hazard-map"), mu=0.1, delta=0.05, budget=2, seed=1)
    >>> print(learned)
    If no outcome is rarer than 10 %, this budget is nowhere below k*, and from the start with a budget of 2 or less its
    shield allows exactly what is safe, with probability at least 0.95.
      34,760 samples, 42% of the paper's sample bound (83,148)
      469 of 533 choices are known; the other 64 are refused
    """
    source, mu, delta = as_sampler(sampler, identity=identity), unit("mu", mu), unit("delta", delta)
    goal = Goal(mu, delta, None if budget is None else check_budget(budget))
    uniform = uniform_samples(source.new_counts(None), mu, delta)
    _require_few_samples(goal, uniform["sharp"])
    run = {"mu": repr(mu), "delta": repr(delta), "budget": str(goal.budget)}
    store = Checkpoint(checkpoint, source, run, checkpoint_seconds)
    counts, done = store.begin(seed, {"round": 0, "chunk": 0})
    learner = _Learner(source, counts, done, goal)
    with (
        store.keeping(counts, done, lambda: counted(counts.total, "sample")),
        Bar("learning", uniform["sharp"], notice=f"at most {uniform['sharp']:,} samples or so") as bar,
    ):
        learner.run(store, workers, bar)
    check_mu(counts, mu)
    _check_walk(source, counts, learner.known())
    return learned_budget(counts, learner.known(), goal)


def _require_few_samples(goal: Goal, samples: int) -> None:
    """Refuse a run that would take days; with a budget its length is not known beforehand."""
    if goal.budget is None and samples > MOST_SAMPLES:
        raise LimitReached(
            f"a run must take at most {MOST_SAMPLES:.0e} samples or so; mu={goal.mu:g} would take {samples:.1e}. "
            "Choose a larger mu, or learn for one budget only."
        )


def _check_walk(source: CheckedSampler, counts: Counts, known: Bools) -> None:
    """Play random steps from resets; ModelError if a step of a known choice has an outcome that no sample showed."""
    if not isinstance(source.sampler, EnvSampler):
        return
    for state, action, after, damage in source.sampler.walk(WALK, np.random.default_rng(counts.seed)):
        choice = source.space.choice(state, action)
        if known[choice] and not counts.has_seen(choice, after, int(damage)):
            raise ModelError(
                f"in random play from a reset, {source.space.describe_choice(choice)} led to "
                f"{source.space.describe_state(after)} with damage {damage:g}, which none of its "
                f"{counts.samples[choice]:,} samples showed. Does set_state set everything that matters, and does a "
                "state show everything that matters? Otherwise the outcome is rarer than mu: choose a smaller one.",
                choice=choice,
            )


def learned_budget(counts: Counts, known: Bools, goal: Goal, unknown: Unknown = "refuse") -> LearnedBudget:
    """The minimal budget of the empirical model, in which only these choices are known."""
    mdp = counts.to_mdp(unknown, known=known if unknown == "refuse" else None)
    return budget_of_learned(mdp, counts, known, goal, unknown)


def budget_of_learned(mdp: MDP, counts: Counts, known: Bools, goal: Goal, unknown: Unknown = "refuse") -> LearnedBudget:
    """The minimal budget of a learned model; the model keeps the statement of confidence, also in files."""
    said = _confidence(counts, known, goal, unknown, "its minimal budget").statement
    origin = replace(mdp.origin, counted=True, statement=f"Learned from {counted(counts.total, 'sample')}. {said}")
    return LearnedBudget(
        minimal=minimal_budget(mdp.with_origin(origin)),
        counts=counts,
        known=known,
        mu=goal.mu,
        delta=goal.delta,
        budget=goal.budget,
        uniform_samples=uniform_samples(counts, goal.mu, goal.delta),
        unknown=unknown,
    )


def _confidence(counts: Counts, known: Bools, goal: Goal, unknown: Unknown, what: str = "this budget") -> Confidence:
    """The probability that the budget is right; ``what`` names it in the sentence."""
    delta, caveat, complete = goal.delta, counts.caveat, bool(known.all())
    subject = f"{what} equals k*" if complete else f"{what} is nowhere below k*: its shield never overspends,"
    if unknown == "allow" and not complete:
        delta, caveat = 1.0, f"{OPTIMISM} {caveat}".rstrip()
    if goal.budget is not None:
        subject = (
            f"{what} is nowhere below k*, and from the start with a budget of "
            f"{goal.budget}{' or less' if goal.budget else ''} its shield allows exactly what is safe,"
        )
    return Confidence(mu=goal.mu, delta=delta, subject=subject, caveat=caveat)


def uniform_samples(counts: Counts, mu: float, delta: float) -> dict[str, int]:
    """The samples that sampling all choices equally often takes, by either bound."""
    size, choices = (counts.space.num_states, counts.space.num_actions), int(np.count_nonzero(~counts.is_end()))
    options: dict[str, Any] = {"mu": mu, "delta": delta, "num_damages": counts.max_damage + 1}
    result = {bound: choices * samples_needed(*size, bound=bound, **options) for bound in ("paper", "sharp")}
    if result["paper"] >= 2**62:
        raise LimitReached(f"mu={mu:g} would take {result['sharp']:.3g} samples. Choose a larger one.")
    return result


class Goal(NamedTuple):
    """What is to be learned, with which confidence."""

    mu: float
    delta: float
    budget: int | None  # None: the budgets of all choices


class _Learner:
    """The rounds of :func:`learn_minimal_budget`."""

    def __init__(self, source: CheckedSampler, counts: Counts, done: dict[str, int], goal: Goal) -> None:
        self.source, self.counts, self.done, self.budget = source, counts, done, goal.budget
        pairs = source.space.num_states * (source.max_damage + 1)
        self.is_end = counts.is_end()
        self.evidence = Evidence(goal.mu, goal.delta, int(np.count_nonzero(~self.is_end)), pairs)
        self.first_look, self.stride = math.ceil(FIRST_LOOK / goal.mu), math.ceil(STRIDE / goal.mu)
        self.doubt = math.ceil(DOUBT / goal.mu)
        self._relevant: Bools = ~self.is_end
        self._seen = -1  # the number of outcomes seen when ``_relevant`` was computed

    def run(self, store: Checkpoint, workers: Workers | None, bar: Bar) -> None:
        """Sample until every relevant choice is known."""
        counter, counts = Counter(self.source), self.counts
        with counter.crew(workers) as each:
            while (lengths := self._wanted() if store.lengths is None else store.lengths).any():
                store.lengths, choices = lengths, np.flatnonzero(lengths)
                schedule = counter.schedule(choices, lengths[choices], counts.seed or 0, self.done["round"])
                draw_chunks(schedule, each, store, counts, self.done, bar)
                with uninterrupted():
                    counts.merge()
                    self.done["round"], self.done["chunk"], store.lengths = self.done["round"] + 1, 0, None

    # ------------------------------------------------------------------ what to sample

    def _wanted(self) -> npt.NDArray[np.int64]:
        """The number of samples of each choice in the next round; all 0 when learning is complete."""
        relevant, samples = self._find_relevant(), self.counts.samples
        lengths = np.where(relevant & (samples < self.first_look), self.first_look - samples, 0)
        if not lengths.any():
            lengths = np.minimum(self._missing(relevant), self.stride)
        if not lengths.any():
            lengths = self._doubted(relevant)
        if self.source.model is None:
            lengths[np.cumsum(lengths) > max(MOST_AT_ONCE, int(lengths.max()))] = 0
        return lengths

    def _find_relevant(self) -> Bools:
        """The choices that the shield of the empirical model allows on runs from the start; all without a budget."""
        if self.budget is not None and self._seen != self.counts.num_outcomes:
            self._seen = self.counts.num_outcomes
            mdp = self.counts.to_mdp("allow")
            minimal = minimal_budget(mdp, check="never")
            require_start(minimal, self.budget, seen=True)
            self._relevant = reachable_choices(mdp, minimal.of_choice, self.budget) & ~self.is_end
        return self._relevant

    def _missing(self, relevant: Bools) -> npt.NDArray[np.int64]:
        """The samples of each choice that are missing until all relevant ones are known, if no outcome is new."""
        samples, levels = self.counts.samples, self.counts.outcomes_seen()
        silent, result = samples - self.counts.latest, np.zeros(levels.size, np.int64)
        waiting = relevant & ~self.known()
        by_count = np.maximum(self.evidence.by_count(levels) - samples, 0)
        for level in np.unique(levels[waiting]).tolist():
            # Either all choices at this level become known (by silence or count), or only the relevant ones, by count.
            here = (levels == level) & ~self.is_end
            left = int(np.count_nonzero(levels > level))
            by_silence = np.maximum(self.evidence.by_silence(level, left) - silent[here], 0)
            all_here, relevant_only = np.minimum(by_silence, by_count[here]), np.where(relevant, by_count, 0)[here]
            result[here] = all_here if all_here.sum() <= relevant_only.sum() else relevant_only
        return result

    def _doubted(self, relevant: Bools) -> npt.NDArray[np.int64]:
        """The missing samples of choices with ⌊1/μ⌋ outcomes: another outcome would refute μ."""
        silent = self.counts.samples - self.counts.latest
        full = relevant & (self.counts.outcomes_seen() == most_outcomes(self.evidence.mu))
        return np.where(full, np.maximum(self.doubt - silent, 0), 0)

    def known(self) -> Bools:
        """A mask of the choices that are known, [num_choices]."""
        samples, latest = self.counts.samples, self.counts.latest
        known = self.evidence.known(self.counts.outcomes_seen(), samples, samples - latest)
        return np.asarray(known | self.is_end)


def reachable_choices(mdp: MDP, of_choice: Ints, budget: int) -> Bools:
    """A mask of the choices that a shield allows on runs from the start with ``budget``, [num_choices].

    With more remaining budget more is allowed, so only the largest remaining budget of each state matters.  States are
    explored in descending order of it, since damage only lowers it.
    """
    result = np.zeros(mdp.num_choices, np.bool_)
    for step in explore(mdp, all_within(mdp, of_choice), budget, once=True):
        result[step.choice] = True
    return result
