"""Logs as tables: arrays by name, data frames, CSV files; and single trajectories."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from almostsure.errors import CorruptFile, FileError, ModelError
from almostsure.learn.logs.columns import NAMES, Piece, find_columns, flags
from almostsure.model.mdp import Bools

CHUNK = 1 << 16  # rows read together
Columns = Mapping[str, str] | None


def is_table(log: Any) -> bool:
    """Whether it has columns by name: a mapping, a data frame, an Arrow table, a structured array."""
    return _names(log) is not None


def _names(log: Any) -> list[str] | None:
    names: Any = None
    if isinstance(log, Mapping):
        names = log.keys()
    elif isinstance(log, np.ndarray):
        names = log.dtype.names
    elif hasattr(log, "__getitem__"):
        names = getattr(log, "column_names", None) or getattr(log, "columns", None)
    return None if names is None else [str(name) for name in names]


def read_table(log: Any, columns: Columns, *, where: str = "the table") -> Iterator[Piece]:
    """The pieces of a table."""
    names = _names(log) or []
    if isinstance(log, Mapping) and _is_trajectory(log, names, columns):
        yield from read_trajectory(log, columns, where="the trajectory")
        return
    found = find_columns(names, columns, where)
    data = {ours: _column(ours, log[theirs]) for ours, theirs in found.items()}
    for name, values in data.items():
        if len(values) != len(data["action"]):
            lengths = f"{len(values):,} of {name} and {len(data['action']):,} of action"
            raise ModelError(f"the columns of {where} must be equally long; got {lengths}")
    for begin in range(0, len(data["action"]), CHUNK):
        part = {name: values[begin : begin + CHUNK] for name, values in data.items()}
        yield Piece(part, lambda i, begin=begin: f"row {begin + i:,}")  # type: ignore[misc]


def _column(name: str, values: Any) -> Any:
    """A column, such that it can be sliced."""
    column = values if isinstance(values, (list, tuple, np.ndarray)) else np.asarray(values)
    if np.ndim(column) == 0 and not isinstance(column, (list, tuple)):
        raise ModelError(f"{name} must be a column, one entry a row; got {values!r}")
    return column


# ---------------------------------------------------------------------- trajectories


def _is_trajectory(log: Mapping[str, Any], names: list[str], columns: Columns) -> bool:
    """Whether a table has one state more than actions, and so no need of next states."""
    wanted = columns or {}
    if "next_state" in wanted or any(name in names for name in NAMES["next_state"]):
        return False
    state, action = (
        next((name for name in (wanted.get(ours), *NAMES[ours]) if name in names), None) for ours in ("state", "action")
    )
    if state is None or action is None or not all(hasattr(log[name], "__len__") for name in (state, action)):
        return False
    return len(log[state]) == len(log[action]) + 1


def read_trajectory(log: Mapping[str, Any], columns: Columns, *, where: str) -> Iterator[Piece]:
    """The only piece of a table that is one whole episode, with one state more than actions."""
    data = dict(log)
    state = next(name for name in ((columns or {}).get("state"), *NAMES["state"]) if name in data)
    states = _column("state", data[state])
    data[state], data["next_state"] = states[:-1], states[1:]
    size = len(states) - 1
    found, ends = find_columns(data, columns, where), np.arange(size) == size - 1
    parts = {ours: data[theirs] for ours, theirs in found.items()}
    for name in {"terminated", "truncated"} & parts.keys():
        if isinstance(parts[name], (bool, np.bool_)):  # of the whole
            parts[name] = ends & parts[name]
    parts = {name: _column(name, values) for name, values in parts.items()}
    piece = Piece(parts, lambda i: f"step {i} of {where}")
    if all(len(values) == size for values in parts.values()):
        terminated = _ends_with("terminated", piece, size)
        _ends_with("truncated", piece, size)
        parts["truncated"] = ends & ~terminated  # what comes next is another episode
    if size:
        yield piece


def _ends_with(name: str, piece: Piece, size: int) -> Bools:
    """The flags of an episode, of which only the last may be set."""
    flag = flags(name, piece.columns.get(name), size, piece.place)
    if flag[:-1].any():
        where = piece.place(int(np.argmax(flag)))
        raise ModelError(f"nothing must follow a step that is flagged {name}; {where} is not the last. Split it there.")
    return flag


# ---------------------------------------------------------------------- CSV


def read_csv(path: str, columns: Columns) -> Iterator[Piece]:
    """The pieces of a CSV file whose first line names its columns."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from _csv_pieces(csv.reader(file, strict=True), path, columns)
    except OSError as error:
        raise FileError(f"cannot read {path!r}: {error.strerror or error}.", path=path) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise CorruptFile(f"{path!r} is no CSV file, or is damaged: {error}.", path=path) from error


def _csv_pieces(lines: Any, path: str, columns: Columns) -> Iterator[Piece]:
    header = [name.strip() for name in next(lines, [])]
    if not header:
        raise CorruptFile(f"{path!r} is empty; its first line must name its columns.", path=path)
    found = find_columns(header, columns, repr(path))
    positions = {ours: header.index(theirs) for ours, theirs in found.items()}
    while True:
        before = lines.line_num
        rows = list(itertools.islice(lines, CHUNK))
        if not rows:
            return
        # An entry in quotes may span several lines; then their numbers are not exact.
        word = "line" if lines.line_num - before == len(rows) else "about line"
        full = [(number, row) for number, row in enumerate(rows, before + 1) if row]
        _check_widths(full, len(header), path)
        if full:
            parts = {ours: [row[position] for _, row in full] for ours, position in positions.items()}
            numbers = [number for number, _ in full]
            yield Piece(parts, lambda i, word=word, numbers=numbers: f"{word} {numbers[i]:,} of {path!r}")  # type: ignore[misc]


def _check_widths(rows: list[tuple[int, list[str]]], width: int, path: str) -> None:
    for number, row in rows:
        if len(row) != width:
            raise CorruptFile(
                f"line {number:,} of {path!r} must have {width} entries, as the first one has; got {len(row)}. "
                "Is the file truncated?",
                path=path,
            )
