"""Small random models with many special cases."""

from collections.abc import Callable

import numpy as np
import pytest

import almostsure as asure
from almostsure.shield import Shield
from almostsure.testing import random_union

Make = Callable[[int], asure.MDP]


def random_model(seed: int) -> asure.MDP:
    """One to seven states, with different action sets, dead ends, cycles without damage, unreachable parts and ∞."""
    rng = np.random.default_rng(seed)
    union = random_union(rng, actions=5, damages=(1, 2, 3))
    initial = rng.choice(union.num_states, int(rng.integers(1, min(union.num_states, 2) + 1)), replace=False)
    return union.build(initial={int(s): 1 / initial.size for s in initial})


@pytest.fixture
def make() -> Make:
    return random_model


@pytest.fixture
def fall() -> asure.MDP:
    """Four named states: jumping and climbing do damage 1 and 2, waiting may slip into a pit with endless damage.

    Budgets: start 1 (jump 1, climb 2, wait ∞), ledge 2, pit ∞, end 0.
    """
    return asure.from_transitions(
        [0, 0, 0, 0, 1, 2], [0, 1, 2, 2, 0, 1], [3, 1, 0, 2, 3, 2], [1, 1, 0.5, 0.5, 1, 1], [0] * 6, [1, 0, 0, 0, 2, 1],
        terminal=[3], state_names=["start", "ledge", "pit", "end"], action_names=["jump", "climb", "wait"],
    )  # fmt: skip


@pytest.fixture
def shield(fall: asure.MDP) -> Shield:
    return Shield(asure.minimal_budget(fall))
