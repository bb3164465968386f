"""How what remains of a budget becomes part of an observation.

============  ================================================================================================
``"flat"``    one array: ``Discrete(n)`` becomes ``MultiDiscrete([n, total + 1])``, and arrays get one more entry
``"dict"``    ``{"observation": …, "remaining": …}``; works with every observation space.  Observations that are
              dictionaries already get one more entry instead.
``"rllib"``   ``{"action_mask": …, "observations": …}``, the keys that RLlib's masking modules read; the
              observations in it are flat where that is possible, and else a dict
``"none"``    the observation as it was; what remains is in ``info`` only
============  ================================================================================================

``normalised`` shows remaining / total, between 0 and 1, in place of the integer; a flat discrete observation is then
one-hot, so that everything in the array is of the same size.  A budget that is overspent reads 0: for an agent that is
not shielded, ``info["remaining"]`` says by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.spaces.utils import flatdim, flatten
from gymnasium.vector.utils import iterate

from almostsure.errors import ArgumentError, UnknownName

Form = Literal["flat", "dict", "rllib", "none"]
FORMS: tuple[str, ...] = get_args(Form)

Masks = npt.NDArray[np.int8]
Single = Callable[[Any, int, Masks | None], Any]  # of one observation, what remains and its mask
Batch = Callable[[Any, npt.NDArray[np.int64], Masks | None], Any]  # of many


class Shown(NamedTuple):
    """A space of observations with what remains, and how to get there."""

    space: Space[Any]
    single: Single
    batch: Batch


def show_remaining(space: Space[Any], total: int, form: Form, *, normalised: bool, num_actions: int) -> Shown:
    """The observations of ``space``, with what remains of ``total`` in them."""
    if form not in FORMS:
        raise UnknownName("form of observation", form, FORMS, f"Choose from {', '.join(FORMS)}.")
    if form == "none":
        return Shown(space, lambda seen, left, mask: seen, lambda seen, left, mask: seen)
    if form == "rllib":
        inner = _flat(space, total, normalised) or _dict(space, total, normalised)
        return _rllib(inner, num_actions)
    if form == "dict":
        return _dict(space, total, normalised)
    flat = _flat(space, total, normalised)
    if flat is None:
        raise ArgumentError(
            f"what remains cannot be appended to observations of {space}. Pass observe='dict', or 'none' to leave them."
        )
    return flat


# ---------------------------------------------------------------------- flat


def _flat(space: Space[Any], total: int, normalised: bool) -> Shown | None:
    if normalised:
        return _flat_normalised(space, total)
    if isinstance(space, Discrete) and space.start == 0:
        return _of_discrete(int(space.n), total)
    if isinstance(space, MultiDiscrete) and len(space.shape) == 1 and not space.start.any():
        return _appended(MultiDiscrete([*space.nvec.tolist(), total + 1], dtype=space.dtype.type))
    if isinstance(space, MultiBinary) and len(space.shape) == 1:
        return _appended(MultiDiscrete([*[2] * space.shape[0], total + 1]))
    if isinstance(space, Box) and len(space.shape) == 1 and _holds(space.dtype, total):
        low, high = np.append(space.low, 0), np.append(space.high, total)
        return _appended(Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type))
    return None


def _holds(dtype: np.dtype[Any], total: int) -> bool:
    """Whether a Box of this type can hold every remaining budget exactly."""
    return total < 2**24 if dtype.kind == "f" else total <= np.iinfo(dtype).max


def _of_discrete(count: int, total: int) -> Shown:
    def single(seen: Any, left: int, mask: Masks | None) -> Any:
        return np.array((seen, left if left > 0 else 0), np.int64)

    def batch(seen: Any, left: npt.NDArray[np.int64], mask: Masks | None) -> Any:
        result = np.empty((len(left), 2), np.int64)
        result[:, 0] = seen
        np.maximum(left, 0, out=result[:, 1])
        return result

    return Shown(MultiDiscrete([count, total + 1]), single, batch)


def _appended(space: Space[Any], scale: float = 1) -> Shown:
    """One more entry at the end of an array."""
    dtype = space.dtype

    def single(seen: Any, left: int, mask: Masks | None) -> Any:
        return np.append(seen, max(left, 0) / scale if scale != 1 else max(left, 0)).astype(dtype, copy=False)

    def batch(seen: Any, left: npt.NDArray[np.int64], mask: Masks | None) -> Any:
        return np.column_stack((seen, np.maximum(left, 0) / scale)).astype(dtype)

    return Shown(space, single, batch)


def _flat_normalised(space: Space[Any], total: int) -> Shown | None:
    try:
        width = flatdim(space)
    except (NotImplementedError, ValueError):
        return None
    plain = isinstance(space, Box)
    low = np.append(space.low.ravel(), 0) if isinstance(space, Box) else np.zeros(width + 1)
    high = np.append(space.high.ravel(), 1) if isinstance(space, Box) else np.ones(width + 1)
    if not plain and not isinstance(space, (Discrete, MultiDiscrete, MultiBinary)):
        low, high = np.append(np.full(width, -np.inf), 0), np.append(np.full(width, np.inf), 1)
    inner = _appended(Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32), max(total, 1))
    if plain and len(space.shape or ()) == 1:
        return inner

    def single(seen: Any, left: int, mask: Masks | None) -> Any:
        return inner.single(flatten(space, seen), left, mask)

    def batch(seen: Any, left: npt.NDArray[np.int64], mask: Masks | None) -> Any:
        return inner.batch(np.array([flatten(space, one) for one in _each(space, seen)]), left, mask)

    return Shown(inner.space, single, batch)


def _each(space: Space[Any], seen: Any) -> Any:
    """The single observations of a batch."""
    from gymnasium.vector.utils import batch_space

    return iterate(batch_space(space, _length(seen)), seen)


def _length(seen: Any) -> int:
    while isinstance(seen, dict):
        seen = next(iter(seen.values()))
    return len(seen[0]) if isinstance(seen, tuple) else len(seen)


# ---------------------------------------------------------------------- dictionaries


def _dict(space: Space[Any], total: int, normalised: bool) -> Shown:
    scale = max(total, 1)
    if normalised:
        left_space: Space[Any] = Box(0.0, 1.0, (1,), np.float32)
    else:
        left_space = Discrete(total + 1)

    beside = isinstance(space, Dict) and "remaining" not in space.spaces
    parts = {**space.spaces} if isinstance(space, Dict) and beside else {"observation": space}

    def joined(seen: Any, left: Any) -> Any:
        return {**(seen if beside else {"observation": seen}), "remaining": left}

    def single(seen: Any, left: int, mask: Masks | None) -> Any:
        left = max(left, 0)
        return joined(seen, np.array([left / scale], np.float32) if normalised else np.int64(left))

    def batch(seen: Any, left: npt.NDArray[np.int64], mask: Masks | None) -> Any:
        left = np.maximum(left, 0)
        return joined(seen, (left[:, None] / scale).astype(np.float32) if normalised else left)

    return Shown(Dict({**parts, "remaining": left_space}), single, batch)


def _rllib(inner: Shown, num_actions: int) -> Shown:
    def single(seen: Any, left: int, mask: Masks | None) -> Any:
        return {"action_mask": np.asarray(mask, np.float32), "observations": inner.single(seen, left, mask)}

    def batch(seen: Any, left: npt.NDArray[np.int64], mask: Masks | None) -> Any:
        return {"action_mask": np.asarray(mask, np.float32), "observations": inner.batch(seen, left, mask)}

    mask_space = Box(0.0, 1.0, (num_actions,), np.float32)
    return Shown(Dict({"action_mask": mask_space, "observations": inner.space}), single, batch)
