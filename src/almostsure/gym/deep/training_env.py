"""What an agent is trained on: many environments of a model, or somebody's environment inside a ``ShieldedEnv``."""

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
from almostsure.model.mdp import MDP, Ints
from almostsure.model.source import Model, as_model
from almostsure.shield.checks import require_budget
from almostsure.shield.protocol import Guard
from almostsure.shield.shield import Shield

Environment = gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
Source = Model | Environment  #: what agents are trained on

SEE_THROUGH = (TimeLimit, OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, Monitor)  # observations pass


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingEnv:
    """Environments as sb3 wants them, and what is known about them."""

    env: Any  # a VecEnv with action masks
    shield: Guard | None  # None for learners that have none
    budget: int
    settings: Settings
    observe: Observe | None  # how an agent sees (states, remaining); None if nobody but the environment knows
    record: Record  # of a model's environments, their own


def training_env(
    source: Source,
    budget: int | None,
    settings: Settings,
    *,
    features: npt.ArrayLike | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
) -> TrainingEnv:
    """What ``source`` is, ready for training."""
    if isinstance(source, gymnasium.Env) or callable(source):
        if features is not None:
            raise ArgumentError("features are for models; an environment's agent sees what the environment shows")
        if ledger is not None:
            raise ArgumentError("a ShieldedEnv keeps a ledger of its own: pass ledger= to it")
        return of_env(source, budget, settings)
    mdp = as_model(source)
    if budget is None:
        raise ArgumentError("budget must be given with a model: the budget of every episode. See suggest_budget(mdp).")
    shield = Shield(minimal_budget(mdp))
    budget = require_budget(shield.minimal, budget)
    made = of_model(mdp, budget, shielded(shield), settings, shield=shield, features=features)
    made.env.ledger = None if ledger is None else open_ledger(ledger, shield)
    return made


def of_model(
    mdp: MDP, budget: int, regime: Regime, settings: Settings, *, shield: Shield | None, features: npt.ArrayLike | None
) -> TrainingEnv:
    """Environments of a model under a regime."""
    seen = Features(mdp, budget if regime.sees_remaining else None, states=features)
    env = ModelVecEnv(
        mdp,
        budget,
        regime,
        seen,
        n_envs=settings.n_envs,
        max_episode_steps=settings.max_episode_steps,
        scale=1.0 / largest_reward(mdp),
        exploring_starts=settings.exploring_starts,
    )
    return TrainingEnv(env=env, shield=shield, budget=budget, settings=settings, observe=seen, record=env.record)


def largest_reward(mdp: MDP) -> float:
    """The largest reward by size; 1 where there is none.  Networks learn best what is about that large."""
    return float(abs(mdp.reward).max()) or 1.0


# ---------------------------------------------------------------------- environments


def of_env(source: Environment, budget: int | None, settings: Settings) -> TrainingEnv:
    """One environment, or ``n_envs`` of them where a function makes them."""
    if settings.exploring_starts:
        raise ArgumentError("exploring_starts must be 0 for an environment: only a model can begin anywhere")
    single = isinstance(source, gymnasium.Env)
    first = source if isinstance(source, gymnasium.Env) else _made(source)
    inner = require_shield(first)
    if budget is not None and whole("budget", budget) != inner.budget:
        raise ArgumentError(f"budget must be that of the environment, {inner.budget}, or left out; got {budget}")
    shield = inner.guarded.guard
    scale = 1.0 / largest_reward(shield.mdp) if isinstance(shield, Shield) else 1.0
    makers = [lambda: first] + ([] if single else [source] * (settings.n_envs - 1))
    env = DummyVecEnv([lambda make=make: _ready(make(), scale, settings) for make in makers])
    settings = settings.for_one_env() if single else settings
    return TrainingEnv(
        env=env,
        shield=shield,
        budget=inner.budget,
        settings=settings,
        observe=_observer(first, inner),
        record=Record(),
    )


def _made(make: Callable[[], Any]) -> gymnasium.Env[Any, Any]:
    if inspect.isclass(make) or not isinstance(env := make(), gymnasium.Env):
        raise ArgumentError(f"a function must return a Gymnasium environment; got {make!r}")
    return env


def require_shield(env: gymnasium.Env[Any, Any]) -> ShieldedEnv:
    """The ShieldedEnv in a stack of wrappers; ArgumentError where there is none."""
    shielded_env = shielded_in(env)
    if shielded_env is None:
        raise ArgumentError(
            f"the environment {env} has no shield. Wrap it: almostsure.gym.ShieldedEnv(env, shield, budget); "
            "of a finite model, pass the model itself."
        )
    return shielded_env


def _ready(env: gymnasium.Env[Any, Any], scale: float, settings: Settings) -> gymnasium.Env[Any, Any]:
    """The environment with a time limit, true returns on record, and rewards of a size that networks like."""
    limited = TimeLimit(env, settings.max_episode_steps)
    return TransformReward(Monitor(limited), lambda reward: float(reward) * scale)


def _observer(env: Any, inner: ShieldedEnv) -> Observe | None:
    """How the agent sees a state of the model, where observations are states and nothing above changes them."""
    while env is not inner:
        if not isinstance(env, SEE_THROUGH):
            return None
        env = env.env
    if not inner.guarded.plain or not isinstance(inner.guarded.guard, Shield):
        return None
    shield, show = inner.guarded.guard, inner.shown.batch

    def observe(states: Ints, remaining: Ints) -> Any:
        return show(states, (remaining,), shield.mask(states, remaining).astype(np.int8))

    return observe
