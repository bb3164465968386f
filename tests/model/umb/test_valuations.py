"""Variables of a program become names of states."""

from __future__ import annotations

from pathlib import Path

from almostsure.model.umb.files import load

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


def test_valuations_of_unknown_kinds_are_left_alone(path: Path) -> None:
    index = foreign_index()
    index["valuations"] = {
        "states": {"unique": True, "classes": [{"variables": [{"name": "x", "type": {"type": "rational", "size": 8}}]}]}
    }
    mdp = load(write_members(path, foreign_members(index, valuations__states__valuations=bytes(2))))
    assert mdp.state_names is None
    assert not mdp.origin.variables
