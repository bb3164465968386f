"""The two rules of acceptance: their formulas, and how often they really err."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure.learn.bounds import samples_needed
from almostsure.learn.evidence import BY_COUNT, ZETA_3, Evidence

UNBOUNDED = 10**9


@given(st.floats(0.001, 0.49), st.floats(1e-6, 0.9), st.integers(1, 10**6), st.integers(1, 60))
def test_by_count_keeps_its_share(mu, delta, choices, level):
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


def test_by_silence_grows_with_those_that_left():
    evidence = Evidence(0.1, 0.01, 500, UNBOUNDED)
    needed = evidence.by_silence(3, np.arange(10))
    assert (np.diff(needed) > 0).all()
    assert evidence.by_silence(10, 5) == 0
    assert needed[0] < samples_needed(125, 4, mu=0.1, delta=0.01) / 1.8


def test_choices_with_very_many_outcomes_have_a_share_too():
    evidence = Evidence(1e-4, 0.01, 3, UNBOUNDED)
    few, many = evidence.by_silence(600, 0), evidence.by_silence(9_000, 0)
    assert 0 < few < many < 2**40


def test_a_top_of_one_accepts_the_first_sample():
    evidence = Evidence(0.6, 0.01, 3, UNBOUNDED)
    accepted = evidence.known(np.array([1, 1, 0]), np.array([1, 5, 0]), np.array([0, 4, 0]))
    assert accepted.tolist() == [True, True, False]


def test_one_that_is_loud_holds_nobody_up_for_ever():
    evidence = Evidence(0.1, 0.01, 100, UNBOUNDED)
    enough = int(evidence.by_silence(2, 1))
    levels, samples = np.array([2, 2, 2]), np.array([60, 60, 3])
    silent = np.array([enough, enough, 0])
    assert evidence.known(levels, samples, silent).tolist() == [True, True, False]
    silent[1] -= 1  # now two are not accepted, and the first would need more
    assert evidence.known(levels, samples, silent).tolist() == [False, False, False]


def test_those_that_left_count():
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
def test_the_rules_err_less_than_they_may(outcomes):
    rng = np.random.default_rng(2)
    runs, delta = 400, 0.2
    errors = sum(play(rng, outcomes, 0.2, delta) for _ in range(runs))
    assert errors <= delta * runs
