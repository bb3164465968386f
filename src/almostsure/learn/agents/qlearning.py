"""Tabular Q-learning: inside a shield, and the four ways that people use without one.

All of them learn undiscounted returns of episodes; an episode of more than ``horizon`` steps is cut, which is not its
end: the value of the state in which it was cut still counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from almostsure.arguments import check_real
from almostsure.errors import ArgumentError
from almostsure.learn.agents.guard import Free, OneStep, Shielded
from almostsure.learn.agents.tabular import Rules, train
from almostsure.learn.bounds import count
from almostsure.learn.online import OnlineShield
from almostsure.learn.training import Training
from almostsure.model.mdp import MDP
from almostsure.shield.shield import Shield

HORIZON = 1_000

AnyShield = Shield | OnlineShield
Given = AnyShield | Callable[[MDP], AnyShield] | None


def shield_for(mdp: MDP, given: Given) -> AnyShield | None:
    """The shield of one run; a function makes a fresh one for each."""
    return given(mdp) if callable(given) else given


@final
@dataclass(frozen=True, kw_only=True)
class ShieldedQ:
    """Q-learning on (state, remaining) that never sees an action which the shield refuses.

    Parameters
    ----------
    shield
        None for the exact one; a Shield, perhaps learned; an OnlineShield, which goes on learning; or a function
        that makes one of these for each run.
    horizon
        Episodes are cut after so many steps.
    """

    name: str = "shielded Q-learning"
    shield: Given = None
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        count("horizon", self.horizon)

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        guard = Shielded(mdp, budget, shield_for(mdp, self.shield))
        return train(mdp, guard, Rules(horizon=self.horizon), steps=steps, seed=seed)


@final
@dataclass(frozen=True, kw_only=True)
class UnconstrainedQ:
    """Q-learning on states; damage is not looked at."""

    name: str = "unconstrained Q-learning"
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        count("horizon", self.horizon)

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        guard = Free(mdp, budget, sees_budget=False)
        return train(mdp, guard, Rules(horizon=self.horizon), steps=steps, seed=seed)


@final
@dataclass(frozen=True, kw_only=True)
class LagrangianQ:
    """Q-learning on states with a price of damage, which rises while an episode takes more than ``budget`` on average.

    Return and damage have a table each, so that a new price acts at once.  It aims at E[damage] ≤ budget.
    """

    name: str = "Lagrangian Q-learning"
    horizon: int = HORIZON
    price_rate: float = 0.1

    def __post_init__(self) -> None:
        count("horizon", self.horizon)
        _positive("price_rate", self.price_rate)

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        guard = Free(mdp, budget, sees_budget=False)
        rules = Rules(horizon=self.horizon, price_rate=self.price_rate)
        return train(mdp, guard, rules, steps=steps, seed=seed)


@final
@dataclass(frozen=True, kw_only=True)
class SauteQ:
    """Q-learning on (state, remaining) where steps of the overspent earn a penalty instead of their reward (Sauté RL).

    Parameters
    ----------
    penalty
        By default the difference of the model's largest and smallest reward, and twice what any step costs at least.
    """

    name: str = "Sauté Q-learning"
    horizon: int = HORIZON
    penalty: float | None = None

    def __post_init__(self) -> None:
        count("horizon", self.horizon)
        if self.penalty is not None:
            _positive("penalty", self.penalty)

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        guard = Free(mdp, budget, sees_budget=True)
        least, most = float(mdp.reward.min()), float(mdp.reward.max())
        penalty = (max(most - least, -2 * least) or 1.0) if self.penalty is None else self.penalty
        return train(mdp, guard, Rules(horizon=self.horizon, penalty=penalty), steps=steps, seed=seed)


@final
@dataclass(frozen=True, kw_only=True)
class MaskedQ:
    """Q-learning on (state, remaining) without the actions that may overspend in their very next step."""

    name: str = "one-step mask"
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        count("horizon", self.horizon)

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        return train(mdp, OneStep(mdp, budget), Rules(horizon=self.horizon), steps=steps, seed=seed)


def _positive(name: str, value: object) -> None:
    number = check_real(name, value)
    if not (number > 0 and math.isfinite(number)):
        raise ArgumentError(f"{name} must be positive and finite; got {value!r}")
