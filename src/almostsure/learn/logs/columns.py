"""The columns of a log: finding them by name, and converting their entries to numbers.

States and actions are numbers from 0, or names.  A column of text is one of numbers if every entry is a number; if only
some are, it is refused.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, as_python, one_of
from almostsure.errors import Blame, ModelError, UnknownName
from almostsure.model.arrays import Bools, Floats, Ints
from almostsure.model.space import Encode
from almostsure.wording import brief

NAMES = {  # by our names: the names that a column may have
    "state": ("state", "s"),
    "action": ("action", "a"),
    "next_state": ("next_state", "s'", "s2"),
    "reward": ("reward", "r"),
    "damage": ("damage", "d", "cost"),
    "cumulative_damage": ("cumulative_damage", "cumulative_cost"),
    "terminated": ("terminated",),  # not "done", which often includes time limits: truncation is not termination
    "truncated": ("truncated",),
    "episode": ("episode", "episode_id"),
    "step": ("step", "t"),
}
DONE = ("done", "dones", "is_done", "terminal", "terminals")  # may mean terminated or truncated
NEEDED = ("state", "action", "next_state")
ENCODE = "Pass encode=, a function that numbers the states."
TRUTH = "must be true or false"
TRUTHS = {"true": 1, "false": 0, "1": 1, "0": 0}  # as text
NO_EPISODE = ("", "nan", "inf", "-inf")  # as text
NUMBER = re.compile(r"\d+(\.0*)?")
AMOUNT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
LARGEST = 2**53  # floating-point numbers represent all integers up to here

Place = Callable[[int], str]


class Piece(NamedTuple):
    """Some rows of a log, before conversion to numbers."""

    columns: Mapping[str, Any]  # by our names, each with one entry per row
    place: Place  # the place of a row in the log, for messages
    is_encoded: bool = False  # whether its states are already encoded


class LogRows(NamedTuple):
    """Some rows of a log, as numbers; each array has one entry per row."""

    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats
    damage: Ints | None
    cumulative: Ints | None  # the damage of the episode up to and including each row
    terminated: Bools
    truncated: Bools
    episode: npt.NDArray[Any] | None  # the name or number of the episode
    step: Ints | None
    place: Place


# ---------------------------------------------------------------------- names


def find_columns(available: Iterable[str], wanted: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """The available column for each of our names: as ``wanted`` says, or else by name."""
    there, wanted = list(available), wanted or {}
    for ours in wanted:
        one_of("key of columns", ours, NAMES)
    found = {ours: _find(ours, there, wanted.get(ours), where) for ours in NAMES}
    result = {ours: theirs for ours, theirs in found.items() if theirs is not None}
    for ours, theirs in result.items():
        if there.count(theirs) > 1:
            raise ModelError(f"{where} must have one column for {ours}; {there.count(theirs)} are named {theirs!r}.")
    for ours in NEEDED:
        if ours not in result:
            raise _missing(ours, there, where)
    if "damage" not in result and "cumulative_damage" not in result:
        raise _missing("damage", there, where)
    if "terminated" not in result:
        _refuse_done(there, result, where)
    return result


def _refuse_done(there: list[str], result: Mapping[str, str], where: str) -> None:
    """Refuse a column that may end episodes but is not used: resets would be taken for outcomes."""
    unclear = [name for name in there if name.lower() in DONE and name not in result.values()]
    if unclear:
        raise ModelError(
            f"{where} must say what its column {unclear[0]!r} means. Rename it to terminated if nothing happens "
            "any more after such steps, or to truncated if the log was only cut there (a time limit)."
        )


def _find(ours: str, there: list[str], wanted: str | None, where: str) -> str | None:
    if wanted is not None:
        if wanted not in there:
            raise UnknownName("column", wanted, there, f"Columns that {where} has: {', '.join(there) or 'none'}.")
        return wanted
    found = [name for name in NAMES[ours] if name in there]
    if len(found) > 1:
        raise ModelError(
            f"{where} must have one column for {ours}; {found[0]!r} and {found[1]!r} could both be it. "
            f"Pass columns={{{ours!r}: {found[0]!r}}}."
        )
    return found[0] if found else None


def _missing(ours: str, there: list[str], where: str) -> UnknownName:
    if len(there) == 1 and ";" in there[0]:
        return UnknownName("column", ours, there, f"The separator of {where} seems to be ';'. Write it with commas.")
    has = f"Columns that {where} has: {', '.join(there) or 'none'}."
    remedy = f"{has} Rename one of them, or pass columns={{{ours!r}: …}}."
    return UnknownName("column", ours, there, remedy)


# ---------------------------------------------------------------------- numbers


class Labels:
    """The states or the actions of a log: numbers, or names that are numbered in the order in which they occur."""

    def __init__(self, what: str, remedy: str = "", most: int = LARGEST) -> None:
        self.what, self.remedy, self.most = what, remedy, most
        self.names: dict[str, int] | None = None  # None for numbers, and before the first entry
        self.highest = -1  # the highest number so far
        self._are_numbers: bool | None = None  # None before the first entry

    def numbers(self, name: str, values: Any, place: Place) -> Ints:
        """The number of each value of a column."""
        array = _array(values)
        is_text = array.ndim == 1 and array.dtype.kind in "UO" and any(isinstance(x, str) for x in array.tolist())
        if is_text and not self._is_numeric(name, array, place):
            self._agree(False, name, array, place)
            names = self.names = {} if self.names is None else self.names
            return np.array([names.setdefault(one, len(names)) for one in array.tolist()], np.int64)
        if not array.size:
            return array.astype(np.int64)
        self._agree(True, name, array, place)
        numbers = whole(name, array.astype(np.float64) if is_text else array, place, most=self.most, remedy=self.remedy)
        self.highest = max(self.highest, int(numbers.max()))
        return numbers

    def _is_numeric(self, name: str, array: npt.NDArray[Any], place: Place) -> bool:
        """Whether all texts are numbers; refused if only some are."""
        texts = [str(one) if isinstance(one, (str, int)) else "" for one in array.tolist()]
        good = np.array([one.strip() != "" and "\n" not in one for one in texts], np.bool_)
        _require(good, name, "must be an integer, 0 or more, or a name", array, place)
        numeric = np.array([NUMBER.fullmatch(one.strip()) is not None for one in texts], np.bool_)
        common = 2 * np.count_nonzero(numeric) >= numeric.size
        rule = f"must be {'an integer' if common else 'a name'}, as in other rows"
        _require(numeric == common, name, rule, array, place)
        return bool(common)

    def _agree(self, are_numbers: bool, name: str, array: npt.NDArray[Any], place: Place) -> None:
        if self._are_numbers is None:
            self._are_numbers = are_numbers
        if self._are_numbers is not are_numbers:
            kinds = ("names", "numbers") if are_numbers else ("numbers", "names")
            raise ModelError(
                f"the {self.what} of a log must be numbers or names, not both; they were {kinds[0]}, and {place(0)} "
                f"has {as_python(array[0])!r} for its {name}"
            )


class Reader:
    """The settings and names for converting the rows of a log to numbers."""

    def __init__(self, encode: Encode | None, max_damage: int, num_states: int | None) -> None:
        self.encode, self.max_damage = encode, max_damage
        remedy, most = ENCODE if encode is None else "", LARGEST
        if num_states is not None:
            remedy, most = f"num_states is {num_states}. {remedy}".strip(), num_states - 1
        self.states, self.actions = Labels("states", remedy, most), Labels("actions")


def typed(piece: Piece, reader: Reader) -> LogRows:
    """The rows of a piece as numbers; invalid entries are refused."""
    columns, place = piece.columns, piece.place
    size = len(columns["action"])
    for name, values in columns.items():
        if len(values) != size:
            raise ModelError(f"columns must be equally long; got {len(values)} of {name} and {size} of action")
    terminated = flags("terminated", columns.get("terminated"), size, place)
    state = _states("state", columns["state"], piece, reader, place)
    next_state = state.copy()
    # The next state of a terminated row need not be a state: often it is empty or −1.
    at = np.flatnonzero(~terminated)
    rest = columns["next_state"] if at.size == size else [columns["next_state"][i] for i in at.tolist()]
    next_state[at] = _states("next_state", rest, piece, reader, lambda i: place(int(at[i])))
    _note_ends([columns["next_state"][i] for i in np.flatnonzero(terminated).tolist()], piece, reader)
    cumulative, damage, step = (columns.get(name) for name in ("cumulative_damage", "damage", "step"))
    return LogRows(
        state=state,
        action=reader.actions.numbers("action", columns["action"], place),
        next_state=next_state,
        reward=_rewards(columns.get("reward"), size, place),
        damage=None if damage is None else whole("damage", _without_booleans(damage), place, most=reader.max_damage),
        cumulative=None if cumulative is None else whole("cumulative_damage", cumulative, place),
        terminated=terminated,
        truncated=flags("truncated", columns.get("truncated"), size, place),
        episode=_episodes(columns.get("episode"), place),
        step=None if step is None else whole("step", step, place),
        place=place,
    )


def _states(name: str, values: Any, piece: Piece, reader: Reader, place: Place) -> Ints:
    if reader.encode is not None and not piece.is_encoded:
        values = encoded(name, values, reader.encode, place)
    return reader.states.numbers(name, values, place)


def _note_ends(values: list[Any], piece: Piece, reader: Reader) -> None:
    """Include the states that were shown when episodes ended, except entries that are not states."""
    for value in set(values) if all(isinstance(one, Hashable) for one in values) else values:
        with contextlib.suppress(ModelError):
            _states("next_state", [value], piece, reader, lambda _: "")


def encoded(name: str, values: Iterable[Any], encode: Encode, place: Place) -> list[Any]:
    """The values, encoded."""
    result: list[Any] = []
    with Blame(lambda: f"encode failed for the {name} of {place(len(result))}"):
        for value in values:
            result.append(encode(value))
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
    """A column of booleans, or of zeros and ones; all false if there is no such column."""
    if values is None:
        return np.zeros(size, np.bool_)
    values = [TRUTHS.get(str(one).strip().lower(), one) for one in values] if _has_text(values) else values
    numbers = _numbers(name, _without_booleans(values), place, TRUTH)
    _require((numbers == 0) | (numbers == 1), name, TRUTH, numbers, place)
    return numbers.astype(np.bool_)


def _episodes(values: Any, place: Place) -> npt.NDArray[Any] | None:
    if values is None:
        return None
    array = _array(values)
    if array.ndim != 1:
        raise ModelError(f"episode must be a number or a text; got an array at {place(0)}")
    if array.dtype.kind not in "iu":
        good = [isinstance(one, (str, int, float)) and str(one) not in NO_EPISODE for one in array.tolist()]
        _require(np.array(good, np.bool_), "episode", "must be a number or a text", array, place)
    return array


def _numbers(name: str, values: Any, place: Place, rule: str, remedy: str = "") -> npt.NDArray[Any]:
    """A column as an array of numbers."""
    array = _array(values)
    if array.ndim != 1:
        raise ModelError(
            f"{name} {rule}; got an array of shape {list(array.shape[1:])} at {place(0)}. {remedy}".rstrip()
        )
    if array.dtype.kind in "iuf":
        return array
    listed = [_number(one) for one in array.tolist()]
    good = np.array([isinstance(one, (int, float)) and not isinstance(one, bool) for one in listed], np.bool_)
    _require(good, name, rule, array, place, remedy)
    return np.array([float(one) for one in listed])


def _number(value: Any) -> Any:
    """Text as a number if it is one; other values unchanged."""
    return float(value) if isinstance(value, str) and AMOUNT.fullmatch(value.strip(" ")) else value


def _without_booleans(values: Any) -> npt.NDArray[Any]:
    """A column with 1 for true and 0 for false."""
    array = _array(values)
    if array.dtype.kind == "b":
        return array.astype(np.int64)
    if array.dtype.kind == "O" and array.ndim == 1:
        return np.array([int(one) if isinstance(one, (bool, np.bool_)) else one for one in array.tolist()], np.object_)
    return array


def _array(values: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different shapes
        return np.array([value if np.isscalar(value) else repr(value) for value in values], np.object_)
    if array.dtype.kind == "U" and isinstance(values, (list, tuple)):
        return np.array(values, np.object_)  # NumPy converts numbers to text if there is any text
    return array


def _has_text(values: Any) -> bool:
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    return kind == "U" or (kind == "O" and any(isinstance(one, str) for one in values))


def _require(
    good: npt.NDArray[np.bool_], name: str, rule: str, values: npt.NDArray[Any], place: Place, remedy: str = ""
) -> None:
    if good.all():
        return
    at = int(np.argmin(good))
    more, got = int(good.size - np.count_nonzero(good)) - 1, as_python(values[at])
    is_nan = isinstance(got, float) and got != got
    shown = "nothing" if got is None or (isinstance(got, str) and not got) else "NaN" if is_nan else brief(got)
    raise ModelError(f"{name} {rule}; got {shown} at {place(at)}{and_more(more, 'row')}. {remedy}".rstrip())
