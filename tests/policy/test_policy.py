import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure import from_transitions
from almostsure.errors import ArgumentError, CorruptFile, FileError, ModelMismatch, NoSafeAction, PolicyError
from almostsure.policy.policy import Policy, Rest, as_policy
from almostsure.testing import mdps


@pytest.fixture
def mdp():
    """Three states; state 1 lacks action 0; state 2 is terminal."""
    rows = [(0, 0, 1, 1, 1, 1), (0, 1, 2, 1, 0, 0), (1, 1, 0, 1, 0, 0), (1, 2, 2, 1, 5, 2)]
    return from_transitions(
        *zip(*rows, strict=True),
        terminal=[2],
        state_names=["home", "field", "end"],
        action_names=["out", "back", "dash"],
    )


def test_one_action_a_state(mdp):
    policy = Policy.from_table(mdp, [0, 2, 0])
    assert policy.is_stationary
    assert policy.is_deterministic
    assert [policy.act(s) for s in ("home", "field", "end")] == [0, 2, 0]


def test_names_in_a_table(mdp):
    assert Policy.from_table(mdp, ["out", "dash", "out"]) == Policy.from_table(mdp, [0, 2, 0])


def test_one_row_for_each_remaining_budget(mdp):
    policy = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0], [0, 2, 0]])
    assert policy.total == 2
    assert [policy.act("field", k) for k in range(5)] == [1, 1, 2, 2, 2]  # the top layer serves larger budgets


def test_a_mapping_may_be_partial_and_random(mdp):
    policy = Policy.from_table(mdp, {"home": {"out": 0.25, "back": 0.75}, "field": "back"})
    assert policy.probabilities("home").tolist() == [0.25, 0.75, 0]
    assert not policy.is_deterministic
    with pytest.raises(NoSafeAction, match="says nothing about state 2 'end'"):
        policy.act("end")


def test_a_mapping_on_state_and_remaining(mdp):
    policy = Policy.from_table(mdp, {("home", 0): "back", ("home", 3): "out"})
    assert policy.total == 3
    assert policy.act("home", 3) == 0
    with pytest.raises(NoSafeAction, match="says nothing about state 0 'home' with 2 left"):
        policy.act("home", 2)


def test_a_matrix_of_probabilities(mdp):
    matrix = np.array([[0.5, 0.5, 0], [0, 0.1, 0.9], [1, 0, 0]])
    policy = Policy.from_table(mdp, matrix)
    assert np.array_equal([policy.probabilities(s) for s in range(3)], matrix)
    layered = Policy.from_table(mdp, np.stack([matrix, matrix]))
    assert layered.total == 1


def test_probabilities_of_zero_and_one_make_a_deterministic_policy(mdp):
    assert Policy.from_table(mdp, np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]])).is_deterministic


def test_functions(mdp):
    of_state = Policy.from_function(mdp, lambda s: "back" if s != 2 else "out")
    assert of_state.act("field") == 1
    both = Policy.from_function(mdp, lambda s, k: (2 if k > 1 else 1) if s == 1 else None, total=2)
    assert [both.act(1, k) for k in range(3)] == [1, 1, 2]


def test_what_to_do_once_overspent(mdp):
    policy = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0]], overspent=["out", "dash", "out"])
    assert policy.knows_overspent
    assert policy.act("field", -3) == 2
    assured = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0]])
    with pytest.raises(NoSafeAction, match="overspent by 3, and this policy says nothing about that"):
        assured.act("field", -3)


def test_what_looks_at_the_budget_must_be_told_it(mdp):
    policy = Policy.from_table(mdp, [[1, 1, 0]])
    with pytest.raises(ArgumentError, match="looks at the remaining budget: say what remains"):
        policy.act("home")
    with pytest.raises(ArgumentError, match="looks at the remaining budget: say the total"):
        as_policy(mdp, lambda s, k: 0)


def test_randomness_is_an_argument(mdp):
    policy = Policy.from_table(mdp, {0: {0: 0.5, 1: 0.5}})
    with pytest.raises(ArgumentError, match="is randomised: pass rng="):
        policy.act(0)
    rng = np.random.default_rng(0)
    share = np.mean([policy.act(0, rng=rng) for _ in range(2000)])
    assert abs(share - 0.5) < 0.06


# ---------------------------------------------------------------------- what is refused


def test_an_action_that_the_state_lacks(mdp):
    with pytest.raises(PolicyError, match=r"got out at state 1 'field', which has: back, dash") as caught:
        Policy.from_table(mdp, [0, 0, 0])
    assert caught.value.state == 1
    with pytest.raises(PolicyError, match="got dash at state 0 'home'"):
        Policy.from_table(mdp, np.array([[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]]))
    with pytest.raises(PolicyError, match="got out at state 1 'field'"):
        Policy.from_function(mdp, lambda s: {"out": 1.0})


def test_an_action_that_nobody_has(mdp):
    with pytest.raises(PolicyError, match="got 7 at state 0"):
        Policy.from_table(mdp, [7, 1, 0])
    with pytest.raises(PolicyError, match=r"unknown action 'bak'\. Did you mean 'back'"):
        Policy.from_table(mdp, {"home": "bak"})
    with pytest.raises(PolicyError, match="the policy's action at state 0 'home': unknown action"):
        Policy.from_function(mdp, lambda s: object())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.4, 0], r"at state 0 'home' must sum to 1 within 1e-09; got 0\.9"),
        ([1.5, -0.5, 0], r"must lie in 0 … 1; got 1\.5 at choice 0"),
        ([float("nan"), 1, 0], "must lie in 0 … 1; got nan"),
    ],
)
def test_probabilities_that_are_no_distribution(mdp, row, message):
    with pytest.raises(PolicyError, match=message):
        Policy.from_table(mdp, np.array([row, [0, 1, 0], [1, 0, 0]]))


def test_a_distribution_without_mass(mdp):
    with pytest.raises(PolicyError, match="must sum to 1; got 0"):
        Policy.from_table(mdp, {"home": {"out": 0.0}})


def test_shapes(mdp):
    with pytest.raises(PolicyError, match=r"must have shape \[3\] or \[layers, 3\]"):
        Policy.from_table(mdp, [0, 1])
    with pytest.raises(PolicyError, match=r"must have shape \[3, 3\] or \[layers, 3, 3\]"):
        Policy.from_table(mdp, np.ones((3, 2)))
    with pytest.raises(PolicyError, match=r"with total=4 a table must have a row for each of 0 … 4; got 2 rows"):
        Policy.from_table(mdp, [[1, 1, 0], [1, 1, 0]], total=4)
    with pytest.raises(PolicyError, match=r"must hold integers .* or floats"):
        Policy.from_table(mdp, np.array([1j, 1j, 0]))
    with pytest.raises(PolicyError, match=r"keys must be \(state, remaining\); got 0"):
        Policy.from_table(mdp, {0: 1}, total=2)
    with pytest.raises(PolicyError, match="choice at state 0 'home' must lie in 0 … 1"):
        Policy(mdp, choice=np.array([[3, 2, 4]]))


def test_another_models_policy(mdp, paper):
    policy = Policy.from_table(paper(), [0, 0])
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        as_policy(mdp, policy)


def test_policies_are_immutable(mdp):
    policy = Policy.from_table(mdp, [0, 1, 0])
    with pytest.raises(AttributeError, match="a policy is immutable"):
        policy.total = 3
    with pytest.raises(ValueError, match="read-only"):
        policy.choice[0, 0] = 1


# ---------------------------------------------------------------------- rest


def test_a_policy_that_rests_plays_by_start(coin):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([0, -1]))
    policy = Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)
    with pytest.raises(PolicyError, match=r"may come to rest, which it must remember. Play it with start\(\)"):
        policy.act(0)
    rng = np.random.default_rng(1)
    first = [policy.start(rng=rng) for _ in range(400)]
    waits = [play for play in first if play.act(0) == 0]
    assert 150 < len(waits) < 250
    assert all(play.act(0) == 0 for play in waits for _ in range(20))  # for ever


def test_a_rest_must_be_harmless(coin):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([1, 2]))
    with pytest.raises(PolicyError, match="come to rest where no damage happens"):
        Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)


def test_a_play_keeps_the_budget(mdp):
    play = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0], [0, 2, 0]]).start()
    assert play.act("home") == 0
    play.observe(1)
    assert play.act("field") == 1
    assert play.remaining == 1


# ---------------------------------------------------------------------- ways out


def test_tables_for_people(mdp):
    policy = Policy.from_table(mdp, {("home", 0): "back", ("home", 1): {"out": 0.25, "back": 0.75}})
    text = str(policy)
    assert "state  0 left  1 left" in text
    assert "home   back    out 0.25, back 0.75" in text
    assert "field  ·       ·" in text


def test_long_tables_are_cut():
    count = 100
    mdp = from_transitions(range(99), [0] * 99, range(1, 100), [1] * 99, [0] * 99, [0] * 99, terminal=[99])
    policy = Policy.from_table(mdp, np.zeros((21, count), np.int64))
    assert "… and 76 more states" in str(policy)
    assert "20 left" in str(policy)
    assert "10 left" not in str(policy)


@given(mdps(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_save_then_load_is_the_identity(tmp_path_factory, mdp, total, random):
    path = tmp_path_factory.getbasetemp() / "policy.safetensors"
    policy = Policy.from_function(mdp, lambda s, k: random.choice(mdp.actions(s).tolist()), total=total)
    policy.save(path)
    assert Policy.load(path, mdp) == policy
    spread = Policy.from_function(mdp, lambda s: {a: 1 / len(mdp.actions(s)) for a in mdp.actions(s).tolist()})
    spread.save(path)
    assert Policy.load(path, mdp) == spread
    assert pickle.loads(pickle.dumps(spread)) == copy.deepcopy(spread) == spread


def test_a_rest_is_saved_too(coin, tmp_path):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([0, -1]))
    policy = Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)
    policy.save(tmp_path / "p")
    assert Policy.load(tmp_path / "p", coin) == policy
    assert Policy(coin, choice=np.array([[1, 2]], np.int32)) != policy


def test_files_of_other_models_and_damaged_files(mdp, paper, tmp_path):
    path = tmp_path / "policy"
    Policy.from_table(paper(), [0, 0]).save(path)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        Policy.load(path, mdp)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptFile, match="damaged or not a policy file"):
        Policy.load(path, paper())
    with pytest.raises(FileError, match=r"cannot read|damaged"):
        Policy.load(tmp_path / "nothing", mdp)


def test_a_file_that_lies_is_refused(paper, tmp_path):
    from almostsure.model.tensors import save_tensors

    mdp = paper()
    for arrays, strings in (
        ({"choice": np.array([[2, 2]], np.int32)}, {"total": ""}),
        ({"choice": np.array([[0, 2]], np.int32)}, {"total": "7"}),
        ({"choice": np.array([[0, 2]], np.int32)}, {"total": "x"}),
        ({"probability": np.array([[0.5, 0.4, 1.0]])}, {"total": ""}),
        ({"choice": np.array([[0.0, 2.0]])}, {"total": ""}),
        ({"hello": np.zeros(1)}, {"total": ""}),
        ({}, {"total": ""}),
        ({"choice": np.array([[0, 2]], np.int32), "rest_choice": np.array([0, -1])}, {"total": ""}),
    ):
        save_tensors(tmp_path / "p", kind="policy", mdp=mdp, arrays=arrays, strings=strings)
        with pytest.raises(CorruptFile, match="does not hold a policy of its model"):
            Policy.load(tmp_path / "p", mdp)
