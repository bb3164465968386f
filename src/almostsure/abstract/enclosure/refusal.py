"""Errors in a user's function that name its line."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np

from almostsure.errors import ModelError

OURS = str(Path(__file__).parents[1])


def refuse(operation: str, remedy: str) -> NoReturn:
    """Raise an error for an operation that intervals do not support, with its line and a remedy."""
    raise ModelError(
        f"{operation} cannot be applied to intervals, at {where_in_user_code()}. {remedy[:1].upper()}{remedy[1:]}."
    )


def where_in_user_code() -> str:
    """The file, line and text of the innermost frame outside this package and NumPy."""
    numpy = str(Path(np.__file__).parent)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((OURS, numpy)):
        frame = frame.f_back
    return line_of(frame.f_code.co_filename, frame.f_lineno)


def line_of(file: str, number: int) -> str:
    """A line of code in words, for messages."""
    text = linecache.getline(file, number).strip()
    return f"{Path(file).name}, line {number}{f': {text}' if text else ''}"
