"""Files of arrays: damaged, forged and foreign ones are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import almostsure as asure
from almostsure.abstract import CellPolicy, UpperBudget
from almostsure.budget import HorizonBudget
from almostsure.errors import AlmostSureError, ArgumentError, CorruptFile, FileError, ModelMismatch
from almostsure.files import load_tensors, save_tensors, tensors_kind
from almostsure.learn import OnlineShield
from almostsure.learn.ledger import CHECKSUM, Episode, Ledger, read_ledger
from almostsure.plan import RiskShield
from almostsure.shield import HorizonShield

from .kinds import KINDS, MODEL, Kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_flipped_bit_loads_as_something_else(kind: Callable[[], Kind], tmp_path: Path) -> None:
    path = tmp_path / "file"
    write, read = kind()
    write(path)
    wanted = read(path)
    good = path.read_bytes()
    same = 0
    with path.open("r+b", buffering=0) as file:
        for at in range(8 * len(good)):
            file.seek(at // 8)
            file.write(bytes([good[at // 8] ^ 1 << at % 8]))
            try:
                found = read(path)
            except AlmostSureError:
                pass
            else:
                assert found == wanted, f"bit {at % 8} of byte {at // 8} changes what is loaded"
                same += 1
            file.seek(at // 8)
            file.write(good[at // 8 : at // 8 + 1])
    assert same < len(good)  # except for escapes in JSON, a flip is refused


STRANGE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "real": lambda array: array.astype(np.float64),
    "truth": lambda array: array.astype(np.bool_),
    "small": lambda array: array.astype(np.uint8),
    "half": lambda array: array.astype(np.float16),
    "NaN": lambda array: np.full(array.shape, np.nan),
    "single": lambda array: np.zeros((), array.dtype),
    "empty": lambda array: array[:0],
    "short": lambda array: array[:-1],
    "flat": lambda array: array.reshape(-1)[: array.size // 2],
    "deep": lambda array: array[None],
    "wide": lambda array: np.concatenate([array, array], axis=-1),
}
WORDS = ("", "-1", "nan", "1e9", "[]", "{}", "null", "x")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_arrays_and_strings_of_another_form_are_refused(kind: Callable[[], Kind], tmp_path: Path) -> None:
    path = tmp_path / "file"
    write, read = kind()
    write(path)
    if (stored := tensors_kind(path)) is None:
        pytest.skip("no file of arrays")
    with safe_open(path, framework="np") as file:
        arrays, header = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata())  # noqa: SIM118
    model = header["model"]
    strings = {name: text for name, text in header.items() if name not in ("format", "version", "model", "sha256")}
    with np.errstate(over="ignore"):
        changed = [({**arrays, name: make(arrays[name])}, strings) for name in arrays for make in STRANGE.values()]
    changed += [({n: a for n, a in arrays.items() if n != name}, strings) for name in arrays]
    changed += [(arrays, {**strings, name: word}) for name in strings for word in WORDS]
    changed += [(arrays, {n: s for n, s in strings.items() if n != name}) for name in strings]
    refused = 0
    for others, words in changed:
        save_tensors(path, kind=stored, model=model, arrays=others, strings=words)
        try:
            read(path)
        except AlmostSureError:
            refused += 1
    assert refused > len(changed) / 4


def test_an_incomplete_line_of_a_ledger_is_ignored_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger().record(path)
    ledger.note(Episode(1, 5, math.nan, 3, 2, 0, "violation"))
    first = path.read_text()
    json.loads(first, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    ledger.note(Episode(2, 7, 1.0, 0, 2, 0, "terminated"))
    second = path.read_text()[len(first) :]
    for kept in range(len(second)):
        if CHECKSUM in second[:kept]:  # it may also be a changed line
            continue
        path.write_text(first + second[:kept])
        assert read_ledger(path).episodes == 1
        ledger.note(Episode(3, 9, 1.0, 1, 2, 0, "terminated"))
        assert (read_ledger(path).episodes, read_ledger(path).steps) == (2, 14)
    path.write_text(first + second)
    assert read_ledger(path).episodes == 2
    path.write_text("hello\n")
    with pytest.raises(CorruptFile, match="is damaged or not a ledger: line 1 is 'hello'"):
        read_ledger(path)


def test_a_changed_array_or_string_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    arrays = {"a": np.arange(3, dtype=np.int32), "b": np.zeros((2, 0))}
    save_tensors(path, kind="budget", model="m", arrays=arrays, strings={"cap": "12"})
    found, strings = load_tensors(path, kind="budget", model="m")
    assert found["a"].tolist() == [0, 1, 2]
    assert strings["cap"] == "12"
    good = path.read_bytes()
    for old, new in ((b'"12"', b'"13"'), (b"[2,0]", b"[0,2]"), (b"I32", b"U32"), (b"\x02\0\0\0", b"\x03\0\0\0")):
        assert good.count(old) == 1
        path.write_bytes(good.replace(old, new))
        with pytest.raises(CorruptFile, match="is damaged: its content does not have the checksum"):
            load_tensors(path, kind="budget", model="m")
    path.write_bytes(good.replace(b"sha256", b"sha255"))
    with pytest.raises(CorruptFile, match="is damaged: its content does not have the checksum"):
        load_tensors(path, kind="budget", model="m")


@pytest.mark.parametrize("name", ["p.csv", "P.CSV", "p.umb", "p.drn.gz", "p.json", "p.html", "p.npz"])
def test_arrays_are_not_written_under_the_ending_of_another_kind(name: str, tmp_path: Path) -> None:
    minimal = asure.minimal_budget("paper")
    with pytest.raises(ArgumentError, match=r"^the name of a budget file must end in \.safetensors; got '.*'\.$"):
        minimal.save(tmp_path / name)
    with pytest.raises(ArgumentError, match=r"^the name of a shield file must end in \.safetensors"):
        asure.Shield(minimal).save(tmp_path / name)
    policy = asure.solve_policy("paper", asure.AlmostSure(2)).policy
    with pytest.raises(ArgumentError, match=r"^the name of a policy file must end in \.safetensors"):
        policy.save(tmp_path / name)
    assert not any(tmp_path.iterdir())
    policy.save(tmp_path / "robot.v2")  # any other ending is accepted


def test_files_of_other_kinds_versions_and_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_tensors(path, kind="budget", model="m", arrays={"a": np.zeros(1)}, strings={})
    assert tensors_kind(path) == "budget"
    assert tensors_kind(tmp_path / "nothing") is None
    with pytest.raises(CorruptFile, match="is not a shield file; it holds a budget"):
        load_tensors(path, kind="shield", model="m")
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        load_tensors(path, kind="budget", model="another")
    with pytest.raises(FileError, match=r"^cannot read '.*nothing': there is no such file\.$"):
        load_tensors(tmp_path / "nothing", kind="budget", model="m")
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"version":"2"', b'"version":"9"'))
    with pytest.raises(FileError, match=r"by a newer version of almostsure \(format '9'; .* Update almostsure"):
        load_tensors(path, kind="budget", model="m")
    path.write_bytes(good.replace(b'"version":"2"', b'"version":"1"'))
    with pytest.raises(FileError, match=r"by an older version of almostsure \(format '1'; .* Make it anew"):
        load_tensors(path, kind="budget", model="m")
    with pytest.raises(FileError, match="cannot read"):
        load_tensors(tmp_path / "nothing", kind="budget", model="m")


OF_MODELS = (asure.MinimalBudget, asure.Policy, asure.Shield, HorizonBudget, HorizonShield, RiskShield)
OF_SYSTEMS = (UpperBudget, CellPolicy)


@pytest.mark.parametrize("kind", [*OF_MODELS, *OF_SYSTEMS, OnlineShield])
def test_the_error_about_a_model_in_place_of_the_path_names_the_order(kind: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"the name of a file; got MDP\. Write {kind.__name__}.load\(path"):
        kind.load(MODEL, "budget.safetensors")


def test_loading_for_anything_but_a_model_is_refused(tmp_path: Path) -> None:
    asure.minimal_budget(MODEL).save(tmp_path / "budget.safetensors")
    for kind in OF_MODELS:
        with pytest.raises(ArgumentError, match="a model must be an MDP, an example's name or a path; got NoneType"):
            kind.load(tmp_path / "budget.safetensors", None)  # type: ignore[arg-type]
    for kind in OF_SYSTEMS:
        with pytest.raises(ArgumentError, match="abstraction must be an Abstraction; got MDP"):
            kind.load(tmp_path / "budget.safetensors", MODEL)  # type: ignore[arg-type]


def test_files_are_only_written_to_paths() -> None:
    minimal = asure.minimal_budget(MODEL)
    shield = asure.Shield(minimal)
    for write in (MODEL.save, minimal.save, shield.save, shield.export_numpy, shield.export_c, asure.load):
        with pytest.raises(ArgumentError, match="path must be the name of a file; got MDP"):
            write(MODEL)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["a\0b.umb", "\ud800.umb"])
def test_names_that_no_file_can_have(name: str) -> None:
    mdp = asure.example("paper")
    for act in (mdp.save, asure.load, asure.minimal_budget(mdp).save):
        with pytest.raises(FileError, match="cannot be the name of a file"):
            act(name)
