"""Models whose states are made of variables: PRISM programs, tuples, and names such as ``robot r5c6, forklift 0``.

They are drawn with two variables as axes, and a slider for each of the others.  The variables are those of the model's
file; otherwise they are parsed from the names of states, if nearly all names have the same form.  The memory of a
monitor is a further variable.
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
MOST_NAMES = 20_000  # of a model whose names are parsed
LONGEST_LABEL = 20  # characters below a circle of a graph
LONGEST_TUPLE = 500  # characters of a name that is parsed as a tuple
LARGEST_AXIS = 200  # values of a variable that can be an axis
ENDED, ENDED_AT = "ended", "ended at "  # prefix of ends in models of explore, and the variable that it becomes
ALIKE = 0.95  # fraction of the names that must have the same form
PLACE = re.compile(r"r(\d+)c(\d+)")
PAIRS = [("row", "column"), ("y", "x"), ("r", "c")]  # endings of the names of preferred axes


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
        "side": 1,
        "names": list(coded),
        "values": [values for values, _ in coded.values()],
        "codes": [pack(codes) for _, codes in coded.values()],
        "axes": [list(coded).index(name) for name in axes],
        "need": pack(study.minimal.of_state),
        "damage": pack(arrival_damage(mdp)),
    }


def values_alone(mdp: MDP) -> dict[str, Any]:
    """For graphs with names too long for labels: the values of each state as a label, and the variables."""
    columns = _varying(mdp)
    if not columns or max(len(mdp.state_name(state)) for state in range(mdp.num_states)) <= LONGEST_LABEL:
        return {"short": None}
    rows = [None if None in row else ", ".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return {"short": rows, "variables": list(columns)}


def _varying(mdp: MDP) -> dict[str, list[Any]]:
    """The variables that do not have the same value in all states."""
    return {name: column for name, column in _columns(mdp).items() if len(set(column)) > 1}


def _columns(mdp: MDP) -> dict[str, list[Any]]:
    """The value of each variable in every state; None if a state has none."""
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
    """The variables of a monitor's model, and its memory."""
    states = parts.states.tolist()
    columns = {name: [None if at < 0 else column[at] for at in states] for name, column in _columns(parts.base).items()}
    memories = zip(states, parts.memories, strict=True)
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
            prefix = "" if len(pieces) == 1 and part == value else f"{key} "
            result |= {f"{prefix}row": int(place[1]), f"{prefix}column": int(place[2])}
        else:
            result[key] = int(value) if re.fullmatch(r"-?\d{1,9}", value) else value
    return result


def _literal(name: str) -> tuple[Any, ...] | None:
    """The tuple that a name represents, as for states of from_function and explore; None if it does not."""
    if not name.startswith("(") or len(name) > LONGEST_TUPLE:
        return None
    try:
        value = ast.literal_eval(name)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, tuple) else None


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """The entries of a tuple by number, or by name for pairs such as ``("position", (2, 3))``."""
    if not isinstance(value, tuple):
        return {key: value if isinstance(value, (int, float, str)) else str(value)}
    pairs = value and all(isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) for x in value)
    named = value if pairs else [(str(i + 1) if key else f"part {i + 1}", x) for i, x in enumerate(value)]
    return {name: x for k, part in named for name, x in _flat(part, f"{key} {k}".strip()).items()}


def _pair(part: str, number: int) -> tuple[str, str]:
    """The name and the value of a part, from ``name=value``, ``name value`` or ``value name``."""
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
    """The sorted values of a variable as text, and the index of each state's value (−1 for none)."""
    values = sorted({value for value in column if value is not None}, key=lambda v: (isinstance(v, str), v))
    index = {value: code for code, value in enumerate(values)}
    return [str(value) for value in values], np.array([index.get(value, -1) for value in column], np.int64)


def _axes(sizes: dict[str, int]) -> tuple[str, str] | None:
    """The initial axes, down and across: rows and columns if there are any, otherwise those with the most values."""
    fitting = {name: size for name, size in sizes.items() if size <= LARGEST_AXIS}
    for down, across in PAIRS:
        for name in fitting:
            partner = name.removesuffix(down) + across
            if name.endswith(down) and name != partner and partner in fitting:
                return name, partner
    ranked = sorted(fitting, key=lambda name: -fitting[name])
    return (ranked[1], ranked[0]) if len(ranked) > 1 else None
