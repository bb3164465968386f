"""Which environments of a vector begin an episode, under each of Gymnasium's ways to reset them.

- ``NEXT_STEP``: the step after the end of an episode ignores its action, and returns the first observation of the next;
- ``SAME_STEP``: the step that ends an episode returns the first observation of the next one, and what the episode
  ended in is in ``infos["final_obs"]`` and ``infos["final_info"]``;
- ``DISABLED``: the user resets, all of them or those in ``options["reset_mask"]``.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv

from almostsure.errors import ArgumentError
from almostsure.model.build.damage import TOLD
from almostsure.model.mdp import Bools

Infos = dict[str, Any]


def some(flags: Bools) -> bool:
    """Whether any flag is set: what ``any`` says, several times faster on arrays as small as these."""
    return 1 in flags.tobytes()


@final
class Resets:
    """Follows the episodes of a vector environment."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise ArgumentError(
                "a vector environment must say in metadata['autoreset_mode'] when it resets its environments; "
                f"{type(env).__name__} does not. Set it to a gymnasium.vector.AutoresetMode."
            )
        self.mode = AutoresetMode(mode)
        self.num_envs = env.num_envs
        self.everybody: Bools = np.ones(env.num_envs, np.bool_)
        self.over: Bools | None = None  # whose episode is over and was not reset yet; None before the first reset

    def chosen(self, options: dict[str, Any] | None) -> Bools:
        """Which environments a reset with these options resets.  Ask before it: Gymnasium takes the mask out."""
        mask = None if options is None else options.get("reset_mask")
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        who = np.array(mask)
        if who.shape != (self.num_envs,) or who.dtype != np.bool_:
            raise ArgumentError(f"reset_mask must be {self.num_envs} booleans; got {mask!r}")
        if self.over is None:
            raise ResetNeeded("reset all environments before resetting some of them")
        return who

    def reset(self, who: Bools) -> None:
        """Take note of which environments were reset."""
        self.over = ~who if self.over is None else self.over & ~who  # None: all of them are

    def before(self) -> Bools:
        """For which environments the next step is an action, ``everybody`` itself if all; it resets the others.

        Until :meth:`step` takes note of how it went, nothing is known: after an error, all must be reset.
        """
        if self.over is None:
            raise ResetNeeded("call reset() before step()")
        over = self.over
        is_quiet = not some(over)
        if self.mode == AutoresetMode.DISABLED and not is_quiet:
            at = int(np.argmax(over))
            raise ResetNeeded(f"the episode of environment {at} is over: reset it with options={{'reset_mask': …}}")
        self.over = None
        return self.everybody if is_quiet else ~over

    def step(self, ended: Bools) -> None:
        """Take note of which episodes a step ended."""
        self.over = np.zeros(self.num_envs, np.bool_) if self.mode == AutoresetMode.SAME_STEP else ended

    def final(self, infos: Infos, ended: Bools) -> Infos | None:
        """The infos of the episodes that this step ended, where those are apart."""
        if self.mode != AutoresetMode.SAME_STEP or not some(ended):
            return None
        found = infos.get("final_info")
        return found if isinstance(found, dict) else {}


def merge_exactly(env: VectorEnv[Any, Any, Any]) -> None:
    """Let a vector environment merge what its environments say about damage without changing any of it.

    Gymnasium makes a column of the type that the first of them says, and fits what the others say into that: 2 becomes
    True in a column of bool, 0.5 becomes 0 in one of int, None becomes NaN in one of float.
    """
    base = env.unwrapped
    vars(base)["_add_info"] = MethodType(_add_info, base)


def _add_info(vector: VectorEnv[Any, Any, Any], infos: Infos, info: Infos, at: int) -> Infos:
    """What Gymnasium does, after columns of damage that could not hold what is said became columns of objects."""
    for key in TOLD:
        column, told = infos.get(key), info.get(key)
        if column is None and type(told) is int and np.asarray(told).dtype != np.int64:  # too large
            infos[key] = np.full(vector.num_envs, None, object)
        if key in info and isinstance(column, np.ndarray):
            is_number = isinstance(told, (bool, int, float, np.generic, np.ndarray))
            if not is_number or np.asarray(told).dtype != column.dtype:
                infos[key] = column.astype(object)
    return type(vector)._add_info(vector, infos, info, at)


def read(infos: Infos, key: str, at: int) -> Any:
    """What the info of one environment says under a key; None if it says nothing."""
    who = infos.get(f"_{key}")  # none where all of them say it
    return infos[key][at] if key in infos and (who is None or who[at]) else None


def said(infos: Infos, final: Infos | None, ended: Bools, key: str, at: int) -> Any:
    """What the info of the step of one environment says, wherever that stands."""
    return read(final, key, at) if final is not None and ended[at] else read(infos, key, at)


def write(infos: Infos, who: Bools, columns: dict[str, npt.NDArray[Any]]) -> Infos:
    """The infos with further columns, which hold for ``who``."""
    result, who = dict(infos), who.copy()
    for key, values in columns.items():
        result[key] = values
        result["_" + key] = who
    return result
