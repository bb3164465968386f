"""The numbers of PPO, under Stable-Baselines3's names.  The same ones serve every learner here."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, final

from almostsure.arguments import check_real, count, names_right_word
from almostsure.errors import ArgumentError

LEAST = {"n_envs": 1, "n_steps": 2, "batch_size": 2, "n_epochs": 1, "max_episode_steps": 1}


@names_right_word
@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How PPO learns.  The defaults were tuned on the hazard map, with other seeds than those that are reported.

    Parameters
    ----------
    n_envs
        Environments that are played at once.
    n_steps
        Steps of each environment between two updates.
    batch_size, n_epochs
        Size of a minibatch, and how often each step is learned from.
    learning_rate
        At the beginning; it falls linearly to 0 in the course of the training.
    discount, gae_lambda
        γ and λ of the advantage estimates.
    ent_coef
        The entropy coefficient of the first and of the last update; in between it changes linearly.
    net_arch
        Sizes of the hidden layers.
    max_episode_steps
        Episodes are truncated after that many steps while training.
    exploring_starts
        The share of training episodes that begin anywhere, in a random state with as much left as the rules allow
        there, which may be less than the budget: what is missing counts as spent.  So agents find what random play from
        the start hardly ever does.  For models, which can begin anywhere; a user's environment cannot.

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
            _keep(self, name, count(name, getattr(self, name), least=least))
        _keep(self, "net_arch", tuple(count("net_arch", size) for size in self.net_arch))
        for name in ("discount", "gae_lambda"):
            share = check_real(name, getattr(self, name))
            if not 0 < share <= 1:
                raise ArgumentError(f"{name} must lie in (0, 1]; got {share:g}")
        share = check_real("exploring_starts", self.exploring_starts)
        if not 0 <= share <= 1:
            raise ArgumentError(f"exploring_starts must be a share, 0 … 1; got {share:g}")
        first, last = self.ent_coef
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate) and first >= 0 and last >= 0):
            raise ArgumentError(
                f"learning_rate must be positive, and ent_coef two numbers, 0 or more; got {self.learning_rate!r} and "
                f"{self.ent_coef!r}"
            )
        _keep(self, "ent_coef", (float(first), float(last)))

    def for_steps(self, steps: int) -> Settings:
        """The same numbers, with rollouts that fit into that many steps."""
        n_envs = min(self.n_envs, max(steps // 2, 1))
        n_steps = max(min(self.n_steps, steps // n_envs), 2)
        size, batch_size = n_envs * n_steps, min(self.batch_size, n_envs * n_steps)
        while size % batch_size == 1:  # a minibatch of one step has no spread to divide its advantages by
            batch_size += 1
        return dataclasses.replace(self, n_envs=n_envs, n_steps=n_steps, batch_size=batch_size)

    def for_one_env(self) -> Settings:
        """The same numbers for a single environment: one long rollout instead of many short ones."""
        return dataclasses.replace(self, n_envs=1, n_steps=self.n_envs * self.n_steps)

    def to_json(self) -> str:
        """As a line of text."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        """From a line of text; refused unless every number is one."""
        found: Any = json.loads(text)
        return Settings(**{**found, "ent_coef": tuple(found["ent_coef"]), "net_arch": tuple(found["net_arch"])})


def _keep(settings: Settings, name: str, value: object) -> None:
    object.__setattr__(settings, name, value)


DEFAULT = Settings()
