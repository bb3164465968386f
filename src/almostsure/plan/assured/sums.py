"""Expected rewards without rounding: products and sums that keep what a rounding loses.

The probabilities of a choice are the stored numbers divided by their exact sum, and rewards may cancel out, so that a
plain sum may be all rounding.  A product of two numbers is exactly the sum of two (Dekker), and so is a sum (Knuth);
an *expansion* is a list of numbers that do not overlap and whose exact sum is meant (Shewchuk).  What is returned is
the exact sum, rounded: off by at most one unit in the last place, and 0 only where the sum is 0.
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
    """The rounded sum, and exactly what rounding lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(cache=True, error_model="numpy")
def two_product(a, b):
    """The rounded product, and exactly what rounding lost."""
    product = a * b
    scaled = SPLIT * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = SPLIT * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def _exact_dot(a, b, begin, end):
    """The sum of products, exact before it is rounded."""
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
    """Fill in some choices' sums of probability times reward, and whether their probabilities add up to exactly 1.

    Both are given as zeros.  Where few choices matter, those of a large model, little memory is touched.
    """
    for c in choices:
        if is_one[c] or gain[c] != 0.0:  # known
            continue
        begin, end = np.int64(outcome_ptr[c]), np.int64(outcome_ptr[c + 1])
        total, lost, equal = 0.0, 0.0, True
        for o in range(begin, end):
            total, rest = two_sum(total, probability[o])
            lost += rest
            equal = equal and reward[o] == reward[begin]
        is_one[c] = total == 1.0 and lost == 0.0
        if equal and (is_one[c] or reward[begin] == 0.0):
            gain[c] = reward[begin]
            continue
        plain, absolute = 0.0, 0.0
        for o in range(begin, end):
            plain += probability[o] * reward[o]
            absolute += probability[o] * abs(reward[o])
        gain[c] = plain
        if not (end - begin) * absolute <= 4.0 * abs(plain):  # then a few roundings
            gain[c] = _exact_dot(probability, reward, begin, end)
