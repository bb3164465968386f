"""``suggest_budget``: where more stops paying, and the text that says so."""

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings

from almostsure import AlmostSure, example, from_transitions, minimal_budget, solve_policy
from almostsure.errors import AlmostSureError, ArgumentError, Infeasible
from almostsure.plan.tradeoff.curve import assured_curve
from almostsure.plan.tradeoff.suggest import Suggestion, default_budget, suggest_budget
from almostsure.plan.tradeoff.suggest_text import shares
from almostsure.testing import mdps


def model(*rows, **more):
    return from_transitions(*zip(*rows, strict=True), **more)


def test_where_more_stops_paying_on_the_hazard_map():
    found = suggest_budget("hazard-map")
    assert found.least == 0
    assert found.limit == pytest.approx(37.8931480, abs=1e-6)
    curve = solve_policy("hazard-map", AlmostSure(found.most)).curve
    assert found.curve == pytest.approx(curve)
    slack = 0.01 * (found.limit - curve[0])
    assert found.pays_until == 9 == int(np.argmax(curve >= found.limit - slack))
    assert found.most == 10
    assert "next: solve_policy(mdp, AlmostSure(9))" in repr(found)


def test_rounding_is_no_gain():
    found = suggest_budget(model((0, 0, 1, 1, 10, 0), terminal=[1]), most=2)
    noisy = dataclasses.replace(found, curve=10 + np.array([0, 3.55e-15, 3.55e-15]), pays_until=2)
    assert "+" not in repr(noisy)
    assert "adds nothing" in repr(found)


def test_each_unit_pays_in_the_paper_and_it_says_so(paper):
    found = suggest_budget(paper())
    assert (found.pays_until, found.limit) == (None, math.inf)
    assert found.curve.tolist() == pytest.approx(range(11))
    assert "more always pays" in repr(found)
    assert "with enough budget the return exceeds any number" in repr(found)
    assert suggest_budget(paper(), most=40).budget == 40
    many = repr(suggest_budget(paper(), most=400))
    assert len(many.splitlines()) < 22
    assert re.search(r"\n  1\d of the 401 budgets that add something are shown; \.curve has all\n", many)


def test_a_gap_in_the_table_is_explained():
    gap = "the budgets in between add next to nothing; .curve has all"
    assert gap in repr(suggest_budget("corridor"))
    assert gap not in repr(suggest_budget("quicksand"))


def test_most_that_is_too_small_to_see_the_end():
    found = suggest_budget("hazard-map", most=4)
    assert (found.pays_until, found.most, found.budget) == (None, 4, 4)
    assert "more still pays" in repr(found)
    assert "no budget returns more than 37.893" in repr(found)


def test_a_stricter_tolerance_asks_for_more():
    assert suggest_budget("hazard-map", tolerance=0.2).pays_until == 6
    assert suggest_budget("hazard-map", tolerance=0).pays_until > 12


def test_the_start_that_needs_a_budget():
    found = suggest_budget("quicksand")
    assert found.least == minimal_budget(example("quicksand")).smallest_budget() == 2
    assert np.isnan(found.curve[:2]).all()
    assert np.isfinite(found.curve[2:]).all()


def test_budget_that_is_worth_nothing():
    found = suggest_budget(model((0, 0, 1, 1, 5, 0), terminal=[1]))
    assert (found.least, found.pays_until) == (0, 0)
    assert found.limit == pytest.approx(5)
    assert "more than 0 adds nothing" in repr(found)


def test_a_return_without_bound_from_some_budget_on():
    found = suggest_budget(model((0, 0, 1, 1, 0, 2), (0, 1, 2, 1, 0, 0), (1, 0, 1, 1, 1, 0), terminal=[2]))
    assert (found.pays_until, found.limit) == (2, math.inf)
    assert found.curve[:3].tolist() == [0, 0, math.inf]
    assert "from 2 on the return has no bound" in repr(found)


def test_returns_of_minus_infinity():
    endless = model((0, 0, 0, 1, -1, 0))
    assert suggest_budget(endless).limit == -math.inf
    assert "−∞" in repr(suggest_budget(endless))
    escape = model((0, 0, 0, 1, -1, 0), (0, 1, 1, 1, 0, 3), terminal=[1])
    found = suggest_budget(escape)
    assert found.pays_until == 3
    assert found.limit == pytest.approx(0, abs=1e-9)
    unsure = "with 0 it is safe, but does not surely end, and costs add up for ever; "
    assert repr(found).splitlines()[2:6] == [
        "  0                −∞",
        f"  3                 0      +∞  {'█' * 24}",
        "  the budgets in between return −∞ too; .curve has all",
        f"  {unsure}from 3 on it ends",
    ]
    found.plot()
    assert f"{unsure}nor does it with any budget up to 2" in repr(suggest_budget(escape, most=2))
    further = model((0, 0, 0, 1, -1, 0), (0, 1, 1, 1, -3, 1), (0, 2, 1, 1, 0, 2), terminal=[1])
    assert [line.count("█") for line in repr(suggest_budget(further)).splitlines()[2:5]] == [0, 12, 24]
    assert "does not surely end" not in repr(suggest_budget("corridor"))


def test_no_budget_at_all():
    with pytest.raises(Infeasible, match="no budget suffices from state 0: damage can be forced again and again"):
        suggest_budget(model((0, 0, 0, 1, 0, 1)))
    with pytest.raises(Infeasible, match=r"a budget of 1 does not suffice .* 2 would"):
        suggest_budget("quicksand", most=1)


@pytest.mark.parametrize(("options", "said"), [
    ({"most": -1}, "most must be a whole number, 0 or more; got -1"),
    ({"most": 2.5}, "most must be a whole number, 0 or more; got 2.5"),
    ({"tolerance": 1}, "tolerance must be a share"),
    ({"tolerance": math.nan}, "tolerance must be a number; got NaN"),
])  # fmt: skip
def test_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        suggest_budget("corridor", **options)


def test_halving_finds_where_the_return_loses_its_bound():
    mdp = model((0, 0, 1, 1, 0, 5), (0, 1, 2, 1, 3, 0), (1, 0, 1, 1, 1, 0), terminal=[2])
    assert assured_curve(mdp, 9).tolist() == [3] * 5 + [math.inf] * 5


@settings(max_examples=60, deadline=None)
@given(mdps(max_states=6))
def test_on_any_model(mdp):
    assume(minimal_budget(mdp).smallest_budget() < 20)
    try:
        found = suggest_budget(mdp, most=24)
    except AlmostSureError:
        assume(False)
    known = found.curve[found.least :]
    assert not np.isnan(known).any()
    assert np.isnan(found.curve[: found.least]).all()
    assert (known <= found.limit + 1e-6 * max(1, abs(found.limit) if math.isfinite(found.limit) else 1)).all()
    if found.pays_until is not None and math.isfinite(found.limit):
        assert known[-1] >= known[found.pays_until - found.least] - 1e-6
    assert f"AlmostSure({found.budget})" in repr(found)


def test_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    for name, count in (("quicksand", 3), ("paper", 1)):
        found = suggest_budget(name)
        figure = found.plot().figure
        figure.savefig(tmp_path / f"{name}.png")
        (axes,) = figure.axes
        assert axes.get_xlabel() == "budget of damage"
        assert np.array_equal(axes.lines[0].get_ydata(), found.curve[found.least :])
        assert len(axes.get_legend().get_texts()) == count + (name == "quicksand")


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("curve", "least", "budget"),
    [
        ([0, 10, 19.9, 20, 20], 0, 2),  # within a hundredth of what more adds
        ([NAN, NAN, 5, 5, 5], 2, 2),
        ([NAN, -INF, -INF, 3, 9], 1, 4),  # what does not surely end is not looked at
        ([1, 2, INF, INF], 0, 1),  # nor is what has no bound
        ([NAN, -INF, -INF], 1, 1),
        ([INF, INF], 0, 0),
        (list(range(20)), 0, 10),  # ten more, and no further
        (list(range(20)), 3, 13),
        ([7], 0, 0),
    ],
)
def test_the_budget_where_none_was_asked_for(curve, least, budget):
    assert default_budget(np.array(curve, float), least) == budget


@pytest.mark.parametrize("name", ["hazard-map", "corridor", "quicksand"])
def test_the_budget_where_none_was_asked_for_is_what_is_suggested(name):
    found = suggest_budget(name)
    assert default_budget(assured_curve(example(name), found.least + 10), found.least) == found.budget


def test_a_bar_does_not_depend_on_which_budgets_are_shown():
    curve = np.array([-INF, 2.0, 3.0, 5.0])
    found = Suggestion(mdp=example("paper"), least=0, curve=curve, limit=6.0, pays_until=None, tolerance=0.01)
    assert shares(found, [0, 1, 2, 3]) == [None, 0.5, 0.625, 0.875]
    assert shares(found, [2, 3]) == [0.625, 0.875]
    assert shares(found, [1]) == [0.5]
