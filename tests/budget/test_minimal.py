"""``MinimalBudget``: look-ups, text and files."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from almostsure import (
    INFINITE,
    MDP,
    MinimalBudget,
    Shield,
    check_minimal_budget,
    check_upper,
    from_transitions,
    minimal_budget,
)
from almostsure.errors import (
    ArgumentError,
    CertificateError,
    CorruptFile,
    FileError,
    ModelError,
    ModelMismatch,
    UnknownName,
)
from almostsure.files import checksum
from almostsure.testing.families import ladder


@pytest.fixture
def named():
    """From "door", "walk" costs 2 and "run" 5; "pit" is never left."""
    return from_transitions(
        [0, 0, 2], [0, 1, 0], [1, 1, 2], [1, 1, 1], [0, 0, 0], [2, 5, 1], terminal=[1],
        state_names=["door", "end", "pit"], action_names=["walk", "run"],
    )  # fmt: skip


@pytest.fixture
def minimal(named):
    return minimal_budget(named)


# ---------------------------------------------------------------------- questions


def test_of(minimal):
    assert minimal.of("door") == minimal.of(0) == 2
    assert minimal.of("door", "run") == minimal.of(0, 1) == 5
    assert minimal.of("pit") == INFINITE
    assert type(minimal.of("door")) is int


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("dor",), r"unknown state 'dor'. Did you mean 'door'\?"),
        (("door", "rum"), r"unknown action 'rum'. Did you mean 'run'\?"),
        ((3,), "unknown state 3. States are 0 … 2"),
        ((-1,), "unknown state -1"),
        (("pit", "run"), "action 'run' is not available at state 2 'pit', which has: walk"),
    ],
)
def test_of_unknown_states_and_actions(minimal, question, message):
    with pytest.raises(UnknownName, match=message):
        minimal.of(*question)


def test_smallest_budget(named):
    assert minimal_budget(named).smallest_budget() == 2


@pytest.mark.parametrize(("initial", "expected"), [(0, 2), (1, 0), ({0: 0.5, 1: 0.5}, 2), ({1: 0.9, 2: 0.1}, INFINITE)])
def test_smallest_budget_is_that_of_the_worst_start(initial, expected):
    mdp = from_transitions([0, 2], [0, 0], [1, 2], [1, 1], [0, 0], [2, 1], terminal=[1], initial=initial)
    assert minimal_budget(mdp).smallest_budget() == expected


def test_unsafe_states(minimal):
    assert minimal.unsafe_states(1).tolist() == [True, False, True]
    assert minimal.unsafe_states(2).tolist() == [False, False, True]
    for budget in (10**9, INFINITE, 10**30, 2.0**40):  # ∞ is unsafe with any budget
        assert minimal.unsafe_states(budget).tolist() == [False, False, True]


@pytest.mark.parametrize("budget", [float("nan"), float("inf"), -1, 1.5, "1", None, True])
def test_unsafe_states_of_an_invalid_budget(minimal, budget):
    with pytest.raises(ArgumentError, match=r"budget must be (a whole number|at least 0); got"):
        minimal.unsafe_states(budget)


def test_unsafe_states_beyond_the_cap_are_not_known(named):
    capped = minimal_budget(named, cap=1)
    assert capped.unsafe_states(1).tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"budget must be at most the cap 1 .* got 2. Solve again without the cap"):
        capped.unsafe_states(2)


def test_histogram(minimal):
    assert minimal.histogram() == {0: 1, 2: 1, INFINITE: 1}
    assert list(minimal_budget(ladder(3, width=2)).histogram().items()) == [(0, 3), (1, 2), (2, 2), (3, 2)]


def test_arrays_cannot_be_changed(minimal):
    for array in (minimal.of_state, minimal.of_choice, minimal.rank):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("name", ["of_state", "of_choice", "rank"])
def test_arrays_must_fit_the_model(named, minimal, name):
    arrays = {field: getattr(minimal, field) for field in ("of_state", "of_choice", "rank")}
    for wrong in (arrays[name][:-1], arrays[name].astype(float)):
        with pytest.raises(ModelError, match=rf"{name} must be \d integers; got"):
            MinimalBudget(mdp=named, **{**arrays, name: wrong})


def test_a_changed_copy_is_not_verified(minimal, named):
    assert minimal.checked
    lower = replace(minimal, of_state=np.zeros(3, np.int32), of_choice=np.zeros(4, np.int32))
    assert not lower.checked
    with pytest.raises(CertificateError, match="is too small"):
        Shield(lower)
    assert not replace(check_upper(named, [9, 0, INFINITE])).checked
    with pytest.raises(TypeError, match="checked"):
        MinimalBudget(
            mdp=named, of_state=minimal.of_state, of_choice=minimal.of_choice, rank=minimal.rank, checked=True
        )


# ---------------------------------------------------------------------- text


def test_text(minimal, named):
    assert repr(minimal).splitlines()[0] == "<MinimalBudget: the start needs a budget of 2 (3 states)"
    assert "1 needs ∞" in repr(minimal)
    assert repr(minimal).endswith("solved by the plain engine; certificate verified>")
    assert len(repr(minimal).splitlines()) == 3
    unchecked = minimal_budget(named, check="never")
    assert repr(unchecked).endswith("certificate not yet verified: check_minimal_budget>")


def test_text_with_a_cap(named):
    text = repr(minimal_budget(named, cap=1))
    assert "no budget up to 1 suffices at the start" in text
    assert "2 need more than 1" in text


@pytest.mark.parametrize(
    ("damages", "words"),
    [
        ([1, 3], "states need 0, 1 or 3;"),
        ([1, 2, 3], r"states need 0 … 3 \(4 levels\);"),
        ([1, 2, 3, 5], r"states need 0 … 5 \(5 levels\);"),
    ],
)
def test_few_levels_with_gaps_are_listed(damages, words):
    size = len(damages)
    states, end = list(range(size)), [size] * size
    minimal = minimal_budget(
        from_transitions(states, [0] * size, end, [1] * size, [0] * size, damages, terminal=[size])
    )
    assert re.search(words, repr(minimal))


def test_the_whole_text():
    """One state that needs 5, three that need 0, and two that need ∞."""
    mdp = from_transitions([0, 4, 5], [0] * 3, [1, 4, 5], [1] * 3, [0] * 3, [5, 1, 1], terminal=[1, 2, 3])
    minimal = minimal_budget(mdp)
    assert repr(minimal) == (
        "<MinimalBudget: the start needs a budget of 5 (6 states)\n"
        "  states need 0 or 5; 2 need ∞\n"
        "  solved by the plain engine; certificate verified>"
    )
    capped = minimal_budget(mdp, cap=4, check="never")
    assert repr(capped) == (
        "<MinimalBudget: no budget up to 4 suffices at the start (6 states)\n"
        "  states need 0; 3 need more than 4\n"
        "  solved by the plain engine; certificate not yet verified: check_minimal_budget>"
    )
    upper = check_upper(mdp, [6, 0, 0, 0, INFINITE, INFINITE])
    assert repr(upper) == (
        "<MinimalBudget, an upper bound: the start needs a budget of at most 6 (6 states)\n"
        "  states need 0 or 6; 2 need ∞\n"
        "  given; verified: never too small>"
    )
    with pytest.raises(
        ArgumentError, match=r"^an upper bound cannot be explained: nothing forces it\. Use minimal_budget"
    ):
        upper.explain()
    both = from_transitions([0, 1], [0, 0], [2, 2], [1] * 2, [0] * 2, [2, 5], terminal=[2], initial={0: 0.5, 1: 0.5})
    assert (minimal_budget(both).worst_start(), minimal_budget(both).explain().needs) == (1, 5)


def test_text_without_finite_budgets():
    text = repr(minimal_budget(from_transitions([0], [0], [0], [1], [0], [1])))
    assert "no finite budget suffices at the start" in text
    assert "\n  every state needs ∞\n" in text
    capped = minimal_budget(from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [2, 2]), cap=1)
    assert "\n  every state needs more than 1\n" in repr(capped)


def test_unknown_needs_are_called_unknown(named):
    plain = from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1])
    text = repr(minimal_budget(learned(plain, start=0)))
    assert "the start needs a budget of 0" in text
    assert "none needs ∞" in text
    lost = minimal_budget(learned(from_transitions([0, 1], [0, 0], [1, 1], [1, 1], [0, 0], [0, 1]), start=0))
    assert "what the start needs is unknown" in repr(lost)
    assert "\n  what states need is unknown\n" in repr(lost)
    half = from_transitions([0, 1, 2], [0, 0, 0], [0, 2, 2], [1] * 3, [0] * 3, [0, 0, 1])
    assert "states need 0; for 1 it is unknown" in repr(minimal_budget(learned(half, start=0)))
    assert "no finite" not in repr(lost)


def learned(plain, start):
    last = plain.num_states - 1
    return MDP(plain.arrays, initial=(np.array([start]), np.ones(1)), unknown=last)


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("cap", [None, 0, 3])
@pytest.mark.parametrize("backend", ["plain", "compiled"])
def test_save_then_load_is_the_identity(crowds, tmp_path, cap, backend):
    mdp = crowds(20, 70, max_damage=3).mdp
    minimal = minimal_budget(mdp, cap=cap, backend=backend)
    minimal.save(tmp_path / "budget.safetensors")
    back = MinimalBudget.load(tmp_path / "budget.safetensors", mdp)
    for name in ("of_state", "of_choice", "rank"):
        np.testing.assert_array_equal(getattr(back, name), getattr(minimal, name))
        assert getattr(back, name).dtype == getattr(minimal, name).dtype
    assert (back.cap, back.engine) == (minimal.cap, minimal.engine)
    assert not back.checked  # reading does not verify
    check_minimal_budget(mdp, back)


def test_loading_for_another_model(minimal, tmp_path):
    minimal.save(tmp_path / "b")
    with pytest.raises(ModelMismatch, match=r"belongs to another model .* Load the model that it was made for, or"):
        MinimalBudget.load(tmp_path / "b", ladder(3))


def test_loading_a_missing_file(named, tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*nothing"):
        MinimalBudget.load(tmp_path / "nothing", named)


@pytest.mark.parametrize("size", [0, 3, 8, 9, 60, -1, -20])
def test_truncated_files(minimal, named, tmp_path, size):
    path = tmp_path / "b"
    minimal.save(path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CorruptFile, match="is damaged or not a budget file"):
        MinimalBudget.load(path, named)


def test_changed_bytes_of_the_header_are_refused_or_harmless(minimal, named, tmp_path):
    """After a change of any byte of the header: an AlmostSureError, or arrays that the certificate check judges."""
    path = tmp_path / "b"
    minimal.save(path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    for at in range(8 + length):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :])
        with contextlib.suppress(FileError, ModelMismatch):
            MinimalBudget.load(path, named)


def write_tensors(path, header, size):
    """Write a file of zeros, with its checksum if NumPy has the types."""
    types = {"I32": np.int32, "F16": np.float16, "U16": np.uint16}
    told = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if all(entry["dtype"] in types for entry in told.values()):
        arrays = {name: np.zeros(entry["shape"], types[entry["dtype"]]) for name, entry in told.items()}
        strings = header["__metadata__"]
        header = header | {"__metadata__": strings | {"sha256": checksum(arrays, strings)}}
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(size))


def header_of(named, **metadata):
    strings = {"format": "almostsure budget", "version": "2", "model": named.fingerprint, "cap": "", "engine": "x"}
    return {
        "__metadata__": strings | metadata,
        "of_state": {"dtype": "I32", "shape": [3], "data_offsets": [0, 12]},
        "of_choice": {"dtype": "I32", "shape": [4], "data_offsets": [12, 28]},
        "rank": {"dtype": "I32", "shape": [3], "data_offsets": [28, 40]},
    }


def test_a_forged_file_with_the_right_contents_is_accepted(named, tmp_path):
    write_tensors(tmp_path / "b", header_of(named), 40)
    assert MinimalBudget.load(tmp_path / "b", named).of_state.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"format": "almostsure policy"}, CorruptFile, "is not a budget file; it holds a policy"),
        ({"format": "pt"}, CorruptFile, "is not a budget file; almostsure did not write it"),
        ({"version": "1"}, FileError, "an older version of almostsure (format '1'; this one reads '2'). Make it anew"),
        ({"model": "0" * 64}, ModelMismatch, "belongs to another model"),
        ({"cap": "many"}, CorruptFile, "does not hold a budget of its model"),
        ({"cap": "-1"}, CorruptFile, "cap must be 0 … 2147483646, or None; got -1"),
        ({"cap": str(INFINITE)}, CorruptFile, "cap must be 0 … 2147483646, or None; got 2147483647"),
    ],
)
def test_foreign_metadata(named, tmp_path, metadata, error, message):
    write_tensors(tmp_path / "b", header_of(named, **metadata), 40)
    with pytest.raises(error, match=re.escape(message)):
        MinimalBudget.load(tmp_path / "b", named)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "U16"])
def test_arrays_of_foreign_types(named, tmp_path, dtype):
    header = header_of(named)
    header["of_state"] = {"dtype": dtype, "shape": [6], "data_offsets": [0, 12]}
    write_tensors(tmp_path / "b", header, 40)
    with pytest.raises(CorruptFile, match=r"is damaged|does not hold a budget of its model"):
        MinimalBudget.load(tmp_path / "b", named)


def test_arrays_that_are_missing_or_too_many(named, tmp_path):
    header = header_of(named)
    header["more"] = header.pop("rank")
    write_tensors(tmp_path / "b", header, 40)
    with pytest.raises(CorruptFile, match=r"must hold of_state, of_choice and rank; got \['more', 'of_choice', "):
        MinimalBudget.load(tmp_path / "b", named)


def test_a_foreign_safetensors_file(named, tmp_path):
    from safetensors.numpy import save_file

    save_file({"weights": np.zeros(3)}, tmp_path / "net.safetensors")
    with pytest.raises(CorruptFile, match="is not a budget file; almostsure did not write it"):
        MinimalBudget.load(tmp_path / "net.safetensors", named)


def test_pickles_are_not_read(minimal, named, tmp_path):
    (tmp_path / "b").write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(CorruptFile, match="is damaged or not a budget file"):
        MinimalBudget.load(tmp_path / "b", named)


def test_an_interrupted_save_keeps_the_old_file(minimal, named, tmp_path, monkeypatch):
    path = tmp_path / "b"
    minimal.save(path)
    before = path.read_bytes()

    for failure, seen, message in (
        (KeyboardInterrupt("now"), KeyboardInterrupt, "now"),
        (OSError(28, "No space left on device"), FileError, "No space left on device. Any earlier file is unchanged"),
    ):

        def fail(file, failure=failure):
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(seen, match=message):
                minimal_budget(named, cap=1).save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["b"]
    assert MinimalBudget.load(path, named).cap is None


def test_saving_to_impossible_paths(minimal, tmp_path):
    with pytest.raises(FileError, match=r"cannot write .*: there is no folder .*folder'\. Make it first\."):
        minimal.save(tmp_path / "no" / "folder" / "b")
    with pytest.raises(FileError, match="it is not a file"):
        minimal.save(tmp_path)
