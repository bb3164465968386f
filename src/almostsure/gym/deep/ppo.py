"""Runs sb3-contrib's MaskablePPO, unmodified, with our environments and schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Dict
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback

from almostsure.errors import ArgumentError
from almostsure.gym.deep.training_env import TrainingEnv
from almostsure.gym.deep.vec_env import ModelVecEnv
from almostsure.progress import Bar


def build(on: TrainingEnv, *, seed: int | None, device: str, policy_kwargs: Mapping[str, Any] | None = None) -> Any:
    """An untrained ``MaskablePPO``."""
    check_device(device)
    settings = on.settings
    return MaskablePPO(
        "MultiInputPolicy" if isinstance(on.env.observation_space, Dict) else "MlpPolicy",
        on.env,
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.n_epochs,
        learning_rate=lambda left: settings.learning_rate * left,
        gamma=settings.discount,
        gae_lambda=settings.gae_lambda,
        ent_coef=settings.ent_coef[0],
        policy_kwargs={"net_arch": list(settings.net_arch), **(policy_kwargs or {})},
        seed=seed,
        device=device,
    )


def check_device(device: str) -> None:
    """Raise unless this machine has the device."""
    try:
        torch.zeros(1, device=None if device == "auto" else device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ArgumentError(
            f"device must be 'auto', 'cpu' or one that torch has here; got {device!r}: {first}"
        ) from None


def learn(ppo: Any, on: TrainingEnv, *, total_timesteps: int, callback: Any = None) -> None:
    """Train for the largest number of whole rollouts within ``total_timesteps``, at least one."""
    rollout = ppo.n_envs * ppo.n_steps
    with one_thread(), Bar("training", total_timesteps) as bar:
        given = [] if callback is None else callback if isinstance(callback, list) else [callback]
        callbacks = [_Recorder(on, bar), *map(_as_callback, given)]
        ppo.learn(max(total_timesteps // rollout, 1) * rollout, callback=callbacks)


def _as_callback(given: Any) -> BaseCallback:
    """A callback as an object of sb3; functions of (locals, globals) stop the training only if they return False."""
    if isinstance(given, BaseCallback):
        return given
    return ConvertCallback(lambda *arguments: given(*arguments) is not False)


class _Recorder(BaseCallback):  # type: ignore[misc]  # sb3's classes are untyped here
    """Records episodes; after each rollout, updates the entropy coefficient, the regime and the progress bar."""

    def __init__(self, on: TrainingEnv, bar: Bar) -> None:
        super().__init__()
        self.on, self.bar, self._num_learned = on, bar, 0  # episodes that the regime has learned from

    def _on_step(self) -> bool:
        if not isinstance(self.on.env, ModelVecEnv):  # which records its episodes itself
            for at in np.flatnonzero(self.locals["dones"]).tolist():
                self._record(self.locals["infos"][at])
        return True

    def _record(self, info: dict[str, Any]) -> None:
        record = self.on.record
        record.ends.append(self.num_timesteps)
        record.returns.append(float(info["episode"]["r"]))
        record.lengths.append(int(info["episode"]["l"]))
        record.damages.append(self.on.budget - int(info["remaining"]))

    def _on_rollout_end(self) -> None:
        first, last = self.on.settings.ent_coef
        self.model.ent_coef = last + (first - last) * self.model._current_progress_remaining
        self.bar.update(self.num_timesteps, f"{self.num_timesteps:,} steps")
        if isinstance(self.on.env, ModelVecEnv):
            self.on.env.regime.learn(self.on.record.damages[self._num_learned :])
            self._num_learned = len(self.on.record.damages)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use a single thread, which is faster for small networks, and restore the setting afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
