"""Names of states from their valuations: the bit-packed values of a program's variables in a UMB file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.model.archive import Archive
from almostsure.model.naming import distinct

OUTSIDE = "_OutOfBoundsBit"  # Storm's own; no state that it marks is ever taken over
MOST_NAMES = 1_000_000  # beyond that the names would take more memory than the model


def valuation_names(archive: Archive, valuations: Mapping[str, Any] | None, num_states: int) -> list[str] | None:
    """A name such as ``x=1, y=0`` for each state, or None.

    There are none if the file has no valuations, or kinds that no known program writes (several classes, optional
    values, strings, rationals), or more than a million states.
    """
    described = (valuations or {}).get("states")
    if described is None or num_states > MOST_NAMES or len(described.classes) != 1:
        return None
    fields = list(described.classes[0])
    if not all(hasattr(field, "padding") or _is_plain(field) for field in fields):
        return None
    bits = sum(field.size_bits for field in fields)
    if bits % 8 or not any(hasattr(field, "name") for field in fields):
        return None
    packed = archive.array("valuations/states/valuations.bin", f"V{bits // 8}", num_states)
    table = packed.view("u1").reshape(num_states, bits // 8)
    columns, position = [], 0
    for field in fields:
        if hasattr(field, "name") and field.name != OUTSIDE:
            columns.append(_column(field, table, position))
        position += field.size_bits
    return distinct(", ".join(row) for row in zip(*columns, strict=True))


def _is_plain(field: Any) -> bool:
    kind, bits = getattr(field.sized_type.type, "value", None), field.size_bits
    return not field.is_optional and ((kind in ("bool", "int", "uint") and bits <= 64) or kind == "double")


def _column(field: Any, table: npt.NDArray[np.uint8], position: int) -> list[str]:
    """``name=value`` of one variable in each state."""
    values = _unpack(table, position, field.size_bits)
    kind = field.sized_type.type.value
    shown: list[str]
    unique, place = np.unique(values, return_inverse=True)
    if kind == "bool":
        shown = ["true" if value else "false" for value in unique]
    elif kind == "double":
        shown = [f"{value:g}" for value in unique.view(np.float64)]
    else:
        sign = 1 << (field.size_bits - 1) if kind == "int" else 0
        offset = field.offset or 0
        shown = [str((value ^ sign) - sign + offset) for value in unique.tolist()]
    texts = np.array([f"{field.name}={text}" for text in shown], dtype=object)
    return texts[place].tolist()  # type: ignore[no-any-return]


def _unpack(table: npt.NDArray[np.uint8], position: int, bits: int) -> npt.NDArray[np.uint64]:
    """The unsigned numbers at ``bits`` bits from ``position`` of each row, least significant bit first."""
    first, last = position // 8, (position + bits + 7) // 8
    values = np.zeros(len(table), np.uint64)
    for byte in range(first, last):
        shift = 8 * byte - position
        column = table[:, byte].astype(np.uint64)
        values |= column << np.uint64(shift) if shift >= 0 else column >> np.uint64(-shift)
    return values & np.uint64((1 << bits) - 1)
