"""Upper budgets equal the minimal budgets of the finite model that the images make."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.abstract import Grid, abstract, solve
from almostsure.errors import ArgumentError

from .systems import arrival, as_mdp, check_system, contraction, double_integrator, random_system

MODELS = {
    "safety": lambda: double_integrator((9, 8)),
    "patterns": lambda: double_integrator((9, 8), 2),
    "listed patterns": lambda: double_integrator((9, 8), [(0,), (2,), (1, 1), (0, 2), (2, 0, 1)]),
    "whole damages": lambda: double_integrator(
        (8, 7), unsafe=lambda s: np.where(s[0] > 0.6, 2.0, np.where(s[0] < -0.6, 1.0, 0.0))
    ),
    "forbidden": lambda: double_integrator((9, 8), forbidden=lambda s: np.abs(s[1]) > 0.7),
    "line": contraction,
    "disturbed": lambda: contraction(disturbance=((-0.1,), (0.1,))),
    "arrival": arrival,
    "arrival with patterns": lambda: arrival((4, 24), 2),
    "arrival past obstacles": lambda: arrival((6, 30), forbidden=lambda s: (s[0] > 0.4) & (s[0] < 0.5)),
    "arrival, disturbed": lambda: arrival((6, 30), disturbance=((0.0, -0.02), (0.0, 0.02))),
}


@pytest.mark.parametrize("name", MODELS)
def test_upper_budgets_are_the_minimal_budgets_of_the_finite_model(name):
    model = MODELS[name]()
    upper, exact = asure.minimal_budget(model), asure.minimal_budget(as_mdp(model))
    assert upper.of_state.tolist() == exact.of_state[: model.num_cells].tolist()
    finite = np.flatnonzero(upper.of_state != asure.INFINITE)
    for cell in finite[::7].tolist():
        if not model.goal_cells[cell]:
            needs = [exact.of(cell, p) for p in range(model.patterns.count)]
            assert [upper.patterns(cell).get(s, asure.INFINITE) for s in model.patterns.sequences] == needs


@pytest.mark.parametrize("name", ["arrival", "arrival with patterns", "arrival past obstacles"])
def test_levels_and_arrival_agree(name):
    model = MODELS[name]()
    blocks = solve.gathered(model)
    levels = solve.solve_levels(model, blocks, asure.INFINITE - 1)
    assert levels.tolist() == asure.minimal_budget(model).of_state.tolist()


@pytest.mark.parametrize("name", ["patterns", "arrival", "disturbed"])
def test_images_that_are_computed_again_give_the_same(name, monkeypatch):
    model = MODELS[name]()
    kept = asure.minimal_budget(model).of_state
    monkeypatch.setattr(solve, "available", lambda: 0)
    monkeypatch.setattr("almostsure.abstract.enclosure.images.BLOCK", 20)
    assert asure.minimal_budget(MODELS[name]()).of_state.tolist() == kept.tolist()


@pytest.mark.parametrize("name", ["patterns", "whole damages", "arrival"])
def test_windows_that_do_not_fit_are_looped_over(name, monkeypatch):
    model = MODELS[name]()
    kept = solve.solve_levels(model, solve.gathered(model), asure.INFINITE - 1)
    monkeypatch.setattr(solve, "WINDOWS", 0)
    assert solve.solve_levels(model, solve.gathered(model), asure.INFINITE - 1).tolist() == kept.tolist()


def test_many_blocks_and_long_rows(monkeypatch):
    monkeypatch.setattr("almostsure.abstract.enclosure.images.BLOCK", 300)
    model = double_integrator((8, 150), unsafe=lambda s: s[0] > 0.7)
    assert len(solve.gathered(model).edges) > 2
    assert asure.minimal_budget(model).of_state.tolist() == asure.minimal_budget(as_mdp(model)).of_state[:-2].tolist()


def embedded(targets, hurts):
    """A finite model as a grid: state s is cell 2 s, and nothing leads to the cells between."""
    states = len(hurts)

    def look_up(x, row):
        value = row[-1]
        for s in range(states - 2, -1, -1):
            value = np.where(x < 2 * s + 1.5, row[s], value)
        return value

    def step(state, action):
        slots = range(max(len(target) for row in targets for target in row))
        chosen = [[row[action][min(k, len(row[action]) - 1)] for row in targets] for k in slots]
        return [(look_up(state[0], [2 * target + 0.5 for target in row]),) for row in chosen]

    grid = Grid([0.0], [2.0 * states], [2 * states])
    return abstract(step, grid, range(len(targets[0])), unsafe=lambda s: look_up(s[0], hurts.astype(float)))


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_finite_models_embedded_as_grids_keep_their_minimal_budget(seed):
    rng = np.random.default_rng(seed)
    states, actions = 7, 2
    targets = [
        [rng.choice(states, rng.integers(1, 4), replace=False).tolist() for _ in range(actions)] for _ in range(states)
    ]
    hurts = rng.integers(0, 3, states) * rng.integers(0, 2, states)
    rows = [(s, a, t, int(hurts[t])) for s in range(states) for a in range(actions) for t in targets[s][a]]
    s, a, t, d = (list(column) for column in zip(*rows, strict=True))
    share = [1 / len(targets[x][y]) for x, y in zip(s, a, strict=True)]
    exact = asure.minimal_budget(asure.from_transitions(s, a, t, share, [0.0] * len(rows), d, num_states=states))
    upper = asure.minimal_budget(embedded(targets, hurts))
    assert upper.of_state[::2].tolist() == exact.of_state.tolist()


def test_patterns_of_length_one_are_the_plain_choices():
    plain, listed = double_integrator(), double_integrator(pattern=[(0,), (1,), (2,)])
    assert asure.minimal_budget(plain).of_state.tolist() == asure.minimal_budget(listed).of_state.tolist()


@pytest.mark.parametrize("pattern", [1, 2])
def test_refining_never_raises_the_budget_at_a_point(pattern):
    coarse, fine = (asure.minimal_budget(double_integrator(cells, pattern)) for cells in ((8, 8), (16, 16)))
    points = fine.abstraction.grid.centres(np.arange(256))
    assert (fine.of_state <= coarse.of_state[coarse.abstraction.grid.cells_of(points)]).all()
    assert (fine.of_state < coarse.of_state[coarse.abstraction.grid.cells_of(points)]).any()


def test_a_cap_cuts_what_needs_more():
    full = asure.minimal_budget(arrival())
    capped = asure.minimal_budget(arrival(), cap=3)
    expected = np.where(full.of_state > 3, asure.INFINITE, full.of_state)
    assert capped.of_state.tolist() == expected.tolist()
    with pytest.raises(ArgumentError, match="cap must be an integer 0 … 2147483646, or None; got -1"):
        asure.minimal_budget(arrival(), cap=-1)


@pytest.mark.parametrize("seed", range(12))
def test_random_systems_keep_their_promises(seed):
    rng = np.random.default_rng(seed)
    check_system(random_system(rng), rng)


def test_where_nothing_is_proved_it_is_said():
    stuck = asure.abstract(lambda s, a: (s[0] + a,), asure.Grid([0.0], [1.0], [4]), [2.0], unsafe=lambda s: s[0] > 5)
    assert "for no cell was a finite budget proved" in repr(asure.minimal_budget(stuck))


def test_a_car_that_has_stopped_stays_in_its_cell():
    def step(state, push):
        speed, gap = state
        speed = np.clip(speed + 0.5 * push, 0.0, 10.0)
        return speed, np.minimum(gap + 0.5 * (np.minimum(speed, 3.0) - speed), 50.0)

    grid = Grid((0.0, 0.0), (10.01, 51.0), (20, 51))
    model = asure.abstract(step, grid, [-4.0, 0.0, 2.0], forbidden=lambda s: s[1] < 2, disturbance=((0, 0.0), (0, 0.5)))
    upper = asure.minimal_budget(model)
    assert upper.of((0.0, 2.0)) == upper.of((5.0, 20.0)) == 0  # rounding does not let the gap shrink, cell by cell
    assert upper.of((10.0, 3.0)) == asure.INFINITE
