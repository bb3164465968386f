"""UMB files of other programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from almostsure import from_transitions
from almostsure.errors import ArgumentError, FileError, ModelError, UnknownName
from almostsure.model.files import load

from .members import (
    DOUBLE,
    annotated,
    assert_same,
    f8,
    foreign_index,
    foreign_members,
    intervals,
    u8,
    write_members,
)


def test_a_foreign_file_is_sorted_into_canonical_order(path: Path) -> None:
    mdp = load(write_members(path, foreign_members()))
    wanted = from_transitions(
        [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 1], [0.5, 0.5, 1, 1], [0] * 4, [1, 0, 2, 0],
        action_names=["choice 0", "choice 1"],
    )  # fmt: skip
    assert_same(mdp, wanted)


def test_rewards_of_states_choices_and_branches_add_up(path: Path) -> None:
    index = foreign_index()
    kinds = {"states": f8(10, 20), "choices": f8(1, 2, 3), "branches": f8(0.5, 0.25, 0, 0)}
    index["annotations"]["rewards"]["r0"] = {"alias": "Gain", "applies-to": list(kinds), "type": {"type": "double"}}
    members = foreign_members(index)
    for where, values in kinds.items():
        members[f"annotations/rewards/r0/{where}/values.bin"] = values
    write_members(path, members)
    assert load(path).reward.tolist() == [0, 0, 0, 0]
    assert load(path, reward="Gain").reward.tolist() == [11.25, 11.5, 12, 23]
    with pytest.raises(UnknownName, match=r"unknown reward 'Gian'. Did you mean 'Gain'\?.*rewards 'damage', 'Gain'"):
        load(path, reward="Gian")
    with pytest.raises(ModelError, match=r"integer 0 … 255; got 11.5 at state 0, choice 0 .*and 1 more"):
        load(path, damage="Gain")


def test_a_reward_called_reward_is_taken_unless_told_otherwise(path: Path) -> None:
    index = foreign_index()
    index["annotations"]["rewards"]["reward"] = {"applies-to": ["choices"], "type": DOUBLE}
    write_members(path, foreign_members(index, annotations__rewards__reward__choices__values=f8(1, 2, 3)))
    assert load(path).reward.tolist() == [1, 1, 2, 3]
    assert load(path, reward=None).reward.tolist() == [0, 0, 0, 0]
    assert load(path, damage="reward").damage.tolist() == [1, 1, 2, 3]


def test_the_error_for_an_unknown_damage_lists_the_names_in_the_file(path: Path) -> None:
    index = foreign_index(**{"#choice-actions": 2})
    index["annotations"] = {
        "rewards": {"damages": {"applies-to": ["branches"], "type": DOUBLE}},
        "aps": {"crash": {"alias": "crash", "applies-to": ["states"], "type": {"type": "bool", "size": 1}}},
    }
    write_members(
        path,
        foreign_members(
            index,
            annotations__aps__crash__states__values=u8(0b10),
            annotations__rewards__damages__branches__values=f8(0, 1, 1, 0),
            actions__choices__values=np.array([0, 1, 0], "<u4").tobytes(),
            actions__choices__string_mapping=u8(0, 2, 6),
            actions__choices__strings=b"goleap",
        ),
    )
    with pytest.raises(UnknownName, match=r"'damages'\?.*labels 'crash', 'init'; rewards 'damages'; actions 'go'"):
        load(path)
    assert load(path, damage="crash").damage.tolist() == [0, 1, 0, 1]
    assert load(path, damage="action:leap").damage.tolist() == [0, 0, 1, 0]
    assert load(path, damage="damages").damage.tolist() == [1, 0, 1, 0]
    assert load(path, damage="crash").action_names == ("go", "leap")


def test_repeated_and_nameless_actions_become_distinct(path: Path) -> None:
    index = foreign_index(**{"#states": 1, "#choices": 5, "#branches": 5, "#choice-actions": 3})
    members = foreign_members(
        index,
        state_to_choices=u8(0, 5),
        choice_to_branches=u8(0, 1, 2, 3, 4, 5),
        branch_to_target=u8(0, 0, 0, 0, 0),
        branch_to_probability=f8(1, 1, 1, 1, 1),
        annotations__rewards__damage__branches__values=f8(1, 2, 3, 4, 5),
        actions__choices__values=np.array([1, 0, 1, 2, 0], "<u4").tobytes(),
        actions__choices__string_mapping=u8(0, 0, 2, 8),
        actions__choices__strings=b"gogo (2)",
    )
    mdp = load(write_members(path, members))
    found = {mdp.action_name(a): mdp.outcomes(0, int(a))[0].damage for a in mdp.actions(0)}
    assert found == {"choice 0": 2, "choice 1": 5, "go": 1, "go (3)": 3, "go (2)": 4}


def test_a_chain_without_offsets_and_a_state_without_choices(path: Path) -> None:
    index = foreign_index(**{"#players": 0, "#choices": 2, "#branches": 2})
    members = foreign_members(
        index, branch_to_target=u8(1, 1), branch_to_probability=f8(1, 1),
        annotations__rewards__damage__branches__values=f8(1, 0),
    )  # fmt: skip
    del members["state-to-choices.bin"], members["choice-to-branches.bin"]
    mdp = load(write_members(path, members))
    assert mdp.successor.tolist() == [1, 1]
    index = foreign_index(**{"#choices": 1, "#branches": 1})
    members = foreign_members(
        index, state_to_choices=u8(0, 1, 1), choice_to_branches=u8(0, 1), branch_to_target=u8(1),
        branch_to_probability=f8(1), annotations__rewards__damage__branches__values=f8(7),
    )  # fmt: skip
    mdp = load(write_members(path, members))
    assert mdp.is_terminal().tolist() == [False, True]
    assert mdp.max_damage == 7


def test_several_initial_states_are_equally_likely(path: Path) -> None:
    mdp = load(write_members(path, foreign_members(foreign_index(**{"#initial-states": 2}), state_is_initial=u8(3))))
    assert mdp.initial_probabilities.tolist() == [0.5, 0.5]


def test_files_of_umbi_load(path: Path) -> None:
    """One step: stay with probability 1/4, else move on; entering the end does damage 2."""
    umb = pytest.importorskip("umbi.umb")
    index = umb.index.UmbIndex.from_json(foreign_index(**{"#choices": 2, "#branches": 3}))
    model = umb.ExplicitUmb(
        index=index,
        state_is_initial=[True, False],
        state_to_choices=[0, 1, 2],
        choice_to_branches=[0, 2, 3],
        branch_to_target=[1, 0, 1],
        branch_to_probability=[0.75, 0.25, 1.0],
        annotations={"rewards": {"damage": {"branches": [2.0, 0.0, 0.0]}}, "aps": {}},
    )
    umb.write(model, path)
    assert path.read_bytes()[:2] == b"\x1f\x8b"  # compressed by default
    assert load(path).outcomes(0, 0) == [(0, 0.25, 0, 0), (1, 0.75, 0, 2)]


def test_intervals_determine_the_possible_outcomes(path: Path) -> None:
    mdp = load(write_members(path, intervals(0.2, 0.8, 0.2, 0.8, 1, 1, 1, 1)), damage="damage")
    assert (mdp.damage.tolist(), mdp.probability.tolist()) == ([0, 1, 2, 0], [0.5, 0.5, 1, 1])
    assert not mdp.origin.is_bound
    from_zero = load(write_members(path, intervals(0, 0.8, 0.2, 1, 1, 1, 1, 1)), damage="damage")
    assert from_zero.origin.is_bound


@pytest.mark.parametrize("bounds", [(-0.1, 0.5), (0.6, 0.5), (0.5, 1.1), (np.nan, 0.5), (0.5, np.nan), (0, 1 + 2e-9)])
def test_intervals_must_be_of_probabilities(path: Path, bounds: tuple[float, float]) -> None:
    place = r"for the step to state 1 at state 0, choice 0"
    with pytest.raises(ModelError, match=rf"model.umb: an interval of probabilities must have 0 ≤ .*; got .* {place}"):
        load(write_members(path, intervals(*bounds, 0.2, 0.8, 1, 1, 1, 1)), damage="damage")
    mdp = load(write_members(path, intervals(0, 1 + 9e-10, 0.25, 0.25, 1, 1, 1, 1)), damage="damage")
    assert mdp.num_outcomes == 4


def test_an_interval_of_zero_may_have_been_reversed(path: Path) -> None:
    with pytest.raises(ModelError, match=r"got \[0, 0\] .*Storm replaces bounds in the wrong order by \[0, 0\]"):
        load(write_members(path, intervals(0, 0, 1, 1, 1, 1, 1, 1)), damage="damage")


@pytest.mark.parametrize("bounds", [(0.6, 0.7, 0.5, 0.9), (0.1, 0.2, 0.1, 0.7)])
def test_the_intervals_of_a_choice_must_allow_a_distribution(path: Path, bounds: tuple[float, ...]) -> None:
    with pytest.raises(ModelError, match=r"sum to 1; their sums at state 0, choice 0 lie within \[(1.1|0.2), "):
        load(write_members(path, intervals(*bounds, 1, 1, 1, 1)), damage="damage")


def test_damage_must_not_be_an_interval(path: Path) -> None:
    members = intervals(0.2, 0.8, 0.2, 0.8, 1, 1, 1, 1)
    members["annotations/rewards/damage/branches/values.bin"] = f8(1, 2, 0, 0, 2, 2, 0, 0)
    with pytest.raises(FileError, match="must hold numbers; some are intervals"):
        load(write_members(path, members), damage="damage")


def test_goals_end_the_model_and_must_be_reachable(path: Path) -> None:
    bits = {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}

    def wet(states: int, **changes: bytes) -> Path:
        members = annotated("aps", "wet", bits, **changes)
        return write_members(path, members | {"annotations/aps/wet/states/values.bin": u8(states)})

    assert load(wet(2), damage="damage", goal="wet").is_terminal().tolist() == [False, True]
    with pytest.raises(ModelError, match=r"goal 'wet' must hold in some state; it holds in no state of"):
        load(wet(0), damage="damage", goal="wet")
    with pytest.raises(ModelError, match="reachable from all initial states; it cannot be reached from state 0"):
        load(wet(2, branch_to_target=u8(0, 0, 0, 1)), damage="damage", goal="wet")
    with pytest.raises(ModelError, match="it cannot be reached from state 0"):  # only with probability 0
        load(wet(2, branch_to_probability=f8(0, 1, 1, 1)), damage="damage", goal="wet")


@pytest.mark.parametrize("goal", [None, "wet"])
def test_damage_of_states_that_are_never_left_is_refused(path: Path, goal: str | None) -> None:
    index = foreign_index() if goal else foreign_index(**{"#choices": 2, "#branches": 3})
    bits = {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}
    index["annotations"] = {"rewards": {"damage": {"applies-to": ["states"], "type": DOUBLE}}, "aps": {"wet": bits}}
    members = foreign_members(index, annotations__aps__wet__states__values=u8(2))
    if goal is None:  # the second state has no choices
        members |= {"state-to-choices.bin": u8(0, 2, 2), "choice-to-branches.bin": u8(0, 2, 3)}
        members |= {"branch-to-target.bin": u8(1, 0, 0), "branch-to-probability.bin": f8(0.5, 0.5, 1)}
    members |= {"annotations/rewards/damage/states/values.bin": f8(3, 7)}
    with pytest.raises(ModelError, match=r"damage 'damage' counts .* must be 0 where runs end; got 7 at state 1 of"):
        load(write_members(path, members), damage="damage", goal=goal)
    members |= {"annotations/rewards/damage/states/values.bin": f8(3, 0)}
    assert load(write_members(path.with_name("left.umb"), members), damage="damage", goal=goal).max_damage == 3


@pytest.mark.parametrize("scale", ["0", "-1", "1/0", "much", "inf"])
def test_scales_must_be_positive_numbers(path: Path, scale: str) -> None:
    with pytest.raises(ArgumentError, match=r"scale must be a positive number, such as 0\.1 or '1/3'; got"):
        load(write_members(path, foreign_members()), damage="damage", scale=scale)


def test_damage_is_counted_in_the_unit_that_is_given(path: Path) -> None:
    write_members(path, foreign_members() | {"annotations/rewards/damage/branches/values.bin": f8(0.1, 0, 700, 0)})
    with pytest.raises(ModelError, match=r"Pass scale=, the unit of damage: at least 2\.75 here"):
        load(path, damage="damage")
    for damages in ((0.5, 0, 255, 0), (0.5, 0, 1, 0)):
        members = foreign_members() | {"annotations/rewards/damage/branches/values.bin": f8(*damages)}
        with pytest.raises(ModelError, match=r"got 0\.5 at .*the unit of damage, or choose another damage\.$"):
            load(write_members(path.with_name("halves.umb"), members), damage="damage")
    mdp = load(path, damage="damage", scale=3)
    assert mdp.damage.tolist() == [0, 1, 234, 0]  # rounded up
    assert mdp.show_damage(5) == "5 (in the unit of the file: 15)"
    third = load(path, damage="damage", scale="10/3")
    assert third.show_damage(2) == "2 (in the unit of the file: 20/3)"
