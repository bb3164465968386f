"""Sums and products of bounds, as compiled ufuncs: one pass over the data each.

Rounding x down gives ``x − (|x| · 2⁻⁵² + 2⁻¹⁰²²)``, and rounding up the same with a plus.  A unit in the last place of
x is at most ``|x| · 2⁻⁵²`` (or 2⁻¹⁰⁷⁴ for the smallest numbers), so the result lies at or below the float before x, and
the exact value cannot be less.

Exact results are not moved, so that a system at rest stays in its cell: sums whose error is 0 (Knuth's two-sum computes
it exactly, except on overflow, where it is NaN), and products by 0.
"""

from __future__ import annotations

from almostsure.kernels import import_numba

nb = import_numba()

UNIT = 2.0**-52  # relative size of a unit in the last place, at most
LEAST = 2.0**-1022

TWO = ["float64(float64, float64)"]


@nb.njit(inline="always")
def error_of_sum(a: float, b: float, x: float) -> float:
    """The exact difference between ``a + b`` and ``x``, its rounded value."""
    part = x - a
    return (a - (x - part)) + (b - part)


@nb.vectorize(TWO, cache=True)
def add_down(a: float, b: float) -> float:
    """The sum, rounded down."""
    x = a + b
    return x if error_of_sum(a, b, x) == 0 else x - (abs(x) * UNIT + LEAST)


@nb.vectorize(TWO, cache=True)
def add_up(a: float, b: float) -> float:
    """The sum, rounded up."""
    x = a + b
    return x if error_of_sum(a, b, x) == 0 else x + (abs(x) * UNIT + LEAST)


@nb.vectorize(TWO, cache=True)
def multiply_down(a: float, b: float) -> float:
    """The product, rounded down."""
    x = a * b
    return x if x == 0 and (a == 0 or b == 0) else x - (abs(x) * UNIT + LEAST)


@nb.vectorize(TWO, cache=True)
def multiply_up(a: float, b: float) -> float:
    """The product, rounded up."""
    x = a * b
    return x if x == 0 and (a == 0 or b == 0) else x + (abs(x) * UNIT + LEAST)
