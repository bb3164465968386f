"""``train_maskable_ppo``: an agent that never overspends, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.solve import solve_budget
from almostsure.errors import ArgumentError, Interrupted
from almostsure.gym.deep.agent import DeepAgent
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.lanes import Lanes
from almostsure.gym.deep.ppo import build, learn, model_env
from almostsure.gym.deep.regimes import Shielded
from almostsure.gym.deep.settings import DEFAULT, Settings
from almostsure.model.numbers import whole
from almostsure.model.source import Model, as_model
from almostsure.shield.checks import require_total
from almostsure.shield.shield import Shield


def train_maskable_ppo(
    model: Model,
    total: int,
    *,
    steps: int = 200_000,
    seed: int = 0,
    settings: Settings = DEFAULT,
    features: npt.ArrayLike | None = None,
    device: str = "auto",
) -> DeepAgent:
    """Train MaskablePPO inside the shield.

    Parameters
    ----------
    model
        A model, an example's name, or a file.
    total
        The budget of every episode, in training and afterwards.
    steps
        Environment steps, over all copies of the model together.
    seed
        The same seed gives the same agent on the same machine.
    settings
        The numbers of PPO.
    features
        One row of numbers for each state, for the network to see; by default its place on the map, or one-hot.
    device
        Of the network: "auto" takes a GPU where there is one.  Small networks are faster on the CPU.

    Returns
    -------
    DeepAgent
        ``policy()`` and ``evaluate()`` are exact; ``save`` and ``load`` use no pickle.

    Raises
    ------
    Infeasible
        If an initial state needs more than ``total``; ``needed`` is what suffices.
    Interrupted
        Ctrl-C; ``kept`` is the agent as it was then.

    Examples
    --------
    >>> from almostsure.gym.deep import train_maskable_ppo
    >>> agent = train_maskable_ppo("corridor", 3, steps=4_000, seed=1)
    >>> result = agent.evaluate()
    >>> result.overspends, int(agent.damages.max()) <= 3
    (0.0, True)
    """
    mdp, steps = as_model(model), _steps(steps)
    settings = settings.for_steps(steps)
    shield = Shield(mdp, solve_budget(mdp))
    total = require_total(mdp, shield.budget, total)
    seen = Features(mdp, total, states=features)
    lanes = Lanes(
        mdp, total, Shielded(mdp, total, shield), seen, count=settings.lanes, max_steps=settings.max_steps
    )  # fmt: skip
    ppo = build(model_env(lanes), settings, seed=_seed(seed), device=device)
    try:
        learn(ppo, settings, steps=steps, lanes=lanes)
    except KeyboardInterrupt:
        kept = _agent(ppo, shield, total, settings, seen, lanes)
        raise Interrupted(f"training was stopped after {lanes.steps:,} steps; the agent is kept", kept=kept) from None
    return _agent(ppo, shield, total, settings, seen, lanes)


def _agent(ppo: Any, shield: Shield, total: int, settings: Settings, seen: Features, lanes: Lanes) -> DeepAgent:
    record = lanes.record
    return DeepAgent(
        ppo=ppo, shield=shield, total=total, settings=settings, observe=seen,
        ends=np.array(record.ends, np.int64), returns=np.array(record.returns),
        damages=np.array(record.damages, np.int64),
    )  # fmt: skip


def _steps(steps: object) -> int:
    number = whole("steps", steps)
    if number < 2:
        raise ArgumentError(f"steps must be 2 or more; got {number}")
    return number


def _seed(seed: object) -> int:
    number = whole("seed", seed)
    if not 0 <= number < 2**32:
        raise ArgumentError(f"seed must lie in 0 … {2**32 - 1}; got {number}")
    return number
