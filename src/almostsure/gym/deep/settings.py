"""The numbers of PPO.  The same ones serve every learner here."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, final

from almostsure.arguments import check_real, whole
from almostsure.errors import ArgumentError

COUNTS = {"lanes": 1, "rollout": 2, "batch": 2, "epochs": 1, "max_steps": 1}  # and the least that each may be


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How PPO learns.  The defaults were tuned on the hazard map, with other seeds than those that are reported.

    Parameters
    ----------
    lanes
        Copies of the model that are played at once.
    rollout
        Steps of each copy between two updates.
    batch, epochs
        Size of a minibatch, and how often each step is learnt from.
    rate
        Of learning; it falls to nothing in the course of the training.
    discount, trace
        γ and λ of the advantage estimates.
    entropy
        What the first and the last update pay for randomness; in between it falls evenly.
    hidden
        Sizes of the hidden layers.
    max_steps
        Episodes are truncated after so many steps while training.
    """

    lanes: int = 64
    rollout: int = 32
    batch: int = 256
    epochs: int = 4
    rate: float = 3e-3
    discount: float = 0.995
    trace: float = 0.95
    entropy: tuple[float, float] = (0.3, 0.03)
    hidden: tuple[int, ...] = (64, 64)
    max_steps: int = 200

    def __post_init__(self) -> None:
        for name, least in COUNTS.items():
            _keep(self, name, _at_least(name, getattr(self, name), least))
        _keep(self, "hidden", tuple(_at_least("hidden", size, 1) for size in self.hidden))
        for name in ("discount", "trace"):
            share = check_real(name, getattr(self, name))
            if not 0 < share <= 1:
                raise ArgumentError(f"{name} must lie in (0, 1]; got {share:g}")
        first, last = self.entropy
        if not (self.rate > 0 and math.isfinite(self.rate) and first >= 0 and last >= 0):
            raise ArgumentError(
                f"rate must be positive and entropy 0 or more, twice; got {self.rate!r} and {self.entropy!r}"
            )
        _keep(self, "entropy", (float(first), float(last)))

    def for_steps(self, steps: int) -> Settings:
        """The same numbers, with rollouts that fit into so few steps."""
        lanes = min(self.lanes, max(steps // 2, 1))
        rollout = max(min(self.rollout, steps // lanes), 2)
        size, batch = lanes * rollout, min(self.batch, lanes * rollout)
        while size % batch == 1:  # a minibatch of one step has no spread to divide its advantages by
            batch += 1
        return dataclasses.replace(self, lanes=lanes, rollout=rollout, batch=batch)

    def for_one_env(self) -> Settings:
        """The same numbers for a single environment: one long rollout instead of many short ones."""
        return dataclasses.replace(self, lanes=1, rollout=self.lanes * self.rollout)

    def to_json(self) -> str:
        """As a line of text."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        """From a line of text; refused unless every number is one."""
        found: Any = json.loads(text)
        return Settings(**{**found, "entropy": tuple(found["entropy"]), "hidden": tuple(found["hidden"])})


def _at_least(name: str, value: object, least: int) -> int:
    number = whole(name, value)
    if number < least:
        raise ArgumentError(f"{name} must be {least} or more; got {number}")
    return number


def _keep(settings: Settings, name: str, value: object) -> None:
    object.__setattr__(settings, name, value)


DEFAULT = Settings()
