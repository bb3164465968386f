"""from_transitions: equal content gives equal models, and invalid input is refused with its place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure.errors import ModelError, UnknownName
from almostsure.model.build.transitions import from_transitions
from almostsure.testing import transitions

GOOD = {
    "states": [0, 0, 0],
    "actions": [0, 0, 1],
    "next_states": [0, 1, 1],
    "probabilities": [0.5, 0.5, 1.0],
    "rewards": [1.0, 0.0, 0.0],
    "damages": [1, 0, 0],
}


def build(**changes):
    options = {"terminal": [1]}
    columns = dict(GOOD)
    for name, value in changes.items():
        (columns if name in columns else options)[name] = value
    return from_transitions(*columns.values(), **options)


def test_content_is_choice_major_and_sorted():
    mdp = from_transitions([1, 0, 0, 0], [0, 2, 0, 0], [1, 1, 1, 0], [1, 1, 0.25, 0.75], [0, 3, 0, 1], [0, 2, 1, 0])
    assert mdp.choice_ptr.tolist() == [0, 2, 3]
    assert mdp.choice_action.tolist() == [0, 2, 0]
    assert mdp.outcome_ptr.tolist() == [0, 2, 3, 4]
    assert mdp.successor.tolist() == [0, 1, 1, 1]
    assert mdp.probability.tolist() == [0.75, 0.25, 1, 1]
    assert mdp.reward.tolist() == [1, 0, 3, 0]
    assert mdp.damage.tolist() == [0, 1, 2, 0]
    assert mdp.is_terminal().tolist() == [False, True]


def test_small_models_have_narrow_arrays():
    mdp = build()
    widths = {name: getattr(mdp, name).dtype for name in ("choice_ptr", "outcome_ptr", "successor", "choice_action")}
    assert widths == {"choice_ptr": "i4", "outcome_ptr": "i4", "successor": "i4", "choice_action": "u1"}


@given(transitions(), st.randoms(use_true_random=False))
def test_permuted_entries_give_the_same_model(content, random):
    order = list(range(len(content.states)))
    random.shuffle(order)
    shuffled = [[column[i] for i in order] for column in content.columns]
    mdp, other = content.build(), from_transitions(*shuffled, **content.options)
    assert other.fingerprint == mdp.fingerprint
    assert other == mdp
    assert hash(other) == hash(mdp)


@given(transitions(), st.integers(2, 5), st.randoms(use_true_random=False))
def test_permuted_pieces_of_entries_give_the_same_model(content, pieces, random):
    """Repeated entries add up, in whatever order they come."""
    rows = [row for row in zip(*content.columns, strict=True) for _ in range(pieces)]
    rows = [(s, a, t, p / pieces, r, d) for s, a, t, p, r, d in rows]
    models = []
    for _ in range(2):
        random.shuffle(rows)
        columns = list(zip(*rows, strict=True)) or [()] * 6
        models.append(from_transitions(*columns, **content.options))
    assert models[0].fingerprint == models[1].fingerprint
    whole = content.build()
    assert np.array_equal(models[0].successor, whole.successor)
    assert np.allclose(models[0].probability, whole.probability, rtol=0, atol=1e-12)


@given(transitions())
def test_the_columns_may_have_any_integer_type(content):
    expected = content.build()
    s, a, t, p, r, d = content.columns
    for kind in (np.int32, np.uint64, np.float64):
        columns = [np.array(x, kind) for x in (s, a, t)]
        mdp = from_transitions(*columns, p, r, np.array(d, np.uint8), **content.options)
        assert mdp == expected


@given(transitions())
def test_the_callers_arrays_are_left_alone_and_not_shared(content):
    columns = [np.array(x, kind) for x, kind in zip(content.columns, ("i8", "i8", "i8", "f8", "f8", "u1"), strict=True)]
    before = [x.copy() for x in columns]
    mdp = from_transitions(*columns, **content.options)
    assert all(np.array_equal(x, y) for x, y in zip(columns, before, strict=True))
    for mine, theirs in zip((mdp.probability, mdp.reward, mdp.damage), columns[3:], strict=True):
        assert not np.shares_memory(mine, theirs)
    read_only = [x.copy() for x in columns]
    for x in read_only:
        x.flags.writeable = False
    assert from_transitions(*read_only, **content.options) == mdp


def test_sorted_input_with_ties_does_not_change_the_callers_arrays():
    p, d = np.array([0.75, 0.25, 1.0]), np.array([1, 0, 0], np.uint8)
    mdp = from_transitions([0, 0, 1], [0, 0, 0], [1, 1, 1], p, [0, 0, 0], d)
    assert p.tolist() == [0.75, 0.25, 1.0]
    assert d.tolist() == [1, 0, 0]
    assert mdp.damage.tolist() == [0, 1, 0]
    assert mdp.probability.tolist() == [0.25, 0.75, 1.0]


def test_several_outcomes_to_one_successor_stay_apart():
    mdp = build(next_states=[1, 1, 1])
    assert [tuple(outcome) for outcome in mdp.outcomes(0, 0)] == [(1, 0.5, 0.0, 0), (1, 0.5, 1.0, 1)]


def test_negative_zero_rewards_are_zero_rewards():
    assert build(rewards=[1.0, -0.0, -0.0]).fingerprint == build().fingerprint


def test_entries_with_probability_zero_are_left_out():
    mdp = build(states=[0, 0, 0, 0], actions=[0, 0, 1, 1], next_states=[0, 1, 1, 0],
                probabilities=[0.5, 0.5, 1, 0], rewards=[1, 0, 0, 9], damages=[1, 0, 0, 9])  # fmt: skip
    assert mdp == build()


def test_terminal_states_with_their_loop_or_without_are_the_same():
    with_loop = from_transitions([0, 1], [0, 0], [1, 1], [1, 1], [0, 0], [0, 0], terminal=[1])
    assert with_loop == from_transitions([0], [0], [1], [1], [0], [0], terminal=[1])
    assert with_loop == from_transitions([0], [0], [1], [1], [0], [0], terminal={1})
    assert with_loop == from_transitions([0], [0], [1], [1], [0], [0], terminal=np.array([1]))


def test_terminal_states_may_be_all_there_is():
    mdp = from_transitions([], [], [], [], [], [], terminal=[0])
    assert (mdp.num_states, mdp.num_choices, mdp.is_terminal().tolist()) == (1, 1, [True])


def test_huge_action_ids_fall_back_to_another_sort():
    columns = [1, 0, 0], [0, 2**31 - 2, 5], [0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]
    mdp = from_transitions(*columns)
    assert mdp.choice_action.tolist() == [5, 2**31 - 2, 0]
    assert mdp.choice_action.dtype == np.int32


def test_normalise_rescales():
    third = np.float32(1) / np.float32(3)
    columns = [0, 0, 0], [0, 0, 0], [0, 1, 2], [third] * 3, [0] * 3, [0] * 3
    with pytest.raises(ModelError, match=r"choice 0 .* must sum to 1 within 1e-09; got .*normalise=True"):
        from_transitions(*columns, terminal=[1, 2])
    mdp = from_transitions(*columns, terminal=[1, 2], normalise=True)
    assert np.allclose(mdp.probability[:3], 1 / 3, rtol=0, atol=1e-15)


def test_initial_in_all_its_forms():
    names = ["a", "b"]
    forms = (1, "b", np.int64(1), {"b": 1.0}, {1: 1.0, 0: 0.0}, [0.0, 1.0], np.array([0, 1]), {"b": 0.5, 1: 0.5})
    prints = {build(initial=form, state_names=names).fingerprint for form in forms}
    assert len(prints) == 1
    spread = build(initial={1: 0.25, 0: 0.75})
    assert spread.initial_states.tolist() == [0, 1]
    assert spread.initial_probabilities.tolist() == [0.75, 0.25]


BAD = [
    ({"probabilities": [-0.5, 1.5, 1]},
     r"must lie in 0 … 1; got -0.5 at entry 0 \(state 0, action 0, next state 0\) \(and 1 more entry\)"),
    ({"probabilities": [np.nan, 0.5, 1]}, r"probabilities must lie in 0 … 1; got nan at entry 0"),
    ({"probabilities": [0.5, 0.5, 1.5]}, r"probabilities must lie in 0 … 1; got 1.5 at entry 2 \(state 0, action 1"),
    ({"probabilities": [np.inf, 0.5, 1]}, r"probabilities must lie in 0 … 1; got inf"),
    ({"probabilities": [0.5, 0.4, 1]},
     r"probabilities of choice 0 \(state 0, action 0\) must sum to 1 within 1e-09; got 0.9\."),
    ({"probabilities": [0.5, 0.5, 0]}, r"probabilities of state 0, action 1 must sum to 1; got 0\. Leave out"),
    ({"probabilities": ["x", "y", "z"]}, r"probabilities must be numbers; got 'x' at entry 0 \(state 0"),
    ({"probabilities": [[0.5, 0.5, 1]]}, r"probabilities must be one-dimensional; got shape \(1, 3\)"),
    ({"probabilities": [[0.5], [0.5, 1], 1]}, r"probabilities must be numbers; "),
    ({"probabilities": [1j, 0.5, 1]}, r"probabilities must be numbers; got 1j at entry 0"),
    ({"rewards": [np.inf, 0, 0]}, r"rewards must be finite; got inf at entry 0 \(state 0, action 0, next state 0\)"),
    ({"rewards": [0, np.nan, -np.inf]}, r"rewards must be finite; got nan at entry 1 .*\(and 1 more entry\)"),
    ({"damages": [-1, 0, 0]}, r"damages must be integers 0 … 255; got -1 at entry 0"),
    ({"damages": [0, 0.5, 1.5]},
     r"damages must be integers 0 … 255; got 0.5 at entry 1 \(state 0, action 0, next state 1\) "
     r"\(and 1 more entry\)\. Scale or round"),
    ({"damages": [0, 0, 256]}, r"damages must be integers 0 … 255; got 256 at entry 2"),
    ({"damages": [-1, -2, 300]}, r"got -1 at entry 0 \(state 0, action 0, next state 0\) \(and 2 more entries\)"),
    ({"damages": [np.nan, 0, 0]}, r"damages must be integers 0 … 255; got nan"),
    ({"damages": [None, 0, 0]}, r"damages must be integers 0 … 255; got None at entry 0"),
    ({"next_states": [0, 1, -1]}, r"next_states must not be negative; got -1 at entry 2"),
    ({"next_states": [0, 1, 2], "num_states": 2}, r"states must lie in 0 … 1; got 2\. Raise num_states"),
    ({"next_states": [0, 1, 1.5]}, r"next_states must be integers; got 1.5 at entry 2"),
    ({"next_states": [0, 1, 2**63]}, r"next_states must be"),
    ({"states": ["a", "a", "b"]}, r"states must be integers; got <U1 such as 'a'\. Use from_table for states and"),
    ({"actions": ["go", "go", "stay"]}, r"actions must be integers; got <U4 such as 'go'\. Use from_table"),
    ({"damages": [0, "1", None]}, r"got '1' at entry 1 \(state 0, action 0, next state 1\) \(and 1 more entry\)"),
    ({"rewards": [0, 0, None]}, r"rewards must be numbers; got None at entry 2 \(state"),
    ({"terminal": "b"}, r"terminal must be integers; got <U1 such as 'b'\. Use from_table"),
    ({"states": [True, False, False]}, r"states must be integers; got bool"),
    ({"states": [0, 0, 5]},
     r"every state must have a choice; state 2 has none \(and 2 more states\)\. If it is terminal"),
    ({"states": [0, 0, 10**12]}, r"every state must have a choice; state 2 has none \(and 9.* more states\)"),
    ({"num_states": 3, "state_names": ["a", "b", "c"]}, r"every state must have a choice; state 2 'c' has none\."),
    ({"actions": [0, 0, 2**31]}, r"actions must be at most 2147483646; got 2147483648 at entry 2"),
    ({"actions": [0, 0]}, r"equal lengths; got states 3, actions 2, next_states 3"),
    ({"terminal": [0, 1]},
     r"terminal state 0 must only have self-loops without damage and reward, or no outcomes; "
     r"got reward 1 and damage 1 at entry 0 \(state 0, action 0, next state 0\) \(and 2 more entries\)"),
    ({"terminal": [1.5]}, r"terminal must be integers; got 1.5"),
    ({"terminal": [-1]}, r"terminal must not be negative; got -1"),
    ({"terminal": 1}, r"terminal must be a collection of states; got 1"),
    ({"terminal": np.array([False, True])}, r"terminal must be integers; got bool"),
    ({"num_states": 2.5}, r"num_states must be an integer; got 2.5"),
    ({"num_states": 0}, r"at least one state; got none"),
    ({"initial": 7}, r"initial states must lie in 0 … 1; got 7"),
    ({"initial": {0: 0.5, 1: 0.6}}, r"initial probabilities must be positive and sum to 1; got sum 1.1"),
    ({"initial": {0: np.nan}}, r"initial probabilities must be positive and sum to 1"),
    ({"initial": {}}, r"the initial distribution must have at least one state"),
    ({"initial": {0.5: 1.0}}, r"initial states must be indices or names; got 0.5"),
    ({"initial": [0.5, 0.25, 0.25]}, r"one probability for each of the 2 states; got 3 numbers"),
    ({"initial": 0.5}, r"initial must be one-dimensional"),
    ({"state_names": ["a"]}, r"states must lie in 0 … 0; got 1"),
    ({"state_names": ["a", "b", "c"], "num_states": 2}, r"state_names must name each of the 2 states; got 3 names"),
    ({"state_names": ["a", "a"]}, r"state_names must differ; got 'a' twice"),
    ({"state_names": ["a", 1]}, r"state_names must be strings; got 1"),
    ({"action_names": ["left"]}, r"action_names must name every action 0 … 1; got 1 name"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_refused_with_its_place(change, message):
    with pytest.raises(ModelError, match=message):
        build(**change)


def test_an_unknown_initial_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match=r"unknown initial state 'strat'\. Did you mean 'start'\?"):
        build(initial="strat", state_names=["start", "end"])


def test_empty_input_is_refused():
    with pytest.raises(ModelError, match="a model must have at least one state; got none"):
        from_transitions([], [], [], [], [], [])


def test_errors_carry_the_place_as_fields():
    with pytest.raises(ModelError, match="rewards must be finite") as caught:
        build(rewards=[0, 0, np.inf])
    assert (caught.value.state, caught.value.action, caught.value.outcome) == (0, 1, 2)


def test_sums_that_are_tolerated_but_off_by_more_than_rounding_are_rescaled_once():
    third = 1 / 3
    mdp = from_transitions(
        [0, 0, 1, 1, 1],
        [0] * 5,
        [0, 1, 0, 1, 2],
        [0.5, 0.5 + 5e-10, third, third, third],
        [0] * 5,
        [0] * 5,
        terminal=[2],
    )
    sums = np.add.reduceat(mdp.probability, mdp.outcome_ptr[:-1])
    assert abs(sums[0] - 1) < 1e-15
    assert mdp.probability[2:5].tolist() == [third] * 3  # 1 up to rounding: left alone
    again = from_transitions(
        mdp.choice_states()[mdp.outcome_choices()], mdp.choice_action[mdp.outcome_choices()], mdp.successor,
        mdp.probability, mdp.reward, mdp.damage,
    )  # fmt: skip
    assert again == mdp


def test_a_probability_may_be_above_1_by_rounding_only():
    assert from_transitions([0], [0], [0], [1 + 5e-10], [0], [0]).probability.tolist() == [1.0]
    with pytest.raises(ModelError, match="probabilities must lie in 0 … 1"):
        from_transitions([0], [0], [0], [1 + 2e-9], [0], [0])
