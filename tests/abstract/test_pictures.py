"""Pictures of upper budgets."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract.pictures import example_run
from almostsure.errors import ArgumentError, UnknownName
from almostsure.report import write_report

from .systems import arrival, contraction, double_integrator

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def cart() -> asure.UpperBudget:
    grid = asure.Grid((-2.4, -1.6, -0.2094, -1.8), (2.4, 1.6, 0.2094, 1.8), (4, 4, 6, 5), names=tuple("xvab"))
    return asure.minimal_budget(asure.abstract("CartPole-v1", grid, pattern=1))


def test_a_picture_shows_the_cells_and_the_run() -> None:
    minimal = asure.minimal_budget(double_integrator())
    axes = minimal.plot("v", "x", trajectory=[(0.0, 0.0), (0.1, 0.2)]).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("v", "x")
    shown = axes.collections[-1].get_array()
    np.testing.assert_array_equal(shown.mask, (minimal.of_state == asure.INFINITE).reshape(12, 10))
    assert axes.lines[0].get_xydata().tolist() == [[0.0, 0.0], [0.2, 0.1]]


def test_the_others_are_fixed(cart: asure.UpperBudget) -> None:
    assert "x 1.5" in cart.plot("a", "b", at={"x": 1.5}).axes[0].get_title()


def test_a_page_has_a_slider_and_allows_nothing_from_outside(cart: asure.UpperBudget, tmp_path: Path) -> None:
    cart.to_html(tmp_path / "cart.html", "a", "b", slider="v")
    text = (tmp_path / "cart.html").read_text()
    assert text.count("<img ") == 4
    assert 'aria-label="v"' in text
    assert "default-src 'none'" in text
    assert "http:" not in text
    assert "https:" not in text
    assert "<figure>" in cart._repr_html_()
    assert "<figure>" in asure.minimal_budget(arrival())._repr_html_()
    assert "<figure>" in asure.minimal_budget(contraction())._repr_html_()


def test_a_system_with_one_coordinate_is_drawn_as_bars(tmp_path: Path) -> None:
    upper = asure.minimal_budget(contraction(initial=((0.0,), (0.1,))))
    (axes,) = upper.plot().axes
    proved = upper.of_state != asure.INFINITE
    assert [round(bar.get_height() - 0.1) for bar in axes.patches] == upper.of_state[proved].tolist()
    assert axes.get_xlabel() == "x"
    assert "<figure>" in write_report(upper, tmp_path / "line.html").read_text()


def test_a_page_shows_a_run_of_allowed_actions(tmp_path: Path) -> None:
    start = ((-0.1, -0.1), (0.1, 0.1))
    for model in (double_integrator(pattern=2, initial=start), arrival(initial=((0.0, 0.0), (0.1, 0.1)))):
        minimal = asure.minimal_budget(model)
        run = example_run(minimal)
        assert run is not None
        for before, after in itertools.pairwise(run):
            assert any(np.allclose(model.step(tuple(before), a), after) for a in model.actions)
        spent = model.damage(run[1:]).sum()
        assert spent <= minimal.smallest_budget()
        assert model.goal is None or model.goal(tuple(run[-1]))
        minimal.to_html(tmp_path / "run.html")
        assert "<img " in (tmp_path / "run.html").read_text()
    assert example_run(asure.minimal_budget(double_integrator())) is None  # it does not say where it starts


def test_a_run_that_wraps_around_is_drawn_with_a_gap() -> None:
    minimal = asure.minimal_budget(arrival())
    line = minimal.plot(0, 1, trajectory=[(0.8, 0.0), (0.95, 0.1), (1.1, 0.2)]).axes[0].lines[0]
    assert np.isnan(line.get_xydata()[2]).all()
    assert line.get_xydata()[3].tolist() == pytest.approx([0.1, 0.2])


def test_bad_requests_are_named(cart: asure.UpperBudget) -> None:
    with pytest.raises(UnknownName, match="Coordinates are x, v, a, b"):
        cart.plot("angle", "b")
    with pytest.raises(UnknownName, match="Coordinates are 0 … 3"):
        cart.plot(0, 4)
    with pytest.raises(ArgumentError, match="two coordinates; got a twice"):
        cart.plot("a", "a")
    with pytest.raises(ArgumentError, match="at must lie in the box"):
        cart.plot("a", "b", at={"x": 9.0})
    with pytest.raises(ArgumentError, match=r"trajectory must be \[steps, 4\] states; got shape \[3\]"):
        cart.plot("a", "b", trajectory=[1.0, 2.0, 3.0])
    with pytest.raises(ArgumentError, match="slider must be a coordinate beside x and y; got a"):
        cart.to_html("never.html", "a", "b", slider="a")
