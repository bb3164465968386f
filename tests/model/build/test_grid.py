"""Text maps: the characters, slipping, and the errors for invalid maps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure.errors import FileError, ModelError, UnknownName
from almostsure.model.build.grid import Cell, from_map, grid_family


def outcomes(mdp, state, action):
    """The outcomes of a step by the name of the next state: {name: (probability, reward, damage)}."""
    return {mdp.state_name(t): (pytest.approx(p), r, d) for t, p, r, d in mdp.outcomes(state, action)}


def test_walls_and_edges_block():
    mdp = from_map("S#\n.G")
    assert mdp.state_names == ("r0c0", "r1c0", "r1c1")
    assert outcomes(mdp, "r0c0", "north") == {"r0c0": (1, 0, 0)}
    assert outcomes(mdp, "r0c0", "east") == {"r0c0": (1, 0, 0)}
    assert outcomes(mdp, "r0c0", "west") == {"r0c0": (1, 0, 0)}
    assert outcomes(mdp, "r0c0", "south") == {"r1c0": (1, 0, 0)}
    assert outcomes(mdp, "r1c0", "east") == {"r1c1": (1, 1, 0)}
    assert mdp.is_terminal().tolist() == [False, False, True]


def test_rewards_of_steps_and_of_the_goal_add_up():
    mdp = from_map("S.G", step_reward=-1, goal_reward=10)
    assert outcomes(mdp, "r0c0", "east") == {"r0c1": (1, -1, 0)}
    assert outcomes(mdp, "r0c1", "east") == {"r0c2": (1, 9, 0)}


@pytest.mark.parametrize(("character", "damage"), [("~", 1), ("1", 1), ("4", 4), ("9", 9)])
def test_every_step_that_ends_in_a_hazard_does_damage(character, damage):
    mdp = from_map(f"S{character}")
    assert outcomes(mdp, "r0c0", "east") == {"r0c1": (1, 0, damage)}
    assert outcomes(mdp, "r0c1", "east") == {"r0c1": (1, 0, damage)}  # bumped into the edge, still in the water
    assert outcomes(mdp, "r0c1", "west") == {"r0c0": (1, 0, 0)}


def test_pits_cannot_be_left():
    mdp = from_map("SX", slip=0.25)
    for action in mdp.action_names:
        assert outcomes(mdp, "r0c1", action) == {"r0c1": (1, 0, 1)}


@pytest.mark.parametrize(("character", "action"), [("^", "north"), (">", "east"), ("v", "south"), ("<", "west")])
def test_one_way_cells_have_one_action(character, action):
    mdp = from_map(f"...\n.{character}S\n...")
    assert [mdp.action_name(int(a)) for a in mdp.actions("r1c1")] == [action]
    assert mdp.actions("r0c0").size == 4


def test_slipping_forward_is_a_step_and_then_a_drift():
    mdp = from_map("...\n...\n.S.", slip=0.1)
    assert outcomes(mdp, "r2c1", "north") == {"r1c1": (0.8, 0, 0), "r1c0": (0.1, 0, 0), "r1c2": (0.1, 0, 0)}
    assert outcomes(mdp, "r2c1", "south") == {"r2c1": (0.8, 0, 0), "r2c0": (0.1, 0, 0), "r2c2": (0.1, 0, 0)}
    walled = from_map("#.#\n.S.", slip=0.1)
    assert outcomes(walled, "r1c1", "north") == {"r0c1": (1, 0, 0)}  # the drift is blocked


def test_slipping_sideways_replaces_the_step():
    mdp = from_map("...\n.S.\n...", slip=0.2, slip_model="side")
    assert outcomes(mdp, "r1c1", "north") == {"r0c1": (0.6, 0, 0), "r1c0": (0.2, 0, 0), "r1c2": (0.2, 0, 0)}


def test_slipping_always_leaves_no_straight_step():
    mdp = from_map("...\n.S.", slip=0.5)
    assert outcomes(mdp, "r1c1", "north") == {"r0c0": (0.5, 0, 0), "r0c2": (0.5, 0, 0)}


def test_several_starts_are_equally_likely():
    mdp = from_map("S.S\n.S.")
    assert mdp.initial_states.tolist() == [0, 2, 4]
    assert mdp.initial_probabilities == pytest.approx([1 / 3] * 3)


def test_a_map_without_goal_is_fine():
    assert not from_map("S.").is_terminal().any()


def test_layout_shows_the_map():
    mdp = from_map("S#\n.G")
    assert (mdp.layout.rows, mdp.layout.columns, mdp.layout.text) == (2, 2, ("S#", ".G"))
    assert [mdp.layout.place(s) for s in range(3)] == [(0, 0), (1, 0), (1, 1)]


def test_indentation_blank_lines_and_rows_do_not_matter():
    plain = from_map("S.\n.G")
    assert from_map("\n\n      S.  \n      .G\n   \n") == plain
    assert from_map(["S.", ".G"]) == plain


def test_a_legend_adds_and_changes_meanings():
    legend = {"T": Cell(terminal=True, reward=5.0), "m": 7, "w": "#", "~": 3, "d": Cell(exits="NS")}
    mdp = from_map("SmT\nwd~", legend=legend)
    assert mdp.num_states == 5
    assert outcomes(mdp, "r0c0", "east") == {"r0c1": (1, 0, 7)}
    assert outcomes(mdp, "r0c1", "east") == {"r0c2": (1, 5, 0)}
    assert outcomes(mdp, "r1c2", "south") == {"r1c2": (1, 0, 3)}
    assert mdp.actions("r1c1").tolist() == [0, 2]
    assert from_map("S~").max_damage == 1  # the known legend is as it was


BAD = [
    ("", "a map must have at least one row; got an empty text"),
    ("  \n \n", "a map must have at least one row"),
    ("S..\n..", "the rows of a map must be equally long; got 2 cells on line 2 and 3 on line 1"),
    ("\n\nS..\n....\n", "got 4 cells on line 4 and 3 on line 3"),
    ("S.\n\n..", "got 0 cells on line 2 and 2 on line 1"),
    ("...", "a map must have a start; got none. Put an 'S'"),
    ("###", "a map must have a start"),
    ("S..\n.?.", r"unknown map character '\?' at line 2, column 2\. Known: \. # S G .*legend={'\?': '\.'} for fl"),
    ("\nS..\n.0.", r"unknown map character '0' at line 3, column 2"),
    ("S .", r"unknown map character ' ' at line 1, column 2"),
    ("S\t.", r"unknown map character '\\t' at line 1, column 2"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_maps_are_refused_with_the_place(text, message):
    with pytest.raises(ModelError, match=message):
        from_map(text)


def test_bad_options_are_refused():
    with pytest.raises(ModelError, match=r"slip must lie in 0 … 0.5.*got 0.6"):
        from_map("S", slip=0.6)
    with pytest.raises(ModelError, match=r"slip must lie in 0 … 0.5.*got nan"):
        from_map("S", slip=float("nan"))
    with pytest.raises(UnknownName, match=r"unknown slip model 'foward'\. Did you mean 'forward'\?"):
        from_map("S", slip=0.1, slip_model="foward")
    with pytest.raises(ModelError, match="rewards must be finite"):
        from_map("S", step_reward=float("inf"))
    with pytest.raises(ModelError, match="a cell's reward must be finite"):
        from_map("S", goal_reward=float("nan"))
    with pytest.raises(ModelError, match="single visible characters; got 'ab'"):
        from_map("S", legend={"ab": 1})
    with pytest.raises(UnknownName, match="unknown map character 'q'"):
        from_map("S", legend={"w": "q"})
    with pytest.raises(ModelError, match=r"legend\['w'\] must be a Cell, a damage or a known character; got 1.5"):
        from_map("S", legend={"w": 1.5})
    with pytest.raises(ModelError, match=r"legend must map characters to cells; got \['w'\]"):
        from_map("S", legend=["w"])
    with pytest.raises(ModelError, match="a cell's damage must be an integer 0 … 255; got 256"):
        from_map("S", legend={"w": 256})
    with pytest.raises(ModelError, match="a cell's exits must be letters of 'NESW', at least one; got 'up'"):
        Cell(exits="up")
    with pytest.raises(ModelError, match="one of wall, terminal and stuck"):
        Cell(terminal=True, stuck=True)


@given(st.lists(st.text("S.#~3GX<>", min_size=4, max_size=4), min_size=1, max_size=4), st.sampled_from([0, 0.1, 0.5]))
def test_every_map_is_a_model_or_an_error(rows, slip):
    if not any("S" in row for row in rows):
        with pytest.raises(ModelError, match="must have a start"):
            from_map(rows, slip=slip)
        return
    for slip_model in ("forward", "side"):
        mdp = from_map(rows, slip=slip, slip_model=slip_model)
        assert mdp.num_states == sum(character != "#" for row in rows for character in row)
        for state in range(mdp.num_states):
            row, column = mdp.layout.place(state)
            for action in mdp.actions(state):
                for successor, _, _, damage in mdp.outcomes(state, int(action)):
                    to = mdp.layout.place(successor)
                    assert abs(to[0] - row) <= 1
                    assert abs(to[1] - column) <= 1
                    entered = rows[to[0]][to[1]]
                    assert damage == (0 if mdp.is_terminal()[state] else {"~": 1, "3": 3, "X": 1}.get(entered, 0))


def test_the_family_is_seeded_and_has_its_shape():
    mdp = grid_family(30, seed=3)
    assert mdp == grid_family(30, seed=3)
    assert mdp != grid_family(30, seed=4)
    assert mdp.num_states == 900
    assert 11 < mdp.num_outcomes / mdp.num_states <= 12
    assert mdp.nbytes <= 24 * mdp.num_outcomes
    water = sum(row.count("~") for row in mdp.layout.text) / 900
    assert 0.1 < water < 0.35
    assert mdp.layout.text[0][0] == "S"
    assert mdp.layout.text[-1][-1] == "G"
    assert np.flatnonzero(mdp.is_terminal()).tolist() == [899]


def test_the_family_has_not_changed():
    """Benchmarks depend on it."""
    assert grid_family(16, seed=5, pits=0.02).layout.text == (
        "S......~~..~~~~~", "..........~~~~~~", "....X......~~~~~", "~.~X....X..~~~~~", "~~~~~~......~~~~",
        "~~~~~~~.~.....~.", "~~~~~~~~........", "~~~~~~~~~.......", "~~~~~~~~~.......", "~~~~X~~~~...~...",
        "~~~~~~~~~~......", "~X~~~~~~~.......", "~~~~~~~~~X..~...", "~~~~~~~~~.......", "~~~~~~~~......~.",
        "~~~~~~~~.......G",
    )  # fmt: skip
    mdp = grid_family(2, hazard=0, lakes=0, pits=0)
    assert mdp.layout.text == ("S.", ".G")
    assert outcomes(mdp, "r0c0", "east") == {"r0c1": (pytest.approx(0.9), 0, 0), "r1c1": (0.1, 1, 0)}


def test_names_up_to_a_number_of_states(monkeypatch):
    for most, names in ((2, ("r0c0", "r0c1")), (1, None)):
        monkeypatch.setattr("almostsure.model.build.grid.MOST_NAMES", most)
        assert from_map("SG").state_names == names


def test_cells_at_their_limits():
    assert from_map("SwG", legend={"w": 255}).max_damage == 255
    assert from_map("SwG", legend={"w": 0}).max_damage == 0
    for wrong in ({"damage": -1}, {"damage": 256}, {"damage": 0.5}):
        with pytest.raises(ModelError, match=f"^a cell's damage must be an integer 0 … 255; got {wrong['damage']}$"):
            Cell(**wrong)
    for wrong in ({"wall": True, "start": True}, {"wall": True, "terminal": True}, {"wall": True, "stuck": True}):
        with pytest.raises(ModelError, match="must be one of wall, terminal and stuck, and no wall is a start; got"):
            Cell(**wrong)
    Cell(terminal=True, start=True)
    Cell(stuck=True, start=True)


def test_large_maps_have_no_names():
    mdp = grid_family(320)
    assert mdp.state_names is None
    assert mdp.layout.rows == 320
    with pytest.raises(ModelError, match="at least 2 × 2 cells; got n=1"):
        grid_family(1)


# ---------------------------------------------------------------------- the forms of a map


def test_a_map_may_be_rows_characters_or_a_file(tmp_path):
    text = "S.G\n.2."
    path = tmp_path / "map.txt"
    path.write_text(text, encoding="utf-8")
    expected = from_map(text)
    desc = np.asarray([list("S.G"), list(".2.")], dtype="c")  # as FrozenLake holds its map
    forms = (["S.G", ".2."], [list("S.G"), list(".2.")], np.array([list("S.G"), list(".2.")]), desc,
             np.array(["S.G", ".2."]), path)  # fmt: skip
    for form in forms:
        mdp = from_map(form)
        assert mdp == expected
        assert mdp.layout.text == ("S.G", ".2.")


def test_frozen_lakes_map_with_an_easy_legend():
    mdp = from_map(["SFFF", "FHFH", "FFFH", "HFFG"], legend={"F": ".", "H": 1})
    assert mdp.outcomes("r0c1", "south") == [(5, 1.0, 0.0, 1)]


BAD_FORMS = [
    ("map.txt", r"unknown map character .* To read the file 'map.txt', pass Path\('map.txt'\)"),
    (np.array([["S", "GG"]]), r"cells of a map must be single visible characters; got 'GG'"),
    (np.array([[" ", "S"]]), r"cells of a map must be single visible characters; got ' '"),
    (np.zeros((2, 2)), r"cells of a map must be single visible characters; got 0.0"),
    ([1, 2], r"cells of a map must be single visible characters; got 1"),
    (5, r"a map must be text, rows, an array of characters or a Path; got int"),
    (None, r"a map must be text, .*got NoneType"),
    ([], r"a map must have at least one row"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), BAD_FORMS)
def test_other_types_are_refused(given, message):
    with pytest.raises(ModelError, match=message):
        from_map(given)


def test_a_string_that_names_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").write_text("S.G")
    with pytest.raises(ModelError, match=r"To read the file 'lake', pass Path\('lake'\)"):
        from_map("lake")
    (tmp_path / "S.G").write_text("nonsense")
    assert from_map("S.G").num_states == 3  # a map, whatever files there are


def test_maps_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match=r"cannot read the map .*absent.txt: No such file"):
        from_map(tmp_path / "absent.txt")
    (tmp_path / "latin.txt").write_bytes(b"S.G\xff")
    with pytest.raises(FileError, match=r"the map .*latin.txt must be UTF-8 text"):
        from_map(tmp_path / "latin.txt")
