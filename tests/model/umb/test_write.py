"""Saving models to UMB files and loading them."""

from __future__ import annotations

import json
import os
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from almostsure import MDP, from_transitions
from almostsure.errors import CorruptFile, FileError, ModelError
from almostsure.files import atomic_write
from almostsure.model.files import load, save
from almostsure.model.origin import Origin
from almostsure.model.umb import archive

from .members import (
    assert_same,
    example,
    f8,
    models,
    read_members,
    seal,
    write_members,
)


def learned(end: int | None, unknown: int | None) -> MDP:
    """Two observed states, perhaps with an end and an unknown."""
    count = 2 + (end is not None) + (unknown is not None)
    extra = list(range(2, count))
    plain = from_transitions(
        [0, 1, *extra],
        [0, 0, *(0 for _ in extra)],
        [1, count - 1, *extra],
        [1.0] * count,
        [0.0] * count,
        [0, 1, *(int(state == unknown) for state in extra)],
    )
    return MDP(plain.arrays, initial=(np.array([0]), np.ones(1)), end=end, unknown=unknown)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("changes", [{}, {"state_names": None, "action_names": None, "layout": None, "initial": 1}])
def test_a_saved_model_is_restored(path: Path, changes: dict[str, Any]) -> None:
    mdp = example(**changes)
    mdp.save(path)
    assert_same(load(path), mdp)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mdp=models())
def test_save_then_load_is_the_identity(mdp: MDP, tmp_path: Path, reading: None) -> None:
    path = tmp_path / "model.umb"
    save(mdp, path)
    again = load(path)
    assert_same(again, mdp)
    first = path.read_bytes()
    save(again, path)
    assert path.read_bytes() == first


@pytest.mark.usefixtures("reading")
def test_arrays_are_copied_into_narrow_types(path: Path) -> None:
    save(example(), path)
    mdp = load(path)
    assert mdp.successor.dtype == np.int32
    assert mdp.probability.flags.owndata
    assert not mdp.probability.flags.writeable
    assert mdp.damage.dtype == mdp.choice_action.dtype == np.uint8


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("name", ["branch-to-target.bin", "branch-to-probability.bin", "state-to-choices.bin"])
def test_a_damaged_array_is_refused_when_the_file_is_loaded(path: Path, name: str) -> None:
    save(example(), path)
    members = read_members(path)
    write_members(path, members | {name: b"\xff" * len(members[name])})
    with pytest.raises(CorruptFile, match=r"model\.umb"):
        load(path)


@pytest.mark.parametrize(("end", "unknown"), [(None, None), (2, None), (None, 2), (2, 3)])
def test_the_end_and_the_unknown_are_restored(path: Path, end: int | None, unknown: int | None) -> None:
    mdp = learned(end, unknown)
    mdp.save(path)
    again = load(path)
    assert again == mdp
    assert (again.end, again.unknown, again.num_observed) == (end, unknown, 2)


@pytest.mark.parametrize("label", ["end", "unknown"])
def test_an_end_or_unknown_that_was_moved_is_refused(path: Path, label: str) -> None:
    learned(2, 3).save(path)
    members = read_members(path)
    for state in (0, None, "two", -1):
        index = json.loads(members["index.json"])
        index["file-data"]["parameters"][label] = state
        write_members(path, members | {"index.json": json.dumps(index).encode()})
        with pytest.raises(CorruptFile, match=r"must be the last state|fingerprint"):
            load(path)


def test_umbi_reads_what_we_write(path: Path) -> None:
    umb = pytest.importorskip("umbi.umb")
    mdp = example(state_names=None)
    save(mdp, path)
    found = umb.read(path, strict=True)
    assert found.state_to_choices == mdp.choice_ptr.tolist()
    assert found.choice_to_branches == mdp.outcome_ptr.tolist()
    assert found.branch_to_target == mdp.successor.tolist()
    assert found.branch_to_probability == mdp.probability.tolist()
    assert found.choice_to_choice_action == mdp.choice_action.tolist()
    assert found.choice_action_to_string == list(mdp.action_names or ())
    assert found.annotations["rewards"]["damage"]["branches"] == mdp.damage.tolist()
    assert found.annotations["rewards"]["reward"]["branches"] == mdp.reward.tolist()
    assert found.annotations["aps"]["terminal"]["states"] == mdp.is_terminal().tolist()
    assert found.state_is_initial == [True, False, True]


def test_a_wrong_stored_fingerprint_is_refused(path: Path) -> None:
    save(example(), path)
    members = read_members(path)
    stored = example().fingerprint
    members["index.json"] = members["index.json"].replace(stored.encode(), b"0" * 64)
    write_members(path, members)
    with pytest.raises(CorruptFile, match="fingerprint that was stored"):
        load(path)


@pytest.mark.parametrize("hidden", ["almostsure", "file-data", "parameters", "fingerprint", "state-names"])
def test_a_file_with_a_damaged_index_is_not_taken_for_a_foreign_one(path: Path, hidden: str) -> None:
    save(example(), path)
    content = path.read_bytes()
    at = content.index(f'"{hidden}"'.encode())
    path.write_bytes(content[: at + 1] + b"x" + content[at + 2 :])
    with pytest.raises(CorruptFile, match="damaged: its content does not have the checksum"):
        load(path)
    path.write_bytes(path.read_bytes()[:-512])
    with pytest.raises(CorruptFile, match=r"the checksum of almostsure at its end is missing"):
        load(path)
    if hidden in ("file-data", "parameters", "fingerprint"):
        with pytest.raises(CorruptFile, match=r"must have the version|fingerprint"):
            load(seal(path))


@pytest.mark.parametrize("other", [{"damage": "reward"}, {"reward": None}])
def test_a_saved_model_keeps_its_damage_and_reward(path: Path, other: dict[str, Any]) -> None:
    save(example(), path)
    with pytest.raises(ModelError, match=r"has its own damage and reward. Leave out damage="):
        load(path, **other)


def test_a_newer_file_version_is_refused(path: Path) -> None:
    save(example(), path)
    members = read_members(path)
    members["index.json"] = members["index.json"].replace(b'"version": 1', b'"version": 2')
    with pytest.raises(FileError, match=r"newer almostsure.*Update"):
        load(write_members(path, members))


@pytest.mark.parametrize("value", [-1.0, 256.0, 0.5, np.nan, np.inf])
def test_a_damage_must_be_a_small_integer(path: Path, value: float) -> None:
    save(example(), path)
    members = read_members(path)
    name = "annotations/rewards/damage/branches/values.bin"
    write_members(path, members | {name: members[name][:8] + f8(value) + members[name][16:]})
    with pytest.raises(CorruptFile, match=r"damage.*must hold integers 0 … 255; entry 1 is"):
        load(path)


def test_the_origin_is_restored(path: Path) -> None:
    origin = Origin(
        rewards={"time": np.arange(6.0), "fuel of é": np.ones(6)},
        variables={
            "x": np.array([1, -2, 3], np.int32),
            "on": np.array([True, False, True]),
            "t": np.array([0.5, 1, 2]),
        },
        scale=Fraction(1, 3),
    )
    mdp = example().with_origin(origin)
    save(mdp, path)
    found = load(path)
    assert_same(found, mdp)
    assert found.origin.scale == Fraction(1, 3)
    for mine, theirs in ((origin.rewards, found.origin.rewards), (origin.variables, found.origin.variables)):
        assert {name: values.tolist() for name, values in mine.items()} == {
            name: values.tolist() for name, values in theirs.items()
        }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("origin", {"rewards": []}, "the origin in the index must have rewards, scale, uncertain"),
        ("origin", {"rewards": [], "scale": "1/0", "uncertain": None}, "must have rewards, scale"),
        ("layout", {"rows": 1, "columns": 3}, "the layout in the index must have rows, columns and one text per row"),
        ("layout", {"rows": 1, "columns": 3, "text": ["S#"]}, "must have rows, columns and one text per row"),
        ("layout", {"rows": 1, "columns": 1, "text": ["S"]}, "the cells of the layout must lie in −1 … 0"),
    ],
)
def test_invalid_parameters_in_the_index_are_refused(path: Path, key: str, value: Any, message: str) -> None:
    save(example(), path)
    members = read_members(path)
    index = json.loads(members["index.json"])
    index["file-data"]["parameters"][key] = value
    with pytest.raises(FileError, match=message):
        load(write_members(path, members | {"index.json": json.dumps(index).encode()}))


class Failing(Exception):
    pass


@pytest.mark.parametrize(
    "failure", [Failing("mid-way"), OSError(28, "No space left on device"), KeyboardInterrupt("stop")]
)
@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_untouched(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, where: str
) -> None:
    save(example(), path)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise failure

    if where == "write":
        monkeypatch.setattr(archive.Writer, "finish", fail)
    else:
        monkeypatch.setattr(os, where, fail)
    expected: type[BaseException] = FileError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected, match="No space left.*unchanged" if expected is FileError else str(failure)):
        save(example(initial=1), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["model.umb"]


def test_names_must_be_valid_text(path: Path) -> None:
    with pytest.raises(ModelError, match="must be valid Unicode"):
        save(example(state_names=["a", "b", "\ud800"]), path)
    assert not path.exists()


def test_only_files_are_written(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="it is not a file"):
        save(example(), tmp_path)
    with pytest.raises(FileError, match="it is not a file"):
        save(example(), os.devnull)
    with pytest.raises(FileError, match="there is no folder"):
        save(example(), tmp_path / "absent" / "model.umb")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_links_and_permissions_survive(path: Path, tmp_path: Path) -> None:
    save(example(), path)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    link = tmp_path / "link.umb"
    link.symlink_to(path)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
