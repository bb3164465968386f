"""Exact evaluation of policies with proved errors, and their worst damage."""
