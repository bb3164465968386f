"""The plain engine: patience, types and the cap; its values are compared in ``test_agreement``."""

from __future__ import annotations

import numpy as np
import pytest

from almostsure import INFINITE
from almostsure.budget.minimal import NO_CAP
from almostsure.budget.plain import solve_plain
from almostsure.testing.families import chain, ladder


def test_gives_up_when_patience_runs_out():
    support = ladder(50, connected=True).support
    assert solve_plain(support, cap=NO_CAP, patience=support.num_outcomes) is None
    answer = solve_plain(support, cap=NO_CAP, patience=10**9)
    assert answer is not None
    assert answer.of_state.max() == 50


def test_values_have_the_width_that_budgets_have():
    answer = solve_plain(chain(3).support, cap=NO_CAP)
    assert answer.of_state.dtype == answer.of_choice.dtype == np.int32
    assert answer.of_state.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("cap", [0, 1, 2])
def test_stops_at_the_cap(cap):
    answer = solve_plain(chain(10_000).support, cap=cap, patience=10_000 * (cap + 1) * 20)
    assert answer is not None  # 10,000 levels would have taken much longer
    assert np.count_nonzero(answer.of_state == INFINITE) == 10_000 - cap
    assert answer.cap == cap
