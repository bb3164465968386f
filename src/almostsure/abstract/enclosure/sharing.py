"""A cache for arithmetic that several actions share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Remembered:
    """Results by function and operands, these by identity.

    The actions of a system share much of their arithmetic: the cosine of an angle does not depend on the force.
    Entries are added until it is ``closed``, after the first action: what it does not compute is not shared by all.
    """

    found: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    closed: bool = False


PRESENT: ContextVar[Remembered | None] = ContextVar("PRESENT", default=None)  # each thread has its own


@contextmanager
def remembering() -> Iterator[Remembered]:
    """Inside this context, :func:`remembered` computes the same function of the same operands only once."""
    table = Remembered()
    PRESENT.set(table)
    try:
        yield table
    finally:
        PRESENT.set(None)
        table.found.clear()


def remembered(function: Callable[..., Any], *operands: Any) -> Any:
    """``function(*operands)``; inside :func:`remembering`, from the cache if possible."""
    table = PRESENT.get()
    if table is None:
        return function(*operands)
    name = (function, *((x,) if type(x) in (int, float) else id(x) for x in operands))
    if name in table.found:
        return table.found[name][1]
    result = function(*operands)
    if not table.closed:
        table.found[name] = (operands, result)  # keeps the operands alive, so that their ids are not reused
    return result
