"""Files of arrays: no damaged one is taken for another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import AlmostSureError, CorruptFile, FileError, ModelMismatch
from almostsure.files import load_tensors, save_tensors, tensors_kind

MODEL = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 1, 1], [1, 0, 0], [1, 0, 1], terminal=[2])


def budget_of(minimal: asure.MinimalBudget) -> tuple[Any, ...]:
    return (minimal.of_state.tolist(), minimal.of_choice.tolist(), minimal.rank.tolist(), minimal.cap, minimal.engine)


def minimal_kind() -> tuple[Any, Callable[[Path], Any], Callable[[Any], Any]]:
    return asure.minimal_budget(MODEL), lambda path: asure.MinimalBudget.load(path, MODEL), budget_of


def shield_kind() -> tuple[Any, Callable[[Path], Any], Callable[[Any], Any]]:
    shield = asure.Shield(asure.minimal_budget(MODEL))
    return shield, lambda path: asure.Shield.load(path, MODEL), lambda found: budget_of(found.minimal)


def policy_kind() -> tuple[Any, Callable[[Path], Any], Callable[[Any], Any]]:
    def content(policy: asure.Policy) -> Any:
        layers = None if policy.choice is None else policy.choice.tolist()
        weights = None if policy.probability is None else policy.probability.tolist()
        return policy.budget, layers, weights

    policy = asure.solve_policy(MODEL, asure.AlmostSure(2)).policy
    return policy, lambda path: asure.Policy.load(path, MODEL), content


@pytest.mark.parametrize("kind", [minimal_kind, shield_kind, policy_kind])
def test_no_flipped_bit_loads_as_something_else(kind: Callable[[], Any], tmp_path: Path) -> None:
    saved, load, content = kind()
    path = tmp_path / "file.safetensors"
    saved.save(path)
    wanted = content(saved)
    assert content(load(path)) == wanted
    good = path.read_bytes()
    same = 0
    with path.open("r+b") as file:
        for at in range(8 * len(good)):
            file.seek(at // 8)
            file.write(bytes([good[at // 8] ^ 1 << at % 8]))
            file.flush()
            try:
                found = content(load(path))
            except AlmostSureError:
                pass
            else:
                assert found == wanted, f"bit {at} of {path.name} changes what is loaded"
                same += 1
            file.seek(at // 8)
            file.write(good[at // 8 : at // 8 + 1])
    assert same < len(good)  # escapes in JSON aside, a flip is refused


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


def test_kinds_versions_and_models_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_tensors(path, kind="budget", model="m", arrays={"a": np.zeros(1)}, strings={})
    assert tensors_kind(path) == "budget"
    assert tensors_kind(tmp_path / "nothing") is None
    with pytest.raises(CorruptFile, match="is not a shield file; it says 'almostsure budget'"):
        load_tensors(path, kind="shield", model="m")
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        load_tensors(path, kind="budget", model="another")
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"version":"2"', b'"version":"9"'))
    with pytest.raises(FileError, match=r"by a newer version of almostsure \(format '9'; .* Update almostsure"):
        load_tensors(path, kind="budget", model="m")
    path.write_bytes(good.replace(b'"version":"2"', b'"version":"1"'))
    with pytest.raises(FileError, match=r"by an older version of almostsure \(format '1'; .* Make it anew"):
        load_tensors(path, kind="budget", model="m")
    with pytest.raises(FileError, match="cannot read"):
        load_tensors(tmp_path / "nothing", kind="budget", model="m")
