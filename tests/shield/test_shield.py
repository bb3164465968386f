"""``Shield``: allowed actions, by index, by name and for many states at once; files; text."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure.budget.minimal import INFINITE
from almostsure.errors import (
    ArgumentError,
    CertificateError,
    CorruptFile,
    FileError,
    Infeasible,
    ModelError,
    ModelMismatch,
    NoSafeAction,
    UnknownName,
)
from almostsure.files import save_tensors
from almostsure.model.build.transitions import build
from almostsure.shield import HorizonShield, MonitoredShield, Shield
from almostsure.shield.table import DenseTable, SparseTable
from almostsure.testing.families import garnet, ladder


def by_hand(shield: Shield, states: np.ndarray, remaining: np.ndarray) -> np.ndarray:
    """The mask by Theorem 1, one choice at a time."""
    mdp, result = shield.mdp, np.zeros((len(states), shield.mdp.num_actions), bool)
    for row, (state, left) in enumerate(zip(states.tolist(), remaining.tolist(), strict=True)):
        for choice in mdp.choices(state):
            needed = int(shield.minimal.of_choice[choice])
            result[row, int(mdp.choice_action[choice])] = needed != INFINITE and needed <= left
    return result


# ---------------------------------------------------------------------- allowed


def test_allowed_by_index_and_by_name(shield: Shield) -> None:
    assert shield.allowed(0, 1).tolist() == [0]
    assert shield.allowed("start", 2).tolist() == [0, 1]
    assert shield.allowed(np.int32(1), np.uint8(2)).tolist() == [0]
    assert shield.allowed("end", 0).tolist() == [0]
    assert shield.allowed(0, 1).dtype == np.int64


@pytest.mark.parametrize("remaining", [2, 2.0, 255, INFINITE - 1, INFINITE, INFINITE + 1, 2**70])
def test_budgets_above_all_needs_allow_only_choices_with_finite_needs(shield: Shield, remaining: float) -> None:
    assert shield.allowed("start", remaining).tolist() == [0, 1]
    assert shield.mask(0, remaining).tolist() == [True, True, False]


def test_too_small_a_budget_is_an_error_that_names_the_state(shield: Shield) -> None:
    with pytest.raises(NoSafeAction, match=r"no action of state 1 'ledge' is safe with 1 left: it needs 2\.") as caught:
        shield.allowed("ledge", 1)
    assert (caught.value.state, caught.value.remaining) == (1, 1)


def test_overspent_is_an_error_even_in_states_without_damage(shield: Shield) -> None:
    with pytest.raises(NoSafeAction, match=r"state 3 'end' is safe with -1 left: the budget is overspent by 1"):
        shield.allowed("end", -1)
    with pytest.raises(NoSafeAction, match=r"state 3 'end' is safe with -2 left: the budget is overspent by 2"):
        shield.mask(3, -2)


@pytest.mark.parametrize("remaining", [0, 10**6, 2**70])
def test_no_budget_suffices_in_the_pit(shield: Shield, remaining: int) -> None:
    with pytest.raises(NoSafeAction, match=r"'pit' is safe with .*: no finite budget suffices there"):
        shield.allowed("pit", remaining)


@pytest.mark.parametrize("remaining", [0.5, float("nan"), float("inf"), True, np.True_, "1", None, 1j, [1], object()])
def test_remaining_must_be_a_whole_number(shield: Shield, remaining: object) -> None:
    with pytest.raises(ArgumentError, match="remaining must be a whole number; got"):
        shield.allowed(3, remaining)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="remaining must be a whole number; got"):
        shield.choices(remaining)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [-1, 4, 2**70, 0.5, float("nan"), float("inf"), None, True, "strat", [0, 1]])
def test_unknown_states(shield: Shield, state: object) -> None:
    with pytest.raises(UnknownName, match="unknown state"):
        shield.allowed(state, 5)  # type: ignore[arg-type]
    if state != [0, 1]:
        with pytest.raises(UnknownName, match="unknown state"):
            shield.begin(state, 5)


def test_runs_begin_with_any_budget(shield: Shield) -> None:
    assert shield.begin(3, 10**30) == (3, 10**30)
    assert shield.mask(*shield.begin([3], 10**30)).tolist() == shield.mask([3], 10**30).tolist()


def test_a_misspelt_state_gets_a_suggestion(shield: Shield) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'start'"):
        shield.allowed("strat", 5)


def test_choices(shield: Shield) -> None:
    assert shield.choices(0).tolist() == [False, False, False, False, False, True]
    assert shield.choices(2).tolist() == [True, True, False, True, False, True]
    assert not shield.choices(-1).any()
    assert shield.choices(2**70).tolist() == shield.choices(2).tolist()


# ---------------------------------------------------------------------- masks


@given(seed=st.integers(0, 2**32), sparse=st.booleans())
def test_masks_follow_the_theorem(seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    mdp = garnet(
        int(rng.integers(1, 30)), int(rng.integers(1, 12)), 2, seed=seed % 1000, damage_rate=0.3,
        max_damage=int(rng.choice([1, 40, 255])),
    )  # fmt: skip
    shield = Shield(asure.minimal_budget(mdp))
    if sparse:
        vars(shield)["_table"] = SparseTable(mdp, shield.minimal.of_choice)
    safe = np.flatnonzero(shield.minimal.of_state < INFINITE)
    if not safe.size:
        return
    states = rng.choice(safe, 40)
    remaining = shield.minimal.of_state[states] + rng.integers(0, 300, 40)
    mask = shield.mask(states, remaining)
    assert mask.shape == (40, mdp.num_actions)
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, by_hand(shield, states, remaining))
    with pytest.raises(NoSafeAction, match="overspent by 1"):
        shield.mask(states, np.full(40, -1))
    for state, left, row in zip(states.tolist(), remaining.tolist(), mask, strict=True):
        assert shield.allowed(state, left).tolist() == np.flatnonzero(row).tolist()


@pytest.mark.parametrize("levels", [3, 254, 255, 256, 65_534, 65_535, 65_536])
def test_budgets_at_the_edges_of_the_integer_types(levels: int) -> None:
    mdp = ladder(levels)
    shield = Shield(asure.minimal_budget(mdp, backend="plain" if levels < 1000 else "auto"))
    assert shield.minimal.smallest_budget() == levels
    top = mdp.initial_state
    assert shield.mask(top, levels).tolist() == [True, False]
    with pytest.raises(NoSafeAction, match=f"it needs {levels}"):
        shield.mask(top, levels - 1)
    states = np.arange(mdp.num_states)
    for extra in (0, 1, 300):
        remaining = shield.minimal.of_state + extra
        np.testing.assert_array_equal(shield.mask(states, remaining), by_hand(shield, states, remaining))


def test_very_many_look_ups() -> None:
    mdp = garnet(50, 3, 2, seed=3, damage_rate=0.1)
    shield = Shield(asure.minimal_budget(mdp))
    safe = np.flatnonzero(shield.minimal.of_state < INFINITE)
    states = np.random.default_rng(0).choice(safe, 100_001)
    once = shield.mask(safe, 3)
    np.testing.assert_array_equal(shield.mask(states, 3), once[np.searchsorted(safe, states)])


def test_scalars_and_shapes_broadcast(shield: Shield) -> None:
    one = [True, True, False]
    assert shield.mask("start", 2).tolist() == one
    assert shield.mask([0], 2).tolist() == [one]
    assert shield.mask(0, [2, 3]).tolist() == [one, one]
    assert shield.mask([[0], [3]], [2, 3]).shape == (2, 2, 3)
    assert shield.mask(np.array([[0, 0]], np.uint8), np.uint64(2**63)).tolist() == [[one, one]]
    assert shield.mask(np.array([0], np.int8), np.array([2], np.int8)).tolist() == [one]
    assert shield.mask([0.0], [2.0]).tolist() == [one]
    assert shield.mask([], []).shape == (0, 3)
    assert shield.mask([], 1).shape == (0, 3)
    assert shield.mask(0, []).shape == (0, 3)


def test_strided_and_read_only_inputs(shield: Shield) -> None:
    states = np.zeros(20, np.int64)
    states[1::2] = 3
    states.flags.writeable = False
    expected = shield.mask(states[::2].copy(), 2)
    np.testing.assert_array_equal(shield.mask(states[::2], np.full(20, 2)[::2]), expected)


def test_an_empty_row_is_an_error_that_names_the_first_and_counts(shield: Shield) -> None:
    message = r"state 1 'ledge' is safe with 1 left \(the first of 2 such look-ups among 4\): it needs 2"
    with pytest.raises(NoSafeAction, match=message) as caught:
        shield.mask([0, 1, 3, 2], [2, 1, 0, 9])
    assert (caught.value.state, caught.value.remaining) == (1, 1)
    with pytest.raises(NoSafeAction, match="no finite budget suffices"):
        shield.mask([2, 3], 2**80)


@pytest.mark.parametrize("states", [[-1], [0, 4], [0, 2**62], np.array([2**64 - 1], np.uint64), "strat"])
def test_states_out_of_range_never_wrap_around(shield: Shield, states: object) -> None:
    with pytest.raises(UnknownName, match="unknown state"):
        shield.mask(states, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("states", "remaining", "message"),
    [
        ([0.5], 2, "states must be whole numbers; got 0.5 at entry 0"),
        ([True], 2, "states must be whole numbers; got bool"),
        (None, 2, "states must be whole numbers; got object"),
        ([2**70], 2, "states must be whole numbers; got object"),
        ([[0], [0, 1]], 2, "states must be whole numbers"),
        ([0, 0], [2, float("nan")], "remaining must be whole numbers; got nan at entry 1"),
        ([0], float("inf"), "remaining must be whole numbers; got inf"),
        ([0], [1.5, 2.5], r"got 1.5 at entry 0 \(and 1 more entry\)"),
        ([0], True, "remaining must be whole numbers; got bool"),
        ([0], "2", "remaining must be whole numbers; got <U1"),
        ([0, 0, 0], [2, 2], r"shapes that fit together; got \[3\] and \[2\]"),
    ],
)
def test_masks_refuse_invalid_arguments(shield: Shield, states: object, remaining: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        shield.mask(states, remaining)  # type: ignore[arg-type]


def test_masks_of_tables_have_their_shape(shield: Shield) -> None:
    states, remaining = np.array([[0, 1, 0], [1, 1, 0]]), np.array([[2, 3, 1], [2, 9, 9]])
    flat = shield.mask(states.ravel(), remaining.ravel())
    assert shield.mask(states, remaining).tolist() == flat.reshape(2, 3, -1).tolist()
    for one in (states[:, :1], states[:1, :1]):  # one state, several budgets
        several = shield.mask(np.broadcast_to(one, (2, 3)), remaining)
        assert shield.mask(one, remaining).tolist() == several.tolist()


def test_masks_of_states_of_a_function() -> None:
    def outcomes(state, action):  # type: ignore[no-untyped-def]
        x, _ = state
        yield 1.0, (min(x + 1, 3), action == "river"), -1.0, int(action == "river")

    mdp = asure.from_function(outcomes, initial=(1, False), actions=lambda state: ["road", "river"][state[1] :])
    guard = asure.Shield(asure.minimal_budget(mdp))
    states = [(3, False), (1, False), (2, False)]
    expected = guard.mask([mdp.state(state) for state in states], 0)
    assert guard.mask(states, 0).tolist() == expected.tolist()
    assert guard.mask([[states[0]], [states[2]]], 0).tolist() == expected[[0, 2]].reshape(2, 1, -1).tolist()
    assert guard.mask((1, False), 0).tolist() == expected[1].tolist()
    assert guard.mask(tuple(states), 0).tolist() == expected.tolist()
    start, left = guard.begin((1, False), 2)
    assert (mdp.state_name(start), left) == ("(1, False)", 2)
    assert guard.after((start, left), 1, (2, True), 1) == (mdp.state((2, True)), 1)
    assert guard.begin(states, 2)[0].tolist() == [mdp.state(state) for state in states]
    within = HorizonShield(asure.minimal_budget(mdp, horizon=4))
    assert within.mask(states, 0, 3).tolist() == expected.tolist()
    assert within.begin((1, False), 2) == (start, 2, 4)
    monitored = MonitoredShield(Shield(asure.minimal_budget(asure.product(mdp, asure.model.Steps(9)))))
    assert monitored.begin((1, False), 2)[:2] == (start, 2)
    for unknown in ((9, False), (0, 1), [(9, False)]):
        with pytest.raises(ModelError, match=r"\((9, False|0, 1)\) was not reached"):
            guard.mask(unknown, 0)
    with pytest.raises(ArgumentError, match="states must be whole numbers; got bool"):
        guard.mask([1, False], 0)
    with pytest.raises(ArgumentError, match="states must be whole numbers"):
        guard.mask([[0], [0, 1]], 0)


def test_with_a_custom_encode_tuples_are_several_states() -> None:
    columns = ([0, 1], [0, 0], [1, 2], [1.0, 1.0], [0.0, 0.0], [0, 1])
    mdp = build(columns, num_states=3, terminal=[2], initial=0, encode=lambda observation: int(observation[0]))
    with pytest.raises(NoSafeAction, match="state 1"):
        asure.Shield(asure.minimal_budget(mdp)).mask((2, 1), (0, 0))


def test_masks_of_names(shield: Shield) -> None:
    start, ledge = shield.mdp.state("start"), shield.mdp.state("ledge")
    expected = shield.mask([[start], [ledge]], 2)
    for names in ([["start"], ["ledge"]], np.array([["start"], ["ledge"]]), [["start"], [ledge]]):
        assert np.array_equal(shield.mask(names, 2), expected)
    with pytest.raises(UnknownName, match=r"unknown state 'strat'. Did you mean 'start'"):
        shield.mask(["start", "strat"], 2)


def test_choices_have_empty_states_where_masks_raise(shield: Shield) -> None:
    mdp = shield.mdp
    table = mdp.by_action(shield.choices(1), otherwise=False)
    enough = shield.minimal.of_state <= 1
    assert not enough.all()
    assert np.array_equal(table.any(axis=1), enough)
    assert np.array_equal(table[enough], shield.mask(np.flatnonzero(enough), 1))


def test_a_shield_is_loaded_for_a_model_by_name(tmp_path: Path) -> None:
    mdp = asure.example("paper")
    Shield(asure.minimal_budget(mdp)).save(tmp_path / "paper.shield")
    assert Shield.load(tmp_path / "paper.shield", "paper").mdp == mdp


def test_few_of_many_actions_use_the_sparse_table() -> None:
    count = 3000
    every = np.arange(count)
    mdp = asure.from_transitions(every, every, (every + 1) % count, [1] * count, [0] * count, every % 2 == 0)
    shield = Shield(asure.minimal_budget(mdp))
    assert shield.minimal.smallest_budget() == INFINITE
    mdp = asure.from_transitions(
        every[:-1], every[:-1], every[1:], [1] * (count - 1), [0] * (count - 1), every[:-1] == 7, terminal=[count - 1]
    )
    shield = Shield(asure.minimal_budget(mdp))
    mask = shield.mask(every, 1)
    assert isinstance(shield._table, SparseTable)
    np.testing.assert_array_equal(np.nonzero(mask)[1][:-1], every[:-1])
    with pytest.raises(NoSafeAction, match="state 7 is safe with 0 left"):
        shield.mask(every[7:], 0)


def test_dense_and_sparse_tables_agree_on_special_cases(make) -> None:
    for seed in range(200):
        mdp = make(seed)
        of_choice = asure.minimal_budget(mdp).of_choice
        dense, sparse = DenseTable(mdp, of_choice), SparseTable(mdp, of_choice)
        states = np.arange(mdp.num_states)
        for remaining in (np.asarray(0), np.asarray(2), states % 4):
            np.testing.assert_array_equal(dense.allows(states, remaining), sparse.allows(states, remaining))


# ---------------------------------------------------------------------- caps


def test_beyond_its_cap_a_shield_refuses_unknown_needs(fall: asure.MDP) -> None:
    shield = Shield(asure.minimal_budget(fall, cap=1))
    assert shield.allowed("start", 1).tolist() == [0]
    assert shield.allowed("start", 5).tolist() == [0]
    with pytest.raises(NoSafeAction, match="'ledge' is safe with 5 left: it needs more than the cap 1"):
        shield.allowed("ledge", 5)
    with pytest.raises(NoSafeAction, match="it needs more than the cap 1"):
        shield.mask([0, 1], 5)
    assert "need more than the cap 1" in repr(shield)


# ---------------------------------------------------------------------- construction


def test_a_shield_is_made_of_a_minimal_budget(fall: asure.MDP) -> None:
    with pytest.raises(ArgumentError, match=r"Shield\(minimal_budget\(mdp\)\); got MDP"):
        Shield(fall)  # type: ignore[arg-type]


def forged(minimal: asure.MinimalBudget, **arrays: list[int]) -> asure.MinimalBudget:
    values = {"of_state": minimal.of_state, "of_choice": minimal.of_choice} | arrays
    given = {name: np.array(value, np.int32) for name, value in values.items()}
    return asure.MinimalBudget(mdp=minimal.mdp, rank=minimal.rank, cap=minimal.cap, **given)


def test_a_budget_that_is_too_small_is_refused(fall: asure.MDP, shield: Shield) -> None:
    choice = shield.minimal.of_choice.tolist()
    climb = r"choice 1 \(state 0 'start', action 'climb'\)"
    with pytest.raises(CertificateError, match=climb + " is too small: it claims 1, but an outcome costs 2"):
        Shield(forged(shield.minimal, of_choice=[1, 1, *choice[2:]]))
    with pytest.raises(CertificateError, match=r"'wait'\) is too small: it claims 9, but an outcome costs ∞"):
        Shield(forged(shield.minimal, of_choice=[1, 2, 9, *choice[3:]]))
    with pytest.raises(CertificateError, match="'start' must be the least of its choices' budgets"):
        Shield(forged(shield.minimal, of_choice=[0, *choice[1:]]))
    with pytest.raises(CertificateError, match="of_state must be 0 or more; got -1 at index 3"):
        Shield(forged(shield.minimal, of_choice=[*choice[:5], -1], of_state=[1, 2, INFINITE, -1]))


def test_a_budget_that_is_larger_than_necessary_is_safe(fall: asure.MDP, shield: Shield) -> None:
    cautious = forged(shield.minimal, of_choice=[1, 7, INFINITE, 2, INFINITE, 0])
    assert Shield(cautious).allowed(0, 5).tolist() == [0]


@given(seed=st.integers(0, 2**32))
def test_any_lowered_value_is_refused(seed: int) -> None:
    mdp = garnet(6, 2, 2, seed=seed % 5000, damage_rate=0.4)
    minimal = asure.minimal_budget(mdp)
    rng = np.random.default_rng(seed)
    above = np.flatnonzero(minimal.of_choice > 0)
    if not above.size:
        return
    of_choice = minimal.of_choice.copy()
    of_choice[rng.choice(above)] -= 1
    of_state = np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1])
    with pytest.raises(CertificateError, match="is too small: it claims"):
        Shield(forged(minimal, of_choice=of_choice, of_state=of_state))


def test_a_capped_budget_must_not_exceed_its_cap(fall: asure.MDP) -> None:
    minimal = asure.minimal_budget(fall, cap=1)
    bad = forged(minimal, of_choice=[1, 2, INFINITE, 2, INFINITE, 0], of_state=[1, 2, INFINITE, 0])
    with pytest.raises(CertificateError, match="of_state must be at most the cap 1, or INFINITE; got 2"):
        Shield(bad)


def test_it_is_immutable(shield: Shield) -> None:
    with pytest.raises(AttributeError, match="a shield is immutable"):
        shield.minimal = None  # type: ignore[misc,assignment]


# ---------------------------------------------------------------------- files


def test_save_and_load(shield: Shield, fall: asure.MDP, tmp_path: Path) -> None:
    shield.save(tmp_path / "a.shield")
    again = Shield.load(tmp_path / "a.shield", fall)
    np.testing.assert_array_equal(again.minimal.of_choice, shield.minimal.of_choice)
    np.testing.assert_array_equal(again.mask([0, 3], 2), shield.mask([0, 3], 2))
    asure.check_minimal_budget(fall, again.minimal)


def test_a_cap_survives_the_file(fall: asure.MDP, tmp_path: Path) -> None:
    Shield(asure.minimal_budget(fall, cap=1)).save(tmp_path / "a.shield")
    assert Shield.load(tmp_path / "a.shield", fall).minimal.cap == 1


def test_another_models_file(shield: Shield, tmp_path: Path) -> None:
    shield.save(tmp_path / "a.shield")
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        Shield.load(tmp_path / "a.shield", garnet(4, 3, 2))


def test_files_of_other_kinds(shield: Shield, fall: asure.MDP, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read|No such file"):
        Shield.load(tmp_path / "missing", fall)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CorruptFile, match="damaged or not a shield file"):
        Shield.load(tmp_path / "text", fall)
    shield.minimal.save(tmp_path / "budget")
    with pytest.raises(CorruptFile, match="is not a shield file"):
        Shield.load(tmp_path / "budget", fall)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of_choice": np.zeros(6, np.int32), "of_state": np.zeros(4, np.int32)}, "is too small: it claims"),
        ({"of_choice": np.zeros(5, np.int32)}, "of_choice must be 6 integers"),
        ({"of_choice": np.zeros(6, np.float32)}, "of_choice must be 6 integers"),
        ({"extra": np.zeros(6, np.float32)}, "must hold of_state, of_choice and rank"),
    ],
)
def test_forged_files(shield: Shield, fall: asure.MDP, tmp_path: Path, change: dict, message: str) -> None:
    arrays = {name: getattr(shield.minimal, name) for name in ("of_state", "of_choice", "rank")} | change
    save_tensors(tmp_path / "bad", kind="shield", model=fall.fingerprint, arrays=arrays, strings={})
    with pytest.raises(CorruptFile, match=message):
        Shield.load(tmp_path / "bad", fall)


def test_an_invalid_cap(shield: Shield, fall: asure.MDP, tmp_path: Path) -> None:
    arrays = {name: getattr(shield.minimal, name) for name in ("of_state", "of_choice", "rank")}
    save_tensors(tmp_path / "bad", kind="shield", model=fall.fingerprint, arrays=arrays, strings={"cap": "many"})
    with pytest.raises(CorruptFile, match="does not hold a shield"):
        Shield.load(tmp_path / "bad", fall)


def test_pickles_and_copies(shield: Shield) -> None:
    shield.mask(0, 2)
    for again in (pickle.loads(pickle.dumps(shield)), copy.copy(shield), copy.deepcopy(shield)):
        np.testing.assert_array_equal(again.mask([0, 3], 2), shield.mask([0, 3], 2))


# ---------------------------------------------------------------------- text


def test_the_repr(shield: Shield) -> None:
    assert repr(shield) == (
        "<Shield: of 6 choices in 4 states it allows\n"
        "  1 with 0 left, 2 with 1 left, 4 with 2 left; 2 are never safe\n"
        "  the start needs a budget of 1>"
    )
    four = repr(Shield(asure.minimal_budget(ladder(2))))
    assert "\n  2 with 0 left, 4 with 1 left, 6 with 2 left, 7 with 3 left; 0 are never safe\n" in four
    five = repr(Shield(asure.minimal_budget(ladder(3))))
    assert "\n  2 with 0 left, 4 with 1 left, …, 9 with 4 left; 0 are never safe\n" in five
    long = ladder(9)
    assert "\n  2 with 0 left, 4 with 1 left, …, 21 with 10 left; 0 are" in repr(Shield(asure.minimal_budget(long)))


def test_the_repr_without_safe_choices() -> None:
    mdp = asure.from_transitions([0], [0], [0], [1], [0], [1])
    assert "none; 1 are never safe\n  no finite budget suffices at the start" in repr(Shield(asure.minimal_budget(mdp)))
    capped = Shield(asure.minimal_budget(mdp, cap=3))
    assert "no budget up to 3 suffices at the start" in repr(capped)


def test_models_are_loaded_by_name() -> None:
    minimal = asure.minimal_budget("quicksand")
    asure.check_minimal_budget("quicksand", minimal)
    assert Shield(minimal).mdp is minimal.mdp


def test_unknown_needs_are_called_unknown(tmp_path) -> None:
    mdp = asure.from_transitions([0, 0, 2], [0, 1, 0], [1, 2, 2], [1] * 3, [0] * 3, [0, 0, 1], terminal=[1])
    learned = asure.MDP(mdp.arrays, initial=(mdp.initial_states, mdp.initial_probabilities), end=1, unknown=2)
    shield = Shield(asure.minimal_budget(learned))
    assert shield.allowed(0, 5).tolist() == [0]
    with pytest.raises(NoSafeAction, match=r"state 2 .*: it may lead to .* what it needs is unknown"):
        shield.allowed(2, 5)
    assert "1 are refused: what they need is unknown" in repr(shield)
    assert "which may lead to an unobserved state" in str(shield.first_violation([1, 0, 0], 3))
    for text in (repr(shield), shield._repr_html_(), str(shield.first_violation([1, 0, 0], 3))):
        assert "finite" not in text
        assert "∞" not in text
    lost = asure.MDP(mdp.arrays, initial=(np.array([2]), np.array([1.0])), end=1, unknown=2)
    with pytest.raises(Infeasible, match=r"no budget is known to be enough .*: .* is unknown\. Learn from more"):
        Shield(asure.minimal_budget(lost)).random_policy(3)


def test_choices_that_are_never_safe_are_refused_with_any_budget():
    mdp = asure.from_transitions([0], [0], [0], [1], [0], [1])
    shield = asure.Shield(asure.minimal_budget(mdp))
    for remaining in (0, asure.INFINITE, 2**62, 2**63 - 1):
        with pytest.raises(NoSafeAction, match="no finite budget suffices"):
            shield.mask(np.array([0]), np.array([remaining]))
        for state in (0, np.array([0])):
            with pytest.raises(NoSafeAction, match="no finite budget suffices"):
                shield.begin(state, remaining)
        assert shield.choices(remaining).tolist() == [False]


def test_as_many_next_states_as_states():
    mdp = asure.example("quicksand")
    shield = asure.Shield(asure.minimal_budget(mdp))
    run = shield.begin(np.array([mdp.initial_state] * 2), 2)
    with pytest.raises(ValueError, match="as many states, actions and next states"):
        shield.after(run, np.array([0, 0]), np.array([0, 0, 0]))


@pytest.mark.parametrize("wrong", [-1, 4, 2**62])
def test_few_look_ups_are_validated_like_many(shield: Shield, wrong: int) -> None:
    for count in (1, 3000):
        states, left = np.full(count, 3), np.zeros(count, np.int64)
        assert shield.mask(states, left).tolist() == [[True, False, False]] * count
        states[-1] = wrong
        with pytest.raises(UnknownName, match=rf"^unknown state {wrong}\. States are 0 … 3\.$"):
            shield.mask(states, left)


@pytest.mark.parametrize("chunk", [2, 100])
def test_the_error_of_a_mask_names_the_first_look_up_and_counts_them(
    shield: Shield, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almostsure.shield.shield.CHUNK", chunk)
    states, left = np.array([0, 1, 3, 0, 3]), np.array([1, 2, 0, 2, 5])
    expected = by_hand(shield, states, left)
    assert np.array_equal(shield.mask(states, left), expected)
    assert np.array_equal(shield.mask(states[[1, 3]], 2), expected[[1, 3]])
    with pytest.raises(NoSafeAction, match=r"'ledge' is safe with 1 left \(the first of 2 such look-ups among 5\): it"):
        shield.mask(states, left - np.array([0, 1, 0, 2, 0]))


def test_the_memory_of_a_random_policy_is_checked(shield: Shield, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("almostsure.shield.shield.require", lambda *given: asked.append(given))
    policy = shield.random_policy(3)
    assert asked == [(8 * 4 * 6, "the random shielded policy", "Call shield.allowed in every step instead.")]
    assert policy.probabilities("start", 3).tolist() == [0.5, 0.5, 0]
    with pytest.raises(Infeasible, match=r"^a budget of 0 is not enough at the start: state 0 'start' needs 1\.$") as e:
        shield.random_policy(0)
    assert e.value.needed == 1
