"""Sample sizes: their formulas, their inverses, and the guarantee."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure.errors import ArgumentError, UnknownName
from almostsure.learn.bounds import (
    Confidence,
    at_least,
    confidence,
    delta_bought,
    most_outcomes,
    mu_bought,
    percent,
    samples_needed,
)  # fmt: skip

sizes = st.integers(1, 10**6)
probabilities = st.floats(1e-9, 1 - 1e-9)
bounds = st.sampled_from(["sharp", "paper"])


@pytest.mark.parametrize(
    ("mu", "most"), [(0.1, 10), (1 / 3, 3), (0.05, 20), (0.01, 100), (1 / 49, 49), (0.3, 3), (0.5, 2), (0.51, 1)]
)
def test_most_outcomes_is_never_one_too_few(mu, most):
    assert most_outcomes(mu) == most


@given(st.integers(1, 10**6))
def test_most_outcomes_of_reciprocals(number):
    if number > 1:
        assert most_outcomes(1 / number) == number


@given(probabilities)
def test_most_outcomes_is_the_largest_number_that_fits(mu):
    most = most_outcomes(mu)
    assert (most + 1) * Fraction(mu) > 1
    assert most * Fraction(mu) <= 1 + Fraction(1, 10**8)


def test_the_formulas():
    assert samples_needed(10, 3, mu=0.1, delta=0.01) == math.ceil(math.log(30 * 10 / 0.01) / -math.log(0.9))
    assert samples_needed(3, 3, mu=0.1, delta=0.01) == math.ceil(math.log(9 * 6 / 0.01) / -math.log(0.9))
    assert samples_needed(10, 3, mu=0.1, delta=0.01, bound="paper") == math.ceil(10 * math.log(2 * 100 * 3 / 0.01))
    assert samples_needed(3, 3, mu=0.1, delta=0.01, num_damages=3) == math.ceil(math.log(9 * 9 / 0.01) / -math.log(0.9))
    assert samples_needed(2, 2, mu=0.1, delta=0.01, bound="paper", num_damages=5) == math.ceil(10 * math.log(40 / 0.01))


def test_a_tie_is_not_rounded_up():
    # 1 · 1 · 2 / 2⁻⁹ = 2¹⁰, and samples halve it: exactly ten are needed, in real numbers.
    for power in range(2, 200):
        assert samples_needed(1, 1, mu=0.5, delta=2.0**-power) == power + 1


def test_extremes():
    assert samples_needed(1, 1, mu=1 - 2**-53, delta=0.5) == 1
    tiny = samples_needed(10, 3, mu=1e-300, delta=0.01)
    assert 1e300 < tiny < 1e302
    assert samples_needed(10**9, 10**3, mu=1e-12, delta=1e-300) > 10**14


@given(sizes, st.integers(1, 100), probabilities, probabilities, bounds)
def test_delta_bought_is_the_inverse_of_samples_needed(states, actions, mu, delta, bound):
    samples = samples_needed(states, actions, mu=mu, delta=delta, bound=bound)
    assert delta_bought(samples, states, actions, mu=mu, bound=bound) <= delta * (1 + 1e-9)
    if samples > 1:
        assert delta_bought(samples - 1, states, actions, mu=mu, bound=bound) >= delta * (1 - 1e-9)


@given(sizes, st.integers(1, 100), st.integers(1, 10**6), probabilities, bounds)
def test_mu_bought_needs_no_more_samples(states, actions, samples, delta, bound):
    mu = mu_bought(samples, states, actions, delta=delta, bound=bound)
    if mu < 1:
        assert samples_needed(states, actions, mu=mu, delta=delta, bound=bound) <= samples
        assert samples_needed(states, actions, mu=mu * 0.999, delta=delta, bound=bound) >= samples


@given(sizes, st.integers(1, 100), probabilities, probabilities)
def test_sharp_is_never_worse_than_the_paper(states, actions, mu, delta):
    def needed(bound):
        return samples_needed(states, actions, mu=mu, delta=delta, bound=bound)

    assert needed("sharp") <= needed("paper")


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12), st.floats(0.01, 0.9))
def test_confidence_of_any_shape(counts, mu):
    shaped = np.array(counts).reshape(1, -1, 1)
    exact = sum(Fraction(1 - mu) ** n for n in counts) * most_outcomes(mu)
    delta = confidence(shaped, mu).delta
    assert delta == 1 or exact <= Fraction(delta) <= max(exact, Fraction(1e-300)) * Fraction(1000001, 1000000)


def test_confidence_agrees_with_samples_needed():
    samples = samples_needed(20, 4, mu=0.02, delta=0.001)
    counts = np.full((20, 4), samples)
    assert confidence(counts, 0.02, num_states=20).delta <= 0.001
    assert confidence(counts - 1, 0.02, num_states=20).delta > 0.001


def test_unsampled_choices_leave_no_confidence():
    result = confidence([100, 0], 0.5)
    assert result.delta == 1
    assert "promise nothing" in str(result)


def test_the_sentence():
    sentence = Confidence(mu=0.01, delta=0.001).statement
    assert sentence == "If no outcome is rarer than 1 %, this budget equals k* with probability at least 0.999."


@pytest.mark.parametrize(
    ("delta", "text"), [(0.001, "0.999"), (0.05, "0.95"), (0.00123, "0.9987"), (1e-9, "0.999999999"), (0.999, "0.001")]
)
def test_the_stated_confidence_is_rounded_down(delta, text):
    assert at_least(delta) == text


@pytest.mark.parametrize(("mu", "text"), [(0.01, "1 %"), (0.001, "0.1 %"), (1 / 3, "33.34 %"), (1e-7, "0.00001 %")])
def test_the_stated_assumption_is_rounded_up(mu, text):
    assert percent(mu) == text


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, float("nan"), "0.1", None, True])
def test_probabilities_outside_their_range(bad):
    with pytest.raises(ArgumentError, match="mu must"):
        samples_needed(2, 2, mu=bad, delta=0.1)
    with pytest.raises(ArgumentError, match="delta must"):
        samples_needed(2, 2, mu=0.1, delta=bad)
    with pytest.raises(ArgumentError, match="mu must"):
        confidence([1], bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", None])
def test_sizes_outside_their_range(bad):
    with pytest.raises(ArgumentError, match="num_states must"):
        samples_needed(bad, 2, mu=0.1, delta=0.1)
    with pytest.raises(ArgumentError, match="num_actions must"):
        samples_needed(2, bad, mu=0.1, delta=0.1)
    with pytest.raises(ArgumentError, match="samples must"):
        mu_bought(bad, 2, 2, delta=0.1)


def test_other_bad_arguments():
    with pytest.raises(UnknownName, match="Did you mean 'sharp'"):
        samples_needed(2, 2, mu=0.1, delta=0.1, bound="shrap")
    with pytest.raises(ArgumentError, match="counts must be whole numbers"):
        confidence([1.5], 0.1)
    with pytest.raises(ArgumentError, match="counts must be whole numbers, 0 or more"):
        confidence([-1], 0.1)
    with pytest.raises(ArgumentError, match="at least one"):
        confidence([], 0.1)
    assert delta_bought(0, 2, 2, mu=0.1) == 1


def test_tiny_probabilities_of_failure_are_not_zero():
    tiny = confidence([538], 0.75)  # 0.25^538 underflows
    assert tiny.delta > 0
    assert "at least 0.999999999999999." in tiny.statement
    assert delta_bought(10**6, 10, 2, mu=0.5) > 0


def test_there_is_no_confidence_for_very_rare_outcomes():
    assert confidence([10**18], 5e-324).delta == 1
