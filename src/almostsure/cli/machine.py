"""What machines read: one JSON object a command.  ``docs/command-line.md`` is the schema, and a test compares them.

Infinity is the string ``"inf"`` or ``"-inf"``, what has no value is ``null``; NaN never appears.  Text is escaped to
ASCII, so that a hostile name is data and nothing else.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

from almostsure.budget.answer import INFINITE
from almostsure.model.mdp import MDP

MOST = 10_000  # entries of a list that has one for each state; larger ones are in the file that -o writes


def emit(command: str, model: dict[str, Any] | None, **results: Any) -> None:
    """Print the one object of a command."""
    content = {"command": command, "version": version(), "model": model, **results}
    sys.stdout.write(json.dumps(plain(content), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def version() -> str:
    """The version of the package, whose root is always loaded when a command runs."""
    return str(sys.modules["almostsure"].__version__)


def described(name: str, mdp: MDP) -> dict[str, Any]:
    """The model as every object has it."""
    return {
        "name": name,
        "fingerprint": mdp.fingerprint,
        "states": mdp.num_states,
        "choices": mdp.num_choices,
        "outcomes": mdp.num_outcomes,
    }


def need(value: int) -> int | str:
    """A budget; ``"inf"`` where nothing suffices."""
    return "inf" if value == INFINITE else int(value)


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
