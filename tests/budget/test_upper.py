"""``check_upper``: upper bounds from any source suffice for a shield, or are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import INFINITE, Shield, check_minimal_budget, check_upper, minimal_budget
from almostsure.errors import ArgumentError, CertificateError
from almostsure.testing import mdps


@pytest.fixture
def mdp():
    """0 → 1 costs 2, 1 → 2 costs 1, 2 is terminal; 3 is never left and costs 1 per step."""
    return asure.from_transitions(
        [0, 0, 1, 3], [0, 1, 0, 0], [1, 3, 2, 3], [1] * 4, [0] * 4, [2, 0, 1, 1], terminal=[2]
    )


def test_the_minimal_budget_and_anything_above_it_by_the_same_amount_pass(mdp):
    minimal = minimal_budget(mdp)
    assert minimal.of_state.tolist() == [3, 1, 0, INFINITE]
    same = check_upper(mdp, minimal.of_state)
    assert same.upper_bound
    assert same.checked
    assert same.of_choice.tolist() == minimal.of_choice.tolist()
    more = check_upper(mdp, np.minimum(minimal.of_state.astype(np.int64) + 1, INFINITE))
    assert more.of_state.tolist() == [4, 2, 1, INFINITE]
    assert more.of_choice.tolist() == [4, INFINITE, 2, 1, INFINITE]
    assert repr(more).startswith("<MinimalBudget, an upper bound: the start needs a budget of at most 4 (4 states)")
    assert repr(more).endswith("given; verified: never too small>")


def test_infinity_may_be_written_as_a_float(mdp):
    assert check_upper(mdp, [3.0, 1.0, 0.0, np.inf]).of_state.tolist() == [3, 1, 0, INFINITE]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [2, 1, 0, INFINITE],
            "value of state 0 is too small: it is 2, but even the best action may cost 3",
        ),
        ([3, 0, 0, INFINITE], r"state 1 is too small: it is 0, .* best action may cost 1"),
        ([1, 0, 0, INFINITE], r"state 0 is too small: it is 1, .* cost 2 \(and 1 more state\)"),
        ([3, 1, 0, 10**6], r"state 3 is too small: it is 1000000, .* cost 1000001"),
    ],
)
def test_values_that_are_too_small_are_refused(mdp, values, message):
    with pytest.raises(CertificateError, match=message):
        check_upper(mdp, values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([3, 1, 0], r"values must be one number per state \(4\); got shape \(3,\)"),
        ([[3, 1, 0, 9]], r"values must be one number per state \(4\); got shape \(1, 4\)"),
        ([3.5, 1, 0, 9], "values must be whole numbers; got 3.5"),
        ([3, 1, float("nan"), 9], "values must be whole numbers; got nan"),
        ([3, 1, -1, 9], "values must be 0 … 2147483646, or ∞; got -1 at state 2"),
        ([3, 1, 0, 2**31], "values must be 0 … 2147483646, or ∞; got 2147483648 at state 3"),
        (["a"] * 4, "values must be whole numbers; got "),
    ],
)
def test_malformed_values_are_refused(mdp, values, message):
    with pytest.raises(ArgumentError, match=message):
        check_upper(mdp, values)


def test_an_upper_bound_is_not_minimal_and_forces_nothing(mdp):
    upper = check_upper(mdp, minimal_budget(mdp).of_state)
    with pytest.raises(CertificateError, match="upper bounds are not minimal budgets"):
        check_minimal_budget(mdp, upper)
    with pytest.raises(ArgumentError, match="an upper bound cannot be explained"):
        upper.explain(0)


def test_files_remember_that_they_hold_an_upper_bound(mdp, tmp_path):
    upper = check_upper(mdp, [4, 2, 1, INFINITE])
    upper.save(tmp_path / "b")
    again = asure.MinimalBudget.load(tmp_path / "b", mdp)
    assert again.upper_bound
    assert not again.checked
    assert again.of_state.tolist() == [4, 2, 1, INFINITE]
    Shield(upper).save(tmp_path / "s")
    assert Shield.load(tmp_path / "s", mdp).minimal.upper_bound


@given(mdps(), st.data())
def test_tampering_is_refused_exactly_where_the_condition_breaks(mdp, data):
    value = minimal_budget(mdp).of_state.astype(np.int64)
    state = data.draw(st.integers(0, mdp.num_states - 1))
    changed = value.copy()
    changed[state] = data.draw(st.integers(0, 12))
    costs = np.minimum(changed[mdp.successor] + mdp.damage, INFINITE)
    needed = np.minimum.reduceat(np.maximum.reduceat(costs, mdp.outcome_ptr[:-1]), mdp.choice_ptr[:-1])
    if (changed >= needed).all():
        assert (check_upper(mdp, changed).of_state >= value).all()
    else:
        with pytest.raises(CertificateError, match="is too small"):
            check_upper(mdp, changed)


@given(mdps(), st.data())
def test_a_shield_of_an_upper_bound_never_overspends(mdp, data):
    value = minimal_budget(mdp).of_state.astype(np.int64)
    more = data.draw(st.integers(0, 2))
    upper = check_upper(mdp, np.minimum(value + more, INFINITE))
    shield = Shield(upper)
    start = int(mdp.initial_states[0])
    if upper.of_state[start] == INFINITE:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    state, remaining = start, int(upper.of_state[start])
    for _ in range(50):
        action = int(rng.choice(shield.allowed(state, remaining)))  # raises if there is none
        outcomes = mdp.outcomes(state, action)
        worst = max(outcomes, key=lambda o: (o.damage, rng.random()))
        state, remaining = worst.next_state, remaining - worst.damage
        assert remaining >= 0
