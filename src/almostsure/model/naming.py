"""Names of states and actions: validation, making repeated names distinct, and lookup.

States of programs are also looked up by the values of their variables, in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import as_python
from almostsure.errors import ModelError, UnknownName
from almostsure.model.arrays import Bools, Ints
from almostsure.wording import brief, counted

LONGEST_SHOWN = 60  # characters of each name that a message lists as an example
SUGGEST_FROM = 10_000  # names that a misspelled one is compared with; a million would take a minute


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The ``encode`` of a space learned from a log with names, which an environment may number differently."""

    encode: Callable[[Any], int | str] | None  # encodes observations, if those of the log were encoded
    names_states: bool  # whether states are numbered in the alphabetical order of their names
    names_actions: bool  # the same for actions

    def __call__(self, observation: Any) -> Any:
        """The state of an observation; if the log named its states, only a name is accepted."""
        if self.encode is not None:
            return self.encode(observation)
        if self.names_states and not isinstance(observation, str):
            raise ModelError(
                "an observation must be the name of a state, as in the log; got "
                f"{brief(as_python(observation))}. Pass state_of, a function from (observation, env) to the name."
            )
        return observation


def distinct(names: Iterable[str]) -> list[str]:
    """The names; repeated ones get suffixes: `` (2)``, `` (3)`` and so on."""
    result = list(names)
    seen = set(result)
    if len(seen) == len(result):
        return result
    count: Counter[str] = Counter()
    for at, name in enumerate(result):
        count[name] += 1
        if count[name] > 1:
            while (new := f"{name} ({count[name]})") in seen:
                count[name] += 1
            seen.add(new)
            result[at] = new
    return result


def ranks(keys: Ints) -> Ints:
    """For each key, the number of equal keys before it."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))
    result = np.empty(keys.size, np.int64)
    result[order] = np.arange(keys.size) - np.repeat(starts, np.diff(np.append(starts, keys.size)))
    return result


def checked_names(what: str, names: Sequence[str] | None, *, exactly: int | None = None) -> tuple[str, ...] | None:
    """The names as a tuple, if they are distinct strings, ``exactly`` that many."""
    if names is None:
        return None
    result = tuple(names)
    if exactly is not None and len(result) != exactly:
        raise ModelError(f"{what}_names must name each of the {exactly} {what}s; got {counted(len(result), 'name')}")
    if not all(isinstance(name, str) for name in result):
        raise ModelError(f"{what}_names must be strings; got {next(n for n in result if not isinstance(n, str))!r}")
    if len(set(result)) != len(result):
        twice = Counter(result).most_common(1)[0][0]
        raise ModelError(f"{what}_names must differ; got {twice!r} twice")
    return result


def unknown_name(what: str, name: str, names: Sequence[str]) -> UnknownName:
    """The error for an unknown name, with the nearest known name or else some known names as examples."""
    error = UnknownName(what, name, names[:SUGGEST_FROM])
    if error.nearest is not None or not names:
        return error
    some = ", ".join(f"{known[:LONGEST_SHOWN]!r}" for known in names[:4])
    return UnknownName(what, name, (), f"{what.capitalize()}s are named {some}{', …' if len(names) > 4 else '.'}")


def named(names: Sequence[str] | None, index: int) -> str:
    """The name that a message shows after an index, with a space before it; empty if there is none."""
    return f" {names[index]!r}" if names is not None and index < len(names) else ""


def split_values(name: str) -> dict[str, str]:
    """``"x=1, up=true"`` as ``{"x": "1", "up": "true"}``; empty for text of another form."""
    parts = [tuple(piece.strip() for piece in part.partition("=")) for part in name.split(",")]
    values = {variable: value for variable, _, value in parts}
    return values if len(values) == len(parts) and all(variable and value for variable, _, value in parts) else {}


def state_with(
    variables: Mapping[str, npt.NDArray[Any]], values: Mapping[str, object], names: Sequence[str] | None
) -> int:
    """The state in which all variables have the given values; ``variables`` have one value per state."""
    for variable in values:
        if variable not in variables:
            raise UnknownName("variable", variable, variables, f"The variables are: {', '.join(variables)}.")
    given = ", ".join(f"{name}={_text(values[name])}" for name in variables if name in values)
    missing = [name for name in variables if name not in values]
    if missing:
        remedy = f"A state has a value for every variable; missing here: {', '.join(missing)}."
        raise UnknownName("state", given, (), remedy)
    found = np.flatnonzero(np.logical_and.reduce([_equals(variables[name], values[name]) for name in variables]))
    if found.size > 1:
        raise UnknownName("state", given, (), f"{found.size} states have these values; give the number of one of them.")
    if not found.size:
        raise unknown_name("state", given, names or ())
    return int(found[0])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


def _equals(column: npt.NDArray[Any], value: object) -> Bools:
    """A mask of the states in which a variable has a value (or its text); a boolean never equals a number."""
    text = _text(value)
    if column.dtype == np.bool_:
        return column == (text == "true") if text in ("true", "false") else np.zeros(column.size, np.bool_)
    try:
        number = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return np.zeros(column.size, np.bool_)
    if column.dtype.kind != "f":
        return np.asarray(column == number)
    unique, place = np.unique(column, return_inverse=True)
    return np.array([f"{known:g}" == f"{number:g}" for known in unique.tolist()], np.bool_)[place]  # as in names


def shown(name: str) -> str:
    """The name on one line: line breaks and other unprintable characters are written as escapes."""
    return name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
