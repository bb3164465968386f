"""Shields for where this package is not: a Python module that needs NumPy only, and a C header that needs nothing."""
