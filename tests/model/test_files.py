"""Errors for files of other kinds name their reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import almostsure
import almostsure.abstract
from almostsure.errors import CorruptFile, FileError
from almostsure.files import save_tensors, tensors_kind
from almostsure.model.files import READERS, load
from almostsure.model.source import as_model

from ..kinds import KINDS, Kind, ledgers, models, tables
from .umb.members import example


@pytest.mark.parametrize("name", ["walk.prism", "walk.PM", "walk.nm", "walk.sm", "walk.jani", "walk.drn"])
def test_the_error_for_files_of_storm_names_from_prism(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mdp")
    with pytest.raises(FileError, match=rf"{name} must be read with from_prism\(path, damage=…\)"):
        load(tmp_path / name)
    with pytest.raises(FileError, match=rf"{name} must be read with from_prism\(path, damage=…\)"):
        as_model(tmp_path / name)


def test_the_error_for_maps_names_from_map(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("S.G")
    with pytest.raises(FileError, match=r"map.txt must be read with from_map\(Path\(…\)\), if it is a map"):
        load(tmp_path / "map.txt")
    assert as_model(tmp_path / "map.txt").num_states == 3


@pytest.mark.parametrize("name", ["thing.safetensors", "thing.umb"])
@pytest.mark.parametrize("kind", ["budget", "shield", "policy"])
def test_the_error_for_other_files_names_their_reader(tmp_path: Path, kind: str, name: str) -> None:
    saved = tmp_path / "saved"
    save_tensors(saved, kind=kind, model=example().fingerprint, arrays={"x": np.zeros(2)}, strings={})
    saved.rename(tmp_path / name)
    reader = {"budget": "MinimalBudget", "shield": "Shield", "policy": "Policy"}[kind]
    message = rf"{name} holds a {kind}, not a model. Read it with {reader}.load\(path, mdp\)"
    with pytest.raises(FileError, match=message):
        load(tmp_path / name)
    with pytest.raises(FileError, match=message):
        as_model(tmp_path / name)


def test_other_files_with_the_ending_of_tensors_are_corrupt_models(tmp_path: Path) -> None:
    for content in (b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 8 + b"{", b"12345678{"):
        (tmp_path / "odd.umb").write_bytes(content)
        with pytest.raises(CorruptFile, match=r"odd\.umb"):
            load(tmp_path / "odd.umb")


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in (models, tables, ledgers)], ids=lambda kind: kind.__name__
)
def test_every_kind_of_file_has_a_reader(tmp_path: Path, kind: Callable[[], Kind]) -> None:
    path = tmp_path / "thing.safetensors"
    kind().write(path)
    with pytest.raises(FileError, match=re.escape(f"not a model. Read it with {READERS[str(tensors_kind(path))]}.")):
        load(path)


def test_readers_exist() -> None:
    homes = [almostsure, *(getattr(almostsure, name) for name in ("abstract", "budget", "learn", "plan", "shield"))]
    for reader in {**READERS, "deep agent": "learn_minimal_budget(…)"}.values():  # load_agent needs an extra
        name, _, method = reader.partition("(")[0].partition(".")
        home = next(home for home in homes if hasattr(home, name))
        assert callable(getattr(getattr(home, name), method) if method else getattr(home, name))
