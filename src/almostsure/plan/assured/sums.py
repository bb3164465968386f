"""Compiled: expected rewards with error-free sums and products.

The probabilities of a choice are the stored numbers divided by their exact sum, and rewards may cancel out, so a plain
sum may consist of rounding errors only.  The sum of two floats is exactly a sum of two floats (Knuth), and so is their
product (Dekker).  An *expansion* is a list of non-overlapping floats that stands for their exact sum (Shewchuk).  The
result is the exact sum, rounded: off by at most one unit in the last place, and 0 only if the sum is 0.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.kernels import njit

SPLIT = 134217729.0  # 2²⁷ + 1
EPSILON = 2.0**-53


@njit(cache=True, error_model="numpy")
def two_sum(a, b):
    """The rounded sum, and its rounding error exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(cache=True, error_model="numpy")
def two_product(a, b):
    """The rounded product, and its rounding error exactly."""
    product = a * b
    scaled = SPLIT * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = SPLIT * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@njit(cache=True, error_model="numpy", inner=True)
def grow(expansion, size, number):
    """Add a number to an expansion of the given size; returns the new size."""
    kept = 0
    for i in range(size):
        number, rest = two_sum(number, expansion[i])
        if rest != 0.0:
            expansion[kept] = rest
            kept += 1
    if number != 0.0 or kept == 0:
        expansion[kept] = number
        kept += 1
    return kept


@njit(cache=True, error_model="numpy", inner=True)
def _exact_dot(a, b, begin, end):
    """The exact sum of products, rounded at the end."""
    expansion = np.zeros(2 * (end - begin) + 2)
    size = 0
    for o in range(begin, end):
        product, rest = two_product(a[o], b[o])
        size = grow(expansion, size, rest)
        size = grow(expansion, size, product)
    total = 0.0
    for i in range(size):
        total += expansion[i]
    return total


@njit(cache=True, error_model="numpy")
def expected(outcome_ptr, probability, reward, choices, gain, is_one):
    """Fill in, for some choices, Σ probability · reward, and whether probabilities add up to exactly 1.

    Both arrays are given as zeros; only the entries of these choices are touched, which matters in large models.
    """
    for c in choices:
        if is_one[c] or gain[c] != 0.0:  # computed before
            continue
        begin, end = np.int64(outcome_ptr[c]), np.int64(outcome_ptr[c + 1])
        total, lost, equal, plain, absolute = 0.0, 0.0, True, 0.0, 0.0
        for o in range(begin, end):
            total, rest = two_sum(total, probability[o])
            lost += rest
            equal &= reward[o] == reward[begin]
            part = probability[o] * reward[o]
            plain += part
            absolute += abs(part)
        is_one[c] = total == 1.0 and lost == 0.0
        if equal and (is_one[c] or reward[begin] == 0.0):
            gain[c] = reward[begin]
            continue
        gain[c] = plain
        if not (end - begin) * absolute <= 4.0 * abs(plain):  # otherwise the error is a few roundings
            gain[c] = _exact_dot(probability, reward, begin, end)
