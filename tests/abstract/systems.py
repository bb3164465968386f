"""Small systems, and an independent way from their images to a finite model."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from almostsure.abstract import Abstraction, Grid, abstract
from almostsure.abstract.diagnosis import forced
from almostsure.abstract.enclosure.images import Images
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import CertificateError
from almostsure.model import MDP, from_transitions


def outcomes(abstraction: Abstraction, cell: int, pattern: int) -> list[tuple[list[int], int]] | None:
    """The outcomes of a choice, read off the images as their docstring says: (cells, damage), or None if forbidden."""
    grid, images = abstraction.grid, _images(abstraction)
    index = np.unravel_index(cell, grid.cells)
    found: list[tuple[list[int], int]] = []
    for q in range(pattern * images.boxes, (pattern + 1) * images.boxes):
        damage = int(images.damage[images.damage_start[q] + np.dot(index, images.damage_stride)])
        ranges = []
        for j in range(grid.num_coordinates):
            at = images.start[j, q] + np.dot(index, images.stride[j])
            ranges.append((int(images.low[at]), int(images.counts[at])))
        counts = [count for _, count in ranges]
        if 0 in counts:
            return None
        if np.iinfo(images.counts.dtype).max in counts:
            found.append(([], damage))
            continue
        axes = [[(low + k) % grid.cells[j] for k in range(count)] for j, (low, count) in enumerate(ranges)]
        cells = [int(np.ravel_multi_index(at, grid.cells)) for at in itertools.product(*axes)]
        found.append((cells, damage))
    return found


@functools.lru_cache(maxsize=4)
def _images(abstraction: Abstraction) -> Images:
    return abstraction.images(0, abstraction.grid.cells[0])


def as_mdp(abstraction: Abstraction) -> MDP:
    """The finite model of an abstraction: cells, an end, and a state for which no budget suffices."""
    cells = abstraction.num_cells
    end, doom = cells, cells + 1
    rows = [(doom, 0, doom, 1)]
    for cell in range(cells):
        for p in range(abstraction.patterns.count):
            if abstraction.goal_cells[cell]:
                rows.append((cell, p, end, 0))
                continue
            choice = outcomes(abstraction, cell, p)
            if choice is None:
                rows.append((cell, p, doom, 0))
                continue
            for targets, damage in choice:
                rows += [(cell, p, target, damage) for target in targets or [end]]
    rows = sorted(set(rows))
    states, actions, targets, damages = (list(column) for column in zip(*rows, strict=True))
    counts: dict[tuple[int, int], int] = {}
    for s, a in zip(states, actions, strict=True):
        counts[s, a] = counts.get((s, a), 0) + 1
    shares = [1 / counts[s, a] for s, a in zip(states, actions, strict=True)]
    rewards = [0.0] * len(rows)
    return from_transitions(states, actions, targets, shares, rewards, damages, num_states=cells + 2, terminal=[end])


def double_integrator(cells: tuple[int, int] = (12, 10), pattern: Any = 1, **more: Any) -> Abstraction:
    """Position and velocity on a line; entering |x| > 0.8 hurts."""
    grid = Grid((-1.0, -1.0), (1.0, 1.0), cells, names=("x", "v"))
    more.setdefault("unsafe", lambda s: np.abs(s[0]) > 0.8)
    return abstract(lambda s, a: (s[0] + 0.2 * s[1], s[1] + 0.3 * a), grid, [-1, 0, 1], pattern=pattern, **more)


def contraction(**more: Any) -> Abstraction:
    """A stable system whose disturbance makes it hurt now and then."""
    grid = Grid((-1.0,), (1.0,), (16,), names=("x",))
    more.setdefault("unsafe", lambda s: s[0] > 0.5)
    return abstract(lambda s, a: (0.7 * s[0] + a,), grid, [-0.1, 0.25], **more)


def arrival(cells: tuple[int, int] = (5, 40), pattern: Any = 1, **more: Any) -> Abstraction:
    """A point that moves on a torus and a line until it is in a corner."""
    grid = Grid((0.0, -1.0), (1.0, 1.0), cells, periodic=(0,), names=("angle", "height"))
    return abstract(
        lambda s, a: (s[0] + a[0], 0.9 * s[1] + a[1]),
        grid,
        [(0.15, 0.0), (-0.1, 0.2), (0.05, -0.25)],
        goal=lambda s: (s[1] > 0.2) & (s[1] < 0.9),
        pattern=pattern,
        **more,
    )


def random_system(rng: np.random.Generator) -> Abstraction:
    """A small random system of one or two coordinates: waves, walls, disturbances, patterns, goals, split cells."""
    dims = int(rng.integers(1, 3))
    cells = rng.integers(3, 9, dims).tolist()
    mix, wave = rng.uniform(-0.9, 0.9, (dims, dims)), rng.uniform(-0.4, 0.4, dims)
    pushes = [tuple(rng.uniform(-0.5, 0.5, dims).tolist()) for _ in range(rng.integers(1, 4))]
    bound = float(rng.uniform(0.2, 0.9))

    def step(state: Any, push: Any) -> Any:
        return tuple(
            sum((mix[j, i] * state[i] for i in range(dims)), wave[j] * np.sin(np.pi * state[0])) + push[j]
            for j in range(dims)
        )

    more: dict[str, Any] = {}
    if rng.random() < 0.5:
        more["disturbance"] = ((-0.1,) * dims, (0.05,) * dims)
    if rng.random() < 0.3:
        more["goal"] = lambda s: np.abs(s[0]) < bound / 2
    else:
        damage = float(rng.integers(1, 3))
        more["unsafe"] = lambda s: np.where(np.abs(s[0]) > bound, damage, 0.0)
    if rng.random() < 0.3:
        more["split"] = rng.integers(1, 4, dims).tolist()
    around = [0] if rng.random() < 0.2 else []
    if around:  # what a period does not change
        mix[:, 0] = np.arange(dims) == 0
    grid = Grid((-1.0,) * dims, (1.0,) * dims, cells, periodic=around)
    return abstract(step, grid, pushes, pattern=int(rng.integers(1, 3)), **more)


def check_system(abstraction: Abstraction, rng: np.random.Generator) -> None:
    """Verify that points stay in their enclosures and that upper budgets are right.

    They must be the minimal budgets of the finite model, and no less than what search proves to be forced.

    Raises
    ------
    ModelMismatch, CertificateError
        If one of this does not hold.
    """
    grid, dims = abstraction.grid, abstraction.grid.num_coordinates
    points, actions = rng.uniform(grid.low, grid.high, (50, dims)), rng.integers(abstraction.num_actions, size=50)
    after = np.array([
        abstraction.step(tuple(point), abstraction.actions[action])  # type: ignore[misc]
        for point, action in zip(points, actions, strict=True)
    ])  # fmt: skip
    if abstraction.disturbance is not None:
        low, high = np.array(abstraction.disturbance).T
        after = after + rng.uniform(low, high, size=after.shape)
    abstraction.check_step(points, actions, after)
    upper = abstraction.minimal_budget().of_state
    exact = minimal_budget(as_mdp(abstraction)).of_state[: grid.num_cells]
    if not np.array_equal(upper, np.minimum(exact, INFINITE)):
        raise CertificateError(f"{abstraction!r}: the upper budgets are not the minimal ones of the finite model")
    lower = forced(abstraction, points[:5])
    if (lower > upper[abstraction.cells_of(points[:5])]).any():
        raise CertificateError(f"{abstraction!r}: an upper budget is below what is forced")
