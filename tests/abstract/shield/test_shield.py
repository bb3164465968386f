"""The shield of single actions out of patterns: never empty, never overspent."""

import pickle

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import Grid, UpperBudget, abstract
from almostsure.errors import (
    ArgumentError,
    CorruptFile,
    FileError,
    ModelError,
    ModelMismatch,
    NoSafeAction,
    UnknownName,
)
from almostsure.plan import RiskShield
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
    with pytest.raises(ModelError, match=r"does not determine the damage of entering it.*DamageTracker"):
        shield.after(run, action, edge)
    with pytest.raises(ModelError, match="damage must be a whole number, 0 or more; got -1"):
        shield.after(run, action, cell, -1)
    many = tuple(np.array([column]) for column in run)
    for wrong in (np.nan, "1", 0.5, -1):
        for said in (np.array([wrong]), np.array([wrong], object)):
            with pytest.raises((ModelError, ArgumentError), match="damage must be a whole number"):
                shield.after(many, np.array([action]), np.array([cell]), said)
    with pytest.raises(ModelError, match="does not determine the damage of entering it"):
        shield.after(many, np.array([action]), np.array([edge]), [None])
    for said in (True, 1, 1.0):
        assert shield.after(run, action, cell, said)[1] == 4
        assert shield.after(many, np.array([action]), np.array([cell]), [said])[1] == 4
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


def corridor(**more):
    """A position that moves by half a unit, and must not pass 9.5: cells are 0.1 wide, so 9 is a cell and a place."""
    more.setdefault("forbidden", lambda s: s[0] > 9.5)
    grid = Grid((0,), (10.001,), (100,), names=("x",))
    return abstract(lambda s, u: (np.clip(s[0] + u, 0.0, 10.0),), grid, [-0.5, 0.5], initial=((1,), (2,)), **more)


@pytest.fixture(scope="module")
def walk():
    return asure.Shield(asure.minimal_budget(corridor()))


@pytest.mark.parametrize("point", [(9.3,), [9.3], np.array([9.3]), np.array([9.3], np.float32), (9,)], ids=repr)
def test_points_are_never_taken_for_cells(walk, point):
    assert walk.allowed(point, 0).tolist() == [0]
    assert walk.mask(point, 0).tolist() == [[True, False]]
    run = walk.begin(point, 0)
    assert run[0] == walk.abstraction.grid.cell(point)
    assert walk.minimal.of(point) == 0
    back = (8.8,) if point != (9,) else (8.5,)
    assert walk.after(run, 0, back, 0)[0] == walk.abstraction.grid.cell(back)
    assert walk.after(run, 0, np.array(back), 0)[0] == walk.abstraction.grid.cell(back)


@pytest.mark.parametrize("cell", [9, np.int32(9), np.uint8(9), np.array(9)], ids=repr)
def test_whole_numbers_are_cells(walk, cell):
    assert walk.allowed(cell, 0).tolist() == [0, 1]
    assert walk.mask(cell, 0).tolist() == [[True, True]]
    assert walk.begin(cell, 0) == (9, 0)
    assert walk.minimal.of(cell) == 0
    assert walk.after((9, 0), 1, cell + 5, 0) == (14, 0)


@pytest.mark.parametrize("cells", [[9, 92], np.array([9, 92]), np.array([9, 92], np.uint16)], ids=repr)
def test_whole_numbers_in_a_row_are_cells_and_tables_of_real_numbers_points(walk, cells):
    assert walk.mask(cells, 0).tolist() == [[True, True], [True, False]]
    assert walk.begin(cells, 0)[0].tolist() == [9, 92]
    points = np.array([[0.95], [9.3]])
    for table in (points, points.tolist(), points.astype(np.float32)):
        assert walk.mask(table, [0, 0]).tolist() == [[True, True], [True, False]]
        run = walk.begin(table, 0)
        assert run[0].tolist() == [9, 92]
        assert walk.after(run, np.array([0, 0]), table - np.array(0.5), 0)[0].tolist() == [4, 87]
    wide = asure.Shield(asure.minimal_budget(double_integrator()))
    assert wide.mask([[0.0, 0.0], [0.1, 0.0]], 9).shape == (2, 3)
    with pytest.raises(UnknownName, match=r"unknown cell \[9, 92\]\. Cells are 0 … 99; a point is a tuple.*\(x,\)"):
        walk.allowed([9, 92], 0)


@pytest.mark.parametrize("what", [9.0, np.float32(9.3), True, None, "x", -1, 101, np.array(9.3), {}], ids=repr)
def test_what_is_neither_a_cell_nor_a_point_is_refused(walk, what):
    run = walk.begin(9, 0)
    calls = [lambda: walk.allowed(what, 0), lambda: walk.mask(what, 0), lambda: walk.begin(what, 0)]
    calls += [lambda: walk.minimal.of(what), lambda: walk.minimal.patterns(what), lambda: walk.after(run, 0, what, 0)]
    calls += [lambda: walk.minimal.explain("start" if what is None else what)]
    for call in calls:
        with pytest.raises(UnknownName, match=r"unknown cell .*\. Cells are 0 … 99; a point is a tuple of its coord"):
            call()


@pytest.mark.parametrize("what", [[[9]], [True], np.zeros((1, 2)), [(1.0,), (2.0, 3.0)], np.zeros((1, 1, 1))], ids=repr)
def test_tables_of_another_form_are_refused(walk, what):
    for call in (walk.mask, walk.begin):
        with pytest.raises(ModelError, match=r"cells, integers of shape .*, or points, floats .* \[n, 1\]"):
            call(what, 0)
    with pytest.raises(ModelError, match=r"unknown cell|the 1 coordinate of the grid"):
        walk.allowed(what, 0)
    with pytest.raises(UnknownName, match="unknown cell -1"):
        walk.begin(np.array([-1]), 0)  # outside the box, as grids say it


def test_what_remains_must_be_a_whole_number(walk):
    for left in (0.5, np.nan, [0.5], True):
        with pytest.raises(ArgumentError, match=r"remaining must be whole numbers; got"):
            walk.mask([3], left)
    with pytest.raises(NoSafeAction, match=r"cell 3 .* with -1 left: the budget is overspent by 1"):
        walk.mask([3], -1)
    with pytest.raises(ArgumentError, match="states and remaining must have shapes that fit together"):
        walk.mask([3, 4], [0, 0, 0])


def test_many_runs_have_one_action_and_one_next_state_each(walk):
    run = walk.begin([15, 20], 0)
    with pytest.raises(ArgumentError, match="2 runs must have one action and one next state each; got 2 and 1"):
        walk.after(run, np.array([0, 0]), np.array([10]), 0)
    with pytest.raises(ArgumentError, match=r"action must be whole numbers; got 0\.5"):
        walk.after(run, np.array([0, 0.5]), np.array([10, 15]), 0)
    with pytest.raises(UnknownName, match="unknown action 5"):
        walk.after(run, np.array([0, 5]), np.array([10, 15]), 0)


def test_jumps_that_no_state_of_a_cell_can_do_are_a_mismatch(walk):
    words = r"from cell 14 .* the action -0\.5 led to cell 89 .*, which no state of that cell can reach"
    with pytest.raises(ModelMismatch, match=words):
        walk.after(walk.begin((1.5,), 0), 0, (9.0,), 0)
    run = walk.begin([14, 14], 0)
    with pytest.raises(ModelMismatch, match=words):
        walk.after(run, np.array([0, 0]), np.array([9, 89]), 0)
    assert walk.after(run, np.array([0, 1]), np.array([9, 19]), 0)[0].tolist() == [9, 19]
    with pytest.raises(ModelMismatch, match="a state outside the box, where no pattern"):
        walk.after(run, np.array([0, 1]), np.array([9, walk.space.unknown]), 0)
    longer = asure.Shield(asure.minimal_budget(corridor(pattern=2)))
    with pytest.raises(ModelMismatch, match="a state outside the box, which no state of that cell can reach"):
        longer.after(longer.begin((1.5,), 0), 1, "unknown", 0)


@pytest.mark.parametrize("observed", [None, "float32", (0.01,)])
def test_what_the_system_does_is_never_a_mismatch(observed):
    grid = Grid((-1.0,), (1.0,), (16,), periodic=(0,))
    model = abstract(
        lambda s, a: (2.0 * s[0] + a,), grid, [-0.3, 0.4], disturbance=((-0.1,), (0.2,)), observation_error=observed
    )
    shield, rng = asure.Shield(asure.minimal_budget(model)), np.random.default_rng(0)
    states, actions = rng.uniform(-1.5, 1.5, (2_000, 1)), rng.integers(2, size=2_000)
    after = 2.0 * states + np.array([[-0.3], [0.4]])[actions, 0][:, None] + rng.uniform(-0.1, 0.2, (2_000, 1))

    def seen(points):
        shown = points + rng.uniform(-0.01, 0.01, points.shape) if isinstance(observed, tuple) else points
        return shown.astype(observed or np.float64) if not isinstance(observed, tuple) else shown

    run = shield.begin(seen(states), 0)
    reached = seen(after)
    assert shield.after(run, actions, reached)[0].tolist() == model.cells_of(reached).tolist()
    with pytest.raises(ModelMismatch, match="which no state of that cell can reach"):
        shield.after(run, actions, seen(after + 1.0))


def test_what_needs_an_mdp_says_why_a_continuous_system_is_none_and_what_reads_its_files(walk, tmp_path):
    path, model = tmp_path / "shield.safetensors", walk.abstraction
    walk.save(path)
    calls = [lambda: asure.Shield.load(path, model), lambda: asure.solve_policy(model, asure.AlmostSure(0))]
    calls += [lambda: RiskShield(model, 0, 0.1), lambda: asure.solve_policy(walk.minimal, asure.AlmostSure(0))]
    for call in calls:
        with pytest.raises(ModelError, match=r"an MDP; .* no returns or risks\. .*UpperBudget\.load\(path, abs"):
            call()
    assert UpperBudget.load(path, model).shield().allowed((9.3,), 0).tolist() == [0]
    with pytest.raises(CorruptFile, match=r"not a shield file; it holds the budgets of a continuous system, which"):
        asure.Shield.load(path, asure.example("paper"))
    with pytest.raises(FileError, match="it is a folder, not a file"):
        UpperBudget.load(tmp_path, model)


def test_what_the_shield_of_a_continuous_system_does_not_have_is_said(walk):
    with pytest.raises(AttributeError, match=r"has no 'export_c'\. Its policy is exported: shield.minimal.policy\(\)"):
        walk.export_c("shield.h")
    with pytest.raises(AttributeError, match=r"the shield of a continuous system has no 'trim'\.$"):
        walk.trim(0)
    assert not hasattr(walk, "trim")
