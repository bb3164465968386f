"""The columns of a log: what they are called, and numbers out of whatever they hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more
from almostsure.errors import AlmostSureError, ModelError, UnknownName
from almostsure.model.mdp import Bools, Floats, Ints

NAMES = {  # ours, and what else is taken for it
    "state": ("state", "s"),
    "action": ("action", "a"),
    "next_state": ("next_state", "s'", "s2"),
    "reward": ("reward", "r"),
    "damage": ("damage", "d", "cost"),
    "cumulative_damage": ("cumulative_damage", "cumulative_cost"),
    "terminated": ("terminated",),  # not "done", which often includes time limits: nobody is safe because of those
    "truncated": ("truncated",),
    "episode": ("episode", "episode_id"),
    "step": ("step", "t"),
}
DONE = ("done", "dones", "is_done", "terminal", "terminals")  # may mean either
NEEDED = ("state", "action", "next_state")
TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
LARGEST = 2**53  # beyond, floating-point numbers skip integers

Encode = Callable[[Any], int]
Place = Callable[[int], str]


class Piece(NamedTuple):
    """Some rows of a log, as they were found."""

    columns: Mapping[str, Any]  # by our names, each with one entry a row
    place: Place  # where a row stands in the log, for messages
    is_encoded: bool = False  # whether its states are numbers already


class Rows(NamedTuple):
    """Some rows of a log, as numbers; each array has one entry a row."""

    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats
    damage: Ints | None
    cumulative: Ints | None  # the damage of the episode up to and including each row
    terminated: Bools
    truncated: Bools
    episode: npt.NDArray[Any] | None  # whatever tells episodes apart
    step: Ints | None
    place: Place


# ---------------------------------------------------------------------- names


def find_columns(available: Iterable[str], wanted: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """Which of the available columns is which of ours: as ``wanted`` says, or else by their names."""
    there, wanted = list(available), wanted or {}
    for ours in wanted:
        if ours not in NAMES:
            raise UnknownName("key of columns", ours, NAMES, f"Choose from {', '.join(NAMES)}.")
    found = {ours: _find(ours, there, wanted.get(ours), where) for ours in NAMES}
    result = {ours: theirs for ours, theirs in found.items() if theirs is not None}
    for ours, theirs in result.items():
        if there.count(theirs) > 1:
            raise ModelError(f"{where} must have one column for {ours}; {there.count(theirs)} are called {theirs!r}.")
    for ours in NEEDED:
        if ours not in result:
            raise _missing(ours, there, where)
    if "damage" not in result and "cumulative_damage" not in result:
        raise _missing("damage", there, where)
    if "terminated" not in result:
        _refuse_done(there, result, where)
    return result


def _refuse_done(there: list[str], result: Mapping[str, str], where: str) -> None:
    """A column that ends episodes must not be passed over: what comes after an end would be taken for its outcome."""
    unclear = [name for name in there if name.lower() in DONE and name not in result.values()]
    if unclear:
        raise ModelError(
            f"{where} must say what its column {unclear[0]!r} means. Rename it to terminated if nothing happens "
            "any more after such steps, or to truncated if the log was only cut there (a time limit)."
        )


def _find(ours: str, there: list[str], wanted: str | None, where: str) -> str | None:
    if wanted is not None:
        if wanted not in there:
            raise UnknownName("column", wanted, there, f"{where} has: {', '.join(there) or 'none'}.")
        return wanted
    found = [name for name in NAMES[ours] if name in there]
    if len(found) > 1:
        raise ModelError(
            f"{where} must have one column for {ours}; {found[0]!r} and {found[1]!r} could both be it. "
            f"Pass columns={{{ours!r}: {found[0]!r}}}."
        )
    return found[0] if found else None


def _missing(ours: str, there: list[str], where: str) -> UnknownName:
    remedy = f"{where} has: {', '.join(there) or 'none'}. Rename the one that is meant, or say columns={{{ours!r}: …}}."
    return UnknownName("column", ours, there, remedy)


# ---------------------------------------------------------------------- numbers


def typed(piece: Piece, encode: Encode | None, max_damage: int) -> Rows:
    """The rows of a piece as numbers; refused where they are not what they must be."""
    columns, place = piece.columns, piece.place
    encode = None if piece.is_encoded else encode
    size = len(columns["action"])
    for name, values in columns.items():
        if len(values) != size:
            raise ModelError(f"columns must be equally long; got {len(values)} of {name} and {size} of action")
    terminated = flags("terminated", columns.get("terminated"), size, place)
    state = _states("state", columns["state"], encode, place)
    next_state = state.copy()
    # After the end, whatever stands for the next state is no state any more: often nothing, or −1.
    at = np.flatnonzero(~terminated)
    next_state[at] = _states(
        "next_state", _picked(columns["next_state"], at, size), encode, lambda i: place(int(at[i]))
    )
    cumulative = columns.get("cumulative_damage")
    damage, step = columns.get("damage"), columns.get("step")
    return Rows(
        state, whole("action", columns["action"], place), next_state, _rewards(columns.get("reward"), size, place),
        None if damage is None else whole("damage", damage, place, most=max_damage),
        None if cumulative is None else whole("cumulative_damage", cumulative, place),
        terminated, flags("truncated", columns.get("truncated"), size, place),
        _episodes(columns.get("episode"), place), None if step is None else whole("step", step, place), place,
    )  # fmt: skip


def _states(name: str, values: Any, encode: Encode | None, place: Place) -> Ints:
    if encode is None:
        return whole(name, values, place, remedy="Pass encode=, a function that numbers the states.")
    return whole(name, encoded(name, values, encode, place), place)


def _picked(values: Any, at: Ints, size: int) -> Any:
    return values if at.size == size else [values[i] for i in at.tolist()]


def encoded(name: str, values: Iterable[Any], encode: Encode, place: Place) -> list[Any]:
    """What ``encode`` makes of each value."""
    result = []
    for i, value in enumerate(values):
        try:
            result.append(encode(value))
        except AlmostSureError:
            raise
        except Exception as error:
            raise ModelError(f"encode failed for the {name} of {place(i)}: {type(error).__name__}: {error}") from error
    return result


def whole(name: str, values: Any, place: Place, *, most: int = LARGEST, remedy: str = "") -> Ints:
    """A column of integers from 0 to ``most``."""
    rule = "must be an integer, 0 or more" if most == LARGEST else f"must be an integer 0 … {most}"
    numbers = _numbers(name, values, place, rule, remedy)
    good = (numbers >= 0) & (numbers <= most)
    if numbers.dtype.kind == "f":
        good &= numbers == np.floor(numbers)
    _require(good, name, rule, numbers, place, remedy)
    return numbers.astype(np.int64)


def _rewards(values: Any, size: int, place: Place) -> Floats:
    if values is None:
        return np.zeros(size)
    numbers = _numbers("reward", values, place, "must be a finite number").astype(np.float64)
    _require(np.isfinite(numbers), "reward", "must be a finite number", numbers, place)
    return numbers


def flags(name: str, values: Any, size: int, place: Place) -> Bools:
    """A column of truths, in whichever way they are written; all false where there is none."""
    if values is None:
        return np.zeros(size, np.bool_)
    array = _array(values)
    if array.dtype.kind in "UO":
        truth = [TRUTHS.get(str(value).strip().lower()) for value in array.tolist()]
        good = np.array([value is not None for value in truth], np.bool_)
        _require(good, name, "must be true or false", array, place)
        return np.array(truth, np.bool_)
    numbers = _numbers(
        name, array.astype(np.uint8) if array.dtype.kind == "b" else array, place, "must be true or false"
    )
    _require((numbers == 0) | (numbers == 1), name, "must be true or false", numbers, place)
    return numbers.astype(np.bool_)


def _episodes(values: Any, place: Place) -> npt.NDArray[Any] | None:
    if values is None:
        return None
    array = _array(values)
    if array.ndim != 1:
        raise ModelError(f"episode must be a number or a text; got an array at {place(0)}")
    if array.dtype.kind in "iuU":
        good = array != "" if array.dtype.kind == "U" else np.ones(array.shape, np.bool_)
    elif array.dtype.kind == "f":
        good = np.isfinite(array)
    else:
        good = np.array([isinstance(value, (str, int)) and value != "" for value in array.tolist()], np.bool_)
    _require(good, "episode", "must be a number or a text", array, place)
    return array


def _numbers(name: str, values: Any, place: Place, rule: str, remedy: str = "") -> npt.NDArray[Any]:
    """A column as an array of numbers; text is read as numbers."""
    if isinstance(values, list) and values and isinstance(values[0], str):
        with contextlib.suppress(ValueError, TypeError):
            return np.array([*map(float, values)])  # several times faster than an array of text
    array = _array(values)
    if array.ndim != 1:
        raise ModelError(
            f"{name} {rule}; got an array of shape {list(array.shape[1:])} at {place(0)}. {remedy}".rstrip()
        )
    if array.dtype.kind in "iuf":
        return array
    good = np.array([_is_number(value) for value in array.tolist()], np.bool_)
    _require(good, name, rule, array, place, remedy)
    return np.array([float(value) for value in array.tolist()])


def _is_number(value: Any) -> bool:
    if isinstance(value, (bool, bytes)):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _array(values: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different shapes
        return np.array([*map(_boxed, values)], np.object_)


def _boxed(value: Any) -> Any:
    return value if np.isscalar(value) else repr(value)


def _require(
    good: npt.NDArray[np.bool_], name: str, rule: str, values: npt.NDArray[Any], place: Place, remedy: str = ""
) -> None:
    if good.all():
        return
    at = int(np.argmin(good))
    more, value = int(good.size - np.count_nonzero(good)) - 1, values[at]
    got = value.item() if isinstance(value, np.generic) else value
    shown = "nothing" if got is None or got == "" else "NaN" if got != got else repr(got)
    raise ModelError(f"{name} {rule}; got {shown} at {place(at)}{and_more(more, 'row')}. {remedy}".rstrip())
