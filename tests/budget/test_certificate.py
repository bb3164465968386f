"""The checker, plain and compiled, accepts k* and nothing else, from any solver."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import INFINITE, Shield, check_minimal_budget, check_upper, example, from_transitions, minimal_budget
from almostsure.budget import certificate
from almostsure.budget.certificate import _find_compiled, _find_plain
from almostsure.budget.reference import budget_operator
from almostsure.errors import ArgumentError, CertificateError, ModelError, ModelMismatch
from almostsure.testing import mdps


def verdict(mdp, minimal):
    """The result of the two checkers, which must agree."""
    found = _find_plain(mdp, minimal)
    assert _find_compiled(mdp, minimal) == found
    return found


def refused(mdp, minimal, match=""):
    """The error that refuses a budget; it names an existing state or choice."""
    with pytest.raises(CertificateError, match=match or ".") as caught:
        check_minimal_budget(mdp, minimal)
    error = caught.value
    if error.choice is not None:
        assert mdp.choice_ptr[error.state] <= error.choice < mdp.choice_ptr[error.state + 1]
        assert mdp.describe_choice(error.choice) in str(error)
    else:
        assert mdp.describe_state(error.state) in str(error)
    return error


def changed(minimal, *, of_state=None, of_choice=None, rank=None):
    """A copy with some entries replaced, each given as {index: value}."""
    arrays = {}
    for name, entries in (("of_state", of_state), ("of_choice", of_choice), ("rank", rank)):
        array = getattr(minimal, name).copy()
        for index, value in (entries or {}).items():
            array[index] = value
        arrays[name] = array
    return replace(minimal, **arrays)


def consistent(minimal, of_choice):
    """The budget with these k(s,a) and with v(s) their minima, so that it can only violate conditions 2 to 4."""
    of_state = np.minimum.reduceat(of_choice, minimal.mdp.choice_ptr[:-1])
    return replace(minimal, of_state=of_state.astype(np.int32), of_choice=of_choice.astype(np.int32))


@pytest.fixture(scope="module", params=[(1, None), (5, None), (1, 2), (5, 4)], ids=["1", "5", "1-cap-2", "5-cap-4"])
def solved(request, crowds):
    max_damage, cap = request.param
    mdp = crowds(60, 30, max_damage=max_damage).mdp
    return mdp, minimal_budget(mdp, cap=cap, check="never")


def random_choices(mdp, count=60):
    return np.random.default_rng(mdp.num_outcomes).choice(mdp.num_choices, count, replace=False).tolist()


# ---------------------------------------------------------------------- tampering


def test_minimal_budgets_pass(solved):
    mdp, minimal = solved
    assert verdict(mdp, minimal) == (0, 0)
    check_minimal_budget(mdp, minimal)


@pytest.mark.parametrize("step", [1, -1])
def test_a_choice_one_up_or_one_down(solved, step):
    mdp, minimal = solved
    for choice in random_choices(mdp):
        value = int(minimal.of_choice[choice])
        if 0 <= value + step < INFINITE - 1:
            tampered = changed(minimal, of_choice={choice: value + step})
            if value + step > (INFINITE if minimal.cap is None else minimal.cap):
                with pytest.raises(CertificateError, match="at most the cap"):
                    check_minimal_budget(mdp, tampered)
                continue
            error = refused(mdp, tampered)
            state = int(np.searchsorted(mdp.choice_ptr, choice, side="right")) - 1
            assert error.state == state
            assert error.choice in (None, choice)


@pytest.mark.parametrize("step", [1, -1])
def test_a_state_one_up_or_one_down(solved, step):
    mdp, minimal = solved
    for state in range(0, mdp.num_states, 3):
        value = int(minimal.of_state[state])
        if 0 <= value + step <= (INFINITE - 1 if minimal.cap is None else minimal.cap):
            error = refused(mdp, changed(minimal, of_state={state: value + step}), "must be the least of its choices")
            assert error.state == state


@pytest.mark.parametrize("step", [1, -1])
def test_a_state_with_all_its_choices_one_up_or_one_down(solved, step):
    """The values of a state and its choices are consistent, but do not fit the model."""
    mdp, minimal = solved
    for state in range(0, mdp.num_states, 3):
        k = minimal.of_choice.astype(np.int64)
        mine = k[mdp.choice_ptr[state] : mdp.choice_ptr[state + 1]]
        mine[(mine < INFINITE)] += step
        cap = INFINITE if minimal.cap is None else minimal.cap
        if mine.min() < INFINITE and mine.min() >= 0 and mine[mine < INFINITE].max() <= cap:
            tampered = consistent(minimal, k)
            assert verdict(mdp, tampered)[0] in (2, 3, 4)
            refused(mdp, tampered, "too small|too large|is not justified")


def test_infinite_made_finite_and_the_reverse(solved):
    mdp, minimal = solved
    tried = set()
    for state in range(mdp.num_states):
        k = minimal.of_choice.copy()
        mine = slice(mdp.choice_ptr[state], mdp.choice_ptr[state + 1])
        infinite = minimal.of_state[state] == INFINITE
        k[mine] = 1 if infinite else INFINITE
        refused(mdp, consistent(minimal, k), "too small|too large|is not justified")
        tried.add(infinite)
    assert tried == {True, False}


def test_a_rank_that_the_proof_needs(solved):
    """If only ranks justify a choice, lowering its state's own rank below all others violates condition 4 there."""
    mdp, minimal = solved
    owner = mdp.choice_states()[mdp.outcome_choices()]
    v = minimal.of_state.astype(np.int64)
    if minimal.cap is not None:
        v[v == INFINITE] = minimal.cap + 1
    paid = v[mdp.successor] + mdp.damage >= v[owner]
    without_rank = paid & ((mdp.damage > 0) | (v[mdp.successor] > v[owner]))
    if minimal.cap is None:  # only ∞ justifies ∞
        without_rank &= (v[owner] < INFINITE) | (v[mdp.successor] == INFINITE)
    justified = np.logical_or.reduceat(without_rank, mdp.outcome_ptr[:-1])
    needy = np.flatnonzero(~justified & (v[mdp.choice_states()] > 0))
    assert needy.size > 10
    for choice in needy.tolist():
        state = int(mdp.choice_states()[choice])
        tampered = changed(minimal, rank={state: int(minimal.rank.min()) - 1})
        assert verdict(mdp, tampered)[0] == 4
        error = refused(mdp, tampered, "is not justified: nothing forces")
        assert error.state == state


def test_a_rank_that_the_proof_does_not_need_may_be_anything(solved):
    mdp, minimal = solved
    safe = np.flatnonzero(minimal.of_state == 0)
    assert safe.size
    ranks = dict.fromkeys(safe.tolist(), int(minimal.rank.max()) + 1)
    assert verdict(mdp, changed(minimal, rank=ranks)) == (0, 0)


# ---------------------------------------------------------------------- fixed points of T that are not k*


@pytest.mark.parametrize("ranks", ["own", "zero", "random", "numbered"])
@pytest.mark.parametrize("step", [1, 3])
def test_other_fixed_points_are_too_large(crowds, step, ranks):
    """k* + c is a fixed point of T too; all conditions but the last hold for it, with any ranks."""
    mdp = crowds(200, 31).mdp
    minimal = minimal_budget(mdp)
    k = minimal.of_choice.astype(np.int64)
    k[k < INFINITE] += step
    np.testing.assert_array_equal(budget_operator(mdp, k), k)
    rank = {
        "own": minimal.rank,
        "zero": np.zeros(mdp.num_states, np.int64),
        "random": np.random.default_rng(0).permutation(mdp.num_states),
        "numbered": np.arange(mdp.num_states),
    }[ranks]
    claimed = replace(consistent(minimal, k), rank=rank.copy())
    assert verdict(mdp, claimed)[0] == 4
    refused(mdp, claimed, "is not justified")


def test_everything_infinite_is_a_fixed_point_and_refused(solved):
    mdp, minimal = solved
    claimed = consistent(minimal, np.full(mdp.num_choices, INFINITE))
    assert verdict(mdp, claimed)[0] == 4
    refused(mdp, claimed, "nothing forces ∞ damage")


@settings(max_examples=150)
@given(mdps(max_states=4, max_damage=2), st.data())
def test_other_values_are_refused_with_any_ranks(mdp, data):
    """Soundness: any values that differ from k* are refused, with any ranks."""
    minimal = minimal_budget(mdp)
    values = st.integers(0, 4) | st.just(INFINITE)
    of_state = data.draw(st.lists(values, min_size=mdp.num_states, max_size=mdp.num_states))
    ranks = data.draw(st.lists(st.integers(0, 4), min_size=mdp.num_states, max_size=mdp.num_states))
    # the choices' values that conditions 2 and 3 would accept
    target = np.array(of_state)[mdp.successor]
    cost = np.where(target == INFINITE, INFINITE, target + mdp.damage)
    k = np.maximum.reduceat(cost, mdp.outcome_ptr[:-1])
    claimed = replace(consistent(minimal, k), rank=np.array(ranks))
    found = verdict(mdp, claimed)
    if not np.array_equal(claimed.of_choice, minimal.of_choice):
        assert found != (0, 0)
        refused(mdp, claimed)


# ---------------------------------------------------------------------- form


def test_budget_of_another_model(crowds):
    one, other = crowds(1, 40).mdp, crowds(1, 41).mdp
    with pytest.raises(ModelMismatch, match=r"must belong to the model.*Solve again"):
        check_minimal_budget(one, minimal_budget(other))


def test_arrays_of_another_model():
    """A budget with the numbers of another model."""
    one = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    other = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 1], terminal=[1])
    assert verdict(one, replace(minimal_budget(other), mdp=one)) == (3, 1)
    refused(one, replace(minimal_budget(other), mdp=one), "claims 1, but no outcome costs more than 0")


def test_an_equal_model_built_again_will_do():
    columns = [0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0]
    minimal = minimal_budget(from_transitions(*columns, terminal=[1]))
    check_minimal_budget(from_transitions(*columns, terminal=[1]), minimal)


def test_messages_use_names():
    mdp = from_transitions(
        [0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1],
        state_names=["circle", "end"], action_names=["left", "right"],
    )  # fmt: skip
    minimal = minimal_budget(mdp)
    error = refused(mdp, changed(minimal, of_choice={0: 7}))
    assert str(error) == (
        "the budget of choice 0 (state 0 'circle', action 'left') is too large: "
        "it claims 7, but no outcome costs more than 1"
    )
    refused(mdp, changed(minimal, of_choice={0: 0}), "it claims 0, but an outcome costs 1")
    refused(mdp, changed(minimal, of_state={0: 1}), re.escape("state 0 'circle' must be the least of its choices"))


def test_each_condition_in_words():
    """The door leads with damage 2 to the ramp, which does damage 1; the loft is a self-loop without damage."""
    mdp = from_transitions(
        [0, 0, 1, 2, 2], [0, 1, 0, 0, 1], [1, 3, 3, 2, 3], [1] * 5, [0] * 4 + [1], [2, 4, 1, 0, 0], terminal=[3],
        state_names=["door", "ramp", "loft", "end"], action_names=["slip", "jump"],
    )  # fmt: skip
    minimal = minimal_budget(mdp)
    assert (minimal.of_state.tolist(), minimal.of_choice.tolist()) == ([3, 1, 0, 0], [3, 4, 1, 0, 0, 0])
    jump = "the budget of choice 1 (state 0 'door', action 'jump') is too"
    for claimed, condition, message in (
        (3, 2, f"{jump} small: it claims 3, but an outcome costs 4"),
        (INFINITE, 3, f"{jump} large: it claims ∞, but no outcome costs more than 4"),
    ):
        wrong = changed(minimal, of_choice={1: claimed})
        assert verdict(mdp, wrong) == (condition, 1)
        error = refused(mdp, wrong)
        assert (str(error), error.choice, error.state) == (message, 1, 0)
    loop = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [0, 1], [0, 2], terminal=[1], state_names=["loft", "end"])
    stuck = consistent(minimal_budget(loop), np.array([2, 2, 0]))
    assert verdict(loop, stuck) == (4, 0)
    assert str(refused(loop, stuck)) == (
        "the budget of choice 0 (state 0 'loft', action 0) is not justified: nothing forces 2 damage when it is chosen"
    )
    error = refused(mdp, changed(minimal, of_state={1: 2}))
    assert str(error) == "the budget of state 1 'ramp' must be the least of its choices' budgets, 1; got 2"
    assert error.state == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [2, 0, INFINITE],
            r"^the value of state 0 is too small: it is 2, but even the best action may cost 3\.$",
        ),
        (
            [0, 0, 5],
            r"state 0 is too small: it is 0, but even the best action may cost 3 \(and 1 more state\)\.$",
        ),
        ([3, 0, INFINITE - 1], r"state 2 is too small: it is 2147483646, but .* may cost ∞\.$"),
    ],
)
def test_upper_bounds_that_are_too_small(values, message):
    """A step of 3 to the end, and a pit."""
    mdp = from_transitions([0, 2], [0, 0], [1, 2], [1, 1], [0, 0], [3, 1], terminal=[1])
    with pytest.raises(CertificateError, match=message):
        check_upper(mdp, values)
    assert check_upper(mdp, [3, 0, INFINITE]).of_choice.tolist() == [3, 0, INFINITE]
    assert check_upper(mdp, [4, 1, np.inf]).of_choice.tolist() == [4, 1, INFINITE]
    for wrong, words in (
        ([3, 0], r"values must be one number per state \(3\); got shape \(2,\)"),
        ([3, -1, INFINITE], "values must be 0 … 2147483646, or ∞; got -1 at state 1"),
        ([3, 0, INFINITE + 1], "values must be 0 … 2147483646, or ∞; got 2147483648 at state 2"),
    ):
        with pytest.raises(ArgumentError, match=f"^{words}$"):
            check_upper(mdp, wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of_state": {0: -1}}, "of_state must be 0 or more; got -1 at index 0"),
        ({"of_choice": {2: -5}}, "of_choice must be 0 or more; got -5 at index 2"),
        ({"of_choice": {1: 9}}, "of_choice must be at most the cap 3, or INFINITE; got 9 at index 1"),
    ],
)
def test_values_outside_their_range(change, message):
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    with pytest.raises(CertificateError, match=re.escape(message)):
        check_minimal_budget(mdp, changed(minimal_budget(mdp, cap=3), **change))


@pytest.mark.parametrize("cap", [-1, INFINITE, 2**40])
def test_a_cap_outside_its_range(cap):
    """With a cap of −1, all budgets would be "more than the cap"."""
    mdp = from_transitions([0], [0], [1], [1], [0], [1], terminal=[1])
    minimal = consistent(minimal_budget(mdp), np.full(mdp.num_choices, INFINITE))
    with pytest.raises(ModelError, match="cap must be 0 … 2147483646, or None; got"):
        replace(minimal, cap=cap)
    object.__setattr__(minimal, "cap", cap)
    with pytest.raises(CertificateError, match="cap must be 0 …"):
        check_minimal_budget(mdp, minimal)


@pytest.mark.parametrize("chunk", [1, 3, 10, 1 << 16])
def test_streaming_in_chunks_finds_the_same(crowds, chunk, monkeypatch):
    monkeypatch.setattr(certificate, "CHUNK", chunk)
    mdp = crowds(8, 32).mdp
    minimal = minimal_budget(mdp)
    assert verdict(mdp, minimal) == (0, 0)
    for choice in range(0, mdp.num_choices, 5):
        k = minimal.of_choice.copy()
        k[choice] = 9
        condition, at = verdict(mdp, replace(minimal, of_choice=k))
        assert condition == (2 if minimal.of_choice[choice] == INFINITE else 3)
        assert at == choice


def test_large_models_are_checked_by_the_compiled_loop(crowds, monkeypatch):
    mdp = crowds(10, 33).mdp
    minimal = minimal_budget(mdp)
    monkeypatch.setattr(certificate, "SMALL", 0)
    monkeypatch.setattr(certificate, "_find_plain", None)
    check_minimal_budget(mdp, minimal)
    refused(mdp, changed(minimal, of_choice={int(np.argmax(minimal.of_choice == 0)): 7}))


def test_wide_indices_and_values_are_checked_too(crowds):
    """Models from memory-mapped files have 64-bit indices; budgets from other tools may have 64-bit values."""
    mdp = crowds(10, 34).mdp
    minimal = minimal_budget(mdp)
    wide = {name: getattr(minimal, name).astype(np.int64) for name in ("of_state", "of_choice", "rank")}
    assert verdict(mdp, replace(minimal, **wide)) == (0, 0)


def test_what_is_not_a_minimal_budget_is_named():
    mdp = example("quicksand")
    minimal = minimal_budget(mdp)
    for claim, message in (
        (Shield(minimal), r"got a Shield\. Pass its \.minimal\."),
        (minimal.of_state, r"got a ndarray\. Use check_upper for your own values\."),
        (None, r"minimal must be a MinimalBudget or a HorizonBudget, .* got a NoneType"),
    ):
        with pytest.raises(ArgumentError, match=message):
            check_minimal_budget(mdp, claim)
    with pytest.raises(ArgumentError, match="values must be whole numbers; got object"):
        check_upper(mdp, minimal)
