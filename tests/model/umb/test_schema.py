"""The index of a UMB file, entry by entry: the allowed values, and the entry that an error names."""

from __future__ import annotations

from typing import Any

import pytest

from almostsure.model.umb.schema import BITS, Field, Kind, read_index

from .members import foreign_index


def with_variable(**entries: Any) -> dict[str, Any]:
    return {"valuations": {"states": {"classes": [{"variables": [entries]}]}}}


def with_kind(**entries: Any) -> dict[str, Any]:
    return {"annotations": {"rewards": {"cost": {"type": entries}}}}


@pytest.mark.parametrize(
    ("system", "field", "value"),
    [
        ({"#states": 1, "#initial-states": 1}, "initial_states", 1),
        ({"#states": 2**64 - 1}, "states", 2**64 - 1),
        ({"#players": 2**32 - 1}, "players", 2**32 - 1),
        ({"#choice-actions": 2**32 - 1}, "choice_actions", 2**32 - 1),
        ({"#choices": 2**64 - 1}, "choices", 2**64 - 1),
        ({"#branches": 0}, "outcomes", 0),
        ({"#observations": 2**64 - 1}, "observations", 2**64 - 1),
        ({"#initial-states": 2}, "initial_states", 2),
        ({"branch-probability-type": {"type": "rational"}}, "probability", Kind("rational", 128)),
        ({"branch-probability-type": {"type": "double-interval"}}, "probability", Kind("double-interval", 128)),
        ({"branch-probability-type": {"type": "rational-interval"}}, "probability", Kind("rational-interval", 256)),
    ],
)
def test_numbers_up_to_their_limits(system: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read_index(foreign_index(**system)).system, field) == value


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format-version": -1}, "format-version must be an integer 0 … 4294967295; got -1"),
        ({"format-version": 2**32}, "format-version must be an integer 0 … 4294967295; got 4294967296"),
        ({"format-version": "x" * 99}, f"format-version must be an integer 0 … 4294967295; got '{'x' * 59}"),
        ({"transition-system": [1]}, r"transition-system must be an object; got \[1\]"),
        ({"file-data": {"tool": 5}}, "tool must be text; got 5"),
        (with_kind(type="int", size=0), "annotations/rewards/cost/type/size must be an integer 1 … 4294967295; got 0"),
        (with_kind(type="string", size=63), "annotations/rewards/cost/type/size must be 64 for a string; got 63"),
        (with_kind(type="double-interval", size=64), "size must be 128 for a double-interval; got 64"),
        (with_variable(padding=0), "classes/0/variables/0/padding must be an integer 1 … 4294967295; got 0"),
        (
            with_variable(type={"type": "int"}),
            "valuations/states/classes/0/variables/0 must have a name, and is-optional",
        ),
        (with_variable(name="x", **{"is-optional": 1}), "variables/0 must have a name, and is-optional true or false"),
        (with_variable(name="x", offset=2**63), f"variables/0/offset must be an integer {-(2**63)} … {2**63 - 1}; got"),
        (with_variable(name="x", offset=-(2**63) - 1), "variables/0/offset must be an integer"),
        ({"valuations": {"states": {"classes": []}}}, r"states/classes must be a list that is not empty; got \[\]"),
        ({"valuations": {"states": {"classes": [{"variables": 1}]}}}, "classes/0/variables must be a list; got 1"),
    ],
)
def test_errors_name_the_entry(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(
        ValueError, match=f"{message}$" if not message.endswith(("got", "optional", "integer")) else message
    ):
        read_index(foreign_index() | entries)


def test_fields_of_valuations() -> None:
    for offset in (-(2**63), 0, 2**63 - 1):
        entries = with_variable(name="x", type={"type": "int", "size": 7}, offset=offset, **{"is-optional": True})
        assert read_index(foreign_index() | entries).valuations == ((Field("x", Kind("int", 7), True, offset),),)
    assert read_index(foreign_index() | with_variable(padding=1)).valuations == ((Field(None, Kind("uint", 1)),),)
    assert read_index(foreign_index()).valuations == ()
    assert Field("x", Kind("bool", 1)) == ("x", ("bool", 1), False, 0)


def test_how_wide_numbers_are() -> None:
    assert BITS == {
        "bool": 1, "string": 64, "int": 64, "uint": 64, "double": 64, "rational": 128, "int-interval": 128,
        "uint-interval": 128, "double-interval": 128, "rational-interval": 256,
    }  # fmt: skip
