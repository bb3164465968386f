"""Images enclose what can happen: points of a cell land in the cells that its image lists."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import Grid, abstract
from almostsure.errors import ModelError

from ..systems import arrival, contraction, double_integrator, outcomes


@pytest.mark.parametrize("model", [double_integrator((6, 5), 2), arrival((4, 20), 2), contraction()], ids=str)
def test_random_points_land_in_the_image(model):
    rng = np.random.default_rng(0)
    grid = model.grid
    for cell in rng.integers(0, grid.num_cells, 40).tolist():
        low, high = grid.box(cell)
        points = rng.uniform(low, high, (20, grid.num_coordinates))
        for p, sequence in enumerate(model.patterns.sequences):
            found = outcomes(model, cell, p)
            state, damage = tuple(points.T), np.zeros(20)
            arrived = np.zeros(20, bool)
            for action in sequence:
                state = model.step(state, model.actions[action])
                if model.goal is None:
                    damage += np.asarray(model.unsafe(state), float)
                else:
                    damage += ~arrived
                    arrived |= np.asarray(model.goal(state))
            reached = grid.cells_of(np.stack(np.broadcast_arrays(*state), axis=1))
            if found is None:
                continue
            ((cells, most),) = found
            assert (damage <= most).all()
            if cells:
                assert np.isin(reached[~arrived], cells).all()
                assert np.isin(reached, cells).all()
            else:
                assert arrived.all()


def test_a_disturbance_widens_the_image_at_every_step():
    still = contraction(pattern=2)
    moved = contraction(pattern=2, disturbance=((-0.05,), (0.1,)))
    for cell in range(still.num_cells):
        for p in range(still.patterns.count):
            one, two = outcomes(still, cell, p), outcomes(moved, cell, p)
            assert two is None or set(one[0][0]) <= set(two[0][0])
    ((cells, _),) = outcomes(moved, 8, 0)
    low, high = moved.grid.box(8)
    ends = 0.7 * (0.7 * np.array([low[0] - 0.0, high[0]]) - 0.1 + np.array([-0.05, 0.1])) - 0.1 + np.array([-0.05, 0.1])
    assert cells == list(range(moved.grid.cell([ends[0]]), moved.grid.cell([ends[1]]) + 1))


def test_float32_observations_are_enclosed():
    grid = Grid([0.0], [0.3], [3])
    exact = abstract(lambda s, a: (s[0],), grid, [0])
    seen = abstract(lambda s, a: (s[0],), grid, [0], observation_error="float32")
    stated = abstract(lambda s, a: (s[0],), grid, [0], observation_error=[0.01])
    assert outcomes(exact, 1, 0)[0][0] == [1]  # what stands still stays: the edge belongs to the cell above
    assert outcomes(seen, 1, 0)[0][0] == [0, 1, 2]
    assert outcomes(stated, 1, 0)[0][0] == [0, 1, 2]
    edge = np.float64(np.float32(0.1))
    assert grid.cell([0.1 - 1e-10]) == 0
    assert grid.cell([edge]) == 1  # what is observed of it


def test_several_boxes_keep_their_gap():
    grid = Grid([0.0], [10.0], [10])
    model = abstract(lambda s, a: [(s[0] * 0 + 1.5,), (s[0] * 0 + 7.5,)], grid, [0])
    assert [cells for cells, _ in outcomes(model, 4, 0)] == [[1], [7]]


def test_blocks_give_the_same_images_as_the_whole_grid():
    model = double_integrator((6, 5), 2)
    whole = [outcomes(model, cell, p) for cell in range(30) for p in range(9)]
    again = []
    for first in range(0, 6, 2):
        images = model.images(first, first + 2)
        assert images.origin == first
        again.append(images)
    assert sum(image.low.size for image in again) >= model.images(0, 6).low.size
    assert whole == [outcomes(model, cell, p) for cell in range(30) for p in range(9)]


def test_periodic_images_wrap_or_cover_everything():
    grid = Grid([0.0], [1.0], [10], periodic=[0])
    turn = abstract(lambda s, a: (s[0] + a,), grid, [0.25, 7.25, -3.0])
    assert outcomes(turn, 9, 0)[0][0] == [1, 2]
    assert outcomes(turn, 9, 1)[0][0] in ([1, 2], [0, 1, 2, 3], [1, 2, 3])
    assert set(outcomes(turn, 9, 2)[0][0]) >= {9, 0}
    wide = abstract(lambda s, a: (30 * s[0],), grid, [0])
    assert len(outcomes(wide, 4, 0)[0][0]) == 10


def test_a_constant_coordinate_and_nan():
    grid = Grid((0.0, 0.0), (1.0, 1.0), (3, 3))
    fixed = abstract(lambda s, a: (0.5, s[1]), grid, [0])
    assert outcomes(fixed, 0, 0)[0][0] == [3]
    lost = abstract(lambda s, a: (s[0] * np.inf * 0, s[1]), grid, [0])
    assert outcomes(lost, 0, 0) is None


def test_a_choice_whose_damage_is_too_large_is_refused():
    grid = Grid([0.0], [1.0], [3])
    model = abstract(lambda s, a: s, grid, [0], unsafe=lambda s: np.where(s[0] > 0.5, 200.0, 0.0), pattern=2)
    with pytest.raises(ModelError, match="the damage of a choice must be at most 250; it reaches 400"):
        model.images(0, 3)


@pytest.mark.parametrize("around", [(), (0,)])
def test_split_cells_have_tighter_images_that_hold_every_point(around):
    def step(state, push):
        x = state[0]
        return (x + 0.4 * np.sin(2 * np.pi * x) ** 2 * np.cos(2 * np.pi * x) + push,)  # x occurs three times

    grid = Grid([0.0], [1.0], [12], periodic=around)
    whole, split = (abstract(step, grid, [0.0, 0.05], pattern=2, split=pieces) for pieces in (None, [5]))
    rng = np.random.default_rng(0)
    tighter = 0
    for cell in range(12):
        low, high = grid.box(cell)
        points = rng.uniform(low[0], high[0], 200)
        for p, sequence in enumerate(whole.patterns.sequences):
            one, two = outcomes(whole, cell, p), outcomes(split, cell, p)
            if two is None:
                assert one is None
                continue
            assert one is None or set(two[0][0]) <= set(one[0][0])
            tighter += one is None or len(two[0][0]) < len(one[0][0])
            state = (points,)
            for action in sequence:
                state = step(state, split.actions[action])
            assert set(grid.cells_of(state[0][:, None]).tolist()) <= set(two[0][0])
    assert tighter > 10


@pytest.mark.parametrize("pieces", [(2, 1), (1, 3)])
def test_splitting_never_raises_the_upper_budget(pieces):
    for make in (double_integrator, arrival):
        plain, split = (asure.minimal_budget(make(pattern=2, split=split)).of_state for split in (None, pieces))
        assert (split <= plain).all()
