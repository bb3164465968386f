"""Arithmetic with twice the digits (double-double): unevaluated sums of two floats, as arrays, and sums over groups.

A wide number is ``high + low`` with |low| at most half a unit in the last place of ``high``: 106 bits.  Sums and
products of two floats are exact (Knuth's TwoSum, Dekker's product).  Those of wide numbers have errors below ``TINY``,
relative to the absolute values of the arguments (Joldes, Muller and Popescu, 2017).  This does not hold above 1e300,
where results are not finite, or below 1e-290, where less than ``LOST`` is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from almostsure.model.mdp import Floats, Ints

TINY = 2.0**-102
LOST = 1e-280
SPLIT = 2.0**27 + 1
UP = 1 + 2.0**-20  # more than the rounding errors of sums of up to 2³⁰ positive floats, for bounds on errors


@final
class Wide:
    """An array of wide numbers."""

    __slots__ = ("high", "low")

    def __init__(self, high: Floats, low: Floats) -> None:
        self.high, self.low = high, low

    def __getitem__(self, at: Any) -> Wide:
        if isinstance(at, np.ndarray) and at.dtype == np.int64:
            return Wide(self.high.take(at, axis=0), self.low.take(at, axis=0))  # faster
        return Wide(self.high[at], self.low[at])

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.high, self.low))

    @property
    def size(self) -> Floats:
        """Upper bounds on the absolute values."""
        result: Floats = np.abs(self.high) * (1 + 2.0**-50)
        return result


def wide(values: Floats) -> Wide:
    """Floats as wide numbers."""
    return Wide(values, np.zeros_like(values))


def two_sum(a: Floats, b: Floats) -> Wide:
    """The exact sum of floats."""
    total = a + b
    part = total - a
    return Wide(total, (a - (total - part)) + (b - part))


def two_product(a: Floats, b: Floats) -> Wide:
    """The exact product of floats."""
    product = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return Wide(product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)


def add(x: Wide, y: Wide) -> Wide:
    """The sum of wide numbers."""
    total, rest = two_sum(x.high, y.high), two_sum(x.low, y.low)
    middle = _quick(total.high, total.low + rest.high)
    return _quick(middle.high, middle.low + rest.low)


def subtract(x: Wide, y: Wide) -> Wide:
    """The difference of wide numbers."""
    return add(x, Wide(-y.high, -y.low))


def multiply(x: Wide, y: Wide) -> Wide:
    """The product of wide numbers."""
    product = two_product(x.high, y.high)
    return _quick(product.high, product.low + (x.high * y.low + x.low * y.high))


def divide(x: Wide, y: Wide) -> Wide:
    """The quotient of wide numbers."""
    first = x.high / y.high
    rest = subtract(x, multiply(wide(first), y))
    second = rest.high / y.high
    rest = subtract(rest, multiply(wide(second), y))
    return add(_quick(first, second), wide(rest.high / y.high))


def total(x: Wide) -> Wide:
    """The sum of all entries."""
    parts = [*x.high.tolist(), *x.low.tolist()]
    if not all(map(math.isfinite, parts)):
        return wide(np.array(math.nan))
    high = math.fsum(parts)
    return Wide(np.array(high), np.array(math.fsum([*parts, -high])))


def put(x: Wide, at: Any, values: Wide) -> None:
    """Write entries of an array."""
    x.high[at], x.low[at] = values


@final
class Groups:
    """Groups of items; their sums are computed by pairwise summation."""

    def __init__(self, group: Ints, count: int) -> None:
        self._order = None if (np.diff(group) >= 0).all() else np.argsort(group, kind="stable")
        lengths = np.bincount(group, minlength=count)
        self._count, self._filled = count, np.flatnonzero(lengths)
        lengths = lengths[self._filled]
        self._rounds: list[tuple[Ints, Ints, Ints]] = []  # the items kept, those of them with a partner, the partners
        while lengths.size and lengths.max() > 1:
            start = np.cumsum(lengths) - lengths
            place = np.arange(int(lengths.sum())) - np.repeat(start, lengths)
            stays = np.flatnonzero(place % 2 == 0)
            pairs = np.flatnonzero(place[stays] + 1 < np.repeat(lengths, lengths)[stays])
            self._rounds.append((stays, pairs, stays[pairs] + 1))
            lengths = (lengths + 1) // 2

    def add_up(self, items: Wide) -> Wide:
        """The sum of each group; the error is below ``TINY`` times the sum of absolute values per round."""
        if self._order is not None:
            items = items[self._order]
        for stays, pairs, partners in self._rounds:
            left = items[stays]
            both = add(left[pairs], items[partners])
            left.high[pairs], left.low[pairs] = both
            items = left
        shape = self._count, *items.high.shape[1:]
        result = Wide(np.zeros(shape), np.zeros(shape))
        result.high[self._filled], result.low[self._filled] = items
        return result

    @property
    def rounds(self) -> int:
        """The number of rounds of pairwise additions."""
        return len(self._rounds)


def _quick(a: Floats, b: Floats) -> Wide:
    """The exact sum of floats, if |a| ≥ |b|."""
    total = a + b
    return Wide(total, b - (total - a))


def _split(a: Floats) -> tuple[Floats, Floats]:
    shifted = SPLIT * a
    high = shifted - (shifted - a)
    return high, a - high
