"""Which environments of a vector begin an episode, in each of Gymnasium's autoreset modes.

- ``NEXT_STEP``: the step after the end of an episode ignores its action, and returns the first observation of the next;
- ``SAME_STEP``: the step that ends an episode returns the first observation of the next one; its last observation and
  info are in ``infos["final_obs"]`` and ``infos["final_info"]``;
- ``DISABLED``: the user resets all environments, or those in ``options["reset_mask"]``.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv

from almostsure.errors import ArgumentError, ModelError
from almostsure.model.build.damage import DAMAGE_KEYS
from almostsure.model.mdp import Bools

Infos = dict[str, Any]


def any_set(flags: Bools) -> bool:
    """The same as ``flags.any()``, several times faster on small arrays."""
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
        self.all_envs: Bools = np.ones(env.num_envs, np.bool_)
        self.over: Bools | None = None  # episodes that have ended and await a reset; None before the first reset

    def selected(self, options: dict[str, Any] | None) -> Bools:
        """The environments that a reset with these options resets.  Call it first: Gymnasium removes the mask."""
        mask = None if options is None else options.get("reset_mask")
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        selected = np.array(mask)
        if selected.shape != (self.num_envs,) or selected.dtype != np.bool_:
            raise ArgumentError(f"reset_mask must be {self.num_envs} booleans; got {mask!r}")
        if self.over is None:
            raise ResetNeeded("reset all environments before resetting some of them")
        return selected

    def finish_reset(self, selected: Bools) -> None:
        """Record which environments were reset."""
        self.over = ~selected if self.over is None else self.over & ~selected  # None: all environments were reset

    def begin_step(self) -> Bools:
        """The environments that play their action in the next step, ``all_envs`` itself if all; it resets the others.

        A reset of all environments is needed after a step that fails before :meth:`finish_step`.
        """
        if self.over is None:
            raise ResetNeeded("call reset() before step()")
        over = self.over
        none_over = not any_set(over)
        if self.mode == AutoresetMode.DISABLED and not none_over:
            at = int(np.argmax(over))
            raise ResetNeeded(f"the episode of environment {at} is over: reset it with options={{'reset_mask': …}}")
        self.over = None
        return self.all_envs if none_over else ~over

    def finish_step(self, ended: Bools) -> None:
        """Record which episodes a step ended."""
        self.over = np.zeros(self.num_envs, np.bool_) if self.mode == AutoresetMode.SAME_STEP else ended

    def final(self, infos: Infos, ended: Bools) -> Infos | None:
        """The infos of the episodes that this step ended, if they are separate; ModelError if infos are malformed."""
        check_columns(infos, self.num_envs)
        if self.mode != AutoresetMode.SAME_STEP or not any_set(ended):
            return None
        if "final_obs" not in infos:
            raise ModelError(
                "a vector that resets an environment in the step that ends its episode must give the last observation "
                "in infos['final_obs']; it is missing. Make the vector with another autoreset mode."
            )
        found = infos.get("final_info")
        final = found if isinstance(found, dict) else {}
        check_columns(final, self.num_envs)
        return final


def check_columns(infos: Infos, num_envs: int) -> None:
    """Raise ModelError if the damages in infos are not one entry per environment."""
    for key in DAMAGE_KEYS:
        if key in infos and (shape := np.shape(infos[key])) != (num_envs,):
            raise ModelError(
                f"infos[{key!r}] must hold one number per environment, shape [{num_envs}]; got shape {list(shape)}. "
                f"Make it a row: infos[{key!r}][:, 0], for example."
            )


def merge_exactly(env: VectorEnv[Any, Any, Any]) -> None:
    """Make a vector environment merge the damages in its environments' infos without converting them.

    Gymnasium makes a column of the type that comes first, and converts the others to it: 2 becomes True in a column of
    bool, 0.5 becomes 0 in one of int, None becomes NaN in one of float.
    """
    base = env.unwrapped
    vars(base)["_add_info"] = MethodType(_add_info, base)


def _add_info(vector: VectorEnv[Any, Any, Any], infos: Infos, info: Infos, at: int) -> Infos:
    """Gymnasium's method, after columns of damage whose type does not fit have become columns of objects."""
    for key in DAMAGE_KEYS:
        column, value = infos.get(key), info.get(key)
        if column is None and type(value) is int and np.asarray(value).dtype != np.int64:  # too large
            infos[key] = np.full(vector.num_envs, None, object)
        if key in info and isinstance(column, np.ndarray):
            is_number = isinstance(value, (bool, int, float, np.generic, np.ndarray))
            if not is_number or np.asarray(value).dtype != column.dtype:
                infos[key] = column.astype(object)
    return type(vector)._add_info(vector, infos, info, at)


def info_of(infos: Infos, key: str, at: int) -> Any:
    """The entry of one environment's info under a key; None if it has none."""
    has_entry = infos.get(f"_{key}")  # missing if all environments have one
    return infos[key][at] if key in infos and (has_entry is None or has_entry[at]) else None


def info_of_step(infos: Infos, final: Infos | None, ended: Bools, key: str, at: int) -> Any:
    """The entry of one environment's last step, from ``final`` if the step ended its episode."""
    return info_of(final if final is not None and ended[at] else infos, key, at)


def with_columns(infos: Infos, selected: Bools, columns: dict[str, npt.NDArray[Any]]) -> Infos:
    """The infos with further columns, which are valid for the selected environments."""
    result, selected = dict(infos), selected.copy()
    for key, values in columns.items():
        result[key] = values
        result["_" + key] = selected
    return result
