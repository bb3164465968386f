"""``train_maskable_ppo``: trains an agent that never overspends."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy.typing as npt

from almostsure.arguments import count, names_right_word
from almostsure.errors import ArgumentError, Interrupted
from almostsure.gym.deep.agent import DeepAgent, agent_of
from almostsure.gym.deep.ppo import build, learn
from almostsure.gym.deep.settings import DEFAULT, Settings
from almostsure.gym.deep.training_env import Source, training_env
from almostsure.learn.ledger import Ledger
from almostsure.wording import brief


@names_right_word
def train_maskable_ppo(
    source: Source,
    budget: int | None = None,
    *,
    total_timesteps: int = 200_000,
    seed: int = 0,
    settings: Settings = DEFAULT,
    policy_kwargs: Mapping[str, Any] | None = None,
    callback: Any = None,
    features: npt.ArrayLike | None = None,
    device: str = "auto",
    ledger: Ledger | str | PathLike[str] | None = None,
) -> DeepAgent:
    """Train MaskablePPO inside the shield.

    Parameters
    ----------
    source
        A model, an example's name or a file, of which ``settings.n_envs`` environments are stepped together.  Or a
        Gymnasium environment with a :class:`almostsure.gym.ShieldedEnv` among its wrappers, or a function that makes
        one, which is called ``settings.n_envs`` times.
    budget
        The budget of every episode, in training and afterwards.  Not needed with a ShieldedEnv, which has one.
    total_timesteps, seed
        Environment steps, of all environments together; the same seed gives the same agent on the same machine.
    settings
        The hyperparameters of PPO, under Stable-Baselines3's names.
    policy_kwargs, callback, device
        Passed on to Stable-Baselines3; ``net_arch`` is among the settings.  Small networks are faster on the CPU.
    features
        For models: the network's input features, one row of numbers per state; by default the state one-hot, and its
        position on the map.
    ledger
        For models: a Ledger, or the path of a file of JSON lines, which records every training episode.

    Raises
    ------
    Infeasible
        If an initial state needs more than ``budget``; ``needed`` is the budget that suffices.
    ArgumentError
        If an environment has no shield, or another budget than the given one.
    Interrupted
        After Ctrl-C; ``kept`` is the agent at that time.

    Examples
    --------
    >>> from almostsure.gym.deep import train_maskable_ppo
    >>> agent = train_maskable_ppo("corridor", 3, total_timesteps=4_000, seed=1)
    >>> agent.evaluate().overspends, int(agent.damages.max()) <= 3
    (0.0, True)
    """
    total_timesteps = count("total_timesteps", total_timesteps, least=2)
    on = training_env(source, budget, _for_steps(settings, total_timesteps), features=features, ledger=ledger)
    ppo = build(on, seed=count("seed", seed, least=0, most=2**32 - 1), device=device, policy_kwargs=policy_kwargs)
    try:
        learn(ppo, on, total_timesteps=total_timesteps, callback=callback)
    except KeyboardInterrupt:
        message = f"training was stopped after {ppo.num_timesteps:,} steps; the agent is kept"
        raise Interrupted(message, kept=agent_of(ppo, on)) from None
    return agent_of(ppo, on)


def _for_steps(settings: object, total_timesteps: int) -> Settings:
    if not isinstance(settings, Settings):
        raise ArgumentError(f"settings must be Settings(…); got {brief(settings)}")
    return settings.for_steps(total_timesteps)
