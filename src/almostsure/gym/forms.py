"""How what remains of a budget becomes part of an observation.

============  ================================================================================================
``"flat"``    one array: ``Discrete(n)`` becomes ``MultiDiscrete([n, budget + 1])``, and arrays get one more entry
``"dict"``    ``{"observation": …, "remaining": …}``; works with every observation space.  Observations that are
              dictionaries already get one more entry instead.
``"rllib"``   ``{"action_mask": …, "observations": …}``, the keys that RLlib's masking modules read; the
              observations in it are flat where that is possible, and else a dict
``"none"``    the observation as it was; what remains is in ``info`` only
============  ================================================================================================

``normalised`` shows remaining / budget, between 0 and 1, in place of the integer; a flat discrete observation is then
one-hot, so that everything in the array is of the same size.  A budget that is overspent reads 0: for an agent that is
not shielded, ``info["remaining"]`` says by how much.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, final, get_args

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.spaces.utils import flatdim, flatten
from gymnasium.vector.utils import batch_space, iterate

from almostsure.errors import ArgumentError, UnknownName

Form = Literal["flat", "dict", "rllib", "none"]
FORMS: tuple[str, ...] = get_args(Form)

Masks = npt.NDArray[np.int8]
Numbers = npt.NDArray[np.int64]


class Shown(Protocol):
    """A space of observations with what remains, and how to get there."""

    space: Space[Any]

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        """One observation."""
        ...

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        """Many of them."""
        ...


def show_remaining(space: Space[Any], budget: int, form: Form, *, normalised: bool, num_actions: int) -> Shown:
    """The observations of ``space``, with what remains of ``budget`` in them."""
    if form not in FORMS:
        raise UnknownName("form of observation", form, FORMS, f"Choose from {', '.join(FORMS)}.")
    if form == "none":
        return _Same(space)
    if form == "dict":
        return _Beside(space, budget, normalised)
    flat = _flat_normalised(space, budget) if normalised else _flat(space, budget)
    if form == "rllib":
        return _WithMask(flat or _Beside(space, budget, normalised), num_actions)
    if flat is None:
        raise ArgumentError(
            f"what remains cannot be appended to observations of {space}. Pass observe='dict', or 'none' to leave them."
        )
    return flat


def _flat(space: Space[Any], budget: int) -> Shown | None:
    if isinstance(space, Discrete) and space.start == 0:
        return _Pair(int(space.n), budget)
    if isinstance(space, MultiDiscrete) and len(space.shape) == 1 and not space.start.any():
        return _Appended(MultiDiscrete([*space.nvec.tolist(), budget + 1], dtype=space.dtype.type))
    if isinstance(space, MultiBinary) and len(space.shape) == 1:
        return _Appended(MultiDiscrete([*[2] * space.shape[0], budget + 1]))
    if isinstance(space, Box) and len(space.shape) == 1 and _holds(space.dtype, budget):
        low, high = np.append(space.low, 0), np.append(space.high, budget)
        return _Appended(Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type))
    return None


def _holds(dtype: np.dtype[Any], budget: int) -> bool:
    """Whether a Box of this type can hold every remaining budget exactly."""
    if dtype.kind == "f":
        return bool(budget <= 2 ** (np.finfo(dtype).nmant + 1))
    return dtype.kind in "iu" and budget <= int(np.iinfo(dtype).max)


def _flat_normalised(space: Space[Any], budget: int) -> Shown | None:
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
    wide = Box(np.append(low, 0).astype(np.float32), np.append(high, 1).astype(np.float32), dtype=np.float32)
    return _Flattened(space, _Appended(wide, max(budget, 1)))


# ---------------------------------------------------------------------- the forms; classes, so that they can be pickled


@final
class _Same:
    """Observations as they were."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        return seen

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        return seen


@final
class _Pair:
    """A discrete observation, and what remains."""

    def __init__(self, count: int, budget: int) -> None:
        self.space: Space[Any] = MultiDiscrete([count, budget + 1])

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        return np.array((seen, left if left > 0 else 0), np.int64)

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        result = np.empty((len(left), 2), np.int64)
        result[:, 0] = seen
        np.maximum(left, 0, out=result[:, 1])
        return result


@final
class _Appended:
    """One more entry at the end of an array."""

    def __init__(self, space: Space[Any], scale: int = 1) -> None:
        self.space, self._scale = space, scale

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        return np.append(seen, max(left, 0) / self._scale).astype(self.space.dtype)

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        return np.column_stack((seen, np.maximum(left, 0) / self._scale)).astype(self.space.dtype)


@final
class _Flattened:
    """Any observation as one array, discrete ones one-hot, and what remains at its end."""

    def __init__(self, space: Space[Any], inner: _Appended) -> None:
        self.space, self._from, self._inner = inner.space, space, inner

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        return self._inner.single(flatten(self._from, seen), left, mask)

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        each = iterate(batch_space(self._from, len(left)), seen)
        return self._inner.batch(np.array([flatten(self._from, one) for one in each]), left, mask)


@final
class _Beside:
    """A dictionary; observations that are one already get one more entry."""

    def __init__(self, space: Space[Any], budget: int, normalised: bool) -> None:
        left: Space[Any] = Box(0.0, 1.0, (1,), np.float32) if normalised else Discrete(budget + 1)
        self._scale = max(budget, 1) if normalised else None
        self._joins = isinstance(space, Dict) and "remaining" not in space.spaces
        parts = dict(space.spaces) if isinstance(space, Dict) and self._joins else {"observation": space}
        self.space: Space[Any] = Dict({**parts, "remaining": left})

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        left = max(left, 0)
        return self._join(seen, np.int64(left) if self._scale is None else np.array([left / self._scale], np.float32))

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        left = np.maximum(left, 0)
        return self._join(seen, left if self._scale is None else (left[:, None] / self._scale).astype(np.float32))

    def _join(self, seen: Any, left: Any) -> Any:
        return {**(seen if self._joins else {"observation": seen}), "remaining": left}


@final
class _WithMask:
    """RLlib's dictionary of mask and observations."""

    def __init__(self, inner: Shown, num_actions: int) -> None:
        self._inner = inner
        mask = Box(0.0, 1.0, (num_actions,), np.float32)
        self.space: Space[Any] = Dict({"action_mask": mask, "observations": inner.space})

    def single(self, seen: Any, left: int, mask: Masks | None) -> Any:
        return {"action_mask": np.asarray(mask, np.float32), "observations": self._inner.single(seen, left, mask)}

    def batch(self, seen: Any, left: Numbers, mask: Masks | None) -> Any:
        return {"action_mask": np.asarray(mask, np.float32), "observations": self._inner.batch(seen, left, mask)}
