"""Small systems, and an independent way from their images to a finite model."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from almostsure.abstract import Abstraction, Grid, abstract
from almostsure.abstract.images import Images
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
