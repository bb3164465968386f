"""Section 4: learning the minimal budget from samples."""

from __future__ import annotations

import math

import numpy as np

from almostsure.budget import INFINITE, minimal_budget, reference
from almostsure.learn import count_outcomes, learn_minimal_budget, samples_needed
from almostsure.model import MDP, from_transitions
from almostsure.model.arrays import Ints
from almostsure.paper.claim import Trial, claim
from almostsure.paper.memory import best_return
from almostsure.shield import trim

DELTA = 0.05
MOST_SAMPLES = 50_000_000  # the most samples that are drawn; they take a few seconds


def _outcomes(*columns: Ints) -> set[tuple[int, ...]]:
    """Outcomes as (choice, next state, damage)."""
    return set(zip(*(column.tolist() for column in columns), strict=True))


def _reweighted(mdp: MDP, rng: np.random.Generator) -> MDP:
    """The same outcomes with other positive probabilities: a consistent kernel (Definition 6)."""
    weights = rng.random(mdp.num_outcomes) + 0.01
    shares = weights / np.add.reduceat(weights, mdp.outcome_ptr[:-1])[mdp.outcome_choices()]
    columns = mdp.columns()._replace(probability=shares)
    return from_transitions(*columns, num_states=mdp.num_states, initial=mdp.starts)


def _seed(trial: Trial) -> int:
    return int(trial.rng.integers(2**32))


def _rarest(mdp: MDP) -> float:
    return min(float(mdp.probability.min()), 0.5)


@claim("Algorithm 2", "Kernel builder")
def algorithm_2(trial: Trial) -> str:
    """Sample every choice N times: k* of the empirical model is the true k* once all outcomes have been observed.

    Before all outcomes have been observed it may be too small, but never too large.
    """
    short = 0
    for mdp in trial.models:
        true = minimal_budget(mdp).of_choice
        sampled = int(mdp.choice_ptr[mdp.num_observed])  # all choices but those where episodes have ended
        last = int(mdp.outcome_ptr[sampled])
        possible = _outcomes(mdp.outcome_choices()[:last], mdp.successor[:last], mdp.damage[:last])
        for samples in (1, 3, 10, 400):
            counted = count_outcomes(mdp, samples, seed=_seed(trial), workers=1)
            counts = np.bincount(counted.choice, counted.times, minlength=sampled)
            trial.expect(bool((counts == samples).all()), "every choice must be sampled N times")
            seen = _outcomes(counted.choice, counted.next_state, counted.damage)
            trial.expect(seen <= possible, "an impossible outcome was observed")
            learned = minimal_budget(counted.to_mdp()).of_choice
            trial.expect(bool((learned <= true).all()), "a learned budget is too large")
            trial.expect(seen != possible or np.array_equal(learned, true), "all outcomes observed, but k is not k*")
            short += not np.array_equal(learned, true)
    return f"{trial.where}, N = 1, 3, 10, 400: never above k*, {short} times below, equal once all is observed"


@claim("Lemma 4", "Sample complexity")
def lemma_4(trial: Trial) -> str:
    """If no outcome is rarer than μ, (1/μ) ln(2|S|²|A|/δ) samples per choice show all with probability 1 − δ.

    In the proof, the probability of missing an outcome is at most (1 − μ)^N, not equal to it. Counting at most
    ⌊1/μ⌋ outcomes per choice instead of 2|S| sharpens the bound.
    """
    found = []
    for mdp in trial.models:
        size, mu = (mdp.num_states, mdp.num_actions), _rarest(mdp)
        paper, sharp = (samples_needed(*size, mu=mu, delta=DELTA, bound=bound) for bound in ("paper", "sharp"))
        missed = {n: math.fsum(((1 - mdp.probability) ** n).tolist()) for n in (paper, sharp)}  # at most
        trial.expect(max(missed.values()) <= DELTA, f"{missed} with μ = {mu:g}: too often")
        trial.expect(sharp <= paper, f"the sharper bound asks for {sharp}, the paper's for {paper}")
        found.append((mu, paper, missed[paper], sharp, missed[sharp]))
    mu, paper, by_paper, sharp, by_sharp = min(found)
    return (
        f"on {trial.where}; with δ = {DELTA:g} and μ = {mu:g}, N = {paper} misses an outcome with probability "
        f"{by_paper:.2g} at most, the sharper N = {sharp} with {by_sharp:.2g} at most"
    )


@claim("Lemma 5", "Consistent kernels are enough")
def lemma_5(trial: Trial) -> str:
    """Algorithm 1 with a consistent kernel has the same iterates, so it finds the true minimal budget."""
    for mdp in trial.models:
        other = _reweighted(mdp, trial.rng)
        mine, theirs = (reference.algorithm_1(x, trace=True) for x in (mdp, other))
        trial.expect(np.array_equal(mine.trace, theirs.trace), "an iterate differs")
        trial.expect(np.array_equal(minimal_budget(mdp).of_choice, theirs.of_choice), "k* differs")
    return f"all iterates agree on {trial.where} and reweightings of them"


@claim("Remark 1", "Learning the minimal budget is sample-efficient")
def remark_1(trial: Trial) -> str:
    """About |S||A|/μ samples in total suffice, up to a logarithm, independent of any accuracy and horizon."""
    samples = asked = exactly = 0
    for mdp in trial.models:
        for mu in (_rarest(mdp), _rarest(mdp) / 100):
            per_choice = samples_needed(mdp.num_states, mdp.num_actions, mu=mu, delta=DELTA, bound="paper")
            logarithm = math.log(2 * mdp.num_states**2 * mdp.num_actions / DELTA)
            trial.expect(abs(per_choice - logarithm / mu) <= 1 + per_choice * 1e-12, f"{per_choice} for μ = {mu:g}")
        if (needed := logarithm / _rarest(mdp) * mdp.num_choices) > MOST_SAMPLES:
            return f"the numbers agree; {trial.where} would take {needed:.2g} samples, too many to draw here"
        learned = learn_minimal_budget(mdp, mu=_rarest(mdp), delta=DELTA, seed=_seed(trial), workers=1)
        k, exact = learned.minimal.of_choice[: mdp.num_choices], minimal_budget(mdp).of_choice
        trial.expect(bool((k <= exact).all()), "the learned budget is above k*")
        exactly += np.array_equal(k, exact)  # which may fail, with probability DELTA
        samples, asked = samples + learned.samples, asked + learned.uniform_samples["paper"]
    return (
        f"on {trial.where}, {samples:,} samples show k* ({exactly} of {len(trial.models)}); Lemma 4 asks for {asked:,}"
    )


@claim("Remark 2", "Trimming")
def remark_2(trial: Trial) -> str:
    """States all of whose actions need more than Δ can be removed: the optimum stays, in a smaller model.

    The trimmed model still needs the remaining budget, since damage adds up along a run.
    """
    before = after = 0
    for mdp in trial.models:
        minimal = minimal_budget(mdp)
        unsafe = reference.unsafe_states(mdp, minimal.of_choice, budget := minimal.smallest_budget() + 1)
        trial.expect(np.array_equal(minimal.unsafe_states(budget), unsafe), "the unsafe states")
        if budget > INFINITE:
            continue
        small = trim(minimal, budget)
        trial.expect(np.array_equal(small.states, np.flatnonzero(~unsafe)), "exactly the safe states must be kept")
        trial.close(best_return(mdp, budget), best_return(small.mdp, budget), "the optimum changed")
        before, after = before + mdp.num_choices, after + small.mdp.num_choices
    return f"the optimum stays on {trial.where}; {before - after:,} of {before:,} choices are removed"
