"""The steps of :mod:`almostsure.learn.agents.steps`, compiled."""

from __future__ import annotations

from numba import njit

from almostsure.learn.agents import steps

learn = njit(cache=True, nogil=True)(steps.learn)
