"""The plain engine of the assured policy, in cases with delicate bounds or cycles."""

import numpy as np
import pytest

from almostsure import AlmostSure, from_transitions, minimal_budget, solve_policy
from almostsure.errors import LimitReached, UnboundedReturn
from almostsure.plan.assured import exact
from almostsure.plan.assured.component import gains
from almostsure.plan.assured.layers import solve_layers


def layers(rows, budget, **options):
    """The solved layers of a model; its last state is terminal."""
    last = max(row[2] for row in rows)
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[last])
    return solve_layers(mdp, minimal_budget(mdp, cap=budget).of_choice, budget, **options)


def test_a_long_way_elsewhere_does_not_blur_the_start():
    """Who needs 10¹² steps has wide bounds; who has nothing to do with it keeps narrow ones."""
    long = [(s, 0, t, p, -1, 0) for s in (1, 2, 3, 4) for t, p in ((s + 1, 1e-3), (1, 1 - 1e-3))]
    found = layers([(0, 0, 5, 1, -1, 1), *long], 2)
    width = found.upper - found.lower
    assert np.nanmax(width[:, 1]) > 1e-3
    assert np.nanmax(width[:, 0]) < 1e-12
    assert np.array_equal(np.isnan(found.lower[:, 0]), [True, False, False])


def test_the_cycle_that_is_named_is_one_that_is_reached():
    """State 3 gains for ever too, with less budget even, but nobody gets there."""
    rows = [(0, 0, 1, 0.5, 0, 1), (0, 0, 0, 0.5, 0, 0), (1, 0, 2, 1, 2, 0), (2, 0, 1, 1, -1, 0), (3, 0, 3, 1, 1, 0)]
    with pytest.raises(UnboundedReturn, match=r"without damage, among: 1; 2\. Give") as caught:
        layers([*rows, (4, 0, 5, 1, 0, 0)], 3)
    assert caught.value.cycle == (1, 2)


# ---------------------------------------------------------------------- gains and losses that cancel out


def test_who_goes_round_and_leaves_competes_who_stays_does_not():
    """The convention of the linear programmes, in test_solve: picking up and putting down for ever has no return."""
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -1, 0), (1, 1, 2, 1, 2, 1), (0, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    found = solve_policy(mdp, AlmostSure(1))
    assert found.curve == pytest.approx([0, 3], abs=1e-12)
    assert found.evaluate().expected_return == pytest.approx(3)
    assert found.lower <= 3 <= found.upper


@pytest.mark.parametrize("slip", [0.0, 0.1, 1 / 3])
def test_a_potential_that_shapes_rewards_only_shifts_the_values(slip):
    """A corridor, free to walk, with a prize at one end and a larger one behind damage at the other."""
    height = np.array([0.0, 0.3, -1.7, 2.2, 0.1, 0.7, 0.0])
    rows = [(5, 1, 6, 1, 5 - height[5], 1), (1, 0, 6, 1, 2 - height[1], 0)]
    for s in range(1, 6):
        for action, ahead in ((0, s - 1), (1, s + 1)):
            for t, p in ((ahead, 1 - slip), (s, slip)):
                if 1 <= ahead <= 5 and p > 0:
                    rows.append((s, action, t, p, height[t] - height[s], 0))
    found = layers([(0, 0, 6, 1, 0, 0), *rows], 1)
    for remaining, prize in ((0, 2), (1, 5)):
        assert found.upper[remaining, 1:6] == pytest.approx(prize - height[1:6], abs=1e-9)
        assert found.lower[remaining, 1:6] == pytest.approx(prize - height[1:6], abs=1e-9)
    assert found.choice[0, 1:6].tolist() != found.choice[1, 1:6].tolist()


def test_a_place_to_rest_on_the_way_round():
    """State 1 may wait for nothing: the gain on the way there is kept."""
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -1, 0), (1, 1, 1, 1, 0, 0), (2, 0, 3, 1, 0, 0)]
    found = layers(rows, 0)
    assert found.lower[0, :2] == pytest.approx([1, 0], abs=1e-12)
    assert found.choice[0, :2].tolist() == [0, 2]


def test_nothing_but_going_round_has_no_return():
    rows = [(0, 0, 1, 1, 3, 0), (1, 0, 0, 1, -3, 0), (1, 1, 2, 1, 0, 1), (2, 0, 3, 1, -4, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[3])
    with pytest.raises(
        LimitReached, match=r"the return is not defined: .* cancel out for ever among: 0; 1\. Name a goal"
    ):
        solve_policy(mdp, AlmostSure(0))
    assert solve_policy(mdp, AlmostSure(1)).curve == pytest.approx([np.nan, -1], nan_ok=True)
    elsewhere = from_transitions(*zip(*rows, strict=True), terminal=[3], initial=2)
    found = solve_policy(elsewhere, AlmostSure(0), everywhere=True).layers
    assert found.upper[0] == pytest.approx([-np.inf, -np.inf, -4, 0])  # −∞: worth less than what has a return


def test_a_tiny_gain_that_goes_on_for_ever_has_no_bound():
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -1 + 1e-13, 0), (1, 1, 2, 1, 0, 0)]
    with pytest.raises(UnboundedReturn, match="among: 0; 1") as caught:
        layers(rows, 0)
    assert caught.value.cycle == (0, 1)


def test_equations_without_a_solution_in_64_bits_leave_no_bounds(monkeypatch):
    def singular(matrix, **options):
        raise RuntimeError("Factor is exactly singular")

    monkeypatch.setattr("scipy.sparse.linalg.splu", singular)
    monkeypatch.setattr(exact, "FEW", 0)
    rows = [(0, 0, 1, 1, -1, 0), (1, 0, 0, 0.5, -1, 0), (1, 0, 2, 0.5, -1, 0)]
    with pytest.raises(LimitReached, match="the bounds −∞ … ∞ are further apart") as caught:
        solve_policy(from_transitions(*zip(*rows, strict=True), terminal=[2]), AlmostSure(1))
    assert caught.value.solution.lower == -np.inf
    assert caught.value.solution.policy.act(0, 1) == 0


def test_what_64_bits_cannot_prove_has_a_remedy(monkeypatch):
    """A cycle that pays is left once in 10¹² rounds: no tolerance helps, but fractions or a horizon do."""
    thirds = [(0, 2, 2, 1 / 3, -1, 0), (0, 2, 2, 2 / 3, 1, 0), (2, 1, 0, 2 / 3, 1, 0), (2, 1, 1, 1 / 3, -1.5, 0)]
    halves = [(0, 0, 0, 0.25, 0, 0), (0, 0, 1, 0.75, 0, 0), (0, 3, 0, 0.5, 1, 0), (0, 3, 2, 0.5, 0.5, 0)]
    back = [(1, 3, 1, 0.6, -2, 0), (1, 3, 1, 0.2, 0, 0), (1, 3, 2, 0.2, 1, 0)]
    rare = [(2, 0, 2, 1, 0, 0), (2, 3, 0, 1 - 1e-12, 0.5, 0), (2, 3, 1, 1e-12, 0, 1)]
    mdp = from_transitions(*zip(*thirds, *halves, *back, *rare, strict=True), initial=2)
    solved = solve_policy(mdp, AlmostSure(1))
    assert solved.proved
    assert solved.upper <= np.nextafter(solved.lower, np.inf)
    monkeypatch.setattr(exact, "FEW", 0)
    near = solve_policy(mdp, AlmostSure(1), tolerance=0.5)
    assert near.lower <= solved.value <= near.upper
    monkeypatch.setattr(gains, "NEAR", ())
    with pytest.raises(LimitReached, match=r"could not be proved in 64-bit numbers\. Pass a horizon") as missed:
        solve_policy(mdp, AlmostSure(1), tolerance=0.5)
    assert missed.value.solution.lower <= solved.value <= missed.value.solution.upper
    assert solve_policy(mdp, AlmostSure(1), horizon=100).value == pytest.approx(66.56, abs=0.01)
