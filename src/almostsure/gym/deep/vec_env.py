"""Lanes as Stable-Baselines3 wants them: a ``VecEnv`` with action masks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.vec_env import VecEnv

from almostsure.gym.deep.features import Rows
from almostsure.gym.deep.lanes import Lanes
from almostsure.model.mdp import Bools, Floats, Ints


@final
class LanesVecEnv(VecEnv):  # type: ignore[misc]  # sb3's classes are untyped here
    """A vector environment of many copies of one model; ``action_masks`` is found as sb3-contrib looks for it."""

    def __init__(self, lanes: Lanes, *, scale: float) -> None:
        self.lanes, self.scale = lanes, scale
        self.render_mode = None
        space = Box(-np.inf, np.inf, (lanes.features.width,), np.float32)
        super().__init__(lanes.count, space, Discrete(lanes.mdp.num_actions))
        self._actions: Ints = np.zeros(lanes.count, np.int64)

    def reset(self) -> Rows:
        """Start every lane anew, with the seed that was set, if any."""
        self.lanes.seed(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return self.lanes.observe()

    def step_async(self, actions: Ints) -> None:
        """Keep the actions for ``step_wait``."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[Rows, Floats, Bools, list[dict[str, Any]]]:
        """Play them."""
        step = self.lanes.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended, record = np.flatnonzero(step.ended).tolist(), self.lanes.record
        fresh = slice(len(record.returns) - len(ended), None)  # not [-0:], which is everything
        for lane, last, returned, length in zip(
            ended, step.last, record.returns[fresh], record.lengths[fresh], strict=True
        ):
            infos[lane] = {
                "terminal_observation": last,
                "TimeLimit.truncated": bool(step.truncated[lane]),
                "episode": {"r": returned, "l": length, "t": 0.0},
            }
        return self.lanes.observe(), (step.rewards * self.scale).astype(np.float32), step.ended, infos

    def action_masks(self) -> Bools:
        """What may be played in every lane, [num_envs, num_actions]."""
        return self.lanes.mask()

    # ------------------------------------------------------------------ what sb3 asks of single environments

    def env_method(
        self, method_name: str, *args: Any, indices: int | Iterable[int] | None = None, **more: Any
    ) -> list[Any]:
        """Ask every lane for its mask; there is nothing else to ask."""
        if method_name != "action_masks":
            raise AttributeError(f"the lanes of a model have no method {method_name!r}")
        mask = self.lanes.mask()
        return [mask[lane] for lane in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """An attribute, the same for every lane."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Refused: a lane has nothing of its own to change."""
        raise AttributeError(f"{attr_name} of a lane cannot be changed")

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:
        """Lanes record their own episodes, as a Monitor does; they have no other wrapper."""
        from stable_baselines3.common.monitor import Monitor

        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Nothing to close."""
