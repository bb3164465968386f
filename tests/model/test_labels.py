"""Labels: given in several forms, kept by files, pickles, relays and Storm."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almostsure import MDP, from_function, from_transitions, load
from almostsure.errors import CorruptFile, FileError, ModelError, UnknownName
from almostsure.model.build.matrices import from_matrices
from almostsure.model.build.tables import from_table
from almostsure.model.space import Space
from almostsure.model.umb.relay import with_relays

LABELS = {"goal": [2], "x>=1 & wet": np.array([False, True, True]), "end": ["c"], "none": []}
WANTED = {"goal": [2], "x>=1 & wet": [1, 2], "end": [2], "none": []}
ROWS = ([0, 0, 1, 1], [0] * 4, [1, 1, 2, 0], [0.5] * 4, [0] * 4, [1, 0, 0, 0])


def model(labels: Any = LABELS) -> MDP:
    return from_transitions(*ROWS, terminal=[2], state_names=["a", "b", "c"], labels=labels)


def held(space: Space) -> dict[str, list[int]]:
    return {name: np.flatnonzero(states).tolist() for name, states in space.labels.items()}


def test_labels_are_read_only_truth_values() -> None:
    mdp = model()
    assert held(mdp) == WANTED
    assert mdp.label("goal").tolist() == [False, False, True]
    with pytest.raises(ValueError, match="read-only"):
        mdp.label("goal")[0] = True
    with pytest.raises(UnknownName, match=r"unknown label 'gaol'. Did you mean 'goal'\?"):
        mdp.label("gaol")
    assert mdp == model(labels=None)


def test_labels_survive_files_pickles_relays_and_more_states(tmp_path: Path) -> None:
    mdp = model()
    mdp.save(tmp_path / "model.umb")
    for again in (load(tmp_path / "model.umb"), pickle.loads(pickle.dumps(mdp)), copy.deepcopy(mdp), mdp.space):
        assert held(again) == WANTED
    assert with_relays(mdp).num_states == 4
    assert held(with_relays(mdp)) == held(mdp.space.with_end().with_unknown()) == WANTED


def test_a_changed_label_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.umb"
    model().save(path)
    data = path.read_bytes()
    bits = (0b110).to_bytes(8, "little")
    at = data.index(b"aps/label-")
    place = data.index(bits, at)
    path.write_bytes(data[:place] + (0b010).to_bytes(8, "little") + data[place + 8 :])
    with pytest.raises(CorruptFile, match="does not have the checksum"):
        load(path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"goal": [True]}, "label 'goal' must have 3 truth values, one per state; got 1"),
        ({"goal": [3]}, "unknown state 3"),
        ({"goal": ["d"]}, "unknown state 'd'"),
        ({"goal": 1}, "label 'goal' must be one truth value per state, or a list of states"),
        ({"": [1]}, "labels must have names; got ''"),
        ({"goal": [[0], [1, 2]]}, "label 'goal' must be one truth value per state, or a list of states"),
    ],
)
def test_bad_labels(labels: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model(labels)


def test_every_constructor_takes_labels() -> None:
    table = from_table({"a": {"go": (1.0, "b")}}, terminal=["b"], labels={"goal": ["b"]})
    dense = from_matrices([[[0, 1], [0, 0]]], terminal=[1], labels={"goal": [1]})
    function = from_function(
        lambda state, action: [(1, state + 1, 0, 0)],
        initial=0,
        actions=lambda state: [0] if state < 1 else [],
        labels={"goal": lambda state: state == 1},
    )
    assert held(table) == held(dense) == held(function) == {"goal": [1]}


@pytest.mark.parametrize(
    "name", ["model.prism", "model.JANI", "map.txt", "policy.safetensors", "page.html", "x.xyz", "m.drn.gz"]
)
def test_saving_does_not_overwrite_a_source(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("precious")
    with pytest.raises(FileError, match=r"cannot write .*: the name of a written model ends in .umb or .drn"):
        model().save(path)
    assert path.read_text() == "precious"
