"""Section 4: learning the minimal budget from samples."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import final

import numpy as np

from almostsure.budget import reference
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.learn.bounds import delta_bought, samples_needed
from almostsure.learn.counts import Counts
from almostsure.learn.minimal import learn_minimal_budget
from almostsure.learn.sampling.count import count_outcomes
from almostsure.model.build.examples import example
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.paper.claim import Trial, claim
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy
from almostsure.shield.inside import trim

MU, DELTA = 0.1, 0.1  # of Lemma 4's demonstration
REPEATS = 500
SIZE = 8  # states
SIGMAS = 5  # how far a frequency may be from its probability


def _support(mdp: MDP) -> set[tuple[int, int, int]]:
    """The outcomes (choice, next state, damage) that have positive probability."""
    return set(zip(mdp.outcome_choices().tolist(), mdp.successor.tolist(), mdp.damage.tolist(), strict=True))


def _seen(counts: Counts) -> set[tuple[int, int, int]]:
    return set(zip(counts.choice.tolist(), counts.next_state.tolist(), counts.damage.tolist(), strict=True))


def _reweighted(mdp: MDP, rng: np.random.Generator) -> MDP:
    """The same outcomes with other positive probabilities."""
    weights = rng.random(mdp.num_outcomes) + 0.01
    shares = weights / np.add.reduceat(weights, mdp.outcome_ptr[:-1])[mdp.outcome_choices()]
    choice = mdp.outcome_choices()
    return from_transitions(
        mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, shares, mdp.reward, mdp.damage,
        num_states=mdp.num_states, initial=mdp.initial_state,
    )  # fmt: skip


@claim("Definition 6", "Consistent kernel")
def definition_6(trial: Trial) -> str:
    """A kernel is consistent with another one if the same outcomes have positive probability, whatever these are."""
    for mdp in trial.models(60, states=5, damage=2):
        trial.expect(_support(_reweighted(mdp, trial.rng)) == _support(mdp), "another weighting must be consistent")
        counted = count_outcomes(mdp, 200, seed=int(trial.rng.integers(2**32)), workers=1)
        trial.expect(_seen(counted) == _support(counted.to_mdp()), "a kernel is consistent with the model made of it")
        trial.expect(_seen(counted) <= _support(mdp), "what was never possible must not be seen")
    return f"on {trial.where}: kept by reweighting; a counted kernel has no outcome that the model does not have"


@claim("Lemma 5", "Consistent kernels are enough")
def lemma_5(trial: Trial) -> str:
    """Algorithm 1 with a consistent kernel takes the same steps, and so finds the minimal budget of the true model."""
    for mdp in trial.models(100, states=6, damage=2):
        other = _reweighted(mdp, trial.rng)
        mine, theirs = (reference.algorithm_1(x, trace=True) for x in (mdp, other))
        trial.expect(np.array_equal(mine.trace, theirs.trace), "an iterate differs")
        trial.expect(np.array_equal(minimal_budget(mdp).of_choice, theirs.of_choice), "k* differs")
    return f"every iterate agrees on {trial.where} and reweightings of them"


@claim("Algorithm 2", "Kernel builder", comment="Before all outcomes are seen it may be too small, never too large.")
def algorithm_2(trial: Trial) -> str:
    """Sample every choice N times and count: the shares estimate the kernel, and k* of the counted model is below k*.

    It is consistent: it equals k* as soon as every outcome was seen.
    """
    short = 0
    for mdp in trial.models(60, states=5, outcomes=3, damage=2):
        true = minimal_budget(mdp).of_choice
        for samples in (1, 3, 10, 400):
            counted = count_outcomes(mdp, samples, seed=int(trial.rng.integers(2**32)), workers=1)
            counts = np.bincount(counted.choice, counted.times, minlength=mdp.num_choices)
            trial.expect(bool((counts == samples).all()), "every choice must be sampled N times")
            learned = minimal_budget(counted.to_mdp()).of_choice
            trial.expect(bool((learned <= true).all()), "a learned budget is too large")
            complete = _seen(counted) == _support(mdp)
            trial.expect(not complete or np.array_equal(learned, true), "all was seen, and k is not k*")
            short += not np.array_equal(learned, true)
    return f"{trial.where}, N = 1, 3, 10, 400: never above k*, {short} times below, equal once all is seen"


# ---------------------------------------------------------------------- Lemma 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCurve:
    """How often Algorithm 2 misses an outcome, against the number of samples of every choice."""

    samples: Ints  # [points]
    exact: Floats  # [points] probability
    frequency: Floats  # [points] in ``REPEATS`` runs
    paper: Floats  # [points] the bound of Lemma 4
    sharp: Floats  # [points] ours
    needed: dict[str, int]  # samples, by bound


def sampled_model() -> MDP:
    """A ring of SIZE states with two actions, whose rarest outcomes have probability MU."""
    rows = [
        (state, action, (state + step) % SIZE, share, 0.0, int(step > 1))
        for state, action in itertools.product(range(SIZE), range(2))
        for step, share in ((0, MU), (1 + action, 1 - 2 * MU), (3, MU))
    ]
    states, actions, targets, shares, rewards, damages = zip(*rows, strict=True)
    return from_transitions(states, actions, targets, shares, rewards, damages)


def missing_probability(mdp: MDP, samples: int) -> float:
    """The probability that some outcome of some choice is not among ``samples`` of each, by inclusion and exclusion."""
    all_seen = 1.0
    for c in range(mdp.num_choices):
        shares = mdp.probability[int(mdp.outcome_ptr[c]) : int(mdp.outcome_ptr[c + 1])].tolist()
        subsets = (x for size in range(len(shares) + 1) for x in itertools.combinations(shares, size))
        all_seen *= math.fsum((-1) ** len(x) * max(1 - sum(x), 0.0) ** samples for x in subsets)
    return max(1 - all_seen, 0.0)


@functools.lru_cache(maxsize=4)
def sample_curve(seed: int = 0) -> SampleCurve:
    """The curve of :func:`sampled_model`: exact, sampled, and by the two bounds."""
    mdp = sampled_model()
    needed = {
        bound: samples_needed(mdp.num_states, mdp.num_actions, mu=MU, delta=DELTA, bound=bound)
        for bound in ("paper", "sharp")
    }
    points = np.array(sorted({20, 30, 40, 50, 60, *needed.values()}))
    support, missed = _support(mdp), []
    for samples in points.tolist():
        runs = (count_outcomes(mdp, samples, seed=seed * REPEATS + run, workers=1) for run in range(REPEATS))
        missed.append(sum(_seen(counted) != support for counted in runs))
    size = (mdp.num_states, mdp.num_actions)
    return SampleCurve(
        samples=points,
        exact=np.array([missing_probability(mdp, n) for n in points.tolist()]),
        frequency=np.array(missed) / REPEATS,
        paper=np.array([delta_bought(n, *size, mu=MU, bound="paper") for n in points.tolist()]),
        sharp=np.array([delta_bought(n, *size, mu=MU) for n in points.tolist()]),
        needed=needed,
    )


@claim(
    "Lemma 4",
    "Sample complexity",
    takes_model=False,
    comment="In the proof, the probability of missing an outcome is at most (1 − μ)^N, not equal to it. Counting "
    "at most ⌊1/μ⌋ outcomes per choice instead of 2|S| sharpens the bound.",
)
def lemma_4(trial: Trial) -> str:
    """If none is rarer than μ, (1/μ) ln(2|S|²|A|/δ) samples per choice show all outcomes with probability 1 − δ."""
    curve = sample_curve(trial.seed)
    columns = (curve.samples.tolist(), curve.exact, curve.frequency, curve.paper, curve.sharp)
    for n, exact, seen, paper, sharp in zip(*columns, strict=True):
        trial.expect(exact <= min(paper, sharp), f"{n} samples miss an outcome with probability {exact}: too often")
        spread = math.sqrt(exact * (1 - exact) / REPEATS)
        trial.expect(abs(seen - exact) <= SIGMAS * spread + 1 / REPEATS, f"{n} samples: frequency {seen}, not {exact}")
    at = {bound: curve.samples.tolist().index(n) for bound, n in curve.needed.items()}
    trial.expect(bool(curve.exact[at["paper"]] <= DELTA), "the bound must keep δ")
    return (
        f"with μ = {MU:g} and δ = {DELTA:g}, N = {curve.needed['paper']} misses an outcome with probability "
        f"{curve.exact[at['paper']]:.2%} ({curve.frequency[at['paper']]:.2%} of {REPEATS:,} runs); "
        f"the sharper N = {curve.needed['sharp']} with {curve.exact[at['sharp']]:.2%}"
    )


# ---------------------------------------------------------------------- remarks


@claim("Remark 1", "Learning the minimal budget is sample-efficient")
def remark_1(trial: Trial) -> str:
    """About |S||A|/μ samples in all suffice, up to a logarithm: there is no accuracy to pay for, nor a horizon."""
    mdp = example("corridor") if trial.mdp is None else trial.mdp
    rarest = min(float(mdp.probability.min()), 0.5)
    for scale in (1, 10, 100):
        mu = rarest / scale
        per_choice = samples_needed(mdp.num_states, mdp.num_actions, mu=mu, delta=0.05, bound="paper")
        logarithm = math.log(2 * mdp.num_states**2 * mdp.num_actions / 0.05)
        trial.expect(abs(per_choice - logarithm / mu) <= 1, f"{per_choice} samples for μ = {mu:g}")
    learned = learn_minimal_budget(mdp, mu=rarest, delta=0.05, seed=int(trial.rng.integers(2**32)), workers=1)
    asked = learned.uniform_samples["paper"]
    k, exact = learned.minimal.of_choice[: mdp.num_choices], minimal_budget(mdp).of_choice
    trial.expect(np.array_equal(k, exact), "the learned budget is not k*")
    which = "the corridor's k*" if trial.mdp is None else "k*"
    return f"{which} is learned from {learned.samples:,} samples; Lemma 4 asks for {asked:,}"


@claim(
    "Remark 2",
    "Trimming",
    comment="The trimmed model still needs the remaining budget: damages add up along the way.",
)
def remark_2(trial: Trial) -> str:
    """States all of whose actions need more than Δ can be left out: the optimum stays, and the search is smaller."""
    before = after = 0
    for mdp in trial.models(40, states=5, ends=True, examples=("quicksand", "hazard-map")):
        minimal = minimal_budget(mdp)
        budget = minimal.smallest_budget() + 1
        if budget > INFINITE:
            continue
        small = trim(minimal, budget)
        expected = np.flatnonzero(reference.unsafe_states(mdp, minimal.of_choice, budget))
        trial.expect(set(small.states.tolist()).isdisjoint(expected.tolist()), "an unsafe state was kept")
        trial.expect(small.states.size + expected.size == mdp.num_states, "a safe state was left out")
        whole, part = (solve_policy(x, AlmostSure(budget)).value for x in (mdp, small.mdp))
        trial.expect(
            whole == part or abs(whole - part) < 1e-6 * max(1, abs(whole)), f"the optimum changed: {whole}, {part}"
        )
        before, after = before + mdp.num_choices, after + small.mdp.num_choices
    return f"the optimum stays on {trial.where}; gone are {before - after:,} of {before:,} choices"
