"""The index of a UMB file is validated against the members of the file."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almostsure.errors import CorruptFile, FileError
from almostsure.model.files import load
from almostsure.model.umb.index import Umb, listed

from .members import (
    DOUBLE,
    Members,
    annotated,
    example,
    f8,
    foreign_index,
    foreign_members,
    intervals,
    read_members,
    u8,
    write_members,
)


def test_the_index_has_all_sizes(path: Path) -> None:
    example().save(path)
    system = json.loads(read_members(path)["index.json"])["transition-system"]
    assert system == {
        "time": "discrete", "#players": 1, "#states": 3, "#initial-states": 2, "#choices": 6, "#choice-actions": 4,
        "#branches": 7, "#branch-actions": 0, "#observations": 0,
        "branch-probability-type": {"type": "double", "size": 64},
    }  # fmt: skip


def test_rational_probabilities(path: Path) -> None:
    index = foreign_index(**{"branch-probability-type": {"type": "rational"}})
    pairs = [Fraction(1, 3), Fraction(2, 3), Fraction(1), Fraction(1)]
    numbers = np.array([(f.numerator, f.denominator) for f in pairs], "<i8").tobytes()
    mdp = load(write_members(path, foreign_members(index, branch_to_probability=numbers)))
    assert mdp.probability.tolist() == [2 / 3, 1 / 3, 1, 1]
    with pytest.raises(CorruptFile, match="zero denominator"):
        load(write_members(path, foreign_members(index, branch_to_probability=bytes(64))))


def with_index(**system: Any) -> Members:
    return foreign_members(foreign_index(**system))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (with_index(time="stochastic"), "a continuous-time model"),
        (with_index(**{"#players": 2, "player-names": ["a", "b"]}), "a game"),
        (with_index(**{"#observations": 2, "observations-apply-to": "states"}), "partially observable"),
        (with_index(**{"branch-probability-type": {"type": "double-interval", "size": 128}}), "must have 64 bytes"),
        (with_index(**{"#branches": 5}), r"branch-to-target.bin' must have 40 bytes, as the index says; it has 32"),
        (with_index(**{"#states": 10**18}), "state-to-choices.bin' must have 8,000,000,000,000,000,008 bytes"),
        (with_index(**{"#choices": 0, "#branches": 0, "branch-probability-type": None}), "without probabilities"),
        (with_index(**{"#states": -1}), "not a UMB index"),
        (with_index(**{"#initial-states": 2}), "must mark 2 states, as the index says; it marks 1"),
        (with_index(**{"#initial-states": 0}), "must have an initial state"),
        (with_index(**{"#choice-actions": 2}) | {"actions/choices/values.bin": bytes(11)}, "must have 12 bytes"),
        (
            with_index(**{"#choice-actions": 2}) | {"actions/choices/values.bin": b"\x02" * 12},
            r"must hold actions 0 … 1; it holds 33686018",
        ),
        (foreign_members(state_to_choices=u8(0, 3, 2)), r"state-to-choices.bin' must run from 0 to 3"),
        (foreign_members(choice_to_branches=u8(0, 3, 2, 4)), r"must not decrease; entry 2 is 2 after 3"),
        (foreign_members(choice_to_branches=u8(0, 2, 2, 4)), "choice 1 has none"),
        (foreign_members(branch_to_target=u8(1, 0, 2**63, 1)), r"states 0 … 1; entry 2 is 9223372036854775808"),
        (foreign_members(branch_to_target=u8(1, 0, 1, 2)), r"must hold states 0 … 1; entry 3 is 2"),
        (
            with_index(**{"#choice-actions": 2}) | {"actions/choices/values.bin": np.array([0, 1, 2], "<u4").tobytes()},
            r"must hold actions 0 … 1; it holds 2",
        ),
        (
            {name: data for name, data in foreign_members().items() if name != "state-to-choices.bin"},
            "member 'state-to-choices.bin' is missing, but the index has 2 and 3",
        ),
        (
            {name: data for name, data in foreign_members().items() if name != "choice-to-branches.bin"},
            "member 'choice-to-branches.bin' is missing, but the index has 3 and 4",
        ),
        (foreign_members(branch_to_probability=f8(0.5, 0.4, 1, 1)), r"model.umb: probabilities of .* must sum to 1"),
        (foreign_members(branch_to_probability=f8(0.5, np.nan, 1, 1)), "probabilities must lie"),
        (foreign_members(state_is_initial=bytes(9)), "must have 8 bytes"),
        ({"index.json": b"{"}, "not a UMB index"),
        ({"index.json": b"[" * 100_000}, "not a UMB index"),
        ({"index.json": b"\xff\xfe"}, "not a UMB index"),
        ({"index.json": b"{}"}, "not a UMB index"),
        ({"index.json": b"[]"}, r"not a UMB index \(the index must be an object; got \[\]"),
        (with_index(time="sometimes"), "transition-system/time must be one of discrete, stochastic"),
        (with_index(**{"#states": 0}), "transition-system/#states must be an integer 1 … 18446744073709551615; got 0"),
        (with_index(**{"#states": True}), "transition-system/#states must be an integer"),
        (with_index(**{"#initial-states": 3}), "#initial-states must be an integer 0 … 2; got 3"),
        (with_index(**{"branch-probability-type": {"type": "int"}}), "must be a type of fractions; got 'int'"),
        (with_index(**{"branch-probability-type": {"type": "real"}}), "type must be one of bool, string, int"),
        (with_index(**{"branch-probability-type": {"type": "double", "size": 32}}), "size must be 64 for a double"),
        (with_index(**{"#choices": 0, "#branches": 0}), "a model must have transitions; this file has none"),
        (annotated("rewards", "damage", {"applies-to": ["nowhere"]}), "applies-to must name states, choices, branches"),
        (annotated("rewards", "damage", {"applies-to": "states"}), "applies-to must be a list; got 'states'"),
        (annotated("rewards", "damage", {"alias": 3}), "alias must be text; got 3"),
        ({"other": b""}, "'index.json' is missing"),
        ({**foreign_members(), "../evil": b""}, r"'../evil' points outside the archive"),
        ({**foreign_members(), "/etc/evil": b""}, "points outside the archive"),
        ({**foreign_members(), "a/../../evil": b""}, "points outside the archive"),
    ],
)
def test_bad_contents(path: Path, members: Members, message: str) -> None:
    with pytest.raises(FileError, match=message) as caught:
        load(write_members(path, members))
    assert str(path) in str(caught.value)
    assert caught.value.path == str(path)


def test_labels_hold_one_bit_per_state(path: Path) -> None:
    bits = {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}
    members = annotated("aps", "wet", bits) | {"annotations/aps/wet/states/values.bin": u8(2)}
    assert load(write_members(path, members), damage="label:wet").damage.tolist() == [0, 1, 0, 1]
    assert load(write_members(path, members), damage="init").damage.tolist() == [1, 0, 1, 0]
    with pytest.raises(FileError, match="label 'wet' must hold one bit per state"):
        load(write_members(path, annotated("aps", "wet", bits | {"type": DOUBLE})), damage="label:wet")


def test_unknown_number_types_are_refused(path: Path) -> None:
    index = foreign_index()
    index["annotations"]["rewards"]["damage"]["type"] = {"type": "uint", "size": 64}
    with pytest.raises(CorruptFile, match="64-bit uint numbers; doubles and 128-bit rationals can be read"):
        load(write_members(path, foreign_members(index)))
    index["annotations"]["rewards"]["damage"]["applies-to"] = []
    with pytest.raises(CorruptFile, match="must belong to states, choices or branches; it has no values"):
        load(write_members(path, foreign_members(index)))


def test_the_entry_is_right_beyond_the_first_chunk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("almostsure.model.umb.index.CHUNK", 3)
    for targets, message in (((1, 0, 1, 2), "entry 3 is 2"), ((1, 2, 1, 2), "entry 1 is 2")):
        with pytest.raises(CorruptFile, match=message):
            load(write_members(path, foreign_members(branch_to_target=u8(*targets))))


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "no actions"), (8, "actions 0, 1, 2, 3, 4, 5, 6, 7."), (9, "5, 6, 7, ….")]
)
def test_up_to_eight_names_are_listed(count: int, shown: str) -> None:
    text = listed("model.umb", {"property": ["safe"], "action": [str(i) for i in range(count)]})
    assert text.startswith("model.umb has properties 'safe'; ")
    assert text.replace("'", "").endswith(shown if count else "no actions.")


def test_the_index_must_not_be_huge(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = foreign_members()
    size = len(members["index.json"])
    write_members(path, members)
    monkeypatch.setattr("almostsure.model.umb.index.INDEX_LIMIT", size)
    load(path)
    monkeypatch.setattr("almostsure.model.umb.index.INDEX_LIMIT", size - 1)
    with pytest.raises(CorruptFile, match=f"'index.json' must have at most {size - 1} bytes; it has {size}"):
        load(path)


def test_rewards_of_choices_use_the_mean_over_branches(path: Path) -> None:
    index = foreign_index()
    index["annotations"]["rewards"]["fuel"] = {"applies-to": ["choices", "branches"], "type": DOUBLE}
    folder = "annotations/rewards/fuel"
    members = foreign_members(index, branch_to_probability=f8(0.25, 0.75, 1, 1)) | {
        f"{folder}/choices/values.bin": f8(10, 20, 30),
        f"{folder}/branches/values.bin": f8(4, 8, 1, 2),
    }
    umb = Umb(write_members(path, members))
    assert umb.reward("fuel").tolist() == [14, 18, 21, 32]
    assert umb.mean_reward("fuel").tolist() == [17, 21, 32]
    index["annotations"]["rewards"]["fuel"]["applies-to"] = ["choices"]
    umb = Umb(write_members(path, foreign_members(index) | {f"{folder}/choices/values.bin": f8(10, 20, 30)}))
    assert umb.mean_reward("fuel").tolist() == [10, 20, 30]
    bounds = Umb(write_members(path, intervals(0.1, 0.9, 0.1, 0.9, 1, 1, 1, 1)))
    assert bounds.mean_reward("damage").tolist() == [0.5, 2, 0]  # as if both branches were equally likely


def test_a_newer_format_is_refused(path: Path) -> None:
    with pytest.raises(FileError, match="UMB version 2; this package reads up to 1"):
        load(write_members(path, foreign_members(foreign_index() | {"format-version": 2})))
    with pytest.raises(FileError, match="UMB version 9; this package reads up to 1"):
        load(write_members(path, foreign_members(foreign_index() | {"format-version": 9})))
