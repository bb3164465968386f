"""The compiled loops of this package: rounding, ranges of cells, levels and arrival, and what the check looks at."""
