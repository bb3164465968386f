"""Models that are awkward to write, and UMB files made by hand."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from almostsure import MDP, from_transitions
from almostsure.model.layout import Layout

Members = dict[str, bytes]


def example(**changes: Any) -> MDP:
    """Random damage to one successor, an initial distribution, names, a layout, an unused action."""
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
    """Append the checksum to a file, as save does."""
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


def annotated(group: str, name: str, change: dict[str, Any], **changes: bytes) -> Members:
    """The foreign model with one annotation changed or added."""
    index = foreign_index()
    index["annotations"][group][name] = index["annotations"][group].get(name, {"type": DOUBLE}) | change
    return foreign_members(index, **changes)


def intervals(*bounds: float) -> Members:
    """The foreign model with bounds of each probability, and of the damage, as Storm writes them."""
    kind = {"type": "double-interval", "size": 128}
    index = foreign_index(**{"branch-probability-type": kind})
    index["annotations"]["rewards"]["damage"]["type"] = kind
    members = foreign_members(index, branch_to_probability=f8(*bounds))
    return members | {"annotations/rewards/damage/branches/values.bin": f8(1, 1, 0, 0, 2, 2, 0, 0)}
