"""Formats numbers and values for messages, for the tables and the JSON of the command, and for the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

TINY = 5e-7  # a probability below this reads "almost 0"


def brief(value: object, longest: int = 80) -> str:
    """The ``repr`` of a value for a message, cut to about ``longest`` characters."""
    text = repr(value)
    return text if len(text) <= longest else text[: longest - 3] + "…"


def state_of_example(parts: Mapping[Any, Any] | None = None) -> str:
    """An example of the argument ``state_of``: a function that returns a tuple of the observation's entries.

    ``parts`` has these entries, or their spaces, by name.  States are hashable, so arrays become tuples.
    """
    entries = []
    for name, part in (parts or {}).items():
        entry, dimensions = f"observation[{name!r}]", len(getattr(part, "shape", None) or ())
        if dimensions or isinstance(part, list):
            entry = f"tuple({entry}{'.flat' if dimensions > 1 else ''})"
        entries.append(entry)
    state = f"({', '.join(entries)}{',' * (len(entries) == 1)})" if entries else "tuple(observation)"
    return f"state_of=lambda observation, env: {state}"


def counted(count: int, thing: str) -> str:
    """A number and a noun: "1 step", "2,000 steps"."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def number(value: float, digits: int = 4) -> str:
    """A number with at most ``digits`` decimals; ∞ for infinity, – for NaN, and 0 only for 0."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    rounded = round(value, digits)
    if abs(value) >= 1e6 or (rounded == 0 != value):
        return f"{value:.6g}" if abs(value) >= 1e6 else f"{value:.3g}"
    return f"{rounded:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{rounded:,.0f}"


def precise(value: float, digits: int = 10) -> str:
    """A number with ``digits`` significant digits; infinities and NaN as in :func:`number`."""
    return f"{value:.{digits}g}" if math.isfinite(value) else number(value)


def percent(probability: float) -> str:
    """A probability as a percentage; 0 % and 100 % only for 0 and 1."""
    if math.isnan(probability):
        return "–"
    if probability <= 0:
        return "0 %"
    if probability >= 1 - 1e-12:
        return "100 %"
    if probability <= TINY or probability >= 1 - TINY:
        return f"almost {100 * round(probability)} %"
    return f"{round(100 * probability, 1 if 0.001 <= probability <= 0.999 else 4):g} %"


def as_json(value: Any) -> Any:
    """The value in types of JSON: infinities are the strings "inf" and "-inf", and NaN is null."""
    if isinstance(value, dict):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value if value is None or isinstance(value, bool | int | float) else str(value)
