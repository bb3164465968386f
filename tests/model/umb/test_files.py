"""UMB files: nothing of a model is lost, nothing wrong is let in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import stat
import tarfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from almostsure import MDP, from_transitions
from almostsure.errors import ArgumentError, CorruptFile, FileError, ModelError, NotEnoughMemory, UnknownName
from almostsure.files import atomic_write, save_tensors
from almostsure.model.layout import Layout
from almostsure.model.origin import Origin
from almostsure.model.source import as_model
from almostsure.model.umb import archive
from almostsure.model.umb.files import load, save
from almostsure.model.umb.index import Umb
from almostsure.model.umb.relay import with_relays

Members = dict[str, bytes]


# ---------------------------------------------------------------------- models


def example(**changes: Any) -> MDP:
    """Random damage to one successor, an initial distribution, names, a layout, an action that nothing uses."""
    options: dict[str, Any] = dict(
        terminal=[2],
        initial={0: 0.3, 2: 0.7},
        action_names=["stay", "go", "ünused", "leap"],
        state_names=["start", "", "goal é"],
        layout=Layout(rows=1, columns=3, cell=np.array([0, -1, 2], np.int32), text=("S#G",)),
    )
    return from_transitions(
        [0, 0, 0, 1, 1, 0],
        [0, 1, 1, 1, 3, 3],
        [0, 1, 1, 2, 0, 2],
        [1, 0.25, 0.75, 1, 1, 1],
        [0.1, 2, -3, 0, 5, 1e300],
        [255, 0, 3, 0, 1, 0],
        **options | changes,
    )


def learned(end: int | None, unknown: int | None) -> MDP:
    """Two observed states, and those of the end and the unknown that are wanted."""
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


@st.composite
def models(draw: st.DrawFn) -> MDP:
    """Small models with ties, unreachable states, gaps in the actions, optional names, distribution and layout."""
    num_states = draw(st.integers(1, 5))
    state = st.integers(0, num_states - 1)
    pairs = draw(st.sets(st.tuples(state, st.integers(0, 4)), max_size=8))
    rows = []
    for s, a in sorted(pairs):
        weights = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
        for weight in weights:
            rows.append(
                (
                    s,
                    a,
                    draw(state),
                    weight / sum(weights),
                    draw(st.sampled_from([-1.5, 0, 2])),
                    draw(st.sampled_from([0, 1, 255])),
                )
            )
    terminal = sorted(set(range(num_states)) - {s for s, _ in pairs})
    columns = list(zip(*rows, strict=True)) or [()] * 6
    names = st.lists(st.text(max_size=6), min_size=num_states, max_size=num_states, unique=True)
    actions = st.lists(st.text(max_size=6), min_size=5, max_size=7, unique=True)
    starts = draw(st.sets(state, min_size=1))
    cell = st.lists(st.integers(-1, 5), min_size=num_states, max_size=num_states)
    layout = Layout(rows=2, columns=3, cell=np.array(draw(cell), np.int32), text=("ab ", "#é."))
    return from_transitions(
        *columns,
        num_states=num_states,
        terminal=terminal,
        initial={s: 1 / len(starts) for s in starts},
        state_names=draw(st.none() | names),
        action_names=draw(st.none() | actions),
        layout=draw(st.sampled_from([None, layout])),
    )


def assert_same(found: MDP, wanted: MDP) -> None:
    assert found.fingerprint == wanted.fingerprint
    assert (found.state_names, found.action_names) == (wanted.state_names, wanted.action_names)
    assert dict(zip(found.initial_states.tolist(), found.initial_probabilities.tolist(), strict=True)) == dict(
        zip(wanted.initial_states.tolist(), wanted.initial_probabilities.tolist(), strict=True)
    )
    assert (found.layout is None) == (wanted.layout is None)
    if found.layout is not None and wanted.layout is not None:
        assert (found.layout.rows, found.layout.columns) == (wanted.layout.rows, wanted.layout.columns)
        assert found.layout.text == wanted.layout.text
        np.testing.assert_array_equal(found.layout.cell, wanted.layout.cell)
    for name in ("choice_ptr", "choice_action", "outcome_ptr", "successor", "probability", "reward", "damage"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


# ---------------------------------------------------------------------- archives, by hand


def read_members(path: Path) -> Members:
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar if m.isreg()}  # type: ignore[union-attr]


def write_members(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return seal(path)


def seal(path: Path) -> Path:
    """Put the checksum behind a file, as save does."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    path.write_bytes(content + f"almostsure sha256 {digest}".encode().ljust(512, b"\0"))
    return path


def u8(*values: int) -> bytes:
    return np.array(values, "<u8").tobytes()


def f8(*values: float) -> bytes:
    return np.array(values, "<f8").tobytes()


DOUBLE = {"type": "double", "size": 64}


def foreign_index(**system: Any) -> dict[str, Any]:
    """The index of a model with two states, three choices and four branches, as another program writes it."""
    return {
        "format-version": 1,
        "format-revision": 0,
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": 2,
            "#initial-states": 1,
            "#choices": 3,
            "#choice-actions": 0,
            "#branches": 4,
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": DOUBLE,
        }
        | system,
        "annotations": {"rewards": {"damage": {"applies-to": ["branches"], "type": DOUBLE}}, "aps": {}},
    }


def foreign_members(index: dict[str, Any] | None = None, **changes: bytes) -> Members:
    members = {
        "index.json": json.dumps(index or foreign_index()).encode(),
        "state-is-initial.bin": u8(1),
        "state-to-choices.bin": u8(0, 2, 3),
        "choice-to-branches.bin": u8(0, 2, 3, 4),
        "branch-to-target.bin": u8(1, 0, 0, 1),
        "branch-to-probability.bin": f8(0.5, 0.5, 1, 1),
        "annotations/rewards/damage/branches/values.bin": f8(1, 0, 2, 0),
    }
    return members | {name.replace("__", "/").replace("_", "-") + ".bin": data for name, data in changes.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.umb"


@pytest.fixture(params=["at once", "array by array"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How files are read: small ones at once, large ones array by array."""
    if request.param == "array by array":
        monkeypatch.setattr(archive, "SMALL", 0)


# ---------------------------------------------------------------------- our own files


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("changes", [{}, {"state_names": None, "action_names": None, "layout": None, "initial": 1}])
def test_a_saved_model_comes_back(path: Path, changes: dict[str, Any]) -> None:
    mdp = example(**changes)
    mdp.save(path)
    assert_same(load(path), mdp)


def test_the_index_says_how_large_everything_is(path: Path) -> None:
    example().save(path)
    system = json.loads(read_members(path)["index.json"])["transition-system"]
    assert system == {
        "time": "discrete", "#players": 1, "#states": 3, "#initial-states": 2, "#choices": 6, "#choice-actions": 4,
        "#branches": 7, "#branch-actions": 0, "#observations": 0,
        "branch-probability-type": {"type": "double", "size": 64},
    }  # fmt: skip


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
def test_the_end_and_the_unknown_come_back(path: Path, end: int | None, unknown: int | None) -> None:
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


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files_load(path: Path, compress: Callable[[bytes], bytes]) -> None:
    save(example(), path)
    path.write_bytes(compress(path.read_bytes()))
    assert_same(load(path), example())


def test_a_file_may_be_replaced_or_deleted_while_its_model_is_in_use(path: Path, reading: None) -> None:
    save(example(), path)
    mdp = load(path)
    save(example(initial=1), path)
    assert load(path).initial_state == 1
    path.unlink()
    assert_same(mdp, example())


def cut(path: Path) -> None:
    os.truncate(path, 4096)


def touch(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    save(example(initial=1), path)


@pytest.mark.parametrize("change", [cut, touch, replace, Path.unlink])
def test_a_file_that_changes_while_it_is_read_is_an_error_not_a_crash(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(archive, "SMALL", 0)
    save(example(), path)
    umb = Umb(path)
    umb.successor()
    change(path)
    with pytest.raises(FileError, match=r"was changed while it was read\. Load it again|No such file"):
        umb.successor()


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


def test_a_stored_fingerprint_is_not_believed(path: Path) -> None:
    save(example(), path)
    members = read_members(path)
    stored = example().fingerprint
    members["index.json"] = members["index.json"].replace(stored.encode(), b"0" * 64)
    write_members(path, members)
    with pytest.raises(CorruptFile, match="fingerprint that was stored"):
        load(path)


@pytest.mark.parametrize("hidden", ["almostsure", "file-data", "parameters", "fingerprint", "state-names"])
def test_a_damaged_index_cannot_pass_for_another_programs(path: Path, hidden: str) -> None:
    save(example(), path)
    content = path.read_bytes()
    at = content.index(f'"{hidden}"'.encode())
    path.write_bytes(content[: at + 1] + b"x" + content[at + 2 :])
    with pytest.raises(CorruptFile, match="damaged: its content does not have the checksum"):
        load(path)
    path.write_bytes(path.read_bytes()[:-512])
    with pytest.raises(CorruptFile, match=r"the checksum that almostsure writes at the end is missing"):
        load(path)
    if hidden in ("file-data", "parameters", "fingerprint"):
        with pytest.raises(CorruptFile, match=r"must hold the version|fingerprint"):
            load(seal(path))


@pytest.mark.parametrize("other", [{"damage": "reward"}, {"reward": None}])
def test_a_saved_model_keeps_its_damage_and_reward(path: Path, other: dict[str, Any]) -> None:
    save(example(), path)
    with pytest.raises(ModelError, match=r"has its own damage and reward. Leave out damage="):
        load(path, **other)


def test_a_newer_arrangement_says_so(path: Path) -> None:
    save(example(), path)
    members = read_members(path)
    members["index.json"] = members["index.json"].replace(b'"version": 1', b'"version": 2')
    with pytest.raises(FileError, match=r"newer almostsure.*Update"):
        load(write_members(path, members))


@pytest.mark.parametrize("value", [-1.0, 256.0, 0.5, np.nan, np.inf])
def test_a_damage_that_is_no_small_integer_is_refused(path: Path, value: float) -> None:
    save(example(), path)
    members = read_members(path)
    name = "annotations/rewards/damage/branches/values.bin"
    write_members(path, members | {name: members[name][:8] + f8(value) + members[name][16:]})
    with pytest.raises(CorruptFile, match=r"damage.*must hold integers 0 … 255; entry 1 is"):
        load(path)


# ---------------------------------------------------------------------- relays


def budgets(mdp: MDP, sweeps: int = 60) -> np.ndarray[Any, Any]:
    """k* of the states by sweeping, cut off at a bound that no finite value reaches."""
    bound = 256 * mdp.num_states
    of_state = np.zeros(mdp.num_states, np.int64)
    for _ in range(sweeps * bound):
        worth = mdp.damage + of_state[mdp.successor]
        of_choice = np.maximum.reduceat(worth, mdp.outcome_ptr[:-1])
        new = np.minimum(np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]), bound)
        if (new == of_state).all():
            break
        of_state = new
    return of_state


@settings(max_examples=60, deadline=None)
@given(mdp=models())
def test_relays_part_what_storm_cannot_tell_apart_and_keep_the_budgets(mdp: MDP) -> None:
    split = with_relays(mdp)
    choices = split.outcome_choices().tolist()
    pairs = list(zip(choices, split.successor.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    n = mdp.num_states
    for relay in range(n, split.num_states):
        ((successor, p, r, d),) = split.outcomes(relay, split.num_actions - 1)
        assert (successor < n, p, r, d) == (True, 1, 0, 0)
    old = budgets(mdp)
    new = np.minimum(budgets(split)[:n], 256 * n)
    np.testing.assert_array_equal(new, old)
    if split.num_states == n:
        assert split is mdp


def test_a_file_with_relays_says_which_states_are_relays(path: Path) -> None:
    save(example(), path, relay=True)
    bits = read_members(path)["annotations/aps/relay/states/values.bin"]
    assert bits[0] == 0b1000
    mdp = load(path)
    assert mdp.num_states == 4
    assert mdp.state_names is not None
    assert mdp.state_names[3] == "relay to "
    assert mdp.action_names == ("stay", "go", "ünused", "leap", "relay")
    assert mdp.outcomes("start", "go") == [(1, 0.25, 2.0, 0), (3, 0.75, -3.0, 3)]
    assert mdp.outcomes(3, "relay") == [(1, 1.0, 0.0, 0)]
    assert mdp.layout is not None
    assert mdp.layout.place(3) is None


# ---------------------------------------------------------------------- files of other programs


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


def test_a_file_without_damage_says_what_it_has(path: Path) -> None:
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


def test_repeated_actions_and_nameless_ones_are_told_apart(path: Path) -> None:
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


def test_rational_probabilities(path: Path) -> None:
    index = foreign_index(**{"branch-probability-type": {"type": "rational"}})
    pairs = [Fraction(1, 3), Fraction(2, 3), Fraction(1), Fraction(1)]
    numbers = np.array([(f.numerator, f.denominator) for f in pairs], "<i8").tobytes()
    mdp = load(write_members(path, foreign_members(index, branch_to_probability=numbers)))
    assert mdp.probability.tolist() == [2 / 3, 1 / 3, 1, 1]
    with pytest.raises(CorruptFile, match="zero denominator"):
        load(write_members(path, foreign_members(index, branch_to_probability=bytes(64))))


def test_what_umbi_writes_loads(path: Path) -> None:
    """One step: stay with probability 1/4, else move on; entering the end hurts by 2."""
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


VARIABLES = [
    {"name": "flag", "type": {"type": "bool", "size": 1}},
    {"name": "x", "type": {"type": "uint", "size": 7}, "offset": -3},
    {"padding": 4},
    {"name": "y", "type": {"type": "int", "size": 64}},
    {"padding": 4},
    {"name": "z", "type": {"type": "double", "size": 64}},
]


def packed(flag: int, x: int, y: int, z: float) -> bytes:
    number = flag | x << 1 | (y % 2**64) << 12 | int.from_bytes(f8(z), "little") << 80
    return number.to_bytes(18, "little")


def test_valuations_become_names(path: Path) -> None:
    index = foreign_index()
    index["valuations"] = {"states": {"unique": True, "classes": [{"variables": VARIABLES}]}}
    values = packed(1, 5, -(2**63), 0.5) + packed(0, 0, 77, -2)
    mdp = load(write_members(path, foreign_members(index, valuations__states__valuations=values)))
    assert mdp.state_names == (f"flag=true, x=2, y={-(2**63)}, z=0.5", "flag=false, x=-3, y=77, z=-2")
    same = packed(1, 5, 0, 0) * 2
    mdp = load(write_members(path, foreign_members(index, valuations__states__valuations=same)))
    assert mdp.state_names == ("flag=true, x=2, y=0, z=0", "flag=true, x=2, y=0, z=0 (2)")


def test_valuations_of_unknown_kinds_are_left_alone(path: Path) -> None:
    index = foreign_index()
    index["valuations"] = {
        "states": {"unique": True, "classes": [{"variables": [{"name": "x", "type": {"type": "rational", "size": 8}}]}]}
    }
    mdp = load(write_members(path, foreign_members(index, valuations__states__valuations=bytes(2))))
    assert mdp.state_names is None
    assert not mdp.origin.variables


# ---------------------------------------------------------------------- bad input


def with_index(**system: Any) -> Members:
    return foreign_members(foreign_index(**system))


def annotated(group: str, name: str, change: dict[str, Any], **changes: bytes) -> Members:
    """With a change of one annotation in the index, or a new one."""
    index = foreign_index()
    index["annotations"][group][name] = index["annotations"][group].get(name, {"type": DOUBLE}) | change
    return foreign_members(index, **changes)


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
        (foreign_members(choice_to_branches=u8(0, 3, 2, 4)), r"must never fall; entry 2 is 2 after 3"),
        (foreign_members(choice_to_branches=u8(0, 2, 2, 4)), "choice 1 has none"),
        (foreign_members(branch_to_target=u8(1, 0, 2**63, 1)), r"states 0 … 1; entry 2 is 9223372036854775808"),
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


def test_archives_of_very_many_members_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = foreign_members()
    monkeypatch.setattr(archive, "MANY_MEMBERS", len(members))
    load(write_members(path, members), damage="damage")
    with pytest.raises(FileError, match=f"an archive must have at most {len(members)} members"):
        load(write_members(path, members | {"one more": b""}))


def intervals(*bounds: float) -> Members:
    """The foreign model with bounds of each probability, and of the damage, as Storm writes them."""
    kind = {"type": "double-interval", "size": 128}
    index = foreign_index(**{"branch-probability-type": kind})
    index["annotations"]["rewards"]["damage"]["type"] = kind
    members = foreign_members(index, branch_to_probability=f8(*bounds))
    return members | {"annotations/rewards/damage/branches/values.bin": f8(1, 1, 0, 0, 2, 2, 0, 0)}


def test_intervals_say_which_outcomes_are_possible(path: Path) -> None:
    mdp = load(write_members(path, intervals(0.2, 0.8, 0.2, 0.8, 1, 1, 1, 1)), damage="damage")
    assert (mdp.damage.tolist(), mdp.probability.tolist()) == ([0, 1, 2, 0], [0.5, 0.5, 1, 1])
    assert not mdp.origin.is_bound
    from_zero = load(write_members(path, intervals(0, 0.8, 0.2, 1, 1, 1, 1, 1)), damage="damage")
    assert from_zero.origin.is_bound
    never = load(write_members(path, intervals(0, 0, 1, 1, 1, 1, 1, 1)), damage="damage")
    assert (never.num_outcomes, never.origin.is_bound) == (3, False)


@pytest.mark.parametrize("bounds", [(-0.1, 0.5), (0.6, 0.5), (0.5, 1.1), (np.nan, 0.5)])
def test_intervals_must_be_of_probabilities(path: Path, bounds: tuple[float, float]) -> None:
    with pytest.raises(FileError, match=r"must hold intervals within \[0, 1\]"):
        load(write_members(path, intervals(*bounds, 0.2, 0.8, 1, 1, 1, 1)), damage="damage")


def test_damage_must_not_be_an_interval(path: Path) -> None:
    members = intervals(0.2, 0.8, 0.2, 0.8, 1, 1, 1, 1)
    members["annotations/rewards/damage/branches/values.bin"] = f8(1, 2, 0, 0, 2, 2, 0, 0)
    with pytest.raises(FileError, match="must hold numbers; some are intervals"):
        load(write_members(path, members), damage="damage")


def test_labels_hold_one_bit_per_state(path: Path) -> None:
    bits = {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}
    members = annotated("aps", "wet", bits) | {"annotations/aps/wet/states/values.bin": u8(2)}
    assert load(write_members(path, members), damage="label:wet").damage.tolist() == [0, 1, 0, 1]
    assert load(write_members(path, members), damage="init").damage.tolist() == [1, 0, 1, 0]
    with pytest.raises(FileError, match="label 'wet' must hold one bit per state"):
        load(write_members(path, annotated("aps", "wet", bits | {"type": DOUBLE})), damage="label:wet")


def test_goals_end_the_model_and_must_be_reachable(path: Path) -> None:
    bits = {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}

    def wet(states: int, **changes: bytes) -> Path:
        members = annotated("aps", "wet", bits, **changes)
        return write_members(path, members | {"annotations/aps/wet/states/values.bin": u8(states)})

    assert load(wet(2), damage="damage", goal="wet").is_terminal().tolist() == [False, True]
    with pytest.raises(ModelError, match=r"goal 'wet' must hold somewhere; no state of .* satisfies it"):
        load(wet(0), damage="damage", goal="wet")
    with pytest.raises(ModelError, match="goal 'wet' must be reachable; it cannot be reached from state 0"):
        load(wet(2, branch_to_target=u8(0, 0, 0, 1)), damage="damage", goal="wet")


@pytest.mark.parametrize("scale", ["0", "-1", "1/0", "much", "inf"])
def test_scales_must_be_positive_numbers(path: Path, scale: str) -> None:
    with pytest.raises(ArgumentError, match=r"scale must be a positive number, such as 0\.1 or '1/3'; got"):
        load(write_members(path, foreign_members()), damage="damage", scale=scale)


def test_damage_is_counted_in_the_unit_that_is_given(path: Path) -> None:
    write_members(path, foreign_members() | {"annotations/rewards/damage/branches/values.bin": f8(0.1, 0, 700, 0)})
    with pytest.raises(ModelError, match=r"Pass scale=, the unit that it is counted in: at least 2\.75 here"):
        load(path, damage="damage")
    mdp = load(path, damage="damage", scale=3)
    assert mdp.damage.tolist() == [0, 1, 234, 0]  # rounded up
    assert mdp.show_damage(5) == "5 (in the unit of the file: 15)"
    third = load(path, damage="damage", scale="10/3")
    assert third.show_damage(2) == "2 (in the unit of the file: 20/3)"


def test_what_a_model_comes_from_comes_back(path: Path) -> None:
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
        ("origin", {"rewards": []}, "the origin in the index must name rewards, a scale and what is uncertain"),
        ("origin", {"rewards": [], "scale": "1/0", "uncertain": None}, "must name rewards, a scale"),
        ("layout", {"rows": 1, "columns": 3}, "the layout in the index must have rows, columns and one text per row"),
        ("layout", {"rows": 1, "columns": 3, "text": ["S#"]}, "must have rows, columns and one text per row"),
        ("layout", {"rows": 1, "columns": 1, "text": ["S"]}, "the cells of the layout must lie in −1 … 0"),
    ],
)
def test_what_the_index_adds_must_make_sense(path: Path, key: str, value: Any, message: str) -> None:
    save(example(), path)
    members = read_members(path)
    index = json.loads(members["index.json"])
    index["file-data"]["parameters"][key] = value
    with pytest.raises(FileError, match=message):
        load(write_members(path, members | {"index.json": json.dumps(index).encode()}))


def test_every_missing_member_is_named(path: Path) -> None:
    members = foreign_members()
    for name in members:
        write_members(path, {k: v for k, v in members.items() if k != name})
        with pytest.raises(CorruptFile, match=f"'{name}' is missing"):
            load(path)


def test_unknown_number_types_are_refused(path: Path) -> None:
    index = foreign_index()
    index["annotations"]["rewards"]["damage"]["type"] = {"type": "uint", "size": 64}
    with pytest.raises(CorruptFile, match="64-bit uint numbers; doubles and 128-bit rationals can be read"):
        load(write_members(path, foreign_members(index)))
    index["annotations"]["rewards"]["damage"]["applies-to"] = []
    with pytest.raises(CorruptFile, match="must belong to states, choices or branches; it holds no values"):
        load(write_members(path, foreign_members(index)))


def test_a_newer_format_says_so(path: Path) -> None:
    with pytest.raises(FileError, match="UMB version 9; this package reads up to 1"):
        load(write_members(path, foreign_members(foreign_index() | {"format-version": 9})))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(path: Path, kind: bytes) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("index.json")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(CorruptFile, match="must be a plain file; it is a link, a device"):
        load(path)


def test_duplicates_are_refused(path: Path) -> None:
    write_members(path, foreign_members())
    os.truncate(path, path.stat().st_size - 512)  # the seal
    with tarfile.open(path, "a") as tar:
        tar.addfile(tarfile.TarInfo("./index.json"))
    with pytest.raises(CorruptFile, match=r"'index.json' occurs twice"):
        load(path)


@pytest.mark.parametrize("size", [10**9, 2**62, -1024])
def test_a_member_that_lies_about_its_size(path: Path, size: int) -> None:
    member = tarfile.TarInfo("index.json")
    member.size = size
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(CorruptFile, match=r"which the file does not have|truncated or damaged"):
        load(path)


def test_every_truncation_is_noticed(path: Path) -> None:
    save(example(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1024, 256):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match=r"model\.umb: .*(truncated|damaged|missing|not a UMB|does not have)"):
            load(path)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_truncated_compressed_files(path: Path, compress: Callable[[bytes], bytes]) -> None:
    save(example(), path)
    whole = compress(path.read_bytes())
    for part in (whole[:40], whole[:-20], whole[: len(whole) // 2] + bytes(8) + whole[len(whole) // 2 + 8 :]):
        path.write_bytes(part)
        with pytest.raises(CorruptFile, match="compressed data are damaged"):
            load(path)


def test_a_compressed_file_must_fit_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(example(), path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr("almostsure.memory.available", lambda: 1000)
    with pytest.raises(NotEnoughMemory, match=r"more than half of the .* of memory.*Decompress it on disk"):
        load(path)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_small_file_cannot_unpack_to_gigabytes(
    path: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(archive, "UNPACKED", 1 << 22)
    monkeypatch.setattr(archive, "PART", 1 << 20)
    save(example(), path)
    path.write_bytes(compress(path.read_bytes() + bytes(1 << 26)))
    with pytest.raises(CorruptFile, match=r"bytes and unpacks to more than \d+ MiB, which no model does\. .*hostile"):
        load(path)


def test_files_that_are_no_archives(path: Path, tmp_path: Path) -> None:
    path.write_text("mdp\nmodule m\n")
    with pytest.raises(CorruptFile, match="not a UMB file"):
        load(path)
    with pytest.raises(FileError, match=r"cannot read.*No such file"):
        load(tmp_path / "absent.umb")
    with pytest.raises(FileError, match=r"cannot read.*directory"):
        load(tmp_path)


# ---------------------------------------------------------------------- writing


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


def test_names_that_are_no_text_are_refused(path: Path) -> None:
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


# ---------------------------------------------------------------------- files that are something else


@pytest.mark.parametrize("name", ["walk.prism", "walk.PM", "walk.nm", "walk.sm", "walk.jani", "walk.drn"])
def test_files_for_storm_are_sent_to_from_prism(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mdp")
    with pytest.raises(FileError, match=rf"{name} must be read with from_prism\(path, damage=…\)"):
        load(tmp_path / name)
    with pytest.raises(FileError, match=rf"{name} must be read with from_prism\(path, damage=…\)"):
        as_model(tmp_path / name)


def test_maps_are_sent_to_from_map(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("S.G")
    with pytest.raises(FileError, match=r"map.txt must be read with from_map\(Path\(…\)\), if it is a map"):
        load(tmp_path / "map.txt")
    assert as_model(tmp_path / "map.txt").num_states == 3


@pytest.mark.parametrize("name", ["thing.safetensors", "thing.umb"])
@pytest.mark.parametrize("kind", ["budget", "shield", "policy"])
def test_files_about_a_model_are_sent_to_their_readers(tmp_path: Path, kind: str, name: str) -> None:
    save_tensors(tmp_path / name, kind=kind, model=example().fingerprint, arrays={"x": np.zeros(2)}, strings={})
    reader = {"budget": "MinimalBudget", "shield": "Shield", "policy": "Policy"}[kind]
    message = rf"{name} holds a {kind}, not a model. Read it with {reader}.load\(path, mdp\)"
    with pytest.raises(FileError, match=message):
        load(tmp_path / name)
    with pytest.raises(FileError, match=message):
        as_model(tmp_path / name)


def test_what_only_looks_like_tensors_is_a_corrupt_model(tmp_path: Path) -> None:
    for content in (b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 8 + b"{", b"12345678{"):
        (tmp_path / "odd.umb").write_bytes(content)
        with pytest.raises(CorruptFile, match=r"odd\.umb"):
            load(tmp_path / "odd.umb")


def test_readers_exist_for_all_that_is_saved() -> None:
    import almostsure

    assert all(callable(getattr(almostsure, name).load) for name in ("MinimalBudget", "Shield", "Policy"))
