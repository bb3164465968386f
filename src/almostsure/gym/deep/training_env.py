"""Training environments: many environments of a model, or a user's environment inside a ``ShieldedEnv``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit, TransformReward
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from almostsure.arguments import whole
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError
from almostsure.gym.deep.deploy import Observe
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.settings import Settings
from almostsure.gym.deep.vec_env import ModelVecEnv, Record, Regime, shielded
from almostsure.gym.guarded import open_ledger
from almostsure.gym.shielded import ShieldedEnv, shielded_in
from almostsure.learn.ledger import Ledger
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.shield.checks import require_budget
from almostsure.shield.protocol import Guard
from almostsure.shield.shield import Shield

Environment = gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
Source = Model | Environment  #: a model or an environment to train on

# Wrappers that leave observations unchanged.
TRANSPARENT = (TimeLimit, OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, Monitor)


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingEnv:
    """A ``VecEnv`` of sb3, with its shield and settings."""

    env: Any  # a VecEnv with action masks
    shield: Guard | None  # None for learners without a shield
    budget: int
    settings: Settings
    observe: Observe | None  # the observations of (states, remaining); None if unknown
    record: Record  # for a ModelVecEnv, its own


def training_env(
    source: Source,
    budget: int | None,
    settings: Settings,
    *,
    features: npt.ArrayLike | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
) -> TrainingEnv:
    """The training environments of ``source``."""
    if isinstance(source, gymnasium.Env) or callable(source):
        if features is not None:
            raise ArgumentError("features are for models, not for environments; wrap the environment to change them")
        if ledger is not None:
            raise ArgumentError("a ShieldedEnv has a ledger of its own: pass ledger= to it")
        return of_env(source, budget, settings)
    mdp = as_model(source)
    if budget is None:
        raise ArgumentError("budget must be given with a model: the budget of every episode. See suggest_budget(mdp).")
    shield = Shield(minimal_budget(mdp))
    budget = require_budget(shield.minimal, budget)
    result = of_model(mdp, budget, shielded(shield), settings, shield=shield, features=features)
    result.env.ledger = None if ledger is None else open_ledger(ledger, shield)
    return result


def of_model(
    mdp: MDP, budget: int, regime: Regime, settings: Settings, *, shield: Shield | None, features: npt.ArrayLike | None
) -> TrainingEnv:
    """Environments of a model in a regime."""
    inputs = Features(mdp, budget if regime.sees_remaining else None, states=features)
    env = ModelVecEnv(
        mdp,
        budget,
        regime,
        inputs,
        n_envs=settings.n_envs,
        max_episode_steps=settings.max_episode_steps,
        scale=1.0 / largest_reward(mdp),
        exploring_starts=settings.exploring_starts,
    )
    return TrainingEnv(env=env, shield=shield, budget=budget, settings=settings, observe=inputs, record=env.record)


def largest_reward(mdp: MDP) -> float:
    """The largest absolute reward, by which rewards are divided for the network; 1 if all are 0."""
    return float(abs(mdp.reward).max()) or 1.0


# ---------------------------------------------------------------------- environments


def of_env(source: Environment, budget: int | None, settings: Settings) -> TrainingEnv:
    """A single environment, or ``n_envs`` environments made by a function."""
    if settings.exploring_starts:
        raise ArgumentError("exploring_starts must be 0 for an environment, which cannot be reset to any state")
    single = isinstance(source, gymnasium.Env)
    first = source if isinstance(source, gymnasium.Env) else _make(source)
    inner = require_shield(first)
    if budget is not None and whole("budget", budget) != inner.budget:
        raise ArgumentError(f"budget must be that of the environment, {inner.budget}, or left out; got {budget}")
    shield = inner.guarded.guard
    scale = 1.0 / largest_reward(shield.mdp) if isinstance(shield, Shield) else 1.0
    makers = [lambda: first] + ([] if single else [source] * (settings.n_envs - 1))
    env = DummyVecEnv([lambda make=make: _wrapped(make(), scale, settings) for make in makers])
    settings = settings.for_one_env() if single else settings
    return TrainingEnv(
        env=env,
        shield=shield,
        budget=inner.budget,
        settings=settings,
        observe=_observer(first, inner),
        record=Record(),
    )


def _make(make: Callable[[], Any]) -> gymnasium.Env[Any, Any]:
    if inspect.isclass(make) or not isinstance(env := make(), gymnasium.Env):
        raise ArgumentError(f"a function must return a Gymnasium environment; got {make!r}")
    return env


def require_shield(env: gymnasium.Env[Any, Any]) -> ShieldedEnv:
    """The ShieldedEnv among the wrappers of an environment; ArgumentError if there is none."""
    shielded_env = shielded_in(env)
    if shielded_env is None:
        raise ArgumentError(
            f"the environment must have a shield; got {env}. Wrap it: almostsure.gym.ShieldedEnv(env, shield, budget); "
            "or pass its model, if it is finite."
        )
    return shielded_env


def _wrapped(env: gymnasium.Env[Any, Any], scale: float, settings: Settings) -> gymnasium.Env[Any, Any]:
    """The environment with a time limit, a Monitor that records unscaled returns, and scaled rewards."""
    limited = TimeLimit(env, settings.max_episode_steps)
    return TransformReward(Monitor(limited), lambda reward: float(reward) * scale)


def _observer(env: Any, inner: ShieldedEnv) -> Observe | None:
    """The agent's observations of states, if observations are states and no wrapper above changes them."""
    while env is not inner:
        if not isinstance(env, TRANSPARENT):
            return None
        env = env.env
    if not inner.guarded.plain or not isinstance(inner.guarded.guard, Shield):
        return None
    shield, show = inner.guarded.guard, inner.shown.batch
    return lambda states, remaining: show(states, (remaining,), shield.mask(states, remaining).astype(np.int8))
