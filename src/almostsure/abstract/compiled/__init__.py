"""The compiled loops of this room: rounding, ranges of cells, levels and arrival, and what the check looks at."""
