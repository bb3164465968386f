"""The hyperparameters of PPO, under Stable-Baselines3's names, for all learners of this package."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, final

from almostsure.arguments import check_positive, check_real, count, names_right_word
from almostsure.errors import ArgumentError

LEAST = {"n_envs": 1, "n_steps": 2, "batch_size": 2, "n_epochs": 1, "max_episode_steps": 1}


@names_right_word
@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The hyperparameters of PPO.  The defaults were tuned on the hazard map, with other seeds than the published ones.

    Parameters
    ----------
    n_envs
        The number of environments that are stepped together.
    n_steps
        Steps of each environment between two updates.
    batch_size, n_epochs
        The size of a minibatch, and the number of passes over each rollout.
    learning_rate
        The initial learning rate, which falls linearly to 0 during the training.
    discount, gae_lambda
        γ and λ of the advantage estimates.
    ent_coef
        The entropy coefficient of the first and of the last update; in between it changes linearly.
    net_arch
        Sizes of the hidden layers.
    max_episode_steps
        Episodes are truncated after that many steps while training.
    exploring_starts
        The fraction of training episodes that begin with a random pair of state and remaining budget that the regime
        allows; the rest of the budget counts as spent.  This helps to find states that random play from the start
        hardly ever reaches.  For models only, since an environment cannot be reset to any state.

    Examples
    --------
    >>> Settings(net_arch=(32,), n_envs=8).n_envs
    8
    """

    n_envs: int = 64
    n_steps: int = 32
    batch_size: int = 256
    n_epochs: int = 4
    learning_rate: float = 3e-3
    discount: float = 0.995
    gae_lambda: float = 0.95
    ent_coef: tuple[float, float] = (0.3, 0.03)
    net_arch: tuple[int, ...] = (64, 64)
    max_episode_steps: int = 200
    exploring_starts: float = 0.0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            _set(self, name, count(name, getattr(self, name), least=least))
        if not isinstance(self.net_arch, (tuple, list)):
            raise ArgumentError(f"net_arch must be a tuple of sizes, such as (64, 64); got {self.net_arch!r}")
        _set(self, "net_arch", tuple(count("net_arch", size) for size in self.net_arch))
        for name in ("discount", "gae_lambda"):
            share = check_real(name, getattr(self, name))
            if not 0 < share <= 1:
                raise ArgumentError(f"{name} must lie in (0, 1]; got {share:g}")
        share = check_real("exploring_starts", self.exploring_starts)
        if not 0 <= share <= 1:
            raise ArgumentError(f"exploring_starts must lie in 0 … 1; got {share:g}")
        _set(self, "learning_rate", check_positive("learning_rate", self.learning_rate))
        if not isinstance(self.ent_coef, (tuple, list)) or len(self.ent_coef) != 2:
            raise ArgumentError(
                f"ent_coef must be two numbers, of the first and of the last update; got {self.ent_coef!r}"
            )
        first, last = (check_real("ent_coef", number) for number in self.ent_coef)
        if not 0 <= min(first, last) <= max(first, last) < math.inf:
            raise ArgumentError(f"ent_coef must be two finite numbers, 0 or more; got {self.ent_coef!r}")
        _set(self, "ent_coef", (first, last))

    def for_steps(self, steps: int) -> Settings:
        """The same settings, with rollouts that fit into that many steps."""
        n_envs = min(self.n_envs, max(steps // 2, 1))
        n_steps = max(min(self.n_steps, steps // n_envs), 2)
        size, batch_size = n_envs * n_steps, min(self.batch_size, n_envs * n_steps)
        while size % batch_size == 1:  # the advantages of a single step cannot be normalised
            batch_size += 1
        return dataclasses.replace(self, n_envs=n_envs, n_steps=n_steps, batch_size=batch_size)

    def for_one_env(self) -> Settings:
        """The same settings for a single environment: one long rollout instead of many short ones."""
        return dataclasses.replace(self, n_envs=1, n_steps=self.n_envs * self.n_steps)

    def to_json(self) -> str:
        """The settings as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        """The settings from JSON, validated."""
        found: Any = json.loads(text)
        return Settings(**{**found, "ent_coef": tuple(found["ent_coef"]), "net_arch": tuple(found["net_arch"])})


def _set(settings: Settings, name: str, value: object) -> None:
    object.__setattr__(settings, name, value)


DEFAULT = Settings()
