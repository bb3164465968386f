"""``learn_minimal_budget``: the budgets of a model that can only be sampled, with as few samples as the question needs.

Two facts do all of the work.  Write k for the budgets of what was *seen* so far, where a choice that was never
sampled does nothing.

- *What is refused is refused for a reason.*  What was seen is possible, so k ≤ k*.  A choice whose k is above Δ is
  unsafe for certain, after however few samples.
- *What is allowed must be complete.*  Only a choice that has been accepted as complete
  (:mod:`almostsure.learn.evidence`) is ever allowed.

So, asked for the shield from the start with a budget of Δ, the learner works in rounds: it finds the choices that
the shield of k allows in whatever can be reached, samples those that are not yet accepted, and ends when there are
none.  Elsewhere nothing is sampled: behind what is refused, and where nobody can get to.

**What is returned.**  Let A be the accepted choices, and k' the budgets of the model in which every other choice is
refused (∞).  With probability at least 1 − δ, if no outcome is rarer than μ,

1. k' ≥ k* everywhere: a shield made of k' never overspends, wherever it is asked;
2. from the start with Δ or less, the shield of k' allows exactly what the shield of k* allows.

*Proof.*  With that probability all of A is complete (that is the module's theorem, and it holds for any way of
choosing what to sample).  Then (1): k' solves T k' ≤ k', since T is exact on A and k' = ∞ elsewhere; and k* is the
least such function.  (2): take any (s, K) that play under the shield of k reaches from the start with Δ.  What k
refuses there, k* refuses too, as k ≤ k*.  What k allows there is in A.  Going on from an allowed choice with the
cheapest choices by k, play stays among the pairs that are reached, hence in A, and takes at most k(s, a); so k'(s,
a) ≤ k(s, a) ≤ k*(s, a) ≤ k'(s, a) there.  So all three agree on what is allowed, and by induction on what is
reached.  With less than Δ, fewer choices are allowed at fewer pairs: (s, K) is reached only if (s, K + more) is.  ∎

Without a budget, every choice counts, and k' = k* with probability at least 1 − δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, names_right_word
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible, Interrupted, LimitReached
from almostsure.learn.bounds import Confidence, count, samples_needed, unit
from almostsure.learn.checkpoint import Checkpoint
from almostsure.learn.evidence import Evidence
from almostsure.learn.kernel import (
    Kernel,
    Unknown,
    check_seconds,
    check_workers,
    fresh_seed,
    kernel_of,
    new_tally,
)  # fmt: skip
from almostsure.learn.parallel import Workers, open_crew, uninterrupted
from almostsure.learn.plan import Counter
from almostsure.learn.sampler import Source, as_source
from almostsure.learn.tally import Tally
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.policy.explore import Played, explore, spans
from almostsure.progress import Bar
from almostsure.shield.shield import Shield

FIRST_LOOK = 0.5  # samples, in units of 1/μ, before anything is concluded from a choice
STRIDE = 0.25  # samples, in units of 1/μ, between two looks at whether a choice has had enough
MOST_AT_ONCE = 1 << 20  # samples of a simulator a round, so that what they show is soon made use of
OPTIMISM = "What it refuses is unsafe for certain; what it allows may be."


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedBudget:
    """A budget learned from samples, and what it is worth.  ``print`` it."""

    minimal: MinimalBudget  # of the counted model in which unknown choices are refused
    kernel: Kernel = field(repr=False)  # all that was seen
    accepted: Bools = field(repr=False)  # [num_choices] which choices are known completely
    mu: float
    delta: float
    budget: int | None
    uniform_samples: dict[str, int]  # what sampling every choice alike would have taken, by bound
    unknown: Unknown = "refuse"  # what becomes of choices that are not known

    @property
    def mdp(self) -> MDP:
        """The model that the budget belongs to: what was counted; what is refused leads to a last state that hurts."""
        return self.minimal.mdp

    @property
    def shield(self) -> Shield:
        """The shield made of the budget; it refuses what is unknown, unless asked otherwise."""
        return Shield(self.minimal)

    @property
    def samples(self) -> int:
        """How many samples were drawn."""
        return self.kernel.budget

    @property
    def confidence(self) -> Confidence:
        """With which probability the budget is right."""
        delta, caveat, known = self.delta, self.kernel.caveat, bool(self.accepted.all())
        subject = "this budget equals k*" if known else "this budget is nowhere below k*: its shield never overspends,"
        if self.unknown == "allow" and not known:
            delta, caveat = 1.0, f"{OPTIMISM} {caveat}".rstrip()
        if self.budget is not None:
            subject = (
                "this budget is nowhere below k*, and from the start with a budget of "
                f"{self.budget}{' or less' if self.budget else ''} its shield allows exactly what is safe,"
            )
        return Confidence(mu=self.mu, delta=delta, subject=subject, caveat=caveat)

    @property
    def statement(self) -> str:
        """What the budget promises, in a sentence."""
        return self.confidence.statement

    def __str__(self) -> str:
        known, choices = int(np.count_nonzero(self.accepted)), self.accepted.size
        fate = "refused" if self.unknown == "refuse" else "allowed"
        rest = "" if known == choices else f"; the other {choices - known:,} are {fate}"
        paper = self.uniform_samples["paper"]
        return (
            f"{self.statement}\n"
            f"  {self.samples:,} samples, {self.samples / paper:.0%} of the {paper:,} that Lemma 4 takes\n"
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
    workers: Workers | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
) -> LearnedBudget:
    """Learn the minimal budget from samples, as many as it takes and no more.

    Parameters
    ----------
    sampler
        A :class:`almostsure.learn.Sampler`, a model, or the name of an example or file.
    mu
        No outcome is rarer than this, in (0, 1).  Nothing can be promised about rarer ones.
    delta
        The probability of failure that is acceptable, in (0, 1).
    budget
        If only the shield from the start with this budget is wanted: then most models need far fewer samples, and
        choices that do not matter for it are refused.
    seed, workers, checkpoint, checkpoint_seconds
        As for :func:`almostsure.learn.build_kernel`.

    Returns
    -------
    LearnedBudget
        ``.budget``, ``.shield``, ``.statement`` in plain words, and what they were learned from.

    Raises
    ------
    Infeasible
        ``budget`` is not enough at the start; that is certain.
    ModelError
        The sampler returns something that it must not.
    FileError
        The checkpoint belongs to another run.
    Interrupted
        On Ctrl-C.  The checkpoint is up to date, and ``kept`` is the kernel of what was drawn so far.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.learn import learn_minimal_budget
    >>> learned = learn_minimal_budget(asure.example("hazard-map"), mu=0.1, delta=0.05, budget=2, seed=1)
    >>> print(learned)
    If no outcome is rarer than 10 %, this budget is nowhere below k*, and from the start with a budget of 2 or less its
    shield allows exactly what is safe, with probability at least 0.95.
      34,760 samples, 42% of the 83,148 that Lemma 4 takes
      469 of 533 choices are known; the other 64 are refused
    """
    source, mu, delta = as_source(sampler), unit("mu", mu), unit("delta", delta)
    budget = None if budget is None else check_budget(budget)
    seed = None if seed is None else count("seed", seed, least=0)
    uniform = uniform_samples(source, mu, delta)
    run = {"mu": repr(mu), "delta": repr(delta), "budget": str(budget)}
    store = Checkpoint(checkpoint, source, run, check_seconds(checkpoint_seconds))
    start = {"round": 0, "chunk": 0}
    resumed = store.read(seed, start)
    tally, done, seed = resumed or (new_tally(source), start, fresh_seed() if seed is None else seed)
    learner = _Learner(source, tally, done, seed, mu, delta, budget)
    try:
        with Bar("learning", uniform["sharp"], notice=f"at most {uniform['sharp']:,} samples or so") as bar:
            learner.run(store, check_workers(workers, source), bar)
    except KeyboardInterrupt:
        store.write(tally, done, seed)
        where = "" if checkpoint is None else f", which are in the checkpoint {checkpoint!s}: run it again to go on"
        kept = kernel_of(source, tally, seed)
        raise Interrupted(f"interrupted after {kept.budget:,} samples{where}.", kept=kept) from None
    store.write(tally, done, seed)
    kernel, accepted = kernel_of(source, tally, seed), learner.accepted()
    return LearnedBudget(
        minimal=minimal_budget(kernel.to_mdp(known=accepted)), kernel=kernel, accepted=accepted, mu=mu, delta=delta,
        budget=budget, uniform_samples=uniform,
    )  # fmt: skip


def uniform_samples(source: Source, mu: float, delta: float) -> dict[str, int]:
    """What sampling every choice alike takes, by either bound."""
    size = source.blank.num_states, source.blank.num_actions
    options: dict[str, Any] = {"mu": mu, "delta": delta, "num_damages": source.max_damage + 1}
    each = {"paper": samples_needed(*size, bound="paper", **options), "sharp": samples_needed(*size, **options)}
    result = {bound: number * source.blank.num_choices for bound, number in each.items()}
    if result["paper"] >= 2**62:
        raise LimitReached(f"mu={mu:g} would take {result['sharp']:.3g} samples. Choose a larger one.")
    return result


class _Learner:
    """The rounds of :func:`learn_minimal_budget`."""

    def __init__(
        self, source: Source, tally: Tally, done: dict[str, int], seed: int, mu: float, delta: float, budget: int | None
    ) -> None:
        self.source, self.tally, self.done, self.seed, self.budget = source, tally, done, seed, budget
        pairs = source.blank.num_states * (source.max_damage + 1)
        self.evidence = Evidence(mu, delta, source.blank.num_choices, pairs)
        self.first_look, self.stride = math.ceil(FIRST_LOOK / mu), math.ceil(STRIDE / mu)
        self._relevant: Bools = np.ones(source.blank.num_choices, np.bool_)
        self._known = -1  # outcomes seen when that was found

    def run(self, store: Checkpoint, workers: Workers, bar: Bar) -> None:
        """Sample until every relevant choice is accepted."""
        counter = Counter(self.source)
        with open_crew(counter.count, workers, processes=self.source.model is None) as crew:
            while (lengths := self._wanted() if store.plan is None else store.plan).any():
                store.plan, choices = lengths, np.flatnonzero(lengths)
                plan = counter.plan(choices, lengths[choices], self.seed, self.done["round"])
                for block in crew.in_order(plan.chunks(self.done["chunk"])):
                    with uninterrupted():
                        self.tally.add(block)
                        self.done["chunk"] += 1
                    store.write(self.tally, self.done, self.seed, now=False)
                    bar.update(int(self.tally.samples.sum()))
                with uninterrupted():
                    self.tally.merge()
                    self.done["round"], self.done["chunk"], store.plan = self.done["round"] + 1, 0, None

    # ------------------------------------------------------------------ what to sample

    def _wanted(self) -> npt.NDArray[np.int64]:
        """How many samples of each choice the next round takes; none if there is nothing left to do."""
        relevant, samples = self._find_relevant(), self.tally.samples
        lengths = np.where(relevant & (samples < self.first_look), self.first_look - samples, 0)
        if not lengths.any():
            lengths = np.minimum(self._missing(relevant), self.stride)
        if self.source.model is None:
            lengths[np.cumsum(lengths) > max(MOST_AT_ONCE, int(lengths.max()))] = 0
        return lengths

    def _find_relevant(self) -> Bools:
        """Which choices the shield of what was seen allows, where it leads from the start; all without a budget."""
        if self.budget is not None and self._known != self.tally.key.size:
            self._known = self.tally.key.size
            mdp = kernel_of(self.source, self.tally, self.seed).to_mdp("allow")
            minimal = minimal_budget(mdp, check="never")
            _require_start(minimal, self.budget)
            self._relevant = reachable_choices(mdp, minimal.of_choice, self.budget)
        return self._relevant

    def _missing(self, relevant: Bools) -> npt.NDArray[np.int64]:
        """How many samples of each choice are missing until all relevant ones are accepted, if nothing new is seen."""
        tally, levels = self.tally, self._levels()
        silent, result = tally.samples - tally.latest, np.zeros(levels.size, np.int64)
        waiting = relevant & ~self.accepted()
        by_count = np.maximum(self.evidence.by_count(levels) - tally.samples, 0)
        for level in np.unique(levels[waiting]).tolist():
            # Either everybody at this level is accepted by silence, or those that matter are by count.
            here = levels == level
            left = int(np.count_nonzero(levels > level))
            by_silence = np.maximum(self.evidence.by_silence(level, left) - silent[here], 0)
            everybody, relevant_only = np.minimum(by_silence, by_count[here]), np.where(relevant, by_count, 0)[here]
            result[here] = everybody if everybody.sum() <= relevant_only.sum() else relevant_only
        return result

    def _levels(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.tally.choice, minlength=self.tally.num_choices)

    def accepted(self) -> Bools:
        """Which choices are known completely."""
        samples = self.tally.samples
        return self.evidence.accepted(self._levels(), samples, samples - self.tally.latest)


# ---------------------------------------------------------------------- pieces


def reachable_choices(mdp: MDP, of_choice: Ints, budget: int) -> Bools:
    """Which choices a shield allows in whatever it lets happen from the start with ``budget``, [num_choices].

    The more remains, the more is allowed; so it suffices to look at the most that can remain in each state.  States are
    found in the order of what remains, as damage only lowers it.
    """

    def allowed(states: Ints, remaining: int) -> Played:
        choice, owner = spans(mdp.choice_ptr, states)
        safe = of_choice[choice] <= remaining
        return Played(choice[safe], owner[safe])

    result = np.zeros(mdp.num_choices, np.bool_)
    for step in explore(mdp, allowed, budget, once=True):
        result[step.choice] = True
    return result


def _require_start(minimal: MinimalBudget, budget: int) -> None:
    mdp = minimal.mdp
    needed = minimal.smallest_budget()
    if needed <= budget:
        return
    where = mdp.describe_state(int(mdp.initial_states[int(np.argmax(minimal.of_state[mdp.initial_states]))]))
    if needed >= INFINITE:
        raise Infeasible(f"no budget is enough at the start: what was seen forces ∞ at {where}.", needed=math.inf)
    raise Infeasible(
        f"a budget of {budget} is not enough at the start: what was seen forces {needed} at {where}.",
        needed=needed,
    )  # fmt: skip
