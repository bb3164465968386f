"""Reading tables (arrays by name, data frames, CSV and Parquet files) and single trajectories.

CSV and Parquet files are read in batches of rows by ``pyarrow.dataset``, which needs the extra ``logs``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from almostsure.errors import CorruptFile, FileError, ModelError, optional
from almostsure.learn.logs.columns import NAMES, Piece, find_columns, flags
from almostsure.model.arrays import Bools
from almostsure.wording import brief

CHUNK = 1 << 15  # rows per piece
Columns = Mapping[str, str] | None

AMOUNTS = ("reward", "damage", "cumulative_damage")
FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}  # by the ending of a file


def is_table(log: Any) -> bool:
    """Whether a log has columns by name: a mapping, a data frame, an Arrow table, a structured array."""
    return _names(log) is not None


def _names(log: Any) -> list[str] | None:
    names: Any = None
    if isinstance(log, Mapping):
        names = log.keys()
    elif isinstance(log, np.ndarray):
        names = log.dtype.names
    elif hasattr(log, "__getitem__"):
        names = getattr(log, "column_names", None)
        names = getattr(log, "columns", None) if names is None else names
    return None if names is None else [str(name) for name in names]


def read_table(log: Any, columns: Columns) -> Iterator[Piece]:
    """The pieces of a table."""
    names = _names(log) or []
    if isinstance(log, Mapping) and _is_trajectory(log, names, columns):
        yield from _read_trajectory(log, columns)
        return
    found = find_columns(names, columns, "the table")
    data = {ours: _column(ours, log[theirs]) for ours, theirs in found.items()}
    for name, values in data.items():
        if len(values) != len(data["action"]):
            lengths = f"{len(values):,} of {name} and {len(data['action']):,} of action"
            raise ModelError(f"the columns of the table must be equally long; got {lengths}")
    for begin in range(0, len(data["action"]), CHUNK):
        part = {name: values[begin : begin + CHUNK] for name, values in data.items()}
        yield Piece(part, lambda i, begin=begin: f"row {begin + i:,}")  # type: ignore[misc]


def _column(name: str, values: Any) -> Any:
    """A column as a list or array."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None for masked entries
    if isinstance(values, (list, tuple)):
        return values
    column = np.asarray(values)
    if column.ndim == 0:
        raise ModelError(
            f"{name} must be a column, one entry per row; got {brief(values)}. Make columns of rows: "
            "{name: [row[name] for row in rows] for name in rows[0]}."
        )
    return column


# ---------------------------------------------------------------------- trajectories


def _is_trajectory(log: Mapping[str, Any], names: list[str], columns: Columns) -> bool:
    """Whether a table has one state more than actions, and no next states."""
    wanted = columns or {}
    if "next_state" in wanted or any(name in names for name in NAMES["next_state"]):
        return False
    state, action = (
        next((name for name in (wanted.get(ours), *NAMES[ours]) if name in names), None) for ours in ("state", "action")
    )
    if state is None or action is None or not all(hasattr(log[name], "__len__") for name in (state, action)):
        return False
    return len(log[state]) == len(log[action]) + 1


def _read_trajectory(log: Mapping[str, Any], columns: Columns) -> Iterator[Piece]:
    """The only piece of a trajectory: one whole episode, with one state more than actions."""
    data = dict(log)
    state = next(name for name in ((columns or {}).get("state"), *NAMES["state"]) if name in data)
    states = _column("state", data[state])
    data[state], data["next_state"] = states[:-1], states[1:]
    size = len(states) - 1
    found, ends = find_columns(data, columns, "the trajectory"), np.arange(size) == size - 1
    parts = {ours: data[theirs] for ours, theirs in found.items()}
    for name in {"terminated", "truncated"} & parts.keys():
        if isinstance(parts[name], (bool, np.bool_)):  # one flag for the whole episode
            parts[name] = ends & parts[name]
    parts = {name: _column(name, values) for name, values in parts.items()}
    piece = Piece(parts, lambda i: f"step {i} of the trajectory")
    if all(len(values) == size for values in parts.values()):
        terminated = _ends_with("terminated", piece, size)
        _ends_with("truncated", piece, size)
        parts["truncated"] = ends & ~terminated  # the next trajectory is another episode
    if size:
        yield piece


def _ends_with(name: str, piece: Piece, size: int) -> Bools:
    """A flag for every step of an episode, which only the last step may have."""
    flag = flags(name, piece.columns.get(name), size, piece.place)
    if flag[:-1].any():
        where = piece.place(int(np.argmax(flag)))
        raise ModelError(f"nothing must follow a step that is flagged {name}; {where} is not the last. Split it there.")
    return flag


# ---------------------------------------------------------------------- files


def read_file(path: str, columns: Columns) -> Iterator[Piece]:
    """The pieces of a CSV or Parquet file; the first line of a CSV file names its columns."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise FileError(
            f"{path!r} must end in .csv, .parquet or .pq. Load a Minari dataset with minari.load_dataset.", path=path
        )
    return _batches(path, FORMATS[ending], columns)


def _batches(path: str, form: str, columns: Columns) -> Iterator[Piece]:
    pyarrow = optional("pyarrow", "logs", "csv", "dataset")
    try:
        dataset, begin = pyarrow.dataset.dataset(path, format=form), 0
        there = {name.strip(): name for name in dataset.schema.names}
        found = find_columns(there, columns, repr(path))
        if form == "csv":
            dataset = pyarrow.dataset.dataset(path, format=_csv_format(pyarrow, dataset.schema, there, found))
        names = sorted({there[theirs] for theirs in found.values()})
        for batch in dataset.to_batches(columns=names, batch_size=CHUNK, use_threads=False):
            parts = {ours: _values(batch.column(there[theirs]), pyarrow) for ours, theirs in found.items()}
            yield Piece(parts, lambda i, begin=begin: f"row {begin + i:,} of {path!r}")  # type: ignore[misc]
            begin += batch.num_rows
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).rpartition("Invalid: ")[2]
        kind = "CSV" if form == "csv" else "Parquet"
        raise CorruptFile(f"{path!r} is not a {kind} file, or damaged or truncated: {reason}.", path=path) from error
    except OSError as error:
        missing = "No such file or directory" if isinstance(error, FileNotFoundError) else error
        raise FileError(f"cannot read {path!r}: {error.strerror or missing}.", path=path) from error


def _csv_format(pyarrow: Any, schema: Any, there: Mapping[str, str], found: Mapping[str, str]) -> Any:
    """Types are those of the first rows, but amounts may be fractions in later rows even if the first are integers."""
    amounts = (there[found[ours]] for ours in AMOUNTS if ours in found)
    kinds = {name: schema.field(name).type for name in amounts}
    whole = [name for name, kind in kinds.items() if pyarrow.types.is_integer(kind) or pyarrow.types.is_null(kind)]
    types = dict.fromkeys(whole, pyarrow.float64())
    return pyarrow.dataset.CsvFileFormat(convert_options=pyarrow.csv.ConvertOptions(column_types=types))


def _values(column: Any, pyarrow: Any) -> Any:
    """A column as an array if it holds only numbers, else as a list of Python objects; empty entries are None."""
    kind = column.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
    if is_number and column.null_count == 0:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return column.to_pylist()
