"""A policy of a continuous system that only needs NumPy.

``act(point, rest)`` returns the action at an observed point, and the rest of the pattern, which is passed to the next
call; a run begins with ``rest=0``.  At points for which nothing was proved it raises an error; it never returns a
default.  The table is next to this file, under the same name with ``.npz``, and is read on first use.
``names().actions`` has the names of the actions.

The table has for each coordinate the number of ``cells``, whether it is ``periodic``, and the ``edges``, concatenated
for all coordinates.  Each cell has a ``pattern``, 0 if nothing was proved; each pattern has a ``first`` action and a
``rest`` after it, 0 if none is left; ``rest_first`` and ``rest_rest`` are the same for rests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from almostsure.shield.export.frame import read_table


class NothingProved(Exception):
    """The point lies outside the box, or in a cell for which nothing was proved."""


def act(point: Any, rest: int = 0) -> tuple[int, int]:
    """The action at a point, and the rest of its pattern."""
    table = read_table()
    values = [float(value) for value in point]
    if len(values) != len(table.cells):
        raise ValueError(f"a point must have {len(table.cells)} coordinates; got {len(values)}")
    if not 0 <= rest < len(table.rest_rest):
        raise ValueError(f"rest must be what act returned in the last step, or 0; got {rest}")
    if rest:
        return int(table.rest_first[rest]), int(table.rest_rest[rest])
    cell, at = 0, 0
    for value, count, around in zip(values, table.cells.tolist(), table.periodic.tolist(), strict=True):
        edges = table.edges[at : at + count + 1]
        low, high = float(edges[0]), float(edges[-1])
        if around and np.isfinite(value) and not low <= value <= high:
            value = min(low + float(np.mod(value - low, high - low)), high)
        if not low <= value <= high:  # NaN, too
            raise NothingProved(f"{values} lies outside the box")
        cell = cell * count + min(int(np.searchsorted(edges, value, side="right")) - 1, count - 1)
        at += count + 1
    pattern = int(table.pattern[cell])
    if pattern == 0:
        raise NothingProved(f"nothing was proved in the cell of {values}")
    return int(table.first[pattern]), int(table.rest[pattern])
