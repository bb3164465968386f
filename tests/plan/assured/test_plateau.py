"""Large budgets: the same results as layer by layer, in the time that small budgets take."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import AlmostSure, evaluate, example, from_transitions, minimal_budget, solve_policy
from almostsure.errors import AlmostSureError, Interrupted, LimitReached, NotEnoughMemory
from almostsure.plan.assured import plateau
from almostsure.plan.assured.layers import solve_layers
from almostsure.testing import mdps


def solve(mdp, budget, *, discount=1.0, tolerance=1e-8):
    """The layers, and the largest budget that was solved."""
    budgets = []
    with pytest.MonkeyPatch.context() as patch:
        real = plateau.solve_layers
        patch.setattr(plateau, "solve_layers", lambda m, c, b, **k: budgets.append(b) or real(m, c, b, **k))
        layers = plateau.solve_large(
            mdp, minimal_budget(mdp).of_choice, budget, discount=discount, tolerance=tolerance, report=None
        )
    return layers, max(budgets)


@given(mdps(), st.integers(10, 60), st.sampled_from([1.0, 0.9]))
@settings(deadline=None, max_examples=40)
def test_the_same_as_layer_by_layer(mdp, budget, discount):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plateau, "FEW", 1)
        patch.setattr(plateau, "GROWTH", 2)
        of_choice = minimal_budget(mdp).of_choice
        try:
            expected = solve_layers(mdp, of_choice, budget, discount=discount)
        except LimitReached:
            return  # many layers add up many errors: what is not solved has none
        except AlmostSureError as error:
            with pytest.raises(type(error), match=r"."):
                solve(mdp, budget, discount=discount)
            return
        found, _ = solve(mdp, budget, discount=discount)
    assert found.lower.shape == found.upper.shape == found.choice.shape == expected.lower.shape
    assert np.array_equal(np.isnan(found.lower), np.isnan(expected.lower))
    there = np.isfinite(expected.lower)
    assert (found.lower[there] <= expected.upper[there]).all()
    assert (found.upper[there] >= expected.lower[there]).all()
    assert np.array_equal(found.lower[~there], expected.lower[~there], equal_nan=True)
    assert (found.choice >= 0)[there].all()
    allowed = of_choice[np.maximum(found.choice, 0)] <= np.arange(budget + 1)[:, None]
    assert (allowed | (found.choice < 0)).all()


@given(mdps(), st.integers(10, 40))
@settings(deadline=None, max_examples=60)
def test_the_policy_attains_the_lower_bound_and_never_overspends(mdp, budget):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plateau, "FEW", 1)
        patch.setattr(plateau, "GROWTH", 2)
        try:
            solution = solve_policy(mdp, AlmostSure(budget))
        except AlmostSureError:
            return
    facts = evaluate(mdp, solution)
    assert facts.overspends == 0
    if math.isfinite(solution.lower):
        assert facts.expected_return >= solution.lower - facts.accuracy - 1e-9 * max(1, abs(solution.lower))


def test_large_budgets_take_as_long_as_small_ones():
    layers, solved = solve(example("hazard-map"), 2000)
    assert solved < 200
    assert len(layers.lower) == 2001
    assert np.ptp(layers.lower[200:, example("hazard-map").initial_state]) == 0
    solution = solve_policy("hazard-map", AlmostSure(2000))
    assert solution.upper - solution.lower < 1e-8 * solution.value
    assert evaluate("hazard-map", solution, budget=150).expected_return == pytest.approx(solution.value, abs=1e-7)


def test_where_more_is_always_worth_more_every_layer_is_solved(paper):
    layers, solved = solve(paper(), 200)
    assert solved == 200
    assert layers.lower[:, 0].tolist() == pytest.approx(range(201))


def test_values_that_are_still_again_at_a_higher_budget_are_found():
    """A price of 60 is paid at once: nothing changes for long, and then it does."""
    rows = [(0, 0, 1, 1, 1, 0), (0, 1, 1, 1, 5, 20)]
    mdp = from_transitions(*zip(*[*rows, (0, 2, 2, 1, 0, 30), (2, 0, 1, 1, 9, 30)], strict=True), terminal=[1])
    assert solve_policy(mdp, AlmostSure(1000)).curve[[0, 19, 20, 59, 60, 1000]].tolist() == pytest.approx(
        [1, 1, 5, 5, 9, 9]
    )


def test_the_search_may_be_stopped(paper, monkeypatch):
    from almostsure.plan.assured import engine

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.Engine, "solve", stop)
    with pytest.raises(Interrupted, match="is a solution with a policy that keeps the budget") as stopped:
        solve_policy(paper(), AlmostSure(2))
    kept = stopped.value.kept
    assert (kept.lower, kept.upper) == (-np.inf, np.inf)
    assert kept.evaluate().overspends == 0


def test_what_does_not_fit_is_refused(paper):
    with pytest.raises(NotEnoughMemory, match=r"budgets up to 2,147,483,646 needs about .* Solve for a smaller budget"):
        solve_policy(paper(), AlmostSure(2**31 - 2))
