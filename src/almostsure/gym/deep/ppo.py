"""PPO with masks: sb3-contrib's own algorithm, untouched, with our environments and schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Dict
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from almostsure.errors import ArgumentError
from almostsure.gym.deep.ground import Ground
from almostsure.progress import Bar


def build(ground: Ground, *, seed: int | None, device: str) -> Any:
    """A ``MaskablePPO`` that has learnt nothing yet."""
    if device != "auto":
        check_device(device)
    settings = ground.settings
    return MaskablePPO(
        "MultiInputPolicy" if isinstance(ground.env.observation_space, Dict) else "MlpPolicy",
        ground.env,
        n_steps=settings.rollout,
        batch_size=settings.batch,
        n_epochs=settings.epochs,
        learning_rate=lambda left: settings.rate * left,
        gamma=settings.discount,
        gae_lambda=settings.trace,
        ent_coef=settings.entropy[0],
        policy_kwargs={"net_arch": list(settings.hidden)},
        seed=seed,
        device=device,
    )


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have, before anything is built on it."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ArgumentError(
            f"device must be 'auto', 'cpu' or one that torch has here; got {device!r}: {first}"
        ) from None


def learn(ppo: Any, ground: Ground, *, steps: int) -> None:
    """Learn for as many whole rollouts as fit into ``steps``."""
    a_rollout = ppo.n_envs * ppo.n_steps
    with one_thread(), Bar("training", steps) as bar:
        ppo.learn(max(steps // a_rollout, 1) * a_rollout, callback=_Between(ground, bar))


class _Between(BaseCallback):  # type: ignore[misc]  # sb3's classes are untyped here
    """What happens between two rollouts: randomness gets cheaper, and the regime learns what the episodes took."""

    def __init__(self, ground: Ground, bar: Bar) -> None:
        super().__init__()
        self.ground, self.bar, self._told = ground, bar, 0

    def _on_step(self) -> bool:
        if self.ground.regime is None:  # lanes keep their own record
            for lane in np.flatnonzero(self.locals["dones"]).tolist():
                self._keep(self.locals["infos"][lane])
        return True

    def _keep(self, info: dict[str, Any]) -> None:
        record = self.ground.record
        record.ends.append(self.num_timesteps)
        record.returns.append(float(info["episode"]["r"]))
        record.lengths.append(int(info["episode"]["l"]))
        record.damages.append(self.ground.budget - int(info["remaining"]))

    def _on_rollout_end(self) -> None:
        first, last = self.ground.settings.entropy
        self.model.ent_coef = last + (first - last) * self.model._current_progress_remaining
        self.bar.update(self.num_timesteps, f"{self.num_timesteps:,} steps")
        if self.ground.regime is not None:
            self.ground.regime.learn(self.ground.record.damages[self._told :])
            self._told = len(self.ground.record.damages)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks are faster on one core than on many; what was set before is set again."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
