"""The names of states and actions in exported shields, which refer to them by number.

A module finds a state by its name or by the values of its variables, which are in its table.  In a header the names are
behind a macro, so that programs only contain them on request; a function finds a state by the values of its variables.
Models with very many states are exported without names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import MDP

MOST_STATES = 1_000_000  # names and variables are exported up to this many states
MOST_IN_HEADER = 10_000  # a header has names for up to this many states
LONGEST = 4095  # bytes of a string that every C99 compiler accepts
PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _.,:;()+=-")
LINE = 60  # characters of a name per line of C


class Names(NamedTuple):
    """Names by state and by action, and for each variable its value in every state; None or empty if there are none."""

    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    variables: Mapping[str, npt.NDArray[Any]]  # each [num_states]

    @classmethod
    def of(cls, model: Any) -> Names:
        """The names of a model, or of the ``Identity`` of another kind of shield."""
        if not isinstance(model, MDP) or model.num_states > MOST_STATES:
            return cls(None, model.action_names, {})
        return cls(model.state_names, model.action_names, model.origin.variables)

    def packed(self) -> npt.NDArray[np.uint8]:
        """All names as JSON, in an array of bytes for a table."""
        variables = {name: values.tolist() for name, values in self.variables.items()}
        content = {"states": self.states, "actions": self.actions, "variables": variables}
        return np.frombuffer(json.dumps(content).encode(), np.uint8)

    def in_header(self) -> tuple[str, ...] | None:
        """The names of states for a header; None if they are too many, or one is too long or contains a zero byte."""
        names = self.states
        if names is None or len(names) > MOST_IN_HEADER:
            return None
        return None if any("\0" in name or len(name.encode()) > LONGEST for name in names) else names

    def sorted_values(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None:
        """The rows of values in ascending order, and their states; None unless they are distinct 32-bit integers."""
        columns = list(self.variables.values())
        if not columns or any(column.dtype.kind not in "biu" for column in columns):
            return None
        rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
        order = np.lexsort(rows.T[::-1])
        ascending = rows[order]
        fits = np.abs(ascending).max(initial=0) < 2**31
        differ = (ascending[1:] != ascending[:-1]).any(axis=1).all()
        return (ascending.astype(np.int32), order.astype(np.min_scalar_type(len(rows)))) if fits and differ else None


# ---------------------------------------------------------------------- C

NAMES = """
/* Names, by number, if {NAME}_NAMES is defined before this header is included. */
#ifdef {NAME}_NAMES
"""

BY_NAME = """
#include <string.h>

/* The state with this name, or {NAME}_UNKNOWN_STATE. */
static inline int64_t {name}_state_named(const char *text)
{{
    uint32_t state;
    for (state = 0; text != NULL && state < {NAME}_NUM_STATES; state++) {{
        if (strcmp(text, {name}_state_names[state]) == 0) return state;
    }}
    return {NAME}_UNKNOWN_STATE;
}}
"""

BY_VALUES = """
/* The state in which the variables have these values (booleans are 0 and 1), or {NAME}_UNKNOWN_STATE.
 *
 *   values   {variables}
 */
static inline int64_t {name}_state(const int32_t *values)
{{
    uint32_t low = 0, high = {NAME}_NUM_STATES, middle, i;
    while (values != NULL && low < high) {{
        middle = low + (high - low) / 2;
        for (i = 0; i < {count}u; i++) {{
            if ({name}_values[(size_t)middle * {count}u + i] != values[i]) break;
        }}
        if (i == {count}u) return {name}_state_of[middle];
        if ({name}_values[(size_t)middle * {count}u + i] < values[i]) low = middle + 1; else high = middle;
    }}
    return {NAME}_UNKNOWN_STATE;
}}
"""


def header_names(names: Names, prefix: str) -> Iterator[str | tuple[str, npt.NDArray[Any]]]:
    """The names in a header, in parts: text, and arrays with their names."""
    fields = {"name": prefix, "NAME": prefix.upper()}
    lists = {"state_names": names.in_header(), "action_names": names.actions}
    if any(lists.values()):
        yield NAMES.format(**fields)
        for what, each in lists.items():
            if each is not None:
                yield f"\nstatic const char *const {prefix}_{what}[] = {{\n"
                yield from map(_literal, each)
                yield "};\n"
        yield (BY_NAME.format(**fields) if lists["state_names"] else "") + "\n#endif\n"
    if (found := names.sorted_values()) is not None:
        rows, states = found
        yield "values", rows.ravel()
        yield "state_of", states
        shown = ", ".join(f"[{at}] {plain(name)}" for at, name in enumerate(names.variables))
        yield BY_VALUES.format(**fields, count=rows.shape[1], variables=shown)


def how_to_find(names: Names, prefix: str) -> str:
    """The part of a header's comment about finding the number of a state."""
    ways = []
    if names.sorted_values() is not None:
        ways.append(f"{prefix}_state(values) finds one by its variables")
    if names.in_header() is not None:
        ways.append(f"with {prefix.upper()}_NAMES defined, {prefix}_state_named(text) finds one by its name")
    left_out = names.states is not None and names.in_header() is None
    return "".join(f"; {way}" for way in ways) + "; their names are left out, export_numpy writes them" * left_out


def plain(text: str, most: int = 40) -> str:
    """The first ``most`` characters of a name for a comment, without characters that could end it or splice lines."""
    return "".join(character if character in PLAIN or character in "%*" else "_" for character in text[:most])


def _literal(name: str) -> str:
    """A name as a C string literal, in pieces that fit on a line; characters with a meaning in C are in octal."""
    codes = [chr(byte) if chr(byte) in PLAIN else f"\\{byte:03o}" for byte in name.encode(errors="surrogatepass")]
    pieces = (codes[at : at + LINE] for at in range(0, max(len(codes), 1), LINE))
    return "    " + "\n    ".join(f'"{"".join(piece)}"' for piece in pieces) + ",\n"
