"""Equality of counts."""

import numpy as np

FIELDS = ("choice", "next_state", "damage", "times", "reward", "samples")


def same(first, second):
    """Whether two counts are equal; for learned budgets, whether their counts and spaces are."""
    if hasattr(first, "counts"):
        return first.counts.space == second.counts.space and same(first.counts, second.counts)
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in FIELDS)
