"""Errors in a user's function that name its line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from traceback import FrameSummary, extract_stack
from typing import NoReturn

import numpy as np

from almostsure.errors import ModelError

OURS, NUMPY = str(Path(__file__).parents[1]), str(Path(np.__file__).parent)


def refuse(operation: str, remedy: str) -> NoReturn:
    """Raise an error for an operation that intervals do not support, with its line and a remedy."""
    raise ModelError(
        f"{operation} cannot be applied to intervals, at {where_in_user_code()}. {remedy[:1].upper()}{remedy[1:]}."
    )


def where_in_user_code(frames: Iterable[FrameSummary] | None = None) -> str:
    """The file, line and text of the innermost frame outside this package and NumPy, by default of the call stack."""
    theirs = [frame for frame in frames or extract_stack() if not frame.filename.startswith((OURS, NUMPY))]
    if not theirs:
        return "its call"
    file, text = Path(theirs[-1].filename).name, theirs[-1].line
    return f"{file}, line {theirs[-1].lineno}{f': {text}' if text else ''}"
