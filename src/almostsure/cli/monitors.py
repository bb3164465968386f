"""``--monitor``: monitors by name and parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from almostsure.arguments import one_of
from almostsure.errors import AlmostSureError, ArgumentError, FileError
from almostsure.model.mdp import MDP
from almostsure.model.monitors import Automaton, MonitorLike, Refill, SecondBudget, Steps
from almostsure.model.products import product

AUTOMATON = """{"start": "new", "forbidden": ["trap"], "edges": [["new", "inspected", "fine"], …]}"""
MOST_BYTES = 10**7  # of an automaton's file


def with_monitors(mdp: MDP, texts: Sequence[str]) -> MDP:
    """The product of the model with the monitors, in this order."""
    for text in texts:
        mdp = product(mdp, monitor_of(text))
    return mdp


def monitor_of(text: str) -> MonitorLike:
    """The monitor for an argument of ``--monitor``."""
    name, _, rest = text.partition("=")
    one_of("monitor", name, MONITORS)
    pattern, form, build = MONITORS[name]
    found = re.fullmatch(pattern, rest)
    if found is None:
        raise ArgumentError(f"--monitor {text!r} must have the form {form}")
    return build(*found.groups())


def _automaton(path: str) -> Automaton:
    """An automaton from a JSON file; its edges are triples of source, label (or several), and target."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            found = json.loads(file.read(MOST_BYTES))
    except OSError as error:
        raise FileError(f"cannot read the automaton {path}: {error.strerror}", path=path) from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON: {error}", path=path) from error
    try:
        if not found.keys() <= {"start", "forbidden", "edges"}:
            raise ValueError("unknown key")  # a misspelt "forbidden" would forbid nothing
        rows = [(here, label if isinstance(label, str) else frozenset(label), to) for here, label, to in found["edges"]]
        edges = {(here, label): to for here, label, to in rows}
        if len(edges) < len(rows):
            raise ValueError("two edges with the same source and label")
        return Automaton(edges, start=found["start"], forbidden=found.get("forbidden", ()))
    except AlmostSureError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} is not an automaton ({error}). An example: {AUTOMATON}", path=path) from error


Form = tuple[str, str, Callable[..., MonitorLike]]  # a pattern of the parameters, how it is written, the constructor
MONITORS: dict[str, Form] = {
    "steps": (r"(\d+)", "steps=T", lambda limit: Steps(int(limit))),
    "second": (r"(.+):(\d+)", "second=LABEL:BUDGET", lambda label, budget: SecondBudget(label, int(budget))),
    "refill": (
        r"(\d+):(\d+)@(.+)",
        "refill=COST:CAPACITY@LABEL",
        lambda cost, capacity, label: Refill(int(cost), int(capacity), label),
    ),
    "automaton": (r"(.+)", "automaton=FILE.json", _automaton),
}
