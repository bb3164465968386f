"""The shield of single actions out of patterns: never empty, never overspent."""

import pickle

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import Grid, abstract
from almostsure.errors import ArgumentError, ModelError, ModelMismatch, NoSafeAction
from almostsure.shield import Guard

from ..systems import arrival, contraction, double_integrator


def play(model, shield, budget, steps, seed, runs=200):
    """Random allowed actions in the system itself; returns the runs' damages."""
    rng = np.random.default_rng(seed)
    safe = np.flatnonzero(shield.minimal.of_state <= budget)
    cells = rng.choice(safe, runs)
    low, high = model.grid.boxes(cells)
    points = rng.uniform(low, high)
    run = shield.begin(model.grid.cells_of(points), budget)
    spent = np.zeros(runs, np.int64)
    for _ in range(steps):
        masks = shield.mask(*run)
        actions = np.argmax(rng.random(masks.shape) * masks, axis=1)
        following = np.empty_like(points)
        for a in range(model.num_actions):
            at = actions == a
            state = model.step(tuple(points[at].T), model.actions[a])
            following[at] = np.stack(np.broadcast_arrays(*state), axis=1)
        if model.disturbance is not None:
            least, most = np.array(model.disturbance).T
            following += rng.uniform(least, most, following.shape)
        damage = model.damage(following)
        if model.goal is not None:
            damage[shield.minimal.of_state[run[0]] == 0] = 0  # arrived already
        points = following
        cells = model.grid.cells_of(points)
        reached = np.where(cells < 0, shield.space.unknown, cells)
        run = shield.after(run, actions, reached, damage)
        spent += damage
        assert (run[1] == budget - spent).all()
    return spent


@pytest.mark.parametrize("budget", [0, 1, 2])
@pytest.mark.parametrize(
    "model",
    [
        double_integrator(),
        double_integrator(pattern=3),
        contraction(disturbance=((-0.1,), (0.1,))),
        contraction(pattern=2),
    ],
    ids=str,
)
def test_random_allowed_actions_never_overspend(model, budget):
    shield = asure.Shield(asure.minimal_budget(model))
    assert (shield.minimal.of_state <= budget).any()
    assert play(model, shield, budget, 60, budget).max() <= budget


def test_one_run_and_many_runs_agree():
    model = double_integrator(pattern=3)
    shield = asure.Shield(asure.minimal_budget(model))
    rng = np.random.default_rng(3)
    cells = np.flatnonzero(shield.minimal.of_state <= 1)[::5]
    many = shield.begin(cells, 1)
    ones = [shield.begin(int(cell), 1) for cell in cells]
    points = model.grid.centres(cells)
    for _ in range(12):
        masks = shield.mask(*many)
        assert [np.flatnonzero(row).tolist() for row in masks] == [shield.allowed(*run).tolist() for run in ones]
        actions = np.argmax(rng.random(masks.shape) * masks, axis=1)
        points = np.stack(model.step(tuple(points.T), actions - 1.0), axis=1)
        damage = model.damage(points)
        cells = model.grid.cells_of(points)
        reached = np.where(cells < 0, shield.space.unknown, cells)
        many = shield.after(many, actions, reached, damage)
        ones = [
            shield.after(run, int(a), int(s), int(d))
            for run, a, s, d in zip(ones, actions, reached, damage, strict=True)
        ]
        assert [run for run in ones] == list(zip(*(column.tolist() for column in many), strict=True))


def test_it_is_a_guard_that_carries_begun_patterns():
    shield = asure.Shield(asure.minimal_budget(double_integrator(pattern=3)))
    assert isinstance(shield, Guard)
    assert shield.carries == ("remaining", "_begun")
    assert asure.Shield(asure.minimal_budget(double_integrator())).carries == ("remaining",)
    again = pickle.loads(pickle.dumps(asure.Shield(asure.minimal_budget(picklable()))))
    assert again.space.num_observed == 4


def identity(state, action):
    return state


def picklable():
    return abstract(identity, Grid([0.0], [1.0], [4]), [0])


def test_arrival_keeps_its_promise():
    model = arrival()
    minimal = asure.minimal_budget(model)
    shield = asure.Shield(minimal)
    rng = np.random.default_rng(0)
    for cell in np.flatnonzero((minimal.of_state > 0) & (minimal.of_state < asure.INFINITE))[::6].tolist():
        budget = minimal.of(cell)
        low, high = model.grid.box(cell)
        point, run, steps = rng.uniform(low, high), shield.begin(cell, budget), 0
        while not model.goal(tuple(point)):
            action = int(rng.choice(shield.allowed(*run)))
            point = np.array(model.step(tuple(point), model.actions[action]))
            steps += 1
            ended = model.goal(tuple(point))
            run = shield.after(run, action, shield.space.end if ended else shield.space.state(point))
        assert steps <= budget


def test_starts_where_nothing_is_safe_say_what_to_do():
    shield = asure.Shield(asure.minimal_budget(double_integrator()))
    with pytest.raises(NoSafeAction, match=r"outside the box with 0 left: .*Narrow the start, or widen the box"):
        shield.begin((5.0, 0.0), 0)
    stuck = int(np.flatnonzero(shield.minimal.of_state == asure.INFINITE)[0])
    with pytest.raises(NoSafeAction, match=r"cell \d+ \(x in .*no budget was proved.*finer cells or longer patterns"):
        shield.begin(stuck, 3)
    with pytest.raises(NoSafeAction, match=r"\(and 1 more run\)"):
        shield.mask([stuck, stuck], [0, 0])
    far = asure.Shield(asure.minimal_budget(arrival()))
    cell = int(np.flatnonzero((far.minimal.of_state > 1) & (far.minimal.of_state < asure.INFINITE))[0])
    with pytest.raises(NoSafeAction, match=r"with 1 left: \d+ would be needed"):
        far.begin(np.array([cell, cell]), 1)


def test_an_environment_that_does_something_else_is_a_mismatch():
    model = double_integrator(unsafe=None)
    shield = asure.Shield(asure.minimal_budget(model))
    cell = int(np.flatnonzero(shield.minimal.of_state == 0)[0])
    run = shield.begin(cell, 0)
    action = int(shield.allowed(*run)[0])
    with pytest.raises(ModelMismatch, match=r"the environment left the enclosure: from cell .*outside the box"):
        shield.after(run, action, shield.space.unknown)
    with pytest.raises(ModelMismatch, match="overspent by 2"):
        shield.after(run, action, cell, 2)
    with pytest.raises(ModelMismatch, match="overspent by 1"):
        shield.after(shield.begin(np.array([cell]), 0), np.array([action]), np.array([cell]), np.array([1.0]))


def test_damage_that_a_cell_does_not_say_must_be_told():
    model = double_integrator()
    shield = asure.Shield(asure.minimal_budget(model))
    cell = int(np.flatnonzero(shield.minimal.of_state == 0)[0])
    run = shield.begin(cell, 5)
    action = int(shield.allowed(*run)[0])
    edge = model.grid.cell((0.82, 0.0))
    with pytest.raises(ModelError, match=r"does not say whether entering it hurts.*DamageTracker"):
        shield.after(run, action, edge)
    with pytest.raises(ModelError, match="damage must be a whole number, 0 or more; got -1"):
        shield.after(run, action, cell, -1)
    with pytest.raises(ArgumentError, match="a run carries remaining; got 3 values"):
        shield.allowed(cell, 1, 0, 0)


def test_observations_of_another_shape_are_refused():
    shield = asure.Shield(asure.minimal_budget(double_integrator()))
    with pytest.raises(ModelError, match=r"the 2 coordinates of the grid \(x, v\); got shape \[3\]"):
        shield.space.observed(np.zeros(3))
    with pytest.raises(ModelError, match=r"the 2 coordinates of the grid \(x, v\); got shape \[\]"):
        shield.space.observed(1.0)
    assert shield.space.observed(np.array([0.0, 0.0], np.float32)) == shield.abstraction.grid.cell((0.0, 0.0))
    assert shield.space.observed(np.array([9.0, 0.0])) == shield.space.unknown
