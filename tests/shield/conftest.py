"""Small random models with everything that is awkward in them."""

from collections.abc import Callable

import numpy as np
import pytest

import almostsure as asure
from almostsure.shield import Shield

Make = Callable[[int], asure.MDP]


def random_model(seed: int) -> asure.MDP:
    """One to seven states with different action sets, dead ends, damage-free cycles, unreachable parts, ∞."""
    rng = np.random.default_rng(seed)
    count, width = int(rng.integers(1, 8)), int(rng.integers(1, 6))
    harmless = rng.choice([0.3, 0.6, 0.85])
    rows: list[tuple[int, int, int, float, float, int]] = []
    ends = np.flatnonzero(rng.random(count) < 0.2)
    for state in np.setdiff1d(np.arange(count), ends):
        for action in rng.choice(width, int(rng.integers(1, width + 1)), replace=False):
            branches = int(rng.integers(1, 4))
            for _ in range(branches):
                damage = 0 if rng.random() < harmless else int(rng.integers(1, 4))
                rows.append((state, action, int(rng.integers(count)), 1 / branches, float(rng.normal()), damage))
    columns = list(zip(*rows, strict=True)) or [[]] * 6
    initial = rng.choice(count, int(rng.integers(1, min(count, 2) + 1)), replace=False)
    return asure.from_transitions(
        *columns, num_states=count, terminal=ends, initial={int(s): 1 / initial.size for s in initial},
        normalise=True,
    )  # fmt: skip


@pytest.fixture
def make() -> Make:
    return random_model


@pytest.fixture
def fall() -> asure.MDP:
    """Walk (0 … 3 by name), hurt by 1 and 2, or wait; the pit hurts for ever.

    Budgets: start 1 (jump 1, climb 2, wait ∞ once it slips), ledge 2, pit ∞, end 0.
    """
    return asure.from_transitions(
        [0, 0, 0, 0, 1, 2], [0, 1, 2, 2, 0, 1], [3, 1, 0, 2, 3, 2], [1, 1, 0.5, 0.5, 1, 1], [0] * 6, [1, 0, 0, 0, 2, 1],
        terminal=[3], state_names=["start", "ledge", "pit", "end"], action_names=["jump", "climb", "wait"],
    )  # fmt: skip


@pytest.fixture
def shield(fall: asure.MDP) -> Shield:
    return Shield(asure.minimal_budget(fall))
