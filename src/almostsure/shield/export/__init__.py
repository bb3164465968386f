"""Exported shields, which run without this package: a Python module that only needs NumPy, or a C header."""
