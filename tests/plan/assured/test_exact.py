"""A few pairs in fractions: long times cost no digits; what cannot be solved so is left as it was."""

from fractions import Fraction

import numpy as np
import pytest

from almostsure import AlmostSure, from_transitions, solve_policy
from almostsure.errors import LimitReached
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
