"""The steps of :mod:`almostsure.learn.learners.steps`, compiled."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit

from almostsure.learn.learners import steps

CALLED = ("first_above", "layer_of", "best", "number_of", "pick", "choose", "move", "restart", "teach")  # callees first


def compiled(function: Callable[..., Any], **helpers: Any) -> Any:
    """The function compiled, with compiled ``helpers`` in the place of the plain ones that it calls."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"only plain functions can be compiled; got {function!r}")
    rebound = FunctionType(function.__code__, {**function.__globals__, **helpers}, function.__name__)
    return njit(cache=True, nogil=True)(rebound)


_compiled: dict[str, Any] = {}
for _name in CALLED:
    _compiled[_name] = compiled(getattr(steps, _name), **_compiled)
learn = compiled(steps.learn, **_compiled)
