"""Arithmetic with twice the digits, compared with fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from almostsure.policy.evaluation.wide import (
    TINY,
    Groups,
    Wide,
    add,
    divide,
    multiply,
    put,
    subtract,
    two_product,
    two_sum,
    wide,
)


def exact(x: Wide) -> list[Fraction]:
    return [Fraction(float(high)) + Fraction(float(low)) for high, low in zip(x.high, x.low, strict=True)]


def some(seed: int, count: int = 200) -> Wide:
    """Wide numbers of all sizes and signs, with relevant low parts."""
    rng = np.random.default_rng(seed)
    high = rng.standard_normal(count) * 10.0 ** rng.integers(-20, 20, count)
    return two_sum(high, high * 2.0**-54 * rng.random(count))


def test_sums_and_products_of_floats_are_exact() -> None:
    a, b = some(1).high, some(2).high
    for close in (b, -a * (1 + 2.0**-40)):
        assert exact(two_sum(a, close)) == [
            Fraction(float(x)) + Fraction(float(y)) for x, y in zip(a, close, strict=True)
        ]
        assert exact(two_product(a, close)) == [
            Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, close, strict=True)
        ]


@pytest.mark.parametrize(
    ("combine", "exactly"),
    [
        (add, lambda x, y: x + y),
        (subtract, lambda x, y: x - y),
        (multiply, lambda x, y: x * y),
        (divide, lambda x, y: x / y),
    ],
)
def test_wide_numbers_have_tiny_errors(
    combine: Callable[[Wide, Wide], Wide], exactly: Callable[[Fraction, Fraction], Fraction]
) -> None:
    x, y = some(3), some(4)
    near = add(x, Wide(x.high * 2.0**-30, x.low))
    for other in (y, near):
        for found, one, two in zip(exact(combine(x, other)), exact(x), exact(other), strict=True):
            wanted = exactly(one, two)
            size = abs(wanted) if combine in (multiply, divide) else abs(one) + abs(two)
            assert abs(found - wanted) <= Fraction(TINY) * size


def test_the_low_part_is_at_most_half_a_unit_in_the_last_place() -> None:
    for combine in (add, subtract, multiply, divide):
        found = combine(some(5), some(6))
        assert (np.abs(found.low) <= np.spacing(np.abs(found.high)) / 2).all()
        assert (found.size >= np.abs(found.high) + np.abs(found.low)).all()
        assert (found.size <= np.abs(found.high) * (1 + 2.0**-49)).all()


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 200])
def test_groups_are_added_up(count: int) -> None:
    rng, items = np.random.default_rng(count), some(7, count)
    for group in (np.zeros(count, int), np.sort(rng.integers(0, 4, count)), rng.integers(0, 4, count)):
        groups = Groups(group, 6)
        sums, every = exact(groups.add_up(items)), exact(items)
        assert groups.rounds == int(np.ceil(np.log2(np.bincount(group).max())))
        for at in range(6):
            members = [value for value, of in zip(every, group.tolist(), strict=True) if of == at]
            lost = Fraction(TINY) * groups.rounds * sum(map(abs, members), Fraction(0))
            assert abs(sums[at] - sum(members, Fraction(0))) <= lost


def test_parts_are_taken_and_put() -> None:
    x = Wide(np.arange(4.0), np.arange(4.0) / 2**60)
    for at in (np.array([2, 0]), np.array([True, False, True, False]), slice(1, 3)):
        high, low = x[at]
        assert (high.tolist(), low.tolist()) == (x.high[at].tolist(), x.low[at].tolist())
    put(x, [0, 3], Wide(np.array([7.0, 8.0]), np.array([0.5, 0.25])))
    assert (x.high.tolist(), x.low[[0, 3]].tolist()) == ([7, 1, 2, 8], [0.5, 0.25])
    assert wide(np.ones(2)).low.tolist() == [0, 0]
