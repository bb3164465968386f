"""The beginning of all exported modules: their errors, their table, and the validation of arguments.

An export replaces the line that imports this module by its code (:mod:`almostsure.shield.export.write`), so that the
exported module is self-contained.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import operator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MODEL = ""  # the fingerprint of the model
LEARNED = ""  # how the model was learned from samples or found by playing, if it was
TABLE = ""  # SHA-256 of the table that belongs to this file

Actions = np.ndarray[Any, np.dtype[np.int64]]


class NoSafeAction(Exception):
    """No action of the state is safe with the remaining budget."""


class UnknownState(LookupError):
    """The model has no such state."""


class DamagedTable(Exception):
    """The table next to this file is missing, damaged, or belongs to another file."""


@functools.cache
def read_table() -> Any:
    """The arrays of the table by name; budget and horizon as integers."""
    path = Path(__file__).with_suffix(".npz")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedTable(f"cannot read the table {path.name!r}: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != TABLE:
        raise DamagedTable(f"{path.name!r} is damaged, or not the table that this file was written with")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        numbers = ("budget", "horizon")
        return SimpleNamespace(**{name: int(x) if name in numbers else x for name, x in arrays.items()})


def whole(name: str, value: object) -> int:
    """``value`` as an int, if it is an integer and not a bool."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r}") from None


@functools.cache
def names() -> Any:
    """``states`` and ``actions`` by number, and ``variables`` with their values by state; None or empty without any."""
    return SimpleNamespace(**json.loads(bytes(read_table().names)))


@functools.cache
def _numbers() -> dict[Any, int]:
    """The number of each state, by name and by values; −1 for values that several states have."""
    known = {name: state for state, name in enumerate(names().states or ())}
    for state, values in enumerate(zip(*names().variables.values(), strict=True)):
        known[values] = -1 if values in known else state
    return known


def state_number(name: str | None = None, /, **values: object) -> int:
    """The number of the state with a name, ``state_number("r0c1")``, or with values, ``state_number(x=1)``."""
    wanted: Any = name
    if values or name is None:
        if name is not None or not values or values.keys() != names().variables.keys():
            known = ", ".join(names().variables) or "none, for this model has no variables"
            raise TypeError(f"give a name, or a value for every variable: {known}")
        wanted = tuple(values[variable] for variable in names().variables)
    state = _numbers().get(wanted)
    if state is None:
        if str(wanted) in _numbers():
            raise UnknownState(f"states are found by name: state_number({str(wanted)!r}), or pass str(state)")
        some = ", ".join(repr(each) for each in (names().states or ())[:4])
        raise UnknownState(
            f"no state is {wanted!r}. " + (f"They are named {some}, …" if some else "They have no names.")
        )
    if state < 0:
        raise UnknownState(f"several states have the values {wanted!r}: give a name")
    return state


def known_state(name: str, value: object) -> int:
    """``value`` as an int, if it is a state of the table."""
    state, count = whole(name, value), len(read_table().start) - 1
    if not 0 <= state < count:
        raise UnknownState(f"unknown state {state}. States are 0 … {count - 1}.")
    return state
