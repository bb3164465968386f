"""The model: immutable, with lookup by index and name, and equality by content."""

import copy
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from almostsure.errors import ModelError, UnknownName
from almostsure.model.arrays import _hashed_width
from almostsure.model.build.transitions import from_transitions
from almostsure.model.layout import Layout
from almostsure.model.mdp import ARRAY_NAMES, MDP, Arrays, action_dtype, index_dtype
from almostsure.testing import mdps
from almostsure.testing.families import garnet


@pytest.fixture
def mdp():
    return from_transitions(
        [0, 0, 0], [0, 0, 2], [0, 1, 1], [0.4, 0.6, 1], [1, 1, 0], [1, 0, 0],
        terminal=[1], state_names=["Start", "End"], action_names=["left", "never", "right"],
        layout=Layout(rows=1, columns=2, cell=np.array([0, 1], np.int32), text=("SG",)),
    )  # fmt: skip


def plain_terminal(mdp):
    return [
        all(t == s and r == 0 and d == 0 for a in mdp.actions(s) for t, _, r, d in mdp.outcomes(s, int(a)))
        for s in range(mdp.num_states)
    ]


@given(mdps())
def test_terminal_states_only_have_loops_without_damage_and_reward(mdp):
    assert mdp.is_terminal().tolist() == plain_terminal(mdp)


def test_loops_with_damage_or_reward_are_not_terminal():
    mdp = from_transitions(
        [0, 1, 1, 2, 2, 3], [0, 0, 1, 0, 1, 0], [0, 1, 1, 2, 0, 3], [1] * 6, [0, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0]
    )
    assert mdp.is_terminal().tolist() == [True, False, False, False]


def test_arrays_are_read_only(mdp):
    for name in ARRAY_NAMES:
        with pytest.raises(ValueError, match="read-only"):
            getattr(mdp, name)[0] = 0
    for array in (mdp.initial_states, mdp.initial_probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_attributes_cannot_be_changed(mdp):
    for name in ("arrays", "layout", "state_names", "num_states", "end"):
        with pytest.raises(AttributeError, match=f"{name} cannot be changed: a model is immutable"):
            setattr(mdp, name, None)
    with pytest.raises(AttributeError, match="colour"):
        mdp.colour = "red"


@given(mdps())
def test_pickling_keeps_everything(mdp):
    again = pickle.loads(pickle.dumps(mdp))
    assert again == mdp
    assert not again.probability.flags.writeable
    assert copy.deepcopy(mdp) is mdp


def test_pickling_keeps_names_and_layout(mdp):
    again = pickle.loads(pickle.dumps(mdp))
    assert (again.state_names, again.action_names) == (mdp.state_names, mdp.action_names)
    assert again.layout.text == ("SG",)


def test_looking_up_by_index_and_by_name(mdp):
    assert mdp.state("End") == mdp.state(1) == mdp.state(np.int32(1)) == 1
    assert mdp.action("right") == 2
    assert mdp.choice("Start", "right") == mdp.choice(0, 2) == 1
    assert list(mdp.choices("Start")) == [0, 1]
    assert mdp.actions(0).tolist() == [0, 2]
    assert mdp.outcomes("Start", "left") == [(0, 0.4, 1.0, 1), (1, 0.6, 1.0, 0)]
    assert mdp.choice_states().tolist() == [0, 0, 1]
    assert mdp.outcome_choices().tolist() == [0, 0, 1, 2]
    assert mdp.describe_choice(1) == "choice 1 (state 0 'Start', action 'right')"
    assert mdp.num_actions == 3
    assert mdp.max_damage == 1


def test_looking_up_unknown_names(mdp):
    with pytest.raises(UnknownName, match=r"unknown state 'Strat'\. Did you mean 'Start'\?"):
        mdp.state("Strat")
    with pytest.raises(UnknownName, match=r"unknown state 'zzz'\. States are named 'Start', .*'\.$"):
        mdp.state("zzz")
    with pytest.raises(UnknownName, match=r"unknown state 2\. States are 0 … 1\."):
        mdp.state(2)
    with pytest.raises(UnknownName, match=r"unknown state 0\.5"):
        mdp.state(0.5)
    for nothing in (True, None, float("nan"), float("inf"), [1], np.array([1])):
        with pytest.raises(UnknownName, match=r"unknown state .*\. States are 0 … 1\."):
            mdp.state(nothing)
        with pytest.raises(UnknownName, match=r"unknown action .*\. Actions are 0 … "):
            mdp.action(nothing)
    with pytest.raises(UnknownName, match=r"unknown state -1"):
        mdp.state(-1)
    with pytest.raises(UnknownName, match=r"unknown action 'rigth'\. Did you mean 'right'\?"):
        mdp.action("rigth")
    with pytest.raises(UnknownName, match=r"unknown action 3\. Actions are 0 … 2\."):
        mdp.action(3)
    with pytest.raises(
        UnknownName, match=r"action 'never' is not available at state 0 'Start', which has: left, right\."
    ):
        mdp.choice("Start", "never")
    with pytest.raises(UnknownName, match=r"no names; use 0 … 9"):
        garnet(10).state("Start")


def test_several_initial_states_are_not_one():
    mdp = from_transitions([0, 1], [0, 0], [0, 1], [1, 1], [0, 0], [0, 0], initial=[0.5, 0.5])
    with pytest.raises(ModelError, match="must have a single initial state; got 2"):
        mdp.initial_state  # noqa: B018
    assert "starts in one of 2" in repr(mdp)
    assert "\n  start      one of 2 states, each as likely: 0; 1\n" in mdp.summary()
    mdp = from_transitions(range(4), [0] * 4, range(4), [1] * 4, [0] * 4, [0] * 4, initial=[0.1, 0.2, 0.3, 0.4])
    assert "one of 4 states, with probabilities 0.1 … 0.4: 0; 1; 2; …\n" in mdp.summary()


def test_repr_and_summary(mdp):
    assert repr(mdp) == "<MDP: 2 states, 3 choices, 4 outcomes, starts in Start>"
    summary = mdp.summary()
    assert "  start " not in summary
    for part in ("actions    3 (1–2 per state): left, never, right", "1 of the outcomes (25.0%), at most 1 each",
                 "reward     0 … 1", "terminal   1", mdp.fingerprint[:16]):  # fmt: skip
        assert part in summary


def test_the_fingerprint_hashes_indices_in_the_narrowest_width():
    class Sized:
        def __init__(self, size):
            self.size = size

    for name, other, extra in (("choice_ptr", "choice_action", 1), ("outcome_ptr", "successor", 1)):
        assert _hashed_width(name, {other: Sized(2**31 - 1 - extra)}) is np.int32
        assert _hashed_width(name, {other: Sized(2**31 - extra)}) is np.int64
    assert _hashed_width("successor", {"choice_ptr": Sized(2**31)}) is np.int32
    assert _hashed_width("successor", {"choice_ptr": Sized(2**31 + 1)}) is np.int64


def test_the_fingerprint_sees_content_and_start_only(mdp):
    a = mdp.arrays
    same = MDP(a, initial=(np.array([0]), np.ones(1)))
    assert same == mdp
    assert same.state_names is None
    assert MDP(a, initial=(np.array([1]), np.ones(1))) != mdp
    wide = replace(a, successor=a.successor.astype(np.int64), choice_ptr=a.choice_ptr.astype(np.int64))
    assert MDP(wide, initial=(np.array([0]), np.ones(1))) == mdp
    for name in ("reward", "damage", "probability"):
        changed = getattr(a, name).copy()
        changed[:2] = changed[1::-1]
        if name == "reward":
            changed[0] = 5
        assert MDP(replace(a, **{name: changed}), initial=(np.array([0]), np.ones(1))) != mdp
    assert mdp != "something else"


def test_memory_is_within_24_bytes_per_outcome_and_5_for_the_support():
    mdp = garnet(20_000, 4, 3, terminal_rate=0)
    assert mdp.nbytes <= 24 * mdp.num_outcomes
    support = mdp.support
    assert support.successor.nbytes + support.damage.nbytes <= 5 * mdp.num_outcomes
    assert np.shares_memory(support.successor, mdp.successor)
    assert (support.num_states, support.num_choices, support.num_outcomes) == (20_000, 80_000, mdp.num_outcomes)


def test_index_widths():
    assert index_dtype(2**31 - 1) is np.int32
    assert index_dtype(2**31) is np.int64
    assert [action_dtype(n) for n in (256, 257, 65536, 65537)] == [np.uint8, np.uint16, np.uint16, np.int32]


# ---------------------------------------------------------------------- arrays from elsewhere


def parts(**changes):
    columns = {
        "choice_ptr": np.array([0, 2, 3]),
        "choice_action": np.array([0, 1, 0]),
        "outcome_ptr": np.array([0, 2, 3, 4]),
        "successor": np.array([0, 1, 1, 1]),
        "probability": np.array([0.5, 0.5, 1, 1]),
        "reward": np.zeros(4),
        "damage": np.zeros(4, np.uint8),
    }
    return Arrays(**(columns | changes))


BROKEN = [
    ({"choice_ptr": np.array([1, 2, 3])}, "choice_ptr must run from 0 to 3; got 1 to 3"),
    ({"choice_ptr": np.array([0, 3, 3])}, r"every state must have at least one choice; state 1 has none\."),
    ({"outcome_ptr": np.array([0, 3, 2, 4], np.uint64)}, "must have at least one outcome; choice 1 has none"),
    ({"outcome_ptr": np.array([0, 2, 3, 5])}, "outcome_ptr must run from 0 to 4; got 0 to 5"),
    ({"choice_ptr": np.array([0])}, "at least one state and one choice; got none"),
    ({"choice_action": np.array([1, 1, 0])}, r"distinct and ascending; choice 1 \(state 0, action 1\) is not"),
    ({"choice_action": np.array([-1, 1, 0])}, r"actions must not be negative; got -1 at choice 0"),
    ({"successor": np.array([0, 1, 2, 1])}, r"successors must lie in 0 … 1; got 2 at choice 1 \(state 0, action 1\)"),
    ({"successor": np.array([0, -1, -1, 1])}, r"in 0 … 1; got -1 at choice 0 .*\(and 1 more outcome\)"),
    ({"probability": np.array([0.5, 0.5, 0, 1])}, r"probabilities must lie in \(0, 1\]; got 0.0 at choice 1"),
    ({"probability": np.array([0.5, 0.5, 1 + 5e-10, 0])}, r"probabilities must lie in \(0, 1\]; got 0.0 at choice 2"),
    ({"probability": np.array([0.5, -0.5, 1, 1])}, r"probabilities must lie in \(0, 1\]; got -0.5 at choice 0"),
    ({"probability": np.array([0.5, 0.5, np.nan, 1])}, r"probabilities must lie in \(0, 1\]; got nan at choice 1"),
    ({"probability": np.array([0.5, 0.4, 1, 1])}, r"choice 0 \(state 0, action 0\) must sum to 1"),
    ({"probability": np.ones(3)}, r"probability must have one entry per outcome \(4\); got 3"),
    ({"probability": np.ones(4, np.float32)}, "probability must be a one-dimensional float64 array; got float32"),
    ({"damage": np.zeros(4, np.int64)}, "damage must be a one-dimensional uint8 array; got int64"),
    ({"reward": np.array([0, np.inf, 0, 0])}, r"rewards must be finite; got inf at choice 0"),
    ({"successor": np.zeros((4, 1), np.int64)}, r"must be a one-dimensional integer array; got int64"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_broken_arrays_are_refused(change, message):
    with pytest.raises(ModelError, match=message):
        MDP(parts(**change), initial=(np.array([0]), np.ones(1)))


LATER = [
    ({"probability": np.array([0.5, 0.5, 1, 0.5])},
     "probabilities of choice 2 (state 1, action 0) must sum to 1 within 1e-09; got 0.5. Pass normalise=True to "
     "rescale.", {"choice": 2}),
    ({"probability": np.array([0.5, 0.5, 1, 1 + 2e-9])},
     "probabilities must lie in (0, 1]; got 1.000000002 at choice 2 (state 1, action 0).", {"choice": 2, "outcome": 3}),
    ({"successor": np.array([0, 1, 1, 2])},
     "successors must lie in 0 … 1; got 2 at choice 2 (state 1, action 0).", {"choice": 2, "outcome": 3}),
    ({"reward": np.array([0, 0, np.nan, 0])},
     "rewards must be finite; got nan at choice 1 (state 0, action 1).", {"choice": 1, "outcome": 2}),
]  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 100])
@pytest.mark.parametrize(("change", "message", "place"), LATER)
def test_the_place_is_right_in_every_chunk(monkeypatch, chunk, change, message, place):
    monkeypatch.setattr("almostsure.model.build.validate.CHUNK", chunk)
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$") as caught:
        MDP(parts(**change), initial=(np.array([0]), np.ones(1)))
    assert {name: getattr(caught.value, name) for name in place} == place


@pytest.mark.parametrize("chunk", [1, 3, 5, 16])
@pytest.mark.parametrize("at", range(12))
def test_every_outcome_is_found_again(monkeypatch, chunk, at):
    """Twelve outcomes of six choices of three states."""
    monkeypatch.setattr("almostsure.model.build.validate.CHUNK", chunk)
    changes = {"choice_ptr": [0, 2, 4, 6], "choice_action": [0, 1] * 3, "outcome_ptr": [0, 1, 4, 5, 8, 9, 12]}
    reward = np.zeros(12)
    reward[at] = np.inf
    arrays = parts(
        **{name: np.array(values) for name, values in changes.items()}, successor=np.zeros(12, int),
        probability=np.array([1, *[0.25, 0.25, 0.5]] * 3), reward=reward, damage=np.zeros(12, np.uint8),
    )  # fmt: skip
    choice = [0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5, 5][at]
    where = rf"choice {choice} \(state {choice // 2}, action {choice % 2}\)\.$"
    with pytest.raises(ModelError, match=f"^rewards must be finite; got inf at {where}") as caught:
        MDP(arrays, initial=(np.array([0]), np.ones(1)))
    assert (caught.value.choice, caught.value.outcome) == (choice, at)


def test_others_are_counted():
    several = np.array([0.25, 0.5, 0.5, 0.5])
    with pytest.raises(ModelError, match=r"of choice 0 .* within 1e-09; got 0\.75 \(and 2 more choices\)\. Pass"):
        MDP(parts(probability=several), initial=(np.array([0]), np.ones(1)))
    with pytest.raises(ModelError, match=r"got nan at choice 0 \(state 0, action 0\) \(and 3 more outcomes\)\.$"):
        MDP(parts(reward=np.full(4, np.nan)), initial=(np.array([0]), np.ones(1)))
    with pytest.raises(ModelError, match=r"choice; state 1 has none \(and 1 more state\)\.$"):
        MDP(parts(choice_ptr=np.array([0, 3, 3, 3])), initial=(np.array([0]), np.ones(1)))
    with pytest.raises(ModelError, match=r"outcome_ptr must have the offsets of 3 choices; got those of 2$"):
        MDP(parts(outcome_ptr=np.array([0, 2, 4])), initial=(np.array([0]), np.ones(1)))


@pytest.mark.parametrize("excess", [-9e-10, 9e-10])
def test_sums_may_be_off_by_the_tolerance(excess):
    assert MDP(parts(probability=np.array([0.5, 0.5, 1, 1 + excess])), initial=(np.array([0]), np.ones(1)))
    MDP(parts(), initial=(np.array([0, 1]), np.array([0.5, 0.5 + excess])))
    for far in (3, -3):
        with pytest.raises(ModelError, match=r"initial probabilities must be positive and sum to 1; got sum"):
            MDP(parts(), initial=(np.array([0, 1]), np.array([0.5, 0.5 + far * excess])))


@pytest.mark.parametrize(
    ("states", "probabilities", "message"),
    [
        ([], [], "the initial distribution must have at least one state, and one probability each"),
        ([0], [0.5, 0.5], "the initial distribution must have at least one state, and one probability each"),
        ([0, 2], [0.5, 0.5], "initial states must lie in 0 … 1; got 2"),
        ([-1, 1], [0.5, 0.5], "initial states must lie in 0 … 1; got -1"),
        ([0, 1], [1.0, 0.0], "initial probabilities must be positive and sum to 1; got sum 1"),
        ([0, 1], [0.25, 0.5], "initial probabilities must be positive and sum to 1; got sum 0.75"),
    ],
)
def test_invalid_initial_distributions(states, probabilities, message):
    with pytest.raises(ModelError, match=f"^{message}$"):
        MDP(parts(), initial=(np.array(states, np.int64), np.array(probabilities)))


def with_roles(**changes):
    """Two observed states, the end (2) and the unknown (3)."""
    columns = {
        "choice_ptr": np.array([0, 2, 3, 4, 5]),
        "choice_action": np.array([0, 1, 0, 0, 0]),
        "outcome_ptr": np.arange(6),
        "successor": np.array([1, 2, 3, 2, 3]),
        "probability": np.ones(5),
        "reward": np.zeros(5),
        "damage": np.array([0, 0, 0, 0, 1], np.uint8),
    }
    return MDP(Arrays(**(columns | changes)), initial=(np.array([0]), np.ones(1)), end=2, unknown=3)


def test_a_model_may_have_an_end_and_an_unknown():
    mdp = with_roles()
    assert (mdp.end, mdp.unknown, mdp.num_observed, mdp.num_states) == (2, 3, 2, 4)
    assert mdp.describe_state(3) == "state 3 'unknown'"
    again = pickle.loads(pickle.dumps(mdp))
    assert (again, again.end, again.unknown) == (mdp, 2, 3)
    plain = MDP(mdp.arrays, initial=(np.array([0]), np.ones(1)))
    assert plain != mdp
    assert mdp.space.fingerprint != mdp.fingerprint
    assert mdp.space == with_roles(successor=np.array([0, 2, 3, 2, 3])).space


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"damage": np.ones(5, np.uint8)}, "state 2 'end' must lead to itself with neither reward nor damage"),
        ({"reward": np.ones(5)}, "state 2 'end' must lead to itself with neither reward nor damage"),
        ({"successor": np.array([1, 2, 3, 1, 3])}, "state 2 'end' must lead to itself"),
        ({"damage": np.zeros(5, np.uint8)}, "state 3 'unknown' must lead to itself with damage"),
        ({"successor": np.array([1, 2, 3, 2, 0])}, "state 3 'unknown' must lead to itself with damage"),
    ],
)
def test_the_end_is_terminal_and_the_unknown_loops_with_damage(change, message):
    with pytest.raises(ModelError, match=message):
        with_roles(**change)


def test_initial_states_must_be_distinct():
    with pytest.raises(ModelError, match="initial states must be distinct"):
        MDP(parts(), initial=(np.array([0, 0]), np.array([0.5, 0.5])))


@given(mdps())
def test_columns_and_starts_make_the_same_model(mdp):
    assert from_transitions(*mdp.columns(), num_states=mdp.num_states, initial=mdp.starts) == mdp
    assert list(mdp.starts) == mdp.initial_states.tolist()
