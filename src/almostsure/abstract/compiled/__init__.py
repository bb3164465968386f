"""The compiled loops of this package: rounding, ranges of cells, levels and arrival, and the check of upper budgets."""
