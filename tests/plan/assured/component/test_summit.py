"""Positions that attain the best exit almost surely."""

import pytest

from almostsure import AlmostSure, solve_policy
from almostsure.plan.assured.component.component import Component

from .test_plains import slippery


def test_where_all_attain_the_best_exit_no_end_component_is_collapsed(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    collapse = Component._collapse
    monkeypatch.setattr(Component, "_collapse", lambda self: left.append(self.members.size) or collapse(self))
    solution = solve_policy(slippery(20, {(0, 0): 1.0}, slip=0.2), AlmostSure(0))
    assert solution.value == pytest.approx(1, abs=1e-12)
    assert left == [0]


def test_where_staying_is_better_than_every_exit_positions_stay() -> None:
    solution = solve_policy(slippery(20, {(0, 0): -1.0}, slip=0.0), AlmostSure(0))
    assert solution.value == 0
