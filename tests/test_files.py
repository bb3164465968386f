"""Files of arrays: no damaged one is taken for another."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract.upper import UpperBudget
from almostsure.errors import AlmostSureError, CorruptFile, FileError, ModelMismatch
from almostsure.files import load_tensors, save_tensors, tensors_kind
from almostsure.learn import OnlineShield, count_outcomes
from almostsure.learn.ledger import CHECKSUM, Episode, Ledger, Surprise, Violation, read_ledger
from almostsure.learn.sampling.checkpoint import Checkpoint
from almostsure.learn.sampling.samplers import as_sampler

MODEL = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 1, 1], [1, 0, 0], [1, 0, 1], terminal=[2])


class Kind(NamedTuple):
    """A kind of file: how one is written, and what is read from it."""

    write: Callable[[Path], object]
    read: Callable[[Path], Any]


def budget_of(minimal: asure.MinimalBudget) -> tuple[Any, ...]:
    return (minimal.of_state.tolist(), minimal.of_choice.tolist(), minimal.rank.tolist(), minimal.cap, minimal.engine)


def budgets() -> Kind:
    return Kind(asure.minimal_budget(MODEL).save, lambda path: budget_of(asure.MinimalBudget.load(path, MODEL)))


def shields() -> Kind:
    shield = asure.Shield(asure.minimal_budget(MODEL))
    return Kind(shield.save, lambda path: budget_of(asure.Shield.load(path, MODEL).minimal))


def policies() -> Kind:
    def read(path: Path) -> Any:
        policy = asure.Policy.load(path, MODEL)
        arrays = policy.choice, policy.probability
        return policy.budget, [None if array is None else array.tolist() for array in arrays]

    return Kind(asure.solve_policy(MODEL, asure.AlmostSure(2)).policy.save, read)


def checkpoints() -> Kind:
    source, run = as_sampler(MODEL), {"kind": "a test"}
    counts = count_outcomes(MODEL, 3, seed=1)

    def read(path: Path) -> Any:
        found, position = Checkpoint(path, source, run, 0).begin(1, {"done": 0})
        return {name: array.tolist() for name, array in found.to_arrays().items()}, position

    return Kind(lambda path: Checkpoint(path, source, run, 0).write(counts, {"done": 9}), read)


def online_shields() -> Kind:
    shield = OnlineShield(num_states=2, actions=2, needed=1)
    shield.watch(0, 1, 1, 3)
    shield.ledger.note(Violation(1, 0, 1, 1, 3, remaining=2, allowed=True, new=True))

    def read(path: Path) -> Any:
        found = OnlineShield.load(path, shield.space)
        arrays = {**found.counts.to_arrays(), **found.ledger.to_arrays()}
        return found.unknown, found.needed, str(found.ledger), {name: array.tolist() for name, array in arrays.items()}

    return Kind(shield.save, read)


def upper_budgets() -> Kind:
    def step(state: Any, action: Any) -> Any:
        return (state[0] + action,)

    system = asure.abstract(step, asure.Grid([0.0], [1.0], [4]), [-0.25, 0.25], unsafe=lambda state: state[0] > 0.6)
    return Kind(system.minimal_budget().save, lambda path: UpperBudget.load(path, system).of_state.tolist())


def ledgers() -> Kind:
    ledger = Ledger()

    def write(path: Path) -> None:
        ledger.record(path)
        ledger.note(Surprise(1, 0, 1, 2, 3, raised=4))
        ledger.note(Violation(7, 0, 1, 1, 3, remaining=2, allowed=True, new=False))
        ledger.note(Episode(1, 5, math.pi, 3, 2, 0, "violation"))

    def read(path: Path) -> Any:
        found = read_ledger(path)
        return found.surprises, found.violations, found.steps, {n: a.tolist() for n, a in found.to_arrays().items()}

    return Kind(write, read)


def models() -> Kind:
    model = asure.from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [1, 0], [1, 0], terminal=[1])

    def read(path: Path) -> Any:
        found = asure.load(path)
        return found.fingerprint, found.state_names, found.action_names, found.layout, dict(found.labels)

    return Kind(model.save, read)


def tables() -> Kind:
    space: dict[str, Any] = {"__name__": "exported"}

    def write(path: Path) -> None:
        module, table = asure.Shield(asure.minimal_budget(MODEL)).export_numpy(path.with_suffix(".py"))
        space["__file__"] = str(module)
        exec(compile(module.read_text(), str(module), "exec"), space)
        table.rename(path)
        table.symlink_to(path)

    def read(path: Path) -> Any:
        space["_table"].cache_clear()
        try:
            return [space["allowed"](0, left).tolist() for left in (1, 2)]
        except space["DamagedTable"] as error:
            raise AlmostSureError(str(error)) from error

    return Kind(write, read)


KINDS = [budgets, shields, policies, checkpoints, online_shields, upper_budgets, ledgers, models, tables]


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
    assert same < len(good)  # escapes in JSON aside, a flip is refused


def test_a_torn_line_of_a_ledger_is_left_out_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger().record(path)
    ledger.note(Episode(1, 5, math.nan, 3, 2, 0, "violation"))
    first = path.read_text()
    json.loads(first, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    ledger.note(Episode(2, 7, 1.0, 0, 2, 0, "terminated"))
    second = path.read_text()[len(first) :]
    for kept in range(len(second)):
        if CHECKSUM in second[:kept]:  # it may have been changed instead
            continue
        path.write_text(first + second[:kept])
        assert read_ledger(path).episodes == 1
        ledger.note(Episode(3, 9, 1.0, 1, 2, 0, "terminated"))
        assert (read_ledger(path).episodes, read_ledger(path).steps) == (2, 14)
    path.write_text(first + second)
    assert read_ledger(path).episodes == 2
    path.write_text("hello\n")
    with pytest.raises(CorruptFile, match="is damaged or no ledger: line 1 is 'hello'"):
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
