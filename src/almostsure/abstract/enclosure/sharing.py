"""Arithmetic that several actions share is done once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Remembered:
    """What was computed for which operands, by their identity.

    The actions of a system share much of their arithmetic: the cosine of an angle is the same whatever the force.
    Entries are added until :meth:`close`; what the first action does not compute is not shared by all.
    """

    def __init__(self) -> None:
        self.found: dict[Any, tuple[Any, Any]] = {}
        self.closed = False

    def close(self) -> None:
        """Add nothing more."""
        self.closed = True


class _Present(threading.local):
    table: Remembered | None = None


_PRESENT = _Present()


@contextmanager
def remembering() -> Iterator[Remembered]:
    """Compute what is asked for again with the very same operands only once."""
    _PRESENT.table = table = Remembered()
    try:
        yield table
    finally:
        _PRESENT.table = None
        table.found.clear()


def remembered(function: Callable[..., Any], *operands: Any, key: Any = None) -> Any:
    """``function(*operands)``; inside :func:`remembering`, what it gave for these operands before."""
    table = _PRESENT.table
    if table is None:
        return function(*operands)
    name = (key or function, *((x,) if type(x) in (int, float) else id(x) for x in operands))
    if name in table.found:
        return table.found[name][1]
    result = function(*operands)
    if not table.closed:
        table.found[name] = (operands, result)  # the operands are kept, so that their ids remain theirs
    return result
