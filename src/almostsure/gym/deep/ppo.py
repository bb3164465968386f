"""PPO with masks, on lanes: Stable-Baselines3's own algorithm, untouched, with our environment and schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from almostsure.errors import ArgumentError
from almostsure.gym.deep.lanes import Lanes
from almostsure.gym.deep.settings import Settings
from almostsure.gym.deep.vec_env import LanesVecEnv
from almostsure.model.mdp import MDP
from almostsure.progress import Bar


def build(env: Any, settings: Settings, *, seed: int | None, device: str, policy: str = "MlpPolicy") -> Any:
    """A ``MaskablePPO`` that has learnt nothing yet."""
    if device != "auto":
        check_device(device)
    return MaskablePPO(
        policy,
        env,
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


def model_env(lanes: Lanes) -> LanesVecEnv:
    """The lanes as an environment; rewards are scaled to at most 1, which is what networks are made for."""
    return LanesVecEnv(lanes, scale=1.0 / largest_reward(lanes.mdp))


def largest_reward(mdp: MDP) -> float:
    """The largest reward by size; 1 where there is none."""
    return float(abs(mdp.reward).max()) or 1.0


def learn(ppo: Any, settings: Settings, *, steps: int, lanes: Lanes | None) -> None:
    """Learn for as many whole rollouts as fit into ``steps``."""
    a_rollout = ppo.n_envs * ppo.n_steps
    with one_thread(), Bar("training", steps) as bar:
        ppo.learn(max(steps // a_rollout, 1) * a_rollout, callback=_Between(settings, lanes, bar))


class _Between(BaseCallback):  # type: ignore[misc]  # sb3's classes are untyped here
    """What happens between two rollouts: randomness gets cheaper, and the regime learns what the episodes took."""

    def __init__(self, settings: Settings, lanes: Lanes | None, bar: Bar) -> None:
        super().__init__()
        self.settings, self.lanes, self.bar, self._told = settings, lanes, bar, 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        first, last = self.settings.entropy
        self.model.ent_coef = last + (first - last) * self.model._current_progress_remaining
        self.bar.update(self.num_timesteps, f"{self.num_timesteps:,} steps")
        if self.lanes is not None:
            damages = self.lanes.record.damages
            self.lanes.regime.learn(damages[self._told :])
            self._told = len(damages)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks are faster on one core than on many; what was set before is set again."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
