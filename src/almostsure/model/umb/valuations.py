"""Valuations: the values of a program's variables in each state, bit-packed in a UMB file.

They are read as one column of values per variable, which also give states names such as ``x=1, y=0``.  They are written
with each variable aligned to bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.model.naming import distinct
from almostsure.model.umb.archive import Archive, Writer
from almostsure.model.umb.schema import Field

MEMBER = "valuations/states/valuations.bin"
MOST_NAMES = 1_000_000  # larger models have no names of states, which would need more memory than the model
OUTSIDE = "_OutOfBoundsBit"  # added by Storm; models with such states are refused

Variables = Mapping[str, npt.NDArray[Any]]  # each [num_states]: truth values, integers or floats


def read_variables(archive: Archive, classes: Sequence[Sequence[Field]], num_states: int) -> Variables:
    """The value of each variable in each state.

    Empty if the file has no valuations, or kinds that no known program writes (several classes, optional values,
    strings, rationals).
    """
    if len(classes) != 1:
        return {}
    fields = classes[0]
    bits = sum(field.kind.bits for field in fields)
    if not all(_is_plain(field) for field in fields) or bits % 8 or all(field.name is None for field in fields):
        return {}
    packed = archive.array(MEMBER, f"V{bits // 8}", num_states)
    table = packed.view("u1").reshape(num_states, bits // 8)
    columns, position = {}, 0
    for field in fields:
        if field.name is not None and field.name != OUTSIDE:
            columns[field.name] = _column(field, table, position)
        position += field.kind.bits
    return columns


def valuation_names(variables: Variables) -> list[str] | None:
    """A name such as ``x=1, y=0`` for each state; None if there are no variables, or more than a million states."""
    columns = list(variables.values())
    if not columns or columns[0].size > MOST_NAMES:
        return None
    texts = [_texts(name, values) for name, values in variables.items()]
    return distinct(", ".join(row) for row in zip(*texts, strict=True))


def described(variables: Variables) -> dict[str, Any]:
    """The entry of the index for the variables that :func:`write_variables` writes."""
    fields: list[dict[str, Any]] = []
    for name, values in variables.items():
        if values.dtype == np.bool_:
            fields += [{"name": name, "type": {"type": "bool", "size": 1}}, {"padding": 7}]
        else:
            kind = "double" if values.dtype.kind == "f" else "int"
            fields.append({"name": name, "type": {"type": kind, "size": 8 * values.dtype.itemsize}})
    return {"states": {"unique": False, "classes": [{"variables": fields}]}}


def write_variables(writer: Writer, variables: Variables) -> None:
    """Write the values of all variables, state by state."""
    columns = [values.astype(values.dtype.newbyteorder("<"), copy=False) for values in variables.values()]
    rows = np.rec.fromarrays(columns)
    writer.array(MEMBER, rows.view("u1").ravel(), "u1")


def _is_plain(field: Field) -> bool:
    kind, bits = field.kind
    plain = not field.optional and ((kind in ("bool", "int", "uint") and bits <= 64) or kind == "double")
    return field.name is None or plain


def _column(field: Field, table: npt.NDArray[np.uint8], position: int) -> npt.NDArray[Any]:
    """The values of one variable, in the narrowest type."""
    kind, bits = field.kind
    values = _unpack(table, position, bits)
    if kind == "bool":
        return values.astype(np.bool_)
    if kind == "double":
        return values.view(np.float64)
    if kind == "int":  # the highest bit is the sign
        unused = np.uint64(64 - bits)
        values = (values << unused).view(np.int64) >> unused.astype(np.int64)  # type: ignore[assignment]
    numbers = values.astype(np.int64) + field.offset
    narrow = next(t for t in (np.int8, np.int16, np.int32, np.int64) if _fits(numbers, t))
    return numbers.astype(narrow)


def _fits(numbers: npt.NDArray[np.int64], kind: type[np.signedinteger[Any]]) -> bool:
    limits = np.iinfo(kind)
    return bool(limits.min <= numbers.min() and numbers.max() <= limits.max)


def _texts(name: str, values: npt.NDArray[Any]) -> list[str]:
    """``name=value`` of one variable in each state."""
    unique, place = np.unique(values, return_inverse=True)
    if values.dtype == np.bool_:
        shown = ["true" if value else "false" for value in unique]
    else:
        shown = [f"{value:g}" if values.dtype.kind == "f" else str(value) for value in unique.tolist()]
    texts = np.array([f"{name}={text}" for text in shown], dtype=object)
    return texts[place].tolist()  # type: ignore[no-any-return]


def _unpack(table: npt.NDArray[np.uint8], position: int, bits: int) -> npt.NDArray[np.uint64]:
    """The unsigned numbers in the bits ``position`` … ``position + bits − 1`` of each row, least significant first."""
    first, last = position // 8, (position + bits + 7) // 8
    values = np.zeros(len(table), np.uint64)
    for byte in range(first, last):
        shift = 8 * byte - position
        column = table[:, byte].astype(np.uint64)
        values |= column << np.uint64(shift) if shift >= 0 else column >> np.uint64(-shift)
    return values & np.uint64((1 << bits) - 1)
