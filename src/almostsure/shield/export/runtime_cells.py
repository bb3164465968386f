"""A policy of a continuous system that needs NumPy and nothing else.

``act(point, rest)`` returns the action at a point, as it is observed, and what to hand back with the next one; the
first of a run has ``rest=0``.  It raises where nothing was proved, and never answers with a default.  The table lies
beside this file, under the same name with ``.npz``, and is read when it is first needed; ``names().actions`` are the
names of the actions.

For each coordinate it has the number of ``cells``, whether it is ``periodic``, and the ``edges``, those of all
coordinates one after the other.  Each cell has a ``pattern``, 0 where nothing was proved; each pattern has a ``first``
action and a ``rest`` after it, 0 if none is left; ``rest_first`` and ``rest_rest`` are the same for rests.
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
        raise ValueError(f"rest must be what act returned one step before, or 0; got {rest}")
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
