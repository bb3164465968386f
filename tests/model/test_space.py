"""States and actions without outcomes: observed states, the end and the unknown."""

import copy
import pickle

import numpy as np
import pytest

from almostsure import Shield, minimal_budget
from almostsure.errors import ModelError, UnknownName
from almostsure.model.build.transitions import build, from_transitions
from almostsure.model.layout import Layout
from almostsure.model.origin import Origin
from almostsure.model.space import Space
from almostsure.model.umb.valuations import valuation_names


def test_the_same_number_of_actions_everywhere():
    space = Space.from_actions(3, 2)
    assert (space.num_states, space.num_observed, space.num_choices, space.num_actions) == (3, 3, 6, 2)
    assert space.choice_ptr.tolist() == [0, 2, 4, 6]
    assert space.choice_states().tolist() == [0, 0, 1, 1, 2, 2]
    assert (space.end, space.unknown, space.encode, space.initial_state) == (None, None, None, 0)
    assert repr(space) == "<Space: 3 states, 6 choices, starts in 0>"


@pytest.mark.parametrize("actions", [[[1], [2, 0]], lambda state: [1] if state == 0 else [2, 0]])
def test_actions_of_each_state(actions):
    space = Space.from_actions(2, actions)
    assert [space.actions(s).tolist() for s in range(2)] == [[1], [0, 2]]
    assert space.num_actions == 3


def test_the_choices_of_many_states_and_actions():
    space = Space.from_actions(3, [[1], [2, 0], [0, 1, 2]])
    states, actions = np.repeat(np.arange(-1, 4), 5), np.tile(np.arange(-1, 4), 5)
    expected = [-1] * 5 + [-1, -1, 0, -1, -1] + [-1, 1, -1, 2, -1] + [-1, 3, 4, 5, -1] + [-1] * 5
    assert space.find_choices(states, actions).tolist() == expected
    assert space.find_choices(states[:0], actions[:0]).size == 0


def test_values_of_choices_as_a_table():
    space = Space.from_actions(2, [[1], [2, 0]])
    assert space.by_action(np.array([5, 6, 7]), -1).tolist() == [[-1, 5, -1], [6, -1, 7]]
    layers = space.by_action(np.array([[True, False, True], [False, True, False]]), False)
    assert layers.dtype == np.bool_
    assert layers.tolist() == [
        [[False, True, False], [False, False, True]],
        [[False, False, False], [True, False, False]],
    ]


def test_end_and_unknown_come_last_in_this_order():
    space = Space.from_actions(3, 2, end=True).with_unknown()
    assert (space.num_states, space.num_observed, space.end, space.unknown) == (5, 3, 3, 4)
    assert space.actions("end").tolist() == space.actions("unknown").tolist() == [0]
    assert (space.state_name(3), space.state_name(4), space.state_name(2)) == ("end", "unknown", "2")
    assert space.describe_choice(7) == "choice 7 (state 4 'unknown', action 0)"
    assert repr(space) == "<Space: 3 states, end, unknown, 8 choices, starts in 0>"
    assert space.with_end() is space.with_unknown() is space
    with pytest.raises(ModelError, match="the end must come before the unknown"):
        Space.from_actions(3, 2).with_unknown().with_end()


def test_names_and_layout_include_the_added_states():
    named = Space.from_actions(2, 1, state_names=["end", "b"], end=True).with_unknown()
    assert named.state_names == ("end", "b", "end (2)", "unknown")
    assert named.state("end") == 0
    layout = Layout(rows=1, columns=2, cell=np.array([0, 1], np.int32), text=("SG",))
    mdp = from_transitions([0], [0], [1], [1], [0], [0], terminal=[1], layout=layout)
    assert mdp.with_unknown().layout.cell.tolist() == [0, 1, -1]
    with pytest.raises(ModelError, match="a layout must place each of the 3 states; got 2 places"):
        Space(
            choice_ptr=np.arange(4),
            choice_action=np.zeros(3, np.int64),
            initial=(np.array([0]), np.ones(1)),
            layout=layout,
        )


def test_observations_are_states_already():
    space = Space.from_actions(2, 1, state_names=["left", "right"], end=True)
    assert (
        space.observed(1) == space.observed(np.int64(1)) == space.observed(np.array(1)) == space.observed("right") == 1
    )
    for wrong in (2, -1, 0.5, "end", "up", None, True, [1]):
        with pytest.raises(ModelError, match=r"an observation must be a state 0 … 1 or its name; got .*encode="):
            space.observed(wrong)


def test_observations_are_encoded():
    space = Space.from_actions(4, 1, encode=lambda seen: 2 * seen["y"] + seen["x"], end=True)
    assert space.observed({"x": 1, "y": 1}) == 3
    with pytest.raises(ModelError, match=r"encode must return a state 0 … 3; got 4\.$"):
        space.observed({"x": 2, "y": 1})
    with pytest.raises(ModelError, match=r"encode failed for the observation \{'x': 2\}: KeyError: 'y'"):
        space.observed({"x": 2})
    assert space.with_unknown().observed({"x": 0, "y": 1}) == 2


def test_unnamed_states_have_no_other_names():
    with pytest.raises(UnknownName, match="no names; use 0 … 1"):
        Space.from_actions(2, 1).state("end")


def test_messages_name_places_and_ranges():
    plain = Space.from_actions(2, [[0, 2], [1]])
    assert [plain.state(1), plain.action(2)] == [1, 2]
    for look, message in (
        (lambda: plain.state(2), r"unknown state 2\. States are 0 … 1\.$"),
        (lambda: plain.state(-1), r"unknown state -1\. States are 0 … 1\.$"),
        (lambda: plain.action(3), r"unknown action 3\. Actions are 0 … 2\.$"),
        (lambda: plain.choice(0, 1), r"^action '1' is not available at state 0, which has: 0, 2\.$"),
        (lambda: plain.choice(1, 2), r"^action '2' is not available at state 1, which has: 1\.$"),
    ):
        with pytest.raises(UnknownName, match=message):
            look()
    assert [plain.describe_choice(c) for c in (-1, 0, 2, 3)] == [
        "choice -1", "choice 0 (state 0, action 0)", "choice 2 (state 1, action 1)", "choice 3",
    ]  # fmt: skip
    named = Space.from_actions(2, 1, state_names=["0", "1"], action_names=["go", "stay"], initial={"0": 0.5, "1": 0.5})
    assert named.describe_choice(1) == "choice 1 (state 1 '1', action 'go')"
    assert (named.num_actions, named.action("stay"), named.num_choices) == (2, 1, 2)
    assert repr(named) == "<Space: 2 states, 2 choices, starts in one of 2>"
    with pytest.raises(ModelError, match=r"the model must have a single initial state; got 2\. Use initial_states"):
        named.initial_state  # noqa: B018
    with pytest.raises(ModelError, match=r"action_names must name every action 0 … 2; got 2 names"):
        Space.from_actions(2, [[0, 2], [1]], action_names=["go", "stay"])


def test_names_are_suggested_or_shown():
    five = Space.from_actions(5, 1, state_names=["hall", "attic", "cellar", "roof", "yard"])
    with pytest.raises(UnknownName, match=r"States are named 'hall', 'attic', 'cellar', 'roof', …$"):
        five.state("zzz")
    four = Space.from_actions(4, 1, state_names=["hall", "attic", "cellar", "roof"])
    with pytest.raises(UnknownName, match=r"States are named 'hall', 'attic', 'cellar', 'roof'\.$"):
        four.state("zzz")
    with pytest.raises(UnknownName, match=r"unknown state 'celar'\. Did you mean 'cellar'\?"):
        four.state("celar")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 1), "num_states must be a positive integer; got 0"),
        ((True, 1), "num_states must be a positive integer; got True"),
        ((2, 0), "actions must be a positive integer; got 0"),
        ((2, [[0]]), "actions must be given for each of the 2 states; got 1 rows"),
        ((2, [[0], []]), r"actions\(1\) must be one or more action ids, integers from 0; got \[\]"),
        ((2, [[0], [-1]]), r"actions\(1\) must be one or more action ids"),
        ((2, [[0], ["up"]]), r"actions\(1\) must be one or more action ids"),
        ((2, [[0], [[0], [1, 2]]]), r"actions\(1\) must be one or more action ids"),
        ((1, lambda state: 1 / state), r"actions\(0\) failed: ZeroDivisionError"),
    ],
)
def test_invalid_spaces_are_refused(given, message):
    with pytest.raises(ModelError, match=message):
        Space.from_actions(*given)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"end": 0}, "end must be the last state before the unknown, 2; got 0"),
        ({"unknown": 1}, "unknown must be the last state, 2; got 1"),
        ({"end": 2, "unknown": 2}, "end must be the last state before the unknown, 1; got 2"),
        ({"end": 1, "unknown": 3}, "unknown must be the last state, 2; got 3"),
    ],
)
def test_end_and_unknown_must_be_the_last_states(roles, message):
    with pytest.raises(ModelError, match=message):
        Space(
            choice_ptr=np.arange(4), choice_action=np.zeros(3, np.int64), initial=(np.array([0]), np.ones(1)), **roles
        )


def test_a_space_needs_an_observable_state():
    with pytest.raises(ModelError, match="must have a state besides the end and the unknown"):
        Space(
            choice_ptr=np.arange(3),
            choice_action=np.zeros(2, np.int64),
            initial=(np.array([0]), np.ones(1)),
            end=0,
            unknown=1,
        )


def test_identity():
    space = Space.from_actions(3, 2, end=True)
    assert space == Space.from_actions(3, 2, end=True, encode=int, action_names=["a", "b"])
    assert hash(space) == hash(Space.from_actions(3, 2, end=True))
    assert copy.deepcopy(space) is copy.copy(space) is space
    others = (
        Space.from_actions(3, 2),
        Space.from_actions(3, [[0, 1], [0, 1], [0, 2]], end=True),
        Space.from_actions(3, 2, end=True, initial=1),
        Space.from_actions(3, 2, end=True).with_unknown(),
        Space.from_actions(3, 2).with_unknown(),
        "something else",
    )
    assert all(space != other for other in others)
    mdp = from_transitions([0], [0], [0], [1], [0], [0])
    assert mdp != mdp.space
    assert mdp.space == Space.from_actions(1, 1)


def test_pickling_keeps_everything():
    space = Space.from_actions(3, 2, end=True, encode=int, state_names=list("abc"))
    again = pickle.loads(pickle.dumps(space))
    assert again == space
    assert (again.end, again.encode, again.state_names) == (3, int, ("a", "b", "c", "end"))
    assert not again.choice_ptr.flags.writeable


def test_a_space_cannot_be_changed():
    space = Space.from_actions(2, 1)
    with pytest.raises(AttributeError, match="end cannot be changed: a model is immutable"):
        space.end = 1
    with pytest.raises(AttributeError, match="colour"):
        space.colour = "red"


@pytest.fixture(params=[True, False])
def program(request):
    """A model whose states have variables, with and without names."""
    variables = {"up": np.array([False, False, True, True]), "x": np.array([0, 1, 0, 1]), "p": np.full(4, 1 / 3)}
    columns = [np.arange(4), np.zeros(4, np.int64), np.arange(4), np.ones(4), np.zeros(4), np.zeros(4, np.uint8)]
    names = valuation_names(variables) if request.param else None
    return build(columns, num_states=4, initial=0, state_names=names, origin=Origin(variables=variables))


@pytest.mark.parametrize(
    "state",
    [
        "up=true, x=1, p=0.333333",
        "x=1,p=0.333333,up=true",
        {"x": 1, "up": True, "p": 1 / 3},
        {"x": 1.0, "up": "true", "p": "0.333333"},
    ],
)
def test_states_of_programs_are_found_by_their_variables(program, state):
    assert program.state(state) == 3
    assert program.choices(state) == range(3, 4)
    minimal = minimal_budget(program)
    assert minimal.of(state) == 0
    assert Shield(minimal).allowed(state, 0).tolist() == [0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("x=1", r"unknown state 'x=1'\. A state has a value for every variable; missing here: up, p"),
        ({"up": True, "p": 1 / 3}, r"missing here: x\."),
        ({}, r"missing here: up, x, p"),
        ("y=1, up=true, p=0.333333", r"unknown variable 'y'\. The variables are: up, x, p"),
        ({"x": 2, "up": True, "p": "0.333333"}, r"unknown state 'up=true, x=2, p=0.333333'"),
        ({"x": True, "up": True, "p": "0.333333"}, r"unknown state 'up=true, x=true, p=0.333333'"),
        ({"x": 1, "up": 1, "p": "0.333333"}, r"unknown state 'up=1, x=1, p=0.333333'"),
        ("x=1, x=0, up=true, p=0.333333", r"unknown state 'x=1, x=0, up=true, p=0.333333'"),
    ],
)
def test_values_without_a_state_are_refused(program, state, message):
    with pytest.raises(UnknownName, match=message):
        program.state(state)


def test_values_of_several_states_are_refused():
    columns = [np.arange(2), np.zeros(2, np.int64), np.arange(2), np.ones(2), np.zeros(2), np.zeros(2, np.uint8)]
    mdp = build(columns, num_states=2, initial=0, origin=Origin(variables={"x": np.zeros(2, np.int8)}))
    with pytest.raises(UnknownName, match=r"unknown state 'x=0'\. 2 states have these values; give the number of one"):
        mdp.state("x=0")
