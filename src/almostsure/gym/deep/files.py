"""Agents in files; see :mod:`almostsure.model.tensors`.

The arrays are the network's parameters, under sb3's names, and ``features``, what the network sees of each state.
The strings are ``total`` and ``settings``.  Nothing is pickled.
"""

from __future__ import annotations

import os
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from almostsure.budget.solve import solve_budget
from almostsure.errors import AlmostSureError, CorruptFile
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.lanes import Lanes
from almostsure.gym.deep.ppo import build, model_env
from almostsure.gym.deep.regimes import Shielded
from almostsure.gym.deep.settings import Settings
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.model.tensors import load_tensors, save_tensors
from almostsure.shield.shield import Shield

if TYPE_CHECKING:
    from almostsure.gym.deep.agent import DeepAgent

KIND = "deep agent"
FEATURES = "features"
LARGEST = 1_000_000_000  # parameters that a file may ask us to make room for, before it shows that it has them


def save(agent: DeepAgent, path: str | PathLike[str]) -> None:
    """Write ``agent`` to ``path``, atomically."""
    arrays = {name: value.cpu().numpy() for name, value in agent.ppo.policy.state_dict().items()}
    strings = {"total": str(agent.total), "settings": agent.settings.to_json()}
    mdp = agent._mdp()
    save_tensors(path, kind=KIND, mdp=mdp, arrays={**arrays, FEATURES: agent.features.states}, strings=strings)


def load(path: str | PathLike[str], mdp: Model, *, device: str) -> DeepAgent:
    """Read an agent of ``mdp`` from ``path``."""
    mdp = as_model(mdp)
    arrays, strings = load_tensors(path, kind=KIND, mdp=mdp)
    try:
        return _rebuild(mdp, arrays, strings, device)
    except (AlmostSureError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CorruptFile(f"{os.fspath(path)!r} does not hold an agent of its model: {error}", path=path) from error


def _rebuild(mdp: MDP, arrays: dict[str, npt.NDArray[Any]], strings: dict[str, str], device: str) -> DeepAgent:
    from almostsure.gym.deep.agent import DeepAgent

    settings, total = Settings.from_json(strings["settings"]), int(strings["total"])
    features = Features(mdp, total, states=arrays.pop(FEATURES))
    stored = sum(array.size for array in arrays.values())
    _check_size(settings, features.width, mdp.num_actions, stored)
    shield = Shield(mdp, solve_budget(mdp))
    lanes = Lanes(mdp, total, Shielded(mdp, total, shield), features, count=1, max_steps=settings.max_steps)
    ppo = build(model_env(lanes), settings, seed=None, device=device)
    ppo.policy.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    if not all(bool(torch.isfinite(value).all()) for value in ppo.policy.state_dict().values()):
        raise ValueError("a parameter is not finite")
    none = np.zeros(0, np.int64)
    return DeepAgent(
        ppo=ppo, shield=shield, total=total, settings=settings, observe=features,
        ends=none, returns=np.zeros(0), damages=none,
    )  # fmt: skip


def _check_size(settings: Settings, width: int, num_actions: int, stored: int) -> None:
    """Refuse a file whose settings ask for another number of parameters than it has, before making room for them."""
    sizes = [width, *settings.hidden]
    body = 2 * sum((a + 1) * b for a, b in pairwise(sizes))
    wanted = body + (sizes[-1] + 1) * (num_actions + 1)
    if wanted != stored or settings.lanes * settings.rollout > LARGEST:
        raise ValueError(f"its settings ask for {wanted:,} parameters, and it has {stored:,}")
