"""Names in exported headers, character by character."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.shield.export import names as module
from almostsure.shield.export.names import Names, header_names, how_to_find, plain


def test_names_become_c_strings() -> None:
    names = Names(("a", "", "b\n\\?"), ("x" * 61,), {})
    parts = list(header_names(names, "robot"))
    assert all(isinstance(part, str) for part in parts)
    text = "".join(str(part) for part in parts)
    assert "#ifdef ROBOT_NAMES\n" in text
    assert text.count('robot_state_names[] = {\n    "a",\n    "",\n    "b\\012\\134\\077",\n};\n') == 1
    assert f'robot_action_names[] = {{\n    "{"x" * 60}"\n    "x",\n}};\n' in text
    assert text.endswith("    return ROBOT_UNKNOWN_STATE;\n}\n\n#endif\n")
    assert "robot_state_named(const char *text)" in text
    assert how_to_find(names, "robot") == "; with ROBOT_NAMES defined, robot_state_named(text) finds one by its name"


def test_one_line_holds_sixty_characters() -> None:
    parts = [part for part in header_names(Names(None, ("y" * 60, "z" * 121), {}), "r") if isinstance(part, str)]
    assert f'    "{"y" * 60}",\n' in parts
    assert f'    "{"z" * 60}"\n    "{"z" * 60}"\n    "z",\n' in parts
    assert "state_named" not in "".join(parts)


def test_comments_hold_forty_plain_characters() -> None:
    assert plain("a" * 41) == "a" * 40
    assert plain("left*/\\ (2)") == "left*__ (2)"  # without a slash, no star ends a comment


def test_states_are_found_by_the_values_of_their_variables() -> None:
    variables = {"x": np.array([1, 0, 1, 0]), "on": np.array([True, True, False, False])}
    names = Names(None, None, variables)
    values, state_of, text = header_names(names, "r")
    assert (values[0], values[1].tolist(), values[1].dtype) == ("values", [0, 0, 0, 1, 1, 0, 1, 1], np.int32)
    assert (state_of[0], state_of[1].tolist(), state_of[1].dtype) == ("state_of", [3, 1, 2, 0], np.uint8)
    assert " *   values   [0] x, [1] on\n" in text
    assert "i < 2u;" in text
    assert how_to_find(names, "r") == "; r_state(values) finds one by its variables"


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ([[0, 1]], True),
        ([[0, 2**31 - 1]], True),
        ([[0, 2**31]], False),
        ([[0, 1 - 2**31]], True),
        ([[0, 0]], False),
        ([[0, 0], [1, 2]], True),
        ([[0.0, 1.0]], False),
        ([[0, 1], [0.5, 1.5]], False),
        ([], False),
    ],
)
def test_values_must_be_integers_that_fit_and_differ(columns: list[list[float]], found: bool) -> None:
    names = Names(None, None, {str(i): np.array(column) for i, column in enumerate(columns)})
    assert (names.sorted_values() is not None) == found
    assert list(header_names(names, "r") if not found else ()) == []


def test_very_many_names_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = asure.from_transitions([0, 1], [0, 0], [1, 1], [1] * 2, [0] * 2, [0] * 2, state_names=["a", "b"])
    left_out = "; their names are left out, export_numpy writes them"
    for most, held in ((2, True), (1, False)):
        monkeypatch.setattr(module, "MOST_IN_HEADER", most)
        assert Names.of(mdp).in_header() == (("a", "b") if held else None)
        assert (how_to_find(Names.of(mdp), "r") == left_out) == (not held)
    for most, kept in ((2, ("a", "b")), (1, None)):
        monkeypatch.setattr(module, "MOST_STATES", most)
        assert Names.of(mdp).states == kept
    assert how_to_find(Names.of(mdp), "r") == ""
    assert Names(("a\0b", "c"), None, {}).in_header() is None
    assert bytes(Names(("a",), None, {"x": np.array([3])}).packed()) == (
        b'{"states": ["a"], "actions": null, "variables": {"x": [3]}}'
    )
