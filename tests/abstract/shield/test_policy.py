"""The strategy behind upper budgets: it keeps them, and so do its files and exports."""

import shutil
import subprocess

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import CellPolicy, Grid
from almostsure.errors import ArgumentError, CertificateError, CorruptFile, ModelMismatch, NoSafeAction
from almostsure.files import save_tensors

from ...exported import load
from ..systems import arrival, double_integrator

COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(scope="module")
def car():
    grid = Grid((-1.201, -0.0701), (0.601, 0.0701), (150, 100))
    return asure.minimal_budget(asure.abstract("MountainCar-v0", grid)).policy()


def test_the_car_arrives_in_time(car):
    env = gymnasium.make("MountainCar-v0")
    for seed in range(20):
        seen, _ = env.reset(seed=seed)
        bound, rest, steps, there = car.minimal.of(seen.tolist()), None, 0, False
        while not there:
            actions, rest = car.act(seen[None], rest)
            seen, _, there, _, _ = env.step(int(actions[0]))
            steps += 1
        assert steps <= bound


@pytest.mark.parametrize("model", [arrival(), arrival((4, 24), 2), double_integrator(pattern=2)], ids=str)
def test_the_policy_keeps_the_upper_budget(model):
    minimal = asure.minimal_budget(model)
    policy, rng = minimal.policy(), np.random.default_rng(0)
    cells = np.flatnonzero(minimal.of_state != asure.INFINITE)
    low, high = model.grid.boxes(cells)
    points, rests, spent = rng.uniform(low, high), None, np.zeros(cells.size, int)
    there = np.zeros(cells.size, bool) if model.goal is None else np.asarray(model.goal(tuple(points.T)))
    arrived = there | model.goal_cells[cells]
    for _ in range(60):
        on = ~arrived
        if not on.any():
            break
        actions, left = policy.act(points[on], None if rests is None else rests[on])
        rests = np.full(cells.size, -1) if rests is None else rests
        rests[on] = left
        for at, action in zip(np.flatnonzero(on), actions, strict=True):
            points[at] = model.step(tuple(points[at]), model.actions[action])
        spent[on] += model.damage(points[on])
        if model.goal is not None:
            arrived |= np.asarray(model.goal(tuple(points.T)))
    assert (spent <= minimal.of_state[cells]).all()
    assert model.goal is None or arrived.all()


def test_saved_policies_are_verified_when_they_are_loaded(car, tmp_path):
    path, model = tmp_path / "car.safetensors", car.abstraction
    car.save(path)
    again = CellPolicy.load(path, model)
    assert np.array_equal(again.choice, car.choice)
    assert repr(again) == repr(car)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        CellPolicy.load(path, arrival())
    worse = car.choice.copy()
    worse[:] = 0
    with pytest.raises(CertificateError, match=r"the pattern of cell \d+ .* needs more than the upper budget there"):
        CellPolicy(car.minimal, worse)
    arrays = {"of_state": car.minimal.of_state, "choice": worse}
    save_tensors(path, kind="cell policy", model=model.fingerprint, arrays=arrays, strings={})
    with pytest.raises(CorruptFile, match="does not hold a policy of its system: the pattern of cell"):
        CellPolicy.load(path, model)
    with pytest.raises(ArgumentError, match="choice must number a pattern for each of 15,000 cells"):
        CellPolicy(car.minimal, car.choice[:3])


def test_nothing_is_played_where_nothing_was_proved():
    minimal = asure.minimal_budget(double_integrator())
    policy, stuck = minimal.policy(), np.flatnonzero(minimal.of_state == asure.INFINITE)
    with pytest.raises(NoSafeAction, match=r"nothing was proved at cell \d+ \(x in .*\(and 1 more run\)"):
        policy.act(policy.abstraction.grid.centres(stuck[:2]))
    with pytest.raises(NoSafeAction, match="nothing was proved at a state outside the box"):
        policy.act([[9.0, 0.0]])
    wrong = policy.choice.copy()
    wrong[stuck[0]] = 0
    with pytest.raises(CertificateError, match="the pattern of cell"):
        CellPolicy(minimal, wrong)


def runs(policy, act, nothing):
    """What a policy plays from many points, and from there on along its patterns."""
    rng, grid = np.random.default_rng(1), policy.abstraction.grid
    low, high = np.array(grid.low), np.array(grid.high)
    points = rng.uniform(low - 0.05 * (high - low), high + 0.05 * (high - low), (200, grid.num_coordinates))
    found = []
    for point in [*points.tolist(), *(np.array([edges[[0, -1]] for edges in grid.edges]).T).tolist()]:
        rest, played = nothing, []
        for _ in range(4):
            action, rest = act(point, rest)
            played.append(action)
            if action < 0:
                break
        found.append(played)
    return found


def ours(policy):
    def act(point, rest):
        try:
            actions, rests = policy.act([point], [rest])
        except NoSafeAction:
            return -1, rest
        return int(actions[0]), int(rests[0])

    return runs(policy, act, -1)


def test_points_and_rests_that_are_none_are_refused(car):
    for points in ((0.0, 0.0), "ab", [["a", "b"]]):
        with pytest.raises(ArgumentError, match=r"points must be numbers \[n, coordinates\], such as \[point\]; got"):
            car.act(points)
    for rests in ([99], [-2], [-1, -1], -1):
        with pytest.raises(
            ArgumentError, match="rests must be those that act returned for these 1 point one step before"
        ):
            car.act([[0.0, 0.0]], rests)


@pytest.mark.parametrize("model", [arrival((4, 24), 3), double_integrator(pattern=3)], ids=str)
def test_the_module_plays_what_the_policy_plays(model, tmp_path):
    policy = asure.minimal_budget(model).policy()
    module = load(policy.export_numpy(tmp_path / "played")[0])

    def act(point, rest):
        try:
            return module.act(point, rest)
        except module.NothingProved:
            return -1, rest

    assert runs(policy, act, 0) == ours(policy)
    with pytest.raises(ValueError, match="a point must have 2 coordinates; got 1"):
        module.act([0.0])
    with pytest.raises(ValueError, match="rest must be what act returned"):
        module.act([0.0, 0.0], 10_000)
    (tmp_path / "played.npz").write_bytes(b"")
    again = load(tmp_path / "played.py")
    with pytest.raises(again.DamagedTable, match="not the table that this file was written with"):
        again.act([0.0, 0.0])


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("model", [arrival((4, 24), 3), double_integrator(pattern=3)], ids=str)
def test_the_header_plays_what_the_policy_plays(model, tmp_path):
    policy = asure.minimal_budget(model).policy()
    policy.export_c(tmp_path / "policy.h", name="robot")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "policy.h"\nint main(void) {\n'
        "  double at[2]; uint32_t rest;\n"
        '  while (scanf("%la %la %u", &at[0], &at[1], &rest) == 3) {\n'
        '    int action = robot_act(at, &rest);\n    printf("%d %u\\n", action, rest);\n    fflush(stdout);\n  }\n'
        "  return robot_act(NULL, &rest) == ROBOT_BAD_ARGUMENT ? 0 : 1;\n}\n"
    )
    build = [COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "main", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    program = subprocess.Popen([tmp_path / "main"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def act(point, rest):
        program.stdin.write(f"{float(point[0]).hex()} {float(point[1]).hex()} {rest}\n")
        program.stdin.flush()
        action, left = program.stdout.readline().split()
        return int(action), int(left)

    assert runs(policy, act, 0) == ours(policy)
    program.stdin.close()
    assert program.wait() == 0
    program.stdout.close()
