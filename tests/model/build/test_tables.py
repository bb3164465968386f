"""Tables of outcomes: the same content gives the same model as from_transitions."""

import pytest
from hypothesis import given

from almostsure.errors import ModelError, UnknownName
from almostsure.model.build.tables import from_table
from almostsure.testing import transitions


@given(transitions())
def test_a_table_and_transitions_agree(content):
    table = {}
    for s, a, t, p, r, d in zip(*content.columns, strict=True):
        table.setdefault(s, {}).setdefault(a, []).append((p, t, r, d))
    expected = content.build()
    if table:
        assert from_table(table, terminal=content.terminal, initial=content.initial) == expected
    in_order = {s: table.get(s, {}) for s in range(content.num_states)}
    named = {f"s{s}": {f"a{a}": [(p, f"s{t}", r, d) for p, t, r, d in outcomes] for a, outcomes in row.items()}
             for s, row in in_order.items()}  # fmt: skip
    mdp = from_table(
        named,
        terminal=[f"s{s}" for s in content.terminal],
        initial={f"s{s}": weight for s, weight in content.initial.items()},
        action_names=["a0", "a1", "a2"],
    )
    assert mdp == expected
    assert mdp.state_names == tuple(named)


def test_short_forms_of_a_table():
    mdp = from_table(
        {"circle": {"left": [(0.6, "circle", 1, 1), (0.4, "circle", 1)], "right": (1, "square")}}, terminal=["square"]
    )
    assert mdp.outcomes("circle", "left") == [(0, 0.4, 1.0, 0), (0, 0.6, 1.0, 1)]
    assert mdp.outcomes("circle", "right") == [(1, 1.0, 0.0, 0)]
    assert mdp.action_names == ("left", "right")
    assert mdp.is_terminal().tolist() == [False, True]


def test_one_terminal_state_needs_no_list():
    table = {"home": {"commute": (1, "work")}}
    assert from_table(table, terminal="work") == from_table(table, terminal=["work"])
    assert from_table({0: {0: (1, 1)}}, terminal=1) == from_table({0: {0: (1, 1)}}, terminal=[1])


def test_messages_about_a_table_name_states_and_actions():
    table = {"home": {"stay": (1, "home"), "drive": (1, "home", float("nan"))}}
    with pytest.raises(ModelError, match=r"got nan at state 0 'home', action 1 'drive', next state 0 'home'\."):
        from_table(table)
    with pytest.raises(ModelError, match=r"terminal state 0 must .*got reward 2 and damage 0 at state 0 'home', act"):
        from_table({"home": {"stay": (1, "home", 2)}}, terminal="home")


def test_a_table_may_be_lists_and_its_states_anything_hashable():
    assert from_table([[[(1.0, 1, 0, 0)]], [[(1.0, 1, 0, 0)]]]) == from_table({0: {0: (1, 1)}}, terminal=[1])
    mdp = from_table({(0, 0): {"go": (1, (0, 1))}}, terminal=[(0, 1)], initial=(0, 0))
    assert mdp.state_names == ("(0, 0)", "(0, 1)")


def test_a_table_in_gymnasiums_form_ends_episodes():
    table = {0: {0: [(1.0, 1, 5.0, False)]}, 1: {0: [(0.5, 0, 1.0, True), (0.5, 0, 2.0, False)]}}
    mdp = from_table(table, lambda s, a, s2, r, terminated: 2 * terminated)
    assert mdp.num_states == 3
    assert mdp.outcomes(1, 0) == [(0, 0.5, 2.0, 0), (2, 0.5, 1.0, 2)]
    assert mdp.is_terminal().tolist() == [False, False, True]
    named = from_table({"a": {"x": (1.0, "a", 1, True)}, "end": {"x": (1.0, "a", 0, False)}}, lambda *_: 0)
    assert named.state_names == ("a", "end", "end (2)")


BAD_TABLES = [
    ({"a": {"x": (1, "b")}}, r"unknown state 'b'\. Every next state must be in the table or in terminal="),
    ({"a0": {"x": [(0.5, "a1"), (0.3, "a2"), (0.2, "a1")], "y": (1, "a0")}},
     r"^unknown state 'a1'\. 2 next states have no rows\. Every next state must be in the table or in terminal="),
    ({"a": {"x": (1, ["b"])}}, r"unknown state \['b'\]\. Every next state must be"),
    ({"start": {"x": (1, "strat")}}, r"unknown state 'strat'\. Did you mean 'start'\?"),
    ({"a": {"x": [(1, "a", 0, True)]}}, r"must be its damage; got True at state 'a', action 'x'\. For Gymnasium's"),
    ({"a": {"x": [(1, "a", 0, 0, 0)]}},
     r"must be \(probability, next_state, reward, damage\); got \(1, 'a', 0, 0, 0\) at state 'a', action 'x'"),
    ({"a": {"x": [(1,)]}}, r"an outcome must be \(probability, next_state"),
    ({"a": {"x": 5}}, r"an outcome must be .*got 5 at state 'a'"),
    ({"a": {"x": [("p", "a", 0, 0)]}}, r"an outcome must be .*got \('p', 'a', 0, 0\)"),
    ({"a": {"x": (1, "a", 0, 1.5)}}, r"damages must be integers 0 … 255; got 1.5 at state 'a', action 'x'"),
    ({"a": {"x": (1, "a", 0, 256)}}, r"damages must be integers 0 … 255; got 256"),
    ({"a": {"x": (1, "a", 0, None)}}, r"damages must be integers 0 … 255; got None"),
    ({"a": 5}, r"state 'a' must map its actions to outcomes; got 5"),
    ({"a": {}}, r"every state must have a choice; state 0 'a' has none"),
    ({"a": {"x": []}}, r"every state must have a choice; state 0 'a' has none"),
    ({}, r"a model must have at least one state"),
    ("abc", r"a table must map states to actions to outcomes; got str"),
    ({"a": {"x": (0.5, "a")}}, r"choice 0 \(state 0 'a', action 'x'\) must sum to 1"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "message"), BAD_TABLES)
def test_bad_tables_are_refused(table, message):
    with pytest.raises(ModelError, match=message):
        from_table(table)


def test_unknown_actions_and_starts_of_a_table():
    with pytest.raises(UnknownName, match=r"unknown action 'rigth'\. Did you mean 'right'\?"):
        from_table({"a": {"rigth": (1, "a")}}, action_names=["left", "right"])
    with pytest.raises(UnknownName, match=r"^unknown initial state 'b'\.$"):
        from_table({"a": {"x": (1, "a")}}, initial="b")


@pytest.mark.parametrize("states", [(0, 1), ("a", "b")])
def test_a_distribution_over_the_states_of_a_table_needs_no_entry_for_its_end(states):
    one, two = states
    table = {one: {"go": [(1.0, two, 0, True)]}, two: {"go": [(1.0, one, 0, True)]}}  # both are starts: an end is added
    mdp = from_table(table, damage=lambda *_: 0, initial=[0.25, 0.75])
    assert mdp.num_states == 3
    assert mdp == from_table(table, damage=lambda *_: 0, initial={one: 0.25, two: 0.75})
    with pytest.raises(ModelError, match=r"one probability for each of the 2 states; got 3 numbers"):
        from_table(table, damage=lambda *_: 0, initial=[0.25, 0.75, 0.0])


@pytest.mark.parametrize("states", [(0, 1), ("dry", "wet"), ((0, 0), (0, 1)), (False, True)])
def test_labels_of_a_table_are_lists_of_states_or_truth_values(states):
    dry, wet = states
    truths = [False, True] if dry is not False else [True]  # where the states are truth values, these are states
    for label in ([wet], truths):
        mdp = from_table({dry: {"sink": (1, wet)}}, terminal=[wet], labels={"wet": label})
        assert mdp.label("wet").tolist() == [False, True]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["wet"], r"labels must map names to states; got \['wet'\]"),
        ({"wet": 1}, "label 'wet' must be one truth value per state, or a list of states; got 1"),
        ({"wet": "sea"}, "label 'wet' must be one truth value per state, or a list of states; got 'sea'"),
        ({"wet": [True]}, "unknown state True"),
    ],
)
def test_bad_labels_of_a_table(labels, message):
    with pytest.raises(ModelError, match=message):
        from_table([{"sink": (1, 1)}], terminal=1, labels=labels)
