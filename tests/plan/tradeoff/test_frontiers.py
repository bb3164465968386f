"""``frontier``: three curves in one call, equal to single solutions."""

import math

import numpy as np
import pytest

from almostsure import example, from_transitions
from almostsure.errors import ArgumentError, Interrupted
from almostsure.plan import Expected
from almostsure.plan.tradeoff import frontiers
from almostsure.plan.tradeoff.frontiers import frontier


@pytest.fixture(scope="module")
def hazard():
    return frontier(example("hazard-map"), 3, limits=[0, 0.5, 1, 2, 3], risks=[0, 0.01, 0.1, 1])


def test_three_curves_in_one_call(hazard):
    assert hazard.budgets.tolist() == [0, 1, 2, 3]
    for curve in (hazard.assured, hazard.expected, hazard.chance):
        assert (np.diff(curve) >= -1e-7).all()
    assert hazard.chance[0] == hazard.assured[-1]
    assert (hazard.price_of_certainty >= -1e-7).all()
    assert hazard.price_of_certainty[2] > 1
    assert "risk of more than 3" in str(hazard)


def test_single_solutions_agree(hazard):
    from almostsure import Chance, Expected, solve_policy

    mdp = example("hazard-map")
    assert hazard.expected[1] == pytest.approx(solve_policy(mdp, Expected(0.5)).value, abs=1e-7)
    assert hazard.chance[2] == pytest.approx(solve_policy(mdp, Chance(3, 0.1)).value, abs=1e-7)


def test_infeasible_and_unbounded_parts(paper):
    rows = [(0, 0, 1, 1, 0, 2), (1, 0, 2, 1, 1, 0)]
    forced = frontier(from_transitions(*zip(*rows, strict=True), terminal=[2]), 3, limits=[1, 2], risks=[0, 1])
    assert np.isnan(forced.assured[:2]).all()
    assert forced.assured[2:].tolist() == pytest.approx([1, 1])
    assert np.isnan(forced.expected[0])
    assert "infeasible" in str(forced)
    hopeless = frontier(from_transitions([0], [0], [0], [1], [0], [1]), 2)
    assert np.isnan(hopeless.assured).all()
    free = frontier(paper(), 2)
    assert free.assured.tolist() == pytest.approx([0, 1, 2])
    assert free.chance[1] == math.inf


def test_an_unbounded_assured_return_from_some_budget_on():
    rows = [(0, 0, 1, 1, 0, 1), (0, 1, 2, 1, 0, 0), (1, 0, 1, 1, 1, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    assert frontier(mdp, 2, limits=[], risks=[]).assured.tolist() == [0, math.inf, math.inf]


def test_with_a_discount(paper):
    curves = frontier(paper(), 2, discount=0.9)
    assert curves.assured.tolist() == pytest.approx([0, 1, 1.9])
    assert curves.risks.tolist() == [0, 1]
    with pytest.raises(ArgumentError, match="only the risks 0 and 1 can be solved"):
        frontier(paper(), 2, discount=0.9, risks=[0.5])


def test_the_picture(hazard, paper, tmp_path):
    pytest.importorskip("matplotlib")
    for curves in (hazard, frontier(paper(), 2), frontier(paper(), 0, limits=[], risks=[])):
        figure = curves.plot().figure
        figure.savefig(tmp_path / "frontier.png")
        left, right = figure.axes
        assert left.get_xlabel() == "budget of damage"
        assert "risk of more than" in right.get_xlabel()
    steps = hazard.plot().lines[1]
    assert np.array_equal(steps.get_xydata(), np.column_stack([hazard.budgets, hazard.assured]))


def test_a_model_by_name():
    assert frontier("corridor", 1, limits=[0], risks=[0]).budgets.tolist() == [0, 1]


def test_ctrl_c_keeps_the_points_that_were_found(monkeypatch):
    whole = frontier("corridor", 2, limits=[0, 1, 2], risks=[0, 0.5])
    solve = frontiers.solve_programme

    def stopped(mdp, constraint, *arguments):
        if constraint == Expected(2):
            raise KeyboardInterrupt
        return solve(mdp, constraint, *arguments)

    monkeypatch.setattr(frontiers, "solve_programme", stopped)
    with pytest.raises(Interrupted, match="after 2 of 3 averages and 0 of 2 risks") as found:
        frontier("corridor", 2, limits=[0, 1, 2], risks=[0, 0.5])
    kept = found.value.kept
    assert kept.expected.tolist() == whole.expected[:2].tolist()
    assert kept.limits.tolist() == [0, 1]
    assert not kept.chance.size
    assert kept.assured.tolist() == whole.assured.tolist()
    assert "on average" in str(kept)
