"""Numbers as people read them."""

import math

import pytest

from almostsure.wording import brief, counted, number, percent, precise


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (25 / 3, "8.3333"),
        (-2.5, "-2.5"),
        (1e-9, "1e-09"),
        (12345.5, "12,345.5"),
        (1e7, "1e+07"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
    ],
)
def test_numbers(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.5, "50 %"),
        (0.3194, "31.9 %"),
        (0.9994, "99.94 %"),
        (1e-5, "0.001 %"),
        (1e-9, "almost 0 %"),
        (1 - 1e-9, "almost 100 %"),
        (math.nan, "–"),
    ],
)
def test_percentages_never_read_0_or_100_where_they_are_not(value, shown):
    assert percent(value) == shown


def test_values_in_messages_are_cut():
    assert brief("a") == "'a'"
    assert len(brief("x" * 500)) == 78
    assert number(2.345, 2) in ("2.35", "2.34")
    assert number(2.6, 0) == "3"


def test_one_thing_is_one_thing():
    assert [counted(n, "step") for n in (0, 1, 2, 1_000)] == ["0 steps", "1 step", "2 steps", "1,000 steps"]


def test_precise_numbers_and_infinities():
    assert [precise(value, 3) for value in (1.23456, -math.inf, math.inf, math.nan)] == ["1.23", "−∞", "∞", "–"]
