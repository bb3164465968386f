"""A few pairs solved in fractions: states that are hardly ever left cost no digits; other cases stay unchanged."""

from fractions import Fraction

import numpy as np
import pytest

from almostsure import AlmostSure, Solution, from_transitions, solve_policy
from almostsure.errors import LimitReached, UnboundedReturn
from almostsure.plan.assured import exact

ROWS = [
    (0, 0, 0, 0.25, 1, 0), (0, 0, 1, 0.75, -1, 0), (1, 0, 2, 0.25, 0.5, 0), (1, 0, 0, 0.75, -0.125, 0),
    (2, 0, 0, 0.875, 1, 0), (2, 0, 1, 0.125, -1, 0), (2, 1, 1, 1, -1, 0),
]  # fmt: skip


def best_value(discount: float) -> Fraction:
    """Of state 0, by Cramer's rule; in state 2 the first action is the better one."""
    d = Fraction(discount)
    gain = [Fraction(-1, 2), Fraction(1, 32), Fraction(3, 4)]
    a, b, c, e, f, g = (d * p for p in map(Fraction, (0.25, 0.75, 0.75, 0.25, 0.875, 0.125)))
    whole = (1 - a) * (1 - e * g) - b * (c + e * f)
    return (gain[0] * (1 - e * g) + b * (gain[1] + e * gain[2])) / whole


def test_a_discount_that_is_nearly_1_costs_no_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, discount = from_transitions(*zip(*ROWS, strict=True)), 1 - 1e-8
    solution = solve_policy(mdp, AlmostSure(0), discount=discount)
    assert solution.proved
    assert solution.lower <= best_value(discount) <= solution.upper
    assert solution.upper - solution.lower <= 2e-15 * abs(solution.value)
    monkeypatch.setattr(exact, "FEW", 2)
    with pytest.raises(LimitReached, match="further apart"):
        solve_policy(mdp, AlmostSure(0), discount=discount)


def test_choices_into_what_is_lost_are_left_out() -> None:
    """State 2 never ends; from state 1 it is only entered by a choice that nobody takes."""
    leak = 2.0**-20
    rows = [
        (0, 0, 1, 1 - leak, -0.3, 0), (0, 0, 3, leak, 0.7, 0), (1, 0, 0, 1, 0.1, 0), (1, 1, 2, 1, 9, 0),
        (2, 0, 2, 1, -1, 0),
    ]  # fmt: skip
    solution = solve_policy(from_transitions(*zip(*rows, strict=True), terminal=[3]), AlmostSure(0), tolerance=1e-15)
    share = Fraction(leak)
    gain = (1 - share) * (Fraction(-0.3) + Fraction(0.1)) + share * Fraction(0.7)
    assert solution.lower <= gain / share <= solution.upper
    assert solution.upper <= np.nextafter(solution.lower, np.inf)


def test_who_can_rest_rests_and_policies_that_never_end_are_not_evaluated() -> None:
    leak = 2.0**-30
    rows = [
        (0, 0, 0, 1 - leak, -0.3, 0), (0, 0, 1, leak, 0.1, 0), (1, 0, 2, 1, 0, 0), (2, 0, 1, 1, 0, 0),
        (2, 1, 3, 1, -0.1, 0),
    ]  # fmt: skip
    solution = solve_policy(from_transitions(*zip(*rows, strict=True), terminal=[3]), AlmostSure(0), tolerance=1e-15)
    share = Fraction(leak)
    assert solution.lower <= ((1 - share) * Fraction(-0.3) + share * Fraction(0.1)) / share <= solution.upper
    assert solution.upper <= np.nextafter(solution.lower, np.inf)
    assert solution.policy.choice[0, 1:3].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("loss", "leaving", "value"),
    [(1e-13, -1.0, 0), (1e-13, -10.0, -9), (1e-8, 1e6, 1_000_001), (-1e-13, -1.0, np.inf), (0.0, -1.0, 0)],
)
def test_a_cycle_that_gains_or_loses_next_to_nothing(loss: float, leaving: float, value: float) -> None:
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -1 - loss, 0), (1, 1, 2, 1, leaving, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    if value == np.inf:
        with pytest.raises(UnboundedReturn, match="among: 0; 1") as error:
            solve_policy(mdp, AlmostSure(0))
        assert error.value.cycle == (0, 1)
        return
    solution = solve_policy(mdp, AlmostSure(0), tolerance=1e-14)
    assert (solution.lower, solution.upper, solution.proved) == (value, value, True)
    assert [solution.policy.act(state, 0) for state in (0, 1)] == [0, 1]


def test_what_never_rests_is_worth_minus_infinity_unless_it_gains() -> None:
    """State 1 loses 2⁻⁵⁰ per round for ever, and state 2 gains as little; state 0 can end."""
    small = 2.0**-50
    rows = [(0, 0, 3, 1, 0.1, 0), (0, 1, 1, 1, 5, 0), (1, 0, 1, 0.5, 1, 0), (1, 0, 1, 0.5, -1 - small, 0)]
    gain = [
        (2, 0, 2, 0.5, 1 + small, 0),
        (2, 0, 2, 0.5, -1, 0),
        (0, 2, 2, 2.0**-40, 0, 0),
        (0, 2, 3, 1 - 2.0**-40, 0, 0),
    ]

    def solve(*rows: tuple[float, ...]) -> Solution:
        mdp = from_transitions(*zip(*rows, strict=True), num_states=4, terminal=[3])
        return solve_policy(mdp, AlmostSure(0), tolerance=1e-30)

    solution = solve(*rows, (2, 0, 2, 1, 0, 0))
    assert (solution.lower, solution.upper, solution.policy.act(0, 0)) == (0.1, 0.1, 0)
    with pytest.raises(UnboundedReturn, match="among: 2"):
        solve(*rows, *gain)


def test_values_that_no_float_holds_are_left_alone() -> None:
    large = 1.7e308
    mdp = from_transitions([0, 1], [0, 0], [1, 2], [1.0, 1.0], [large, large], [0, 0], terminal=[2])
    with pytest.raises(LimitReached, match="Scale the rewards down"):
        solve_policy(mdp, AlmostSure(0))
