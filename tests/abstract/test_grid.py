"""A box cut into cells: points belong to exactly one cell, whatever rounding does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure.abstract import Grid, abstract
from almostsure.errors import ArgumentError, ModelError, NotEnoughMemory, UnknownName


def test_cells_are_numbered_in_c_order():
    grid = Grid((0, 0, 0), (2, 3, 4), (2, 3, 4))
    centres = grid.centres(np.arange(grid.num_cells))
    assert grid.cells_of(centres).tolist() == list(range(24))
    assert centres[1].tolist() == [0.5, 0.5, 1.5]


def test_edges_belong_to_the_cell_above_and_the_last_one_to_the_last_cell():
    grid = Grid([0.0], [1.0], [4])
    assert grid.cells_of([[0.0], [0.25], [0.5], [1.0], [1.0000001], [-0.1], [np.nan]]).tolist() == [
        0,
        1,
        2,
        3,
        -1,
        -1,
        -1,
    ]


@given(st.floats(-5, 5), st.integers(1, 50))
def test_a_point_lies_in_the_box_of_its_cell(x, cells):
    grid = Grid([-3.3], [4.1], [cells])
    cell = grid.cell([x])
    if cell < 0:
        assert not -3.3 <= x <= 4.1
    else:
        low, high = grid.box(cell)
        assert low[0] <= x <= high[0]


@given(st.floats(-50, 50))
def test_periodic_coordinates_wrap(x):
    grid = Grid([-1.0], [1.0], [8], periodic=[0])
    cell = grid.cell([x])
    low, high = grid.box(cell)
    turns = np.round((x - (low[0] + high[0]) / 2) / 2)
    assert low[0] - 1e-9 <= x - 2 * turns <= high[0] + 1e-9


@given(st.integers(1, 8), st.floats(-9, 9), st.sampled_from([0.0, 0.3, 1.0, 1.9, 2.0 - 1e-13, 2.0, 3.0]), st.booleans())
def test_what_an_arc_touches_holds_the_cells_of_its_points(cells, low, width, whole):
    low = float(round(low)) if whole else low
    grid = Grid([-1.0], [1.0], [cells], periodic=[0])
    points = np.clip(np.linspace(low, low + width, 100), low, low + width)
    assert {*grid.cells_of(points[:, None]).tolist()} <= {*grid.touching([low], [low + width]).tolist()}


def test_the_start_may_be_nearly_a_whole_turn_or_the_last_float_of_the_box():
    wheel = Grid([-np.pi], [np.pi], [20], periodic=[0])
    nearly = abstract(lambda s, a: (s[0] + a,), wheel, [0.0], initial=((0.1,), (6.3,)))
    assert nearly.initial_cells().tolist() == list(range(20))  # both ends lie in one cell
    line = Grid([-1.0], [1.0], [20])
    assert abstract(lambda s, a: s, line, [0.0], initial=((1.0,), (1.0,))).initial_cells().tolist() == [19]


def test_infinite_angles_lie_nowhere():
    grid = Grid([-1.0], [1.0], [8], periodic=[0])
    with np.errstate(all="raise"):
        assert grid.cells_of([[np.inf], [-np.inf], [np.nan], [3.0]]).tolist() == [-1, -1, -1, 0]


def test_a_refined_grid_has_the_same_boundary_floats():
    coarse, fine = (Grid([-1.7], [0.93], [n]) for n in (37, 74))
    assert np.array_equal(coarse.edges[0], fine.edges[0][::2])


def test_touching_cells():
    grid = Grid((0, 0), (1, 1), (4, 4), periodic=[1])
    assert grid.touching((0.1, 0.9), (0.3, 1.1)).tolist() == [0, 3, 4, 7]
    assert grid.touching((0.1, 0.0), (0.1, 5.0)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("low", "high", "cells", "match"),
    [
        ([0.0], [np.inf], [3], "high must be finite; got inf at coordinate 0"),
        ([np.nan], [1.0], [3], "low must be finite; got nan"),
        ([1.0], [1.0], [3], "low must be less than high in every coordinate; got 1 and 1 at x0"),
        ([0.0], [1.0], [0], "cells must be 1 … 32767 per coordinate; got 0 at x0"),
        ([0.0], [1.0], [2.5], "cells must be a whole number"),
        ([], [], [], "at least one coordinate"),
        ([0.0], [1.0, 2.0], [3], "one entry per coordinate; got 1, 2 and 1"),
        (0.0, 1.0, 3, "low must be a sequence"),
        (["a"], [1.0], [3], "low must be numbers"),
        ([1.0], [1.0 + 1e-15], [100], "too narrow for floats"),
    ],
)
def test_boxes_that_are_none_are_refused(low, high, cells, match):
    with pytest.raises(ArgumentError, match=match):
        Grid(low, high, cells)


def test_periodic_and_names_must_fit():
    with pytest.raises(ArgumentError, match="periodic must name coordinates 0 … 0; got 1"):
        Grid([0], [1], [2], periodic=[1])
    with pytest.raises(ArgumentError, match="names must have one entry per coordinate, 1; got 2"):
        Grid([0], [1], [2], names=("a", "b"))


def test_a_grid_that_does_not_fit_says_what_would():
    with pytest.raises(NotEnoughMemory, match=r"a grid of 1,048,576,000,000,000 cells needs .* would fit"):
        Grid((0,) * 5, (1,) * 5, (1000, 1024, 1000, 1024, 1000))


def test_points_and_cells_that_are_none_are_refused():
    grid = Grid((0, 0), (1, 1), (2, 2))
    with pytest.raises(
        ModelError, match=r"points must have 2 coordinates each \(x0, x1\); got an array of shape \[1, 3\]"
    ):
        grid.cells_of([[0, 0, 0]])
    with pytest.raises(UnknownName, match=r"unknown cell 4\. Cells are 0 … 3"):
        grid.box(4)
