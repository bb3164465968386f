"""A policy of a continuous system that needs NumPy and nothing else.

``act(point, rest)`` returns the action at a point, as it is observed, and what to hand back with the next one; the
first of a run has ``rest=0``.  It raises where nothing was proved, and never answers with a default.  The table lies
beside this file, under the same name with ``.npz``, and is read when it is first needed.
"""

from __future__ import annotations

import functools
import hashlib
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODEL = ""  # the fingerprint of the system that this is a policy of
TABLE = ""  # SHA-256 of the table that belongs to this file


class NothingProved(Exception):
    """The point lies outside the box, or in a cell for which nothing was proved."""


class DamagedTable(Exception):
    """The table beside this file is missing, damaged, or another one's."""


class _Table(NamedTuple):
    edges: Any  # of all coordinates, one after the other
    cells: Any  # [coordinates] how many cells each has
    periodic: Any  # [coordinates] whether it wraps around
    pattern: Any  # of each cell; 0 where there is none
    first: Any  # the first action of each pattern
    rest: Any  # what is left of a pattern after it; 0 is nothing
    rest_first: Any  # the same for rests
    rest_rest: Any


@functools.cache
def _table() -> _Table:
    path = Path(__file__).with_suffix(".npz")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedTable(f"cannot read the table {path.name!r}: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != TABLE:
        raise DamagedTable(f"{path.name!r} is damaged, or not the table that this file was written with")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return _Table(*(arrays[name] for name in _Table._fields))


def act(point: Any, rest: int = 0) -> tuple[int, int]:
    """The action at a point, and the rest of its pattern."""
    table = _table()
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
        if around and not low <= value <= high:
            value = min(low + float(np.mod(value - low, high - low)), high)
        if not low <= value <= high:  # NaN, too
            raise NothingProved(f"{values} lies outside the box")
        cell = cell * count + min(int(np.searchsorted(edges, value, side="right")) - 1, count - 1)
        at += count + 1
    pattern = int(table.pattern[cell])
    if pattern == 0:
        raise NothingProved(f"nothing was proved in the cell of {values}")
    return int(table.first[pattern]), int(table.rest[pattern])
