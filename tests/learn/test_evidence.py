"""The two rules by which choices become known, with their formulas and error rates; and the tests that refute μ."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import ArgumentError
from almostsure.learn import FunctionSampler, count_outcomes
from almostsure.learn.bounds import samples_needed
from almostsure.learn.counts import Counts
from almostsure.learn.evidence import BY_COUNT, REFUTED, TOGETHER, ZETA_3, Evidence, check_mu, evidence_against

UNBOUNDED = 10**9


@given(st.floats(0.001, 0.49), st.floats(1e-6, 0.9), st.integers(1, 10**6), st.integers(1, 60))
def test_by_count_errs_at_most_with_its_share_of_delta(mu, delta, choices, level):
    evidence = Evidence(mu, delta, choices, UNBOUNDED)
    if level >= evidence.top:
        assert evidence.by_count(np.array([level])).tolist() == [1]
        return
    needed = int(evidence.by_count(np.array([level]))[0])
    error = BY_COUNT * delta / choices
    allowed = error / (1 + error) / (level + 1)
    assert needed * math.log1p(-mu) <= math.log(allowed) * (1 - 1e-9)
    assert (needed - 1) * math.log1p(-mu) >= math.log(allowed) * (1 + 1e-9)


@given(st.floats(0.001, 0.99), st.integers(1, 10**9))
def test_shares_and_weights_sum_to_one_at_most(mu, pairs):
    evidence = Evidence(mu, 0.1, 10, pairs)
    shares = [math.exp(evidence._log_share(level)) for level in range(1, min(evidence.top, 200))]
    if evidence.top > 1:
        assert math.fsum(shares) <= 1 + 1e-12
        assert evidence.top > 100 or math.fsum(shares) >= 1 - 1e-9
    assert math.fsum(1 / (ZETA_3 * k**3) for k in range(1, 100_000)) <= 1


def test_by_silence_grows_with_the_choices_that_left_the_level():
    evidence = Evidence(0.1, 0.01, 500, UNBOUNDED)
    needed = evidence.by_silence(3, np.arange(10))
    assert (np.diff(needed) > 0).all()
    assert evidence.by_silence(10, 5) == 0
    assert needed[0] < samples_needed(125, 4, mu=0.1, delta=0.01) / 1.8


def test_choices_with_very_many_outcomes_have_a_share_too():
    evidence = Evidence(1e-4, 0.01, 3, UNBOUNDED)
    few, many = evidence.by_silence(600, 0), evidence.by_silence(9_000, 0)
    assert 0 < few < many < 2**40


def test_one_sample_suffices_if_mu_permits_one_outcome():
    evidence = Evidence(0.6, 0.01, 3, UNBOUNDED)
    accepted = evidence.known(np.array([1, 1, 0]), np.array([1, 5, 0]), np.array([0, 4, 0]))
    assert accepted.tolist() == [True, True, False]


def test_a_choice_with_many_new_outcomes_does_not_delay_others_for_ever():
    evidence = Evidence(0.1, 0.01, 100, UNBOUNDED)
    enough = int(evidence.by_silence(2, 1))
    levels, samples = np.array([2, 2, 2]), np.array([60, 60, 3])
    silent = np.array([enough, enough, 0])
    assert evidence.known(levels, samples, silent).tolist() == [True, True, False]
    silent[1] -= 1  # now two are not accepted, and the first would need more
    assert evidence.known(levels, samples, silent).tolist() == [False, False, False]


def test_choices_that_left_the_level_count():
    evidence = Evidence(0.1, 0.01, 100, UNBOUNDED)
    enough = int(evidence.by_silence(2, 0))
    samples = np.array([70, 5])
    assert evidence.known(np.array([2, 2]), samples, np.array([enough, enough])).all()
    assert not evidence.known(np.array([2, 3]), samples, np.array([enough, 0])).any()


# ---------------------------------------------------------------------- calibration


def play(rng, outcomes, mu, delta):
    """Sample choices of the given numbers of outcomes (the first one likely, the others of probability μ) until all are
    accepted; returns whether one was accepted too early."""
    outcomes = np.asarray(outcomes)
    evidence = Evidence(mu, delta, outcomes.size, UNBOUNDED)
    seen = np.zeros((outcomes.size, outcomes.max()), bool)
    samples, latest = np.zeros(outcomes.size, np.int64), np.zeros(outcomes.size, np.int64)
    while True:
        levels = seen.sum(axis=1)
        left = ~evidence.known(levels, samples, samples - latest)
        if not left.any():
            return bool((levels < outcomes).any())
        which = np.floor(rng.random(outcomes.size) / mu).astype(int) + 1
        which = np.where(which < outcomes, which, 0)
        rows = np.flatnonzero(left)
        samples[rows] += 1
        new = rows[~seen[rows, which[rows]]]
        latest[new] = samples[new]
        seen[rows, which[rows]] = True


@pytest.mark.parametrize(
    "outcomes", [[2] * 6, [1] * 5 + [2], [3] * 4 + [2] * 4, [1, 2, 3, 4, 4]], ids=["alike", "one", "two", "many"]
)
def test_the_rules_err_less_than_delta(outcomes):
    rng = np.random.default_rng(2)
    runs, delta = 400, 0.2
    errors = sum(play(rng, outcomes, 0.2, delta) for _ in range(runs))
    assert errors <= delta * runs


# ---------------------------------------------------------------------- what refutes μ


def seen(times, samples):
    """A choice that showed one outcome ``times`` times and another one in the rest of ``samples``."""
    counts = Counts(asure.example("paper"))
    counts.see(0, 0, 0, times=samples - times)
    if times:
        counts.see(0, 0, 1, times=times)
    return counts


def test_a_mu_that_the_counts_refute_is_refused():
    with pytest.raises(ArgumentError, match=r"damage 1 in 58 of 30,000 samples \(0.1934 %\).* Choose a smaller mu"):
        check_mu(seen(58, 30_000), 0.3)
    check_mu(seen(58, 30_000), 0.002)
    check_mu(seen(0, 30_000), 0.9)
    check_mu(seen(1, 3), 0.5)  # three samples refute little
    check_mu(Counts(asure.example("paper")), 0.5)
    with pytest.raises(ArgumentError, match="showed 2 different outcomes, of which no more than 1 can be"):
        check_mu(seen(1, 3), 0.9)  # two outcomes cannot both be that probable, even with few samples


def test_the_test_is_exact():
    from scipy.stats import binom

    for times, samples, mu in ((3, 40, 0.5), (10, 100, 0.4), (0, 70, 0.3)):
        counts = seen(times, samples)
        chance = binom.cdf(counts.times, samples, mu).min() * counts.times.size
        refused = ""
        try:
            check_mu(counts, mu)
        except ArgumentError as error:
            refused = str(error)
        assert ("samples" in refused and "together" not in refused) == (chance < REFUTED)


def test_a_right_mu_is_not_refused():
    for seed in range(30):
        asure.learn_minimal_budget("hazard-map", mu=0.1, delta=0.1, budget=1, seed=seed)


@pytest.mark.parametrize("mu", [0.26, 0.3, 0.4, 0.45])
def test_one_outcome_more_than_mu_permits_is_found(mu):
    """Four equally probable outcomes, eight choices: without the extra samples, ⌊1/μ⌋ outcomes contradict nothing."""
    four = FunctionSampler(lambda s, a, rng: (int(rng.integers(1, 5)), 0.0, 0), 5, 8, terminal=[1, 2, 3, 4])
    for seed in range(5):
        with pytest.raises(ArgumentError, match=rf"got {mu}, but .*Choose a smaller"):
            asure.learn_minimal_budget(four, mu=mu, delta=0.05, seed=seed)
    learned = asure.learn_minimal_budget(four, mu=0.25, delta=0.05, seed=0)
    assert len(learned.mdp.outcomes(0, 0)) == 4


def test_learners_and_logs_refuse_it():
    calls = itertools.count()
    once = FunctionSampler(lambda s, a, rng: (0, 0.0, int(next(calls) == 0)), 1, 1)
    with pytest.raises(ArgumentError, match="mu must be at most the probability of the rarest outcome"):
        asure.learn_minimal_budget(once, mu=0.3, delta=1e-20, seed=1)
    log = {"s": [0] * 30_000, "a": [0] * 30_000, "s'": [0] * 30_000, "d": [1] * 58 + [0] * 29_942}
    with pytest.raises(ArgumentError, match="58 of 30,000"):
        asure.learn_from_logs(log, mu=0.3, delta=0.05)


def test_counts_have_no_confidence_for_it():
    with pytest.raises(ArgumentError, match="in 58 of 30,000 samples"):
        seen(58, 30_000).confidence(0.3)
    thirds = FunctionSampler(lambda s, a, rng: (0, 0.0, int(rng.integers(3))), 1, 1, max_damage=2)
    with pytest.raises(ArgumentError, match="showed 3 different outcomes, of which no more than 2"):
        count_outcomes(thirds, 100, seed=0).confidence(0.45)


# ---------------------------------------------------------------------- all choices together


@pytest.mark.parametrize("choices", [20, 200])
def test_many_choices_refute_mu_together(choices):
    """Each choice shows 3 in 2 of 100 samples, which alone refutes little."""

    def step(state, action, rng):
        draw = rng.random()
        return state + 1, -1.0, 3 if draw < 0.02 else int(draw < 0.4)

    chain = FunctionSampler(step, choices + 1, 1, terminal=[choices], max_damage=3)
    for seed in range(3):
        with pytest.raises(ArgumentError, match=r"got 0\.1, but .* choices show .* together .* smaller mu"):
            asure.learn_minimal_budget(chain, mu=0.1, delta=0.01, seed=seed)


def chain(choices, probabilities):
    """Choices in a row, each with outcomes of these probabilities that differ in their damage."""
    each = len(probabilities)
    state = np.repeat(np.arange(choices), each)
    damage = np.tile(np.arange(each), choices)
    where = state, np.zeros_like(state), state + 1, np.tile(probabilities, choices)
    return asure.from_transitions(*where, -np.ones(state.size), damage, terminal=[choices])


@pytest.mark.parametrize(("choices", "seeds"), [(3, 100), (40, 40)])
@pytest.mark.parametrize("probabilities", [[0.9, 0.1], [0.8, 0.1, 0.1], [0.1] * 10], ids=["two", "three", "ten"])
def test_outcomes_of_exactly_mu_are_hardly_ever_refused(probabilities, choices, seeds):
    """Sampling stops by the rules of this module, which depend on the samples."""
    mdp = chain(choices, probabilities)
    counts = [asure.learn_minimal_budget(mdp, mu=0.1, delta=0.05, seed=seed).counts for seed in range(seeds)]
    against = np.exp([evidence_against(each, 0.1)[0] for each in counts])
    assert against.max() < 1 / TOGETHER
    for bound in (5, 20):
        assert (against >= bound).mean() <= 1 / bound
    assert against.mean() <= 1


@pytest.mark.parametrize("others", [1, 4])
def test_testing_after_every_sample_is_valid(others):
    """Sampling the most suspicious choice, and stopping at the worst time, reaches 1/α with probability at most α."""
    mdp, rng, reached = chain(3, [1 - 0.2 * others, *[0.2] * others]), np.random.default_rng(1), []
    for _ in range(150):
        counts, worst = Counts(mdp), 0.0
        for _ in range(60):
            rare = [counts.samples[c] - 5 * counts.times[counts.choice == c].min(initial=9) for c in range(3)]
            choice = int(np.argmax(np.where(counts.samples[:3] < 5, 99, rare)))
            counts.see(choice, choice + 1, max(0, others - int(rng.random() / 0.2)))
            worst = max(worst, math.exp(evidence_against(counts, 0.2)[0]))
        reached.append(worst)
    for bound in (3, 10):
        assert np.mean(np.array(reached) >= bound) <= 1 / bound


def test_there_is_no_evidence_without_samples():
    assert evidence_against(Counts(asure.example("paper")), 0.5) == (pytest.approx(0), 0)


def test_only_outcomes_that_a_space_can_have_are_counted():
    counts = Counts(asure.example("paper"), max_damage=1)
    assert counts.see(np.int64(0), 0, 1, times=2.0)
    for wrong, said in (
        ((3, 0, 0), "choice must be at most 2; got 3"),
        ((0, 2, 0), "next_state must be at most 1; got 2"),
        ((0, 0, 300), "damage must be at most 255; got 300"),
        ((0, 0, 0.5), "damage must be a whole number; got 0.5"),
        ((0, 0, -1), "damage must be at least 0; got -1"),
        (("circle", 0, 0), "choice must be a whole number; got 'circle'"),
    ):
        with pytest.raises(ArgumentError, match=said):
            counts.see(*wrong)
    with pytest.raises(ArgumentError, match="times must be at least 1; got -3"):
        counts.see(0, 0, 0, times=-3)
    assert (counts.total, counts.num_outcomes, counts.max_damage) == (2, 1, 1)
    assert counts.see(0, 0, 7)
    assert counts.max_damage == 7
    with pytest.raises(ArgumentError, match="space must be a model, or the space of one; got 'paper'"):
        Counts("paper")
