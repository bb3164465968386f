"""The steps of :mod:`almostsure.learn.agents.steps` and :mod:`almostsure.learn.agents.planning`, compiled."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit

from almostsure.learn.agents import planning, steps


def compiled(function: Callable[..., Any], **helpers: Any) -> Any:
    """The function compiled, with compiled ``helpers`` in the place of the plain ones that it calls."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"only plain functions can be compiled; got {function!r}")
    rebound = FunctionType(function.__code__, {**function.__globals__, **helpers}, function.__name__)
    return njit(cache=True, nogil=True)(rebound)


def _helpers() -> dict[str, Any]:
    """What the others call, callees first."""
    result: dict[str, Any] = {}
    for name in (
        "first_above",
        "layer_of",
        "best",
        "number_of",
        "pick",
        "next_turn",
        "note",
        "move",
        "restart",
        "teach",
    ):
        result[name] = compiled(getattr(steps, name), **result)
    for name in ("worth_of", "is_power_of_two"):
        result[name] = compiled(getattr(planning, name), **result)
    return result


_compiled = _helpers()
learn = compiled(steps.learn, **_compiled)
plan = compiled(planning.plan, **_compiled)
walk = compiled(planning.walk, **_compiled)
