"""Labels: named sets of states, such as those in which something has failed or a goal is reached.

A label is given as one truth value per state or as a list of states, and stored as truth values.  Labels are not part
of a model's fingerprint: its minimal budgets and policies do not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import mapping
from almostsure.errors import ModelError
from almostsure.model.arrays import Bools, frozen

Labels = Mapping[str, npt.ArrayLike]

TRAP = "forbidden"  # the label of the state that forbidden steps of a product lead to


def read_labels(labels: Labels | None, num_states: int, find: Callable[[Any], int]) -> Mapping[str, Bools]:
    """Each label as a read-only array of one truth value per state; ``find`` looks up a state by index or name."""
    found: dict[str, Bools] = {}
    for name, states in mapping("labels", labels, "names to states").items():
        if not isinstance(name, str) or not name:
            raise ModelError(f"labels must have names; got {name!r}")
        found[name] = frozen(_holds(name, states, num_states, find))
    return MappingProxyType(found)


def _holds(name: str, states: npt.ArrayLike, num_states: int, find: Callable[[Any], int]) -> Bools:
    try:
        given = np.asarray(states)
    except ValueError:  # nested sequences of different lengths
        given = np.zeros((0, 0))
    if given.ndim != 1:
        raise ModelError(f"label {name!r} must be one truth value per state, or a list of states")
    if given.dtype == np.bool_:
        if given.size != num_states:
            raise ModelError(f"label {name!r} must have {num_states} truth values, one per state; got {given.size}")
        return given.copy()
    holds = np.zeros(num_states, np.bool_)
    if given.dtype.kind in "iu" and given.size and given.min() >= 0 and given.max() < num_states:
        holds[given] = True
    else:
        holds[[find(state) for state in given.tolist()]] = True
    return holds


def traps(labels: Mapping[str, Bools], num_states: int, unknown: int | None) -> Bools:
    """A mask of the forbidden state and the unknown state, whose self-loops always do damage, [num_states]."""
    result = labels.get(TRAP, np.zeros(num_states, np.bool_)).copy()
    if unknown is not None:
        result[unknown] = True
    return result


def with_more_states(labels: Mapping[str, Bools], count: int) -> dict[str, Bools]:
    """The labels after ``count`` states without labels are appended to the model."""
    return {name: np.append(states, np.zeros(count, np.bool_)) for name, states in labels.items()}
