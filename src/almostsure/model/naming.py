"""Telling apart what a file gives the same name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from almostsure.model.mdp import Ints


def distinct(names: Iterable[str]) -> list[str]:
    """The names, with `` (2)``, `` (3)``, … after those that have occurred before."""
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
    """How many equal keys stand before each one."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))
    result = np.empty(keys.size, np.int64)
    result[order] = np.arange(keys.size) - np.repeat(starts, np.diff(np.append(starts, keys.size)))
    return result
