"""Sections 3.2 and 3.3 of the paper, theorem by theorem: the barrier, the minimal budget, the operator, Algorithm 1.

Castellano, Min, Bazerque and Mallada, *Reinforcement Learning with Almost Sure Constraints* (L4DC 2022).  All
statements are tested for damages larger than 1 as well.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from almostsure import INFINITE, from_transitions, minimal_budget
from almostsure.budget.reference import algorithm_1, barrier, budget_operator, state_budgets, unsafe_states
from almostsure.errors import ArgumentError, ModelError
from almostsure.testing import mdps

SAFE, LOST = 0.0, -np.inf
PLENTY = 8  # more than any finite budget of the models below


def small(max_damage=2, max_states=4):
    return mdps(max_states=max_states, max_actions=2, max_damage=max_damage)


def budgets(mdp):
    """Any argument k of T: a number or ∞ for each choice."""
    entry = st.integers(0, 6) | st.just(INFINITE)
    return st.lists(entry, min_size=mdp.num_choices, max_size=mdp.num_choices).map(np.array)


def plus(k, constant):
    return np.where(k == INFINITE, INFINITE, k + constant)


# ---------------------------------------------------------------------- Lemma 3: the barrier


def bellman(mdp, b):
    """The right-hand side of equation (8), on a barrier [budget + 1, choices], outcome by outcome."""
    right = np.zeros_like(b)
    for k, c in itertools.product(range(b.shape[0]), range(mdp.num_choices)):
        for j in range(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1]):
            left = k - int(mdp.damage[j])
            choices = mdp.choices(int(mdp.successor[j]))
            best = max(b[left, a] for a in choices) if left >= 0 else LOST
            right[k, c] = min(right[k, c], best)
    return right


@settings(max_examples=60)
@given(small())
def test_lemma_3_the_barrier_satisfies_its_bellman_equation(mdp):
    b = barrier(mdp, PLENTY)
    assert set(np.unique(b)) <= {SAFE, LOST}
    np.testing.assert_array_equal(bellman(mdp, b), b)


@settings(max_examples=60)
@given(small(), st.data())
def test_the_barrier_is_the_greatest_solution(mdp, data):
    """All safe sets that satisfy the equation are contained in it; here the largest one inside a random set."""
    b = barrier(mdp, 4)
    size = b.size
    inside = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    other = np.where(np.reshape(inside, b.shape), SAFE, LOST)
    while not np.array_equal(following := np.minimum(other, bellman(mdp, other)), other):
        other = following
    assert (other <= b).all()


@settings(max_examples=60)
@given(small(max_damage=4))
def test_equations_9_and_10_more_budget_is_safer(mdp):
    is_safe = barrier(mdp, 12) == SAFE
    assert (is_safe[1:] >= is_safe[:-1]).all()


def policies_on_augmented_states(mdp, budget):
    """All deterministic stationary policies on (s, k): a choice for each pair."""
    options = [mdp.choices(s) for _ in range(budget + 1) for s in range(mdp.num_states)]
    return itertools.product(*options)


@settings(max_examples=25)
@given(mdps(max_states=2, max_actions=2, max_outcomes=2, max_damage=2))
def test_the_barrier_is_that_of_the_best_policy(mdp):
    """B* = max over policies of B_π (equation 6): a triple is safe if *some* policy never overspends from it."""
    budget = 2
    best = np.full((budget + 1, mdp.num_choices), LOST)
    for policy in policies_on_augmented_states(mdp, budget):
        choice = np.reshape(policy, (budget + 1, mdp.num_states))
        safe = np.ones((budget + 1, mdp.num_states), bool)  # of (k, s) under the policy: cannot reach overspending
        while True:
            now = np.array(
                [[_all_safe(mdp, safe, k, choice[k, s]) for s in range(mdp.num_states)] for k in range(budget + 1)]
            )
            if np.array_equal(now, safe):
                break
            safe = now
        for k, c in itertools.product(range(budget + 1), range(mdp.num_choices)):
            if _all_safe(mdp, safe, k, c):
                best[k, c] = SAFE
    np.testing.assert_array_equal(barrier(mdp, budget), best)


def _all_safe(mdp, safe, k, c):
    outcomes = range(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1])
    return all(k >= mdp.damage[j] and safe[k - int(mdp.damage[j]), mdp.successor[j]] for j in outcomes)


# ---------------------------------------------------------------------- equation (11): the minimal budget


@settings(max_examples=100)
@given(small())
def test_the_minimal_budget_is_the_least_with_a_barrier_of_zero(mdp):
    is_safe = barrier(mdp, PLENTY) == SAFE
    expected = np.where(is_safe.any(axis=0), is_safe.argmax(axis=0), INFINITE)
    k = minimal_budget(mdp, cap=PLENTY).of_choice
    np.testing.assert_array_equal(k, expected)


@settings(max_examples=60)
@given(small(), st.integers(0, 5))
def test_unsafe_states_are_those_where_all_barriers_are_minus_infinity(mdp, budget):
    """Remark 2."""
    k = algorithm_1(mdp).of_choice
    best = np.maximum.reduceat(barrier(mdp, budget)[budget], mdp.choice_ptr[:-1])
    np.testing.assert_array_equal(unsafe_states(mdp, k, budget), best == LOST)
    np.testing.assert_array_equal(minimal_budget(mdp).unsafe_states(budget), best == LOST)
    np.testing.assert_array_equal(unsafe_states(mdp, k, INFINITE), algorithm_1(mdp).of_state == INFINITE)


@pytest.mark.parametrize("budget", [-1, 1.5, float("nan"), None])
def test_a_barrier_needs_a_whole_budget(budget):
    with pytest.raises(ArgumentError, match=r"budget must be (a whole number|at least 0); got"):
        barrier("paper", budget)


@pytest.mark.parametrize("budgets", [[0.5, 0, 0], [float("nan"), 0, 0]])
def test_the_operator_needs_integers(budgets):
    with pytest.raises(ModelError, match="budgets must be one integer for each of the 3 choices; got"):
        budget_operator("paper", budgets)


# ---------------------------------------------------------------------- Theorem 2: the recursion


@settings(max_examples=150)
@given(mdps(max_damage=255))
def test_theorem_2_the_minimal_budget_is_a_fixed_point(mdp):
    k = minimal_budget(mdp).of_choice
    np.testing.assert_array_equal(budget_operator(mdp, k), k)


def test_theorem_2_on_the_paper_s_example():
    """Left costs one unit each time, right ends: k*(circle, left) = 1 + k*(circle, right) = 1."""
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    assert minimal_budget(mdp).of_choice.tolist() == [1, 0, 0]


# ---------------------------------------------------------------------- the operator T


@settings(max_examples=150)
@given(small().flatmap(lambda mdp: st.tuples(st.just(mdp), budgets(mdp), budgets(mdp))))
def test_the_operator_is_monotone(drawn):
    mdp, one, other = drawn
    low, high = np.minimum(one, other), np.maximum(one, other)
    assert (budget_operator(mdp, low) <= budget_operator(mdp, high)).all()


@settings(max_examples=100)
@given(small().flatmap(lambda mdp: st.tuples(st.just(mdp), budgets(mdp))))
def test_the_operator_outcome_by_outcome(drawn):
    mdp, k = drawn
    expected = []
    for c in range(mdp.num_choices):
        worst = 0
        for j in range(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1]):
            v = min(int(k[a]) for a in mdp.choices(int(mdp.successor[j])))
            worst = max(worst, INFINITE if v == INFINITE else v + int(mdp.damage[j]))
        expected.append(worst)
    assert budget_operator(mdp, k).tolist() == expected


@settings(max_examples=100)
@given(small(), st.integers(1, 1000))
def test_fixed_points_are_not_unique(mdp, constant):
    """If k† is a fixed point, so is k† + c; k* is the least of them."""
    k = algorithm_1(mdp).of_choice
    raised = plus(k, constant)
    np.testing.assert_array_equal(budget_operator(mdp, raised), raised)
    everywhere = np.full(mdp.num_choices, INFINITE)
    np.testing.assert_array_equal(budget_operator(mdp, everywhere), everywhere)


@settings(max_examples=100)
@given(small().flatmap(lambda mdp: st.tuples(st.just(mdp), budgets(mdp))))
def test_the_minimal_budget_is_the_least_pre_fixed_point(drawn):
    """T k ≤ k implies k* ≤ k, which proves that the certificate's values are never too small."""
    mdp, k = drawn
    while not np.array_equal(raised := np.maximum(k, budget_operator(mdp, k)), k):
        k = np.where(raised > 40, INFINITE, raised)
    assert (budget_operator(mdp, k) <= k).all()
    assert (algorithm_1(mdp).of_choice <= k).all()


@pytest.mark.parametrize("shape", [(), (1,), (2, 2), (5,)])
def test_the_operator_needs_one_entry_per_choice(shape):
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    with pytest.raises(ValueError, match="budgets must be one integer for each of the 3 choices; got int64 of shape"):
        budget_operator(mdp, np.zeros(shape, int))


# ---------------------------------------------------------------------- Theorem 3: Algorithm 1


@settings(max_examples=150)
@given(small(max_damage=3, max_states=6))
def test_theorem_3_algorithm_1_converges_from_below(mdp):
    found = algorithm_1(mdp, trace=True)
    k = minimal_budget(mdp).of_choice
    np.testing.assert_array_equal(found.of_choice, k)
    np.testing.assert_array_equal(found.of_state, state_budgets(mdp, k))
    trace = found.trace
    assert not trace[0].any()
    assert len(trace) == found.iterations + 1
    for before, after in itertools.pairwise(trace):
        assert (before <= after).all()
        assert (after <= k).all()
        finite = after < INFINITE
        np.testing.assert_array_equal(budget_operator(mdp, before)[finite], after[finite])
    np.testing.assert_array_equal(trace[-1], trace[-2])


def test_no_trace_unless_requested():
    mdp = from_transitions([0], [0], [1], [1], [0], [1], terminal=[1])
    assert algorithm_1(mdp).trace == ()


@settings(max_examples=100)
@given(mdps(max_states=6, max_damage=4))
def test_nothing_finite_exceeds_states_times_damage(mdp):
    """The rule by which Algorithm 1 stops where k* = ∞; as printed in the paper it does not stop."""
    k = minimal_budget(mdp).of_state
    finite = k[k < INFINITE]
    assume(finite.size)
    assert finite.max() <= mdp.num_states * mdp.max_damage


def test_algorithm_1_stops_where_the_paper_s_does_not():
    mdp = from_transitions([0], [0], [0], [1], [0], [1])
    found = algorithm_1(mdp, trace=True)
    assert found.of_state.tolist() == [INFINITE]
    assert [int(k[0]) for k in found.trace] == [0, 1, INFINITE, INFINITE]


@settings(max_examples=100)
@given(small(max_states=5, max_damage=3))
def test_random_play_inside_the_budget_never_overspends_and_one_unit_less_can_be_forced(mdp):
    """The meaning of k*: play with k*(s,a) ≤ remaining never overspends; with one unit less, nature can force it."""
    minimal = minimal_budget(mdp)
    rng = np.random.default_rng(mdp.num_outcomes)
    v = minimal.of_state
    for start in np.flatnonzero((v > 0) & (v < INFINITE)).tolist():
        state, remaining = start, int(v[start])
        for _ in range(30):  # the agent plays any allowed action, nature the worst outcome
            choices = [c for c in mdp.choices(state) if minimal.of_choice[c] <= remaining]
            assert choices
            c = int(rng.choice(choices))
            outcomes = np.arange(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1])
            j = int(rng.choice(outcomes))
            remaining -= int(mdp.damage[j])
            assert remaining >= v[mdp.successor[j]] >= 0
            state = int(mdp.successor[j])
        lost = barrier(mdp, int(v[start]) - 1)[-1][list(mdp.choices(start))]
        assert (lost == LOST).all()
