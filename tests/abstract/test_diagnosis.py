"""Why nothing was proved, what would help, and how tight the bounds are."""

from __future__ import annotations

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract.diagnosis import forced
from almostsure.errors import ArgumentError

from .systems import arrival, contraction, double_integrator


def test_the_path_names_the_coordinate_that_drifts() -> None:
    found = asure.minimal_budget(double_integrator()).explain((0.95, 0.95))
    assert found.needs == asure.INFINITE
    assert found.drifted == "x"
    assert found.moves[0].next_cell == -1
    text = str(found)
    assert "may leave the box or reach a forbidden state, as x drifts" in text
    assert "Tried in a window around (0.95, 0.95), cells of half the width: still nothing at (0.95, 0.95)" in text
    assert "the start" not in text
    cell = found.cell
    assert f"window around cell {cell}, cells" in str(asure.minimal_budget(double_integrator()).explain(cell))
    assert "window around the start, cells" in str(asure.minimal_budget(double_integrator()).explain())


def test_every_step_of_the_path_lies_in_the_image_and_has_no_bound() -> None:
    model = asure.abstract("CartPole-v1", asure.abstract("CartPole-v1").grid.with_cells((8, 8, 8, 8)), pattern=3)
    minimal = asure.minimal_budget(model)
    found = minimal.explain()
    assert len(found.moves) > 1
    for move, after in zip(found.moves, found.moves[1:], strict=False):
        assert move.next_cell == after.cell
        assert minimal.of(after.cell) == asure.INFINITE
    assert found.cell in model.initial_cells()


def test_what_is_proved_needs_no_explanation() -> None:
    found = asure.minimal_budget(arrival()).explain()
    assert not found.moves
    assert not found.tries
    assert "needs at most 6" in str(found)


def test_a_point_outside_the_box_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"state must lie in the box; got .*, where nothing is known"):
        asure.minimal_budget(double_integrator()).explain((3.0, 0.0))


@pytest.mark.parametrize("model", [double_integrator(), double_integrator(pattern=2), arrival()], ids=repr)
def test_lower_bounds_never_exceed_upper_ones(model: asure.Abstraction) -> None:
    minimal = asure.minimal_budget(model)
    points = np.random.default_rng(0).uniform(model.grid.low, model.grid.high, (60, model.grid.num_coordinates))
    assert (forced(model, points) <= minimal.of_state[model.cells_of(points)]).all()


def test_a_sample_of_fewer_than_no_cells_is_refused() -> None:
    with pytest.raises(ArgumentError, match="sample must be at least 0; got -1"):
        asure.minimal_budget(contraction()).tightness(sample=-1)


def test_a_point_that_is_lost_is_found_to_be() -> None:
    model = double_integrator(forbidden=lambda s: np.abs(s[0]) > 0.8, unsafe=None)
    assert forced(model, [(0.75, 0.9), (0.0, 0.0)]).tolist() == [asure.INFINITE, 0]
    tight = asure.minimal_budget(model).tightness(sample=40)
    assert 0 < tight.lost <= tight.unproved <= 40
    assert tight.exact == tight.finite
    assert "lost under every policy" in str(tight)
