"""Adds the remaining budget, and the other quantities that a guard carries, to observations.

============  ================================================================================================
``"auto"``    flat if that is possible, otherwise a dict
``"flat"``    one array: ``Discrete(n)`` becomes ``MultiDiscrete([n, budget + 1])``, and arrays get one more entry
``"dict"``    ``{"observation": …, "remaining": …}``; works with every observation space.  Observations that are
              dictionaries get one more entry instead.
``"rllib"``   ``{"action_mask": …, "observations": …}``, the keys that RLlib's masking modules read; the
              observations in it are flat if that is possible, otherwise a dict
``"none"``    the observation unchanged; the remaining budget is in ``info`` only
============  ================================================================================================

A guard that carries further quantities (steps left, risk left) adds one entry for each.  Integers count down from their
value at the start of an episode; fractions lie between 0 and 1.

``normalised`` shows remaining / budget, between 0 and 1, in place of the integer; a flat discrete observation is then
one-hot, so that all entries have the same scale.  An overspent budget is shown as 0: for agents without a shield,
``info["remaining"]`` is then negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, final, get_args

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.spaces.utils import flatdim, flatten
from gymnasium.vector.utils import batch_space, iterate

from almostsure.arguments import one_of
from almostsure.errors import ArgumentError
from almostsure.model.mdp import Bools

Form = Literal["auto", "flat", "dict", "rllib", "none"]
FORMS: tuple[str, ...] = get_args(Form)

INT64 = np.dtype(np.int64)  # made once, since every step uses it
Masks = npt.NDArray[np.int8]
Limits = Mapping[str, int | None]  # by name of a carried quantity: its initial integer, or None for a fraction


class Shown(Protocol):
    """A form of observations with carried quantities: their space, and the conversion of observations."""

    space: Space[Any]

    def single(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        """Convert one observation; ``carried`` holds numbers."""
        ...

    def batch(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        """Convert a batch of observations; ``carried`` holds arrays."""
        ...


def show(space: Space[Any], limits: Limits, form: Form, *, normalised: bool, num_actions: int) -> Shown:
    """The conversion of observations of ``space`` to a form."""
    one_of("form of observation", form, FORMS)
    if form == "none":
        return _Same(space)
    flat = None
    if form != "dict":
        flat = _flat_normalised(space, limits) if normalised else _flat(space, limits)
    if flat is None and form == "flat":
        raise ArgumentError(
            f"{' and '.join(limits)} cannot be appended to observations of {space}. Pass observe='dict', or 'none' to "
            "leave observations unchanged."
        )
    shown = flat or _Beside(space, limits, normalised)
    return _WithMask(shown, num_actions) if form == "rllib" else shown


def _flat(space: Space[Any], limits: Limits) -> Shown | None:
    counts = [limit for limit in limits.values() if limit is not None]
    sizes = [limit + 1 for limit in counts]
    if isinstance(space, Box) and len(space.shape) == 1 and _holds(space.dtype, limits):
        largest = [1 if limit is None else limit for limit in limits.values()]
        low, high = np.append(space.low, [0] * len(largest)), np.append(space.high, largest)
        return _Appended(Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type))
    if len(counts) < len(limits):
        return None  # discrete observations cannot hold fractions
    if isinstance(space, Discrete) and space.start == 0:
        return _Row(MultiDiscrete([int(space.n), *sizes]))
    if isinstance(space, MultiDiscrete) and len(space.shape) == 1 and not space.start.any():
        return _Appended(MultiDiscrete([*space.nvec.tolist(), *sizes], dtype=space.dtype.type))
    if isinstance(space, MultiBinary) and len(space.shape) == 1:
        return _Appended(MultiDiscrete([*[2] * space.shape[0], *sizes]))
    return None


def _holds(dtype: np.dtype[Any], limits: Limits) -> bool:
    """Whether a Box of this type can hold all carried quantities exactly."""
    if dtype.kind == "f":
        largest = 2 ** (np.finfo(dtype).nmant + 1)
        return all(limit is None or limit <= largest for limit in limits.values())
    return dtype.kind in "iu" and all(
        limit is not None and limit <= int(np.iinfo(dtype).max) for limit in limits.values()
    )


def _flat_normalised(space: Space[Any], limits: Limits) -> Shown | None:
    try:
        width = flatdim(space)
    except (NotImplementedError, ValueError):
        return None
    if isinstance(space, Box):
        low, high = space.low.ravel(), space.high.ravel()
    elif isinstance(space, (Discrete, MultiDiscrete, MultiBinary)):
        low, high = np.zeros(width), np.ones(width)  # one-hot
    else:
        low, high = np.full(width, -np.inf), np.full(width, np.inf)
    low, high = np.append(low, np.zeros(len(limits))), np.append(high, np.ones(len(limits)))
    box = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
    return _Appended(box, tuple(max(limit or 1, 1) for limit in limits.values()), flattened=space)


# ---------------------------------------------------------------------- the forms; classes, so that they can be pickled


@final
class _Same:
    """Unchanged observations."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space

    def single(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        return seen

    batch = single


@final
class _Row:
    """A discrete observation and the carried quantities, as one row of integers."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space

    def single(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        row = np.array((seen, *carried), INT64)
        return row if carried[0] >= 0 else np.maximum(row, 0)  # only the budget, which comes first, can be negative

    def batch(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        result = np.empty((len(seen), 1 + len(carried)), np.int64)
        result[:, 0] = seen
        for at, column in enumerate(carried, 1):
            np.maximum(column, 0, out=result[:, at])
        return result


@final
class _Appended:
    """Arrays with the carried quantities appended; observations of ``flattened`` are flattened first."""

    def __init__(
        self, space: Space[Any], scales: tuple[int, ...] | None = None, flattened: Space[Any] | None = None
    ) -> None:
        self.space, self._scales, self._from = space, scales, flattened

    def single(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        if self._from is not None:
            seen = flatten(self._from, seen)
        return np.append(seen, self._scaled(carried)).astype(self.space.dtype)

    def batch(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        if self._from is not None:
            each = iterate(batch_space(self._from, len(carried[0])), seen)
            seen = np.array([flatten(self._from, one) for one in each])
        return np.column_stack((seen, *self._scaled(carried))).astype(self.space.dtype)

    def _scaled(self, carried: tuple[Any, ...]) -> list[Any]:
        return [np.maximum(x, 0) / scale for x, scale in zip(carried, self._scales or (1,) * len(carried), strict=True)]


@final
class _Beside:
    """Dictionaries with the carried quantities as entries."""

    def __init__(self, space: Space[Any], limits: Limits, normalised: bool) -> None:
        self._limits, self._normalised = dict(limits), normalised
        entries: dict[str, Space[Any]] = {
            name: Box(0.0, 1.0, (1,), np.float32) if normalised or limit is None else Discrete(limit + 1)
            for name, limit in limits.items()
        }
        self._joins = isinstance(space, Dict) and not set(limits) & set(space.spaces)
        parts = dict(space.spaces) if isinstance(space, Dict) and self._joins else {"observation": space}
        self.space: Space[Any] = Dict({**parts, **entries})

    def single(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        entries = {}
        for (name, limit), given in zip(self._limits.items(), carried, strict=True):
            value = np.maximum(given, 0)
            is_share = self._normalised or limit is None
            entries[name] = (value[..., None] / max(limit or 1, 1)).astype(np.float32) if is_share else value
        return {**(seen if self._joins else {"observation": seen}), **entries}

    batch = single


@final
class _WithMask:
    """RLlib's dictionaries of mask and observations."""

    def __init__(self, inner: Shown, num_actions: int) -> None:
        self._inner = inner
        mask = Box(0.0, 1.0, (num_actions,), np.float32)
        self.space: Space[Any] = Dict({"action_mask": mask, "observations": inner.space})

    def single(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        return {"action_mask": np.asarray(mask, np.float32), "observations": self._inner.single(seen, carried, mask)}

    def batch(self, seen: Any, carried: tuple[Any, ...], mask: Masks | None) -> Any:
        return {"action_mask": np.asarray(mask, np.float32), "observations": self._inner.batch(seen, carried, mask)}


def show_final(form: Shown, final: Any, carried: tuple[Any, ...], ended: Bools, masks: Any = None) -> Any:
    """The final observations of the episodes that ended, with the quantities carried at that time."""
    result = np.full(len(ended), None, np.object_)
    for at in np.flatnonzero(ended).tolist():
        values = tuple(column[at].item() for column in carried)
        result[at] = form.single(final[at], values, None if masks is None else masks[at])
    return result
