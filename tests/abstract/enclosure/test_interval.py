"""Interval arrays: whatever NumPy does to points of them lies in the result."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure.abstract import Interval, Maybe
from almostsure.abstract.enclosure.interval import FUNCTIONS
from almostsure.errors import ModelError

NUMBERS = st.floats(-1e3, 1e3)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(sorted)
SHARES = st.floats(0, 1)


def inside(pair, share):
    low, high = pair
    return min(max(low + share * (high - low), low), high)


def holds(result, value):
    return bool(np.all(result.contains(value)))


TWO = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "polynomial": lambda a, b: (a - b) ** 2 + 3 * a**3 - b / 7,
    "where": lambda a, b: np.where(a > b, a - b, a * 0.5),
    "nested": lambda a, b: np.where((a > 1) & ~(b < 2) | (a < -3), np.clip(a, -2, b * b), np.abs(b)),
    "bounded quotient": lambda a, b: a / (1 + np.square(b)),
    "trigonometry": lambda a, b: np.sin(a) * np.cos(0.3 * b) - np.sin(a + b),
    "exponential": lambda a, b: np.exp(a / 500) + np.sqrt(np.abs(b)) + np.tanh(a) + np.arctan(b),
    "logarithm": lambda a, b: np.log(1 + np.abs(a)) * np.sign(b) + np.floor(a),
}


@pytest.mark.parametrize("name", TWO)
@given(PAIRS, PAIRS, SHARES, SHARES)
@settings(max_examples=150, deadline=None)
def test_results_of_points_lie_in_results_of_intervals(name, x, y, s, t):
    a, b = np.float64(inside(x, s)), np.float64(inside(y, t))
    result = TWO[name](Interval(x[0], x[1]), Interval(y[0], y[1]))
    assert holds(result, TWO[name](a, b)), (x, y, a, b, result)


def test_bounds_move_outwards_for_numbers_of_every_size():
    values = np.array([0.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1.0, 1.5, 1e300])
    values = np.concatenate([values, -values])
    for a, b in itertools.product(values.tolist(), repeat=2):
        x, y = Interval(a, a), Interval(b, b)
        for result, exact in ((x + y, Fraction(a) + Fraction(b)), (x - y, Fraction(a) - Fraction(b))):
            if exact == Fraction(float(exact)):
                assert result.low == result.high == float(exact)
            else:
                assert result.low <= math.nextafter(float(exact), -math.inf)
                assert result.high >= math.nextafter(float(exact), math.inf)
        if abs(a * b) < 1e301:
            product = x * b  # by one number
            assert Fraction(float(product.low)) <= Fraction(a) * Fraction(b) <= Fraction(float(product.high))
            assert (product.low == product.high) == (a == 0 or b in (0, 1))


def test_sums_hold_what_no_float_can_say():
    third = Interval(1.0, 1.0) / 3
    assert third.low < third.high
    assert holds(third * 3, 1.0)


def test_extremes_of_waves_inside_an_interval():
    x = Interval([0.0, 1.5, -0.1, 3.0, 1e7], [0.1, 1.6, 0.1, 3.3, 1e7])
    assert np.sin(x).high[1] == 1.0
    assert np.cos(x).high[2] == 1.0
    assert np.cos(x).low[3] == -1.0
    assert np.sin(x).high[0] == pytest.approx(math.sin(0.1), abs=1e-14)
    assert (np.cos(x).low[4], np.cos(x).high[4]) == (-1.0, 1.0)  # too far to say


def test_the_tangent_reaches_a_pole():
    assert np.isposinf(np.tan(Interval(1.5, 1.6)).high)
    assert holds(np.tan(Interval(-1.0, 1.0)), math.tan(1.0))


def test_squares_are_tighter_than_products():
    x = Interval(-1.0, 1.0)
    assert np.square(x).low == 0
    assert (x * x).low < -0.9
    assert (x**2).low == 0
    assert (x**4).low <= 0 <= (x**4).high


def test_comparisons_that_are_not_decided():
    x = Interval([0.0, 2.0, 0.0], [1.0, 3.0, 3.0])
    answer = x > 1.5
    assert answer.surely.tolist() == [False, True, False]
    assert answer.possibly.tolist() == [False, True, True]
    assert (~answer).surely.tolist() == [True, False, False]
    chosen = np.where(answer, 10.0, x)
    assert chosen.low.tolist() == [0.0, 10.0, 0.0]
    assert chosen.high.tolist() == [1.0, 10.0, 10.0]
    assert (x == 0.5).possibly.tolist() == [True, False, True]
    assert (x != 2.5).surely.tolist() == [True, False, False]
    assert ((x > 0.5) ^ (x > 2.5)).possibly.tolist() == [True, True, True]


def test_nan_means_that_nothing_is_known():
    unknown = Interval([-np.inf], [np.inf]) * 0.0
    assert np.isnan(unknown.low).all()
    for answer in (unknown > 0, unknown < 0, unknown >= 0, unknown <= 0, unknown == 0):
        assert answer.possibly.all()
        assert not answer.surely.any()
    assert np.isnan(np.abs(unknown).low).all()
    assert np.isnan(np.clip(unknown, -1, 1).low).all()


def test_in_place_operators_make_new_intervals():
    x = y = Interval(0.0, 1.0)
    y += 1
    assert x.high == 1.0
    assert y.low <= 1.0


BAD = {
    "numpy.arcsin": (lambda x: np.arcsin(x), "numpy.arcsin cannot be applied to intervals, at .*arcsin"),
    "numpy.sum": (lambda x: np.sum(x), "numpy.sum cannot be applied to intervals"),
    "numpy.add.reduce": (lambda x: np.add.reduce(x), "numpy.add.reduce cannot be applied"),
    "numpy.array": (lambda x: np.array([x, x]), "the conversion to a NumPy array cannot be applied.*a tuple"),
    "math": (lambda x: math.sin(x), r"float\(\) or a function of the math module cannot be applied.*NumPy's function"),
    "if": (lambda x: 1 if x > 0 else 2, "if, and, or, not or a chained comparison cannot be applied.*Use np.where"),
    "chain": (lambda x: 0 < x < 1, "chained comparison"),
    "max": (lambda x: max(x, 0), "if, and, or"),
    "int": (lambda x: int(x), r"int\(\) cannot be applied"),
    "index": (lambda x: [1, 2][x], "an index cannot be applied"),
    "round": (lambda x: round(x), r"round\(\) cannot be applied"),
    "exponent": (lambda x: 2**x, "a power whose exponent is an interval"),
    "root": (lambda x: x**0.5, r"\*\* 0.5 of a base that may be negative"),
    "sqrt": (lambda x: np.sqrt(x), "numpy.sqrt of an interval that reaches below 0"),
    "log": (lambda x: np.log(x), "numpy.log of an interval that reaches 0"),
    "divisor": (
        lambda x: 1 / x,
        r"a divisor must not contain 0; got \[-1, 1\] at test_interval.py, line",
    ),
    "type": (lambda x: x + "a", "a value of type str cannot be applied"),
    "times a condition": (lambda x: (x > 0) * 2, "numpy.multiply cannot be applied.*np.where only"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_intervals_do_not_have_is_named_with_its_line(name):
    function, match = BAD[name]
    with pytest.raises(ModelError, match=match) as caught:
        function(Interval([-1.0, -1.0], [1.0, 1.0]))
    assert "test_interval.py, line" in str(caught.value)


def test_every_function_is_listed_once():
    assert {"sin", "cos", "tan", "exp", "sqrt", "absolute", "minimum", "maximum", "power"} <= {
        f.__name__ for f in FUNCTIONS
    }
    assert isinstance(Maybe.of(True), Maybe)
