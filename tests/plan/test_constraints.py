"""Constraints: which numbers they accept, and the errors for all others."""

from fractions import Fraction

import numpy as np
import pytest

from almostsure.arguments import check_discount, check_tolerance
from almostsure.errors import ArgumentError
from almostsure.plan.constraints import AlmostSure, Chance, Expected


@pytest.mark.parametrize("budget", [3, 3.0, np.int64(3), np.float64(3), Fraction(3)])
def test_whole_numbers_of_any_type_are_totals(budget):
    assert AlmostSure(budget).budget == 3
    assert isinstance(Chance(budget, 0.5).budget, int)


@pytest.mark.parametrize("budget", [-1, 2.5, float("inf"), -(10**400)])
def test_a_total_is_a_whole_number_from_zero(budget):
    with pytest.raises(ArgumentError, match="budget must be a whole number, 0 or more; got"):
        AlmostSure(budget)


@pytest.mark.parametrize("budget", ["3", None, True, [3]])
def test_a_total_is_a_number(budget):
    with pytest.raises(ArgumentError, match="budget must be a number; got"):
        Chance(budget, 0.1)


def test_a_total_fits_the_tables():
    with pytest.raises(ArgumentError, match="budget must be at most 2147483646"):
        AlmostSure(2**31)


@pytest.mark.parametrize("limit", [-0.1, float("inf"), 10**400])
def test_a_limit_is_finite_and_not_negative(limit):
    with pytest.raises(ArgumentError, match="limit must be a finite number, 0 or more"):
        Expected(limit)


@pytest.mark.parametrize("risk", [-0.01, 1.01])
def test_a_risk_is_a_probability(risk):
    with pytest.raises(ArgumentError, match="risk must be a probability, 0 … 1; got"):
        Chance(1, risk)


def test_nan_is_not_a_number():
    with pytest.raises(ArgumentError, match="limit must be a number; got NaN"):
        Expected(float("nan"))


@pytest.mark.parametrize("discount", [0, -0.5, 1.0001])
def test_a_discount_lies_in_its_range(discount):
    with pytest.raises(ArgumentError, match=r"discount must lie in \(0, 1\]; got"):
        check_discount(discount)


@pytest.mark.parametrize("tolerance", [0, -1e-9, float("inf")])
def test_a_tolerance_is_positive(tolerance):
    with pytest.raises(ArgumentError, match="tolerance must be positive and finite"):
        check_tolerance(tolerance)


def test_constraints_are_values_that_read_well():
    assert AlmostSure(2) == AlmostSure(2.0) != AlmostSure(3)
    assert str(Chance(2, 0.05)) == "more than 2 damage with probability at most 0.05"
    assert hash(Expected(1)) == hash(Expected(1.0))
