"""Agents in files; see :mod:`almostsure.files`.

The arrays are the network's parameters, under sb3's names, and ``features``, what the network sees of each state, for
those that were trained on a model.  The strings are ``budget`` and ``settings``.  Nothing is pickled.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

from almostsure.errors import AlmostSureError, ArgumentError, CorruptFile, ModelMismatch
from almostsure.files import load_tensors, save_tensors
from almostsure.gym.deep.agent import DeepAgent, agent_of
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.ground import Source, ground_of, shielded_in
from almostsure.gym.deep.ppo import build, check_device
from almostsure.gym.deep.settings import Settings
from almostsure.model.mdp import MDP
from almostsure.model.source import as_model
from almostsure.shield.shield import Shield

KIND = "deep agent"
FEATURES = "features"
MOST_STEPS = 1 << 24  # of a rollout that a file may ask for; the buffer is made when the file is read


def save_agent(agent: DeepAgent, path: str | PathLike[str]) -> None:
    """Write ``agent`` to ``path``, atomically."""
    if not isinstance(agent.shield, Shield):
        raise ArgumentError("an agent inside an OnlineShield belongs to no model; keep it with agent.ppo.save(path)")
    arrays = {name: value.cpu().numpy() for name, value in agent.ppo.policy.state_dict().items()}
    if isinstance(agent.observe, Features):
        arrays[FEATURES] = agent.observe.states
    strings = {"budget": str(agent.budget), "settings": agent.settings.to_json()}
    save_tensors(path, kind=KIND, model=agent.shield.mdp.fingerprint, arrays=arrays, strings=strings)


def load_agent(path: str | PathLike[str], source: Source, *, device: str = "auto") -> DeepAgent:
    """Read an agent that was trained on ``source``: the same model, or the same environment.

    Raises
    ------
    ModelMismatch
        It was trained on another model.
    CorruptFile
        The file is damaged, foreign, or lies about its contents.
    """
    if device != "auto":
        check_device(device)
    arrays, strings = load_tensors(path, kind=KIND, model=_model_of(source).fingerprint)
    try:
        return _rebuild(source, arrays, strings, device)
    except (AlmostSureError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CorruptFile(f"{os.fspath(path)!r} does not hold an agent for this: {error}", path=path) from error


def _model_of(source: Source) -> MDP:
    if not isinstance(source, gymnasium.Env) and callable(source):
        source = source()
    if not isinstance(source, gymnasium.Env):
        return as_model(source)
    shield = shielded_in(source).guarded.guard
    if not isinstance(shield, Shield):
        raise ModelMismatch("an agent from a file belongs to a model; an OnlineShield has none")
    return shield.mdp


def _rebuild(source: Source, arrays: dict[str, npt.NDArray[Any]], strings: dict[str, str], device: str) -> DeepAgent:
    settings, features = Settings.from_json(strings["settings"]), arrays.pop(FEATURES, None)
    _check_sizes(settings, arrays)
    ground = ground_of(source, int(strings["budget"]), settings, features=features)
    ppo = build(ground, seed=None, device=device)
    ppo.policy.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    if not all(bool(torch.isfinite(value).all()) for value in ppo.policy.state_dict().values()):
        raise ValueError("a parameter is not finite")
    return agent_of(ppo, ground)


def _check_sizes(settings: Settings, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Refuse a file that would have us make room for more than it holds, before that room is made."""
    stored = max((array.size for array in arrays.values()), default=0)
    if max(settings.hidden, default=0) > max(stored, 1) or settings.lanes * settings.rollout > MOST_STEPS:
        raise ValueError(f"its settings ask for much more than it holds: {settings}")
