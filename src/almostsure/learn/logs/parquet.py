"""Logs as Parquet files, read a batch of rows at a time.  Needs the extra ``logs`` (pyarrow)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from almostsure.errors import CorruptFile, FileError, MissingExtra
from almostsure.learn.logs.columns import Piece, find_columns
from almostsure.learn.logs.tables import CHUNK, Columns


def read_parquet(path: str, columns: Columns) -> Iterator[Piece]:
    """The pieces of a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "logs") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            found, begin = find_columns(file.schema_arrow.names, columns, repr(path)), 0
            for batch in file.iter_batches(CHUNK, columns=sorted(set(found.values()))):
                parts = {ours: _values(batch.column(theirs), pyarrow) for ours, theirs in found.items()}
                yield Piece(parts, lambda i, begin=begin: f"row {begin + i:,} of {path!r}")  # type: ignore[misc]
                begin += batch.num_rows
    except pyarrow.ArrowException as error:
        raise CorruptFile(f"{path!r} is no Parquet file, or is damaged or truncated: {error}.", path=path) from error
    except OSError as error:
        raise FileError(f"cannot read {path!r}: {error.strerror or error}.", path=path) from error


def _values(column: Any, pyarrow: Any) -> Any:
    """A column as numbers where it holds some, and as whatever Python makes of it elsewhere; None where it is empty."""
    kind = column.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
    if is_number and column.null_count == 0:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return column.to_pylist()
