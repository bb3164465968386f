"""Cases in which a plain sum, a subtraction of probabilities or a quiet rounding would give a wrong bound."""

import numpy as np
import pytest

from almostsure import AlmostSure, from_transitions, solve_policy
from almostsure.errors import LimitReached
from almostsure.plan.assured.sums import expected, two_product, two_sum


def solve(rows, budget=0, **options):
    last = max(row[2] for row in rows)
    return solve_policy(from_transitions(*zip(*rows, strict=True), terminal=[last], **options), AlmostSure(budget))


def test_rewards_that_cancel_out_leave_what_is_left():
    found = solve([(0, 0, 1, 0.5, 1, 0), (0, 0, 1, 0.25, 1e16, 0), (0, 0, 1, 0.25, -1e16, 0)])
    assert found.lower <= 0.5 <= found.upper < found.lower + 1e-12


def test_a_loop_that_is_hardly_ever_left():
    leak = 2.0**-45
    rows = [(0, 0, 1, leak, 1, 0), (0, 0, 0, (1 - leak) / 2, 1, 0), (0, 0, 0, (1 - leak) / 2, -1, 0)]
    found = solve(rows)
    assert found.lower <= 1 <= found.upper < found.lower + 1e-12


def test_a_million_steps_on_average():
    found = solve([(0, 0, 0, 1 - 2.0**-20, -1, 0), (0, 0, 1, 2.0**-20, -1, 0)])
    assert found.lower <= -(2**20) <= found.upper < found.lower + 1e-6


def test_a_line_on_which_damage_pays():
    size = 300
    rows = [(s, a, s + 1, 1, a, a) for s in range(size) for a in (0, 1)]
    found = solve(rows, 100)
    assert found.lower <= 100 <= found.upper < found.lower + 1e-9


def test_budgets_in_the_thousands():
    size = 20
    rows = [(s, 0, (s + 1) % size, 1, 1, 1) for s in range(size)] + [(s, 1, size, 1, 0, 0) for s in range(size)]
    found = solve(rows, 3000)
    assert found.lower <= 3000 <= found.upper < found.lower + 1e-6


def test_without_rewards_the_return_is_exactly_zero():
    rows = [(s, a, (s + a + 1) % 50, 1, 0, a % 2) for s in range(49) for a in range(3)]
    found = solve(rows, 3)
    assert found.lower == found.upper == 0


def test_a_fair_walk_is_enclosed_even_where_the_tolerance_is_missed():
    size = 10_000
    rows = [(s, 0, s + step, 0.5, -1, 0) for s in range(1, size) for step in (1, -1)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[0, size], initial=size // 2)
    try:
        found = solve_policy(mdp, AlmostSure(0))
    except LimitReached as error:
        found = error.solution
    exact = -((size // 2) ** 2)
    assert found.lower <= exact <= found.upper < found.lower + 1e-6 * abs(exact)


@pytest.mark.parametrize("pair", [(1.0, 1e-30), (0.1, 0.2), (1e16, -1.0)])
def test_sums_and_products_lose_nothing(pair):
    from fractions import Fraction

    a, b = map(Fraction, pair)
    assert sum(map(Fraction, two_sum.py_func(*pair))) == a + b
    assert sum(map(Fraction, two_product.py_func(*pair))) == a * b


def test_the_expected_reward_is_zero_only_where_it_is():
    ptr = np.array([0, 3, 6], np.uint32)
    p = np.array([0.5, 0.25, 0.25, 0.5, 0.25, 0.25])
    gain, is_one = np.zeros(2), np.zeros(2, np.bool_)
    expected(ptr, p, np.array([0.0, 1e9, -1e9, 1e-7, 1e9, -1e9]), np.array([1, 0, 1]), gain, is_one)
    assert gain.tolist() == [0.0, 5e-8]
    assert is_one.all()


def test_expected_rewards_of_other_choices_stay_zero():
    ptr, p, reward = np.array([0, 2, 4], np.uint32), np.full(4, 0.5), np.array([1.0, 2.0, 3.0, 4.0])
    gain, is_one = np.zeros(2), np.zeros(2, np.bool_)
    expected(ptr, p, reward, np.array([1]), gain, is_one)
    assert gain.tolist() == [0.0, 3.5]
    assert is_one.tolist() == [False, True]
