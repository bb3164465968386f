"""Enclosures of a continuous system: interval arithmetic, the user's functions on intervals, and images of cells."""
