"""Models whose states are made of variables: PRISM programs, tuples, and names such as ``robot r5c6, forklift 0``.

They are drawn with two variables as axes, and a slider for each of the others.  The variables are those of the file
that a model came from; or else they are read out of the names of its states, where nearly all have the same form.
What a monitor remembers is one more variable.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

from almostsure.model.mdp import MDP, Ints
from almostsure.model.products import Parts
from almostsure.report.packing import pack
from almostsure.report.states import arrival_damage
from almostsure.report.study import Study

MOST_STATES = 100_000  # of a model that is drawn by its variables
MOST_NAMES = 20_000  # of a model whose names are read
LONGEST_LABEL = 20  # characters below a circle of a graph
LONGEST_TUPLE = 500  # characters of a name that is read as a tuple
LARGEST_AXIS = 200  # values of a variable that can be an axis
ENDED, ENDED_AT = "ended", "ended at "  # where explore saw an episode end; a variable if a run can also be there
ALIKE = 0.95  # of the names must have the same form
PLACE = re.compile(r"r(\d+)c(\d+)")
PAIRS = [("row", "column"), ("y", "x"), ("r", "c")]  # endings of names that make good axes


def variables_view(study: Study) -> dict[str, Any] | None:
    """The drawing of a model by its variables; None if it has fewer than two."""
    mdp = study.mdp
    if mdp.num_states > MOST_STATES:
        return None
    coded = {name: _coded(column) for name, column in _varying(mdp).items()}
    axes = _axes({name: len(values) for name, (values, _) in coded.items()})
    if axes is None:
        return None
    return {
        "kind": "variables",
        "cellsASide": 1,
        "names": list(coded),
        "values": [values for values, _ in coded.values()],
        "codes": [pack(codes) for _, codes in coded.values()],
        "axes": [list(coded).index(name) for name in axes],
        "need": pack(study.minimal.of_state),
        "hurts": pack(arrival_damage(mdp)),
    }


def values_alone(mdp: MDP) -> dict[str, Any]:
    """For a graph whose names are too long to stand below circles: the values of each state, and of which variables."""
    columns = _varying(mdp)
    if not columns or max(len(mdp.state_name(state)) for state in range(mdp.num_states)) <= LONGEST_LABEL:
        return {"short": None}
    rows = [None if None in row else ", ".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return {"short": rows, "variables": list(columns)}


def _varying(mdp: MDP) -> dict[str, list[Any]]:
    """The variables that do not have the same value in all states."""
    return {name: column for name, column in _columns(mdp).items() if len(set(column)) > 1}


def _columns(mdp: MDP) -> dict[str, list[Any]]:
    """For each variable its value in every state; None where a state has none."""
    if mdp.origin.parts is not None:
        return _of_product(mdp.origin.parts)
    if mdp.origin.variables:
        return {name: values.tolist() for name, values in mdp.origin.variables.items()}
    if mdp.state_names is None or mdp.num_states > MOST_NAMES:
        return {}
    rows = [_parts(mdp.state_name(state)) for state in range(mdp.num_states)]
    if np.mean([len(row) > 1 for row in rows]) < ALIKE:
        return {}
    keys = dict.fromkeys(key for row in rows if len(row) > 1 for key in row)
    if len(keys) > 12:
        return {}
    columns = {key: [row.get(key, "–") if len(row) > 1 else None for row in rows] for key in keys}
    plain = {key: column for key, column in columns.items() if key != ENDED}
    return plain if len(set(zip(*plain.values(), strict=True))) == len(rows) else columns


def _of_product(parts: Parts) -> dict[str, list[Any]]:
    """The variables of the model that a monitor watches, and what it remembers."""
    places = parts.states.tolist()
    columns = {name: [None if at < 0 else column[at] for at in places] for name, column in _columns(parts.base).items()}
    memories = zip(places, parts.memories, strict=True)
    name = "memory" if "memory" not in columns else f"memory {1 + sum(name.startswith('memory') for name in columns)}"
    columns[name] = [
        None if at < 0 else memory if isinstance(memory, (int, str)) else str(memory) for at, memory in memories
    ]
    return columns


def _parts(name: str) -> dict[str, Any]:
    """``robot r5c6, forklift 0`` as {"robot row": 5, "robot column": 6, "forklift": 0}."""
    if (entries := _literal(name.removeprefix(ENDED_AT))) is not None:
        return _flat(entries) | ({ENDED: "yes"} if name.startswith(ENDED_AT) else {})
    result: dict[str, Any] = {}
    inside = re.sub(r"[()\[\]]", "", re.sub(r"^\w+\(", "", name))
    pieces = inside.split(", ")
    for i, part in enumerate(pieces):
        key, value = _pair(part.strip(), i)
        if place := PLACE.fullmatch(value):
            what = "" if len(pieces) == 1 and part == value else f"{key} "
            result |= {f"{what}row": int(place[1]), f"{what}column": int(place[2])}
        else:
            result[key] = int(value) if re.fullmatch(r"-?\d{1,9}", value) else value
    return result


def _literal(name: str) -> tuple[Any, ...] | None:
    """The tuple that a name is, if it is one, as the states of from_function and explore are."""
    if not name.startswith("(") or len(name) > LONGEST_TUPLE:
        return None
    try:
        value = ast.literal_eval(name)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, tuple) else None


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """The entries of a tuple, by number; of pairs such as ``("position", (2, 3))``, by name."""
    if not isinstance(value, tuple):
        return {key: value if isinstance(value, (int, float, str)) else str(value)}
    pairs = value and all(isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) for x in value)
    named = value if pairs else [(str(i + 1) if key else f"part {i + 1}", x) for i, x in enumerate(value)]
    return {name: x for k, part in named for name, x in _flat(part, f"{key} {k}".strip()).items()}


def _pair(part: str, number: int) -> tuple[str, str]:
    if "=" in part:
        key, value = part.split("=", 1)
        return key.strip(), value.strip()
    words = part.split()
    if len(words) > 1 and words[0].islower():
        return words[0], " ".join(words[1:])
    if len(words) > 1 and words[-1].islower():
        return words[-1], " ".join(words[:-1])
    return f"part {number + 1}", part


def _coded(column: list[Any]) -> tuple[list[str], Ints]:
    """The values of a variable in order, as text, and which of them each state has (−1: none)."""
    values = sorted({value for value in column if value is not None}, key=lambda v: (isinstance(v, str), v))
    index = {value: code for code, value in enumerate(values)}
    return [str(value) for value in values], np.array([index.get(value, -1) for value in column], np.int64)


def _axes(sizes: dict[str, int]) -> tuple[str, str] | None:
    """The variables to begin with, down and across: rows and columns if there are any, else those with most values."""
    fitting = {name: size for name, size in sizes.items() if size <= LARGEST_AXIS}
    for down, across in PAIRS:
        for name in fitting:
            partner = name.removesuffix(down) + across
            if name.endswith(down) and name != partner and partner in fitting:
                return name, partner
    ranked = sorted(fitting, key=lambda name: -fitting[name])
    return (ranked[1], ranked[0]) if len(ranked) > 1 else None
