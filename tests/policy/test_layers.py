"""The plain engine of the assured policy, where its bounds and its cycles are delicate."""

import numpy as np

from almostsure import from_transitions, solve_budget
from almostsure.policy.layers import solve_layers


def layers(rows, total, **options):
    """The solved layers of a model; its last state is terminal."""
    last = max(row[2] for row in rows)
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[last])
    return solve_layers(mdp, solve_budget(mdp, cap=total).of_choice, total, **options)


def test_a_long_way_elsewhere_does_not_blur_the_start():
    """Who needs 10¹² steps has wide bounds; who has nothing to do with it keeps narrow ones."""
    long = [(s, 0, t, p, -1, 0) for s in (1, 2, 3, 4) for t, p in ((s + 1, 1e-3), (1, 1 - 1e-3))]
    found = layers([(0, 0, 5, 1, -1, 1), *long], 2)
    width = found.upper - found.lower
    assert np.nanmax(width[:, 1]) > 1e-3
    assert np.nanmax(width[:, 0]) < 1e-12
    assert np.array_equal(np.isnan(found.lower[:, 0]), [True, False, False])
