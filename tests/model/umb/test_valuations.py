"""Variables of a program become names of states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from almostsure.model.files import load
from almostsure.model.umb import valuations

from .members import (
    f8,
    foreign_index,
    foreign_members,
    write_members,
)

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


def test_valuations_of_unknown_kinds_are_ignored(path: Path) -> None:
    index = foreign_index()
    index["valuations"] = {
        "states": {"unique": True, "classes": [{"variables": [{"name": "x", "type": {"type": "rational", "size": 8}}]}]}
    }
    mdp = load(write_members(path, foreign_members(index, valuations__states__valuations=bytes(2))))
    assert mdp.state_names is None
    assert not mdp.origin.variables


@pytest.mark.parametrize(
    ("bits", "offset", "values", "dtype"),
    [
        (8, 0, [127, -128], np.int8),
        (9, 0, [128, 0], np.int16),
        (9, 0, [0, -129], np.int16),
        (8, -200, [127, -128], np.int16),
        (17, 0, [32768, -1], np.int32),
        (33, 0, [2**31, -(2**31)], np.int64),
    ],
)
def test_integers_of_any_width_get_the_narrowest_type(
    path: Path, bits: int, offset: int, values: list[int], dtype: type
) -> None:
    """Three bits, the number, and padding up to a whole byte; offsets are added."""
    index = foreign_index()
    field = {"name": "x", "type": {"type": "int", "size": bits}, "offset": offset}
    fields = [{"name": "on", "type": {"type": "bool", "size": 1}}, {"padding": 2}, field, {"padding": -(3 + bits) % 8}]
    index["valuations"] = {
        "states": {"unique": True, "classes": [{"variables": [f for f in fields if f.get("padding", 1)]}]}
    }
    packed = b"".join((1 | (v % 2**bits) << 3).to_bytes(-(-(3 + bits) // 8), "little") for v in values)
    mdp = load(write_members(path, foreign_members(index, valuations__states__valuations=packed)))
    assert mdp.origin.variables["x"].tolist() == [v + offset for v in values]
    assert mdp.origin.variables["x"].dtype == dtype
    assert mdp.origin.variables["on"].tolist() == [True, True]


def test_names_of_very_many_states_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"x": np.array([1.5, -2]), "on": np.array([True, False])}
    for most, names in ((2, ["x=1.5, on=true", "x=-2, on=false"]), (1, None)):
        monkeypatch.setattr(valuations, "MOST_NAMES", most)
        assert valuations.valuation_names(variables) == names
    assert valuations.valuation_names({}) is None
