"""``DeepAgent``: a trained network with its shield, and its files; see :mod:`almostsure.files`.

The arrays of a file are the network's parameters, under sb3's names; ``features``, the input features of each state, if
it was trained on a model; and the training episodes, ``training.ends``, ``training.returns`` and ``training.damages``.
The strings are ``budget`` and ``settings``.  Nothing is pickled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, final

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

from almostsure.arguments import names_right_word
from almostsure.errors import AlmostSureError, ArgumentError, CorruptFile, ModelMismatch
from almostsure.files import file_name, load_tensors, save_tensors
from almostsure.gym.deep.deploy import Observe, as_table, distribution, layers
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.ppo import build, check_device
from almostsure.gym.deep.settings import Settings
from almostsure.gym.deep.training_env import Source, TrainingEnv, require_shield, training_env
from almostsure.gym.deep.vec_env import EPISODES
from almostsure.learn.learners.training import Training
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.model.source import as_model
from almostsure.policy.evaluation.evaluate import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.shield.protocol import Guard
from almostsure.shield.shield import Shield
from almostsure.wording import counted

KIND = "deep agent"
FEATURES = "features"
MAX_ROLLOUT = 1 << 24  # steps of a rollout in a file's settings, since reading it allocates the rollout buffer

Arrays = dict[str, npt.NDArray[Any]]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeepAgent:
    """A network trained with masks, and the shield that computes them.  Made by :func:`train_maskable_ppo`.

    ``ppo`` is Stable-Baselines3's own object; always pass ``action_masks=`` to its ``predict``.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.gym.deep import Settings, train_maskable_ppo
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> agent = train_maskable_ppo("corridor", 3, total_timesteps=256, seed=0, settings=quick)
    >>> agent.act(0, 3) in asure.example("corridor").actions(0)
    True
    """

    ppo: Any  # sb3_contrib.MaskablePPO
    shield: Guard
    budget: int
    settings: Settings
    observe: Observe | None  # the network's inputs for (states, remaining); None if unknown
    ends: Ints  # [episodes] of the training: the step at which each ended
    returns: Floats  # [episodes] their returns
    damages: Ints  # [episodes] their damages

    # ------------------------------------------------------------------ playing

    def probabilities(self, state: int | str, remaining: int) -> Floats:
        """The probability of each action, [num_actions]; 0 if not allowed.  NoSafeAction if none is allowed."""
        shield = self._exact()
        at, left = np.array([shield.mdp.state(state)]), np.array([remaining])
        mask = shield.mask(at, left)
        result: Floats = distribution(self.ppo, self._observe()(at, np.minimum(left, self.budget)), mask)[0]
        return result

    def act(self, state: int | str, remaining: int, rng: np.random.Generator | None = None) -> int:
        """The most probable allowed action, or with ``rng`` a sampled one."""
        probability = self.probabilities(state, remaining)
        return int(np.argmax(probability)) if rng is None else int(rng.choice(probability.size, p=probability))

    # ------------------------------------------------------------------ exact evaluation

    def policy(self, *, deterministic: bool | None = None) -> Policy:
        """The network's policy on every (state, remaining), which is proved to keep the budget.

        Parameters
        ----------
        deterministic
            True for the most probable action everywhere, False for the network's distribution; by default the one with
            the larger return, by exact evaluation.
        """
        shield, observe = self._exact(), self._observe()
        needs = shield.minimal.of_state
        rows = layers(self.ppo, shield.mdp, observe, shield.mask, needs=needs, budget=self.budget)
        policy = as_table(shield.mdp, rows, self.budget, deterministic=deterministic)
        violation = shield.first_violation(policy, self.budget)
        if violation is not None:  # impossible: masked actions have probability 0
            raise AlmostSureError(f"the network plays an action that its shield forbids; report this bug. {violation}")
        return policy

    def evaluate(self, *, deterministic: bool | None = None) -> Evaluation:
        """The exact return, damage distribution and length of :meth:`policy`; ``overspends`` is 0."""
        return evaluate(self._exact().mdp, self.policy(deterministic=deterministic))

    @property
    def training(self) -> Training:
        """The deployed policy, and the episodes of the training."""
        return Training(policy=self.policy(), ends=self.ends, returns=self.returns, damages=self.damages)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to a safetensors file, atomically; :func:`load_agent` reads it, and runs no code.

        ``agent.ppo.save`` writes sb3's own zip instead, which contains pickles: load such files only if you trust
        their source.
        """
        if not isinstance(self.shield, Shield):
            raise ArgumentError(
                f"an agent must have been trained inside a Shield to be saved; got {type(self.shield).__name__}. Use "
                "agent.ppo.save(path)."
            )
        arrays = {name: value.cpu().numpy() for name, value in self.ppo.policy.state_dict().items()}
        if isinstance(self.observe, Features):
            arrays[FEATURES] = self.observe.states
        arrays |= {f"training.{name}": getattr(self, name) for name in EPISODES}
        strings = {"budget": str(self.budget), "settings": self.settings.to_json()}
        save_tensors(path, kind=KIND, model=self.shield.mdp.fingerprint, arrays=arrays, strings=strings)

    def __repr__(self) -> str:
        parameters = sum(x.numel() for x in self.ppo.policy.parameters())
        training = "no completed training episodes"
        if self.ends.size:
            training = f"trained on {counted(self.ends.size, 'episode')}, with a damage of at most {self.damages.max()}"
        return f"<DeepAgent: MaskablePPO with {parameters:,} parameters, budget {self.budget}\n  {training}>"

    # ------------------------------------------------------------------ requirements

    def _exact(self) -> Shield:
        """The shield, if it has a model for exact evaluation."""
        if not isinstance(self.shield, Shield):
            raise ArgumentError(
                f"an agent that was trained inside {type(self.shield).__name__} cannot be evaluated exactly. Estimate: "
                "sb3_contrib.common.maskable.evaluation.evaluate_policy(agent.ppo, env). With a stated risk, agents "
                "of ShieldedPPO(risk=…) can be evaluated exactly."
            )
        return self.shield

    def _observe(self) -> Observe:
        if self.observe is None:
            raise ArgumentError(
                "the network's inputs in the model's states must be known: observations must be the model's states, "
                "and no wrapper above the ShieldedEnv may change them. Otherwise estimate: "
                "sb3_contrib.common.maskable.evaluation.evaluate_policy(agent.ppo, env)."
            )
        return self.observe


def agent_of(ppo: Any, on: TrainingEnv) -> DeepAgent:
    """The agent of a network and its training environments."""
    known = {"shield": on.shield, "budget": on.budget, "settings": on.settings, "observe": on.observe}
    return DeepAgent(ppo=ppo, **known, **on.record.columns())  # type: ignore[arg-type]


# ---------------------------------------------------------------------- reading files


@names_right_word
def load_agent(
    path: str | PathLike[str],
    source: Source,
    *,
    device: str = "auto",
    policy_kwargs: Mapping[str, Any] | None = None,
) -> DeepAgent:
    """Read an agent that was trained on ``source``.

    Parameters
    ----------
    path, source
        The file, and the model or environment that the agent was trained on.
    device, policy_kwargs
        As for :func:`train_maskable_ppo`; ``policy_kwargs`` must be those of the training.

    Raises
    ------
    ModelMismatch
        It was trained on another model.
    CorruptFile
        The file is damaged, of another kind, or inconsistent.

    Examples
    --------
    >>> from almostsure.gym.deep import Settings, train_maskable_ppo
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> train_maskable_ppo("corridor", 3, total_timesteps=256, seed=0, settings=quick).save("agent.safetensors")
    >>> load_agent("agent.safetensors", "corridor").budget
    3
    """
    check_device(device)
    file_name(path, "load_agent(path, source)")
    arrays, strings = load_tensors(path, kind=KIND, model=_model_of(source).fingerprint)
    try:
        return _rebuild(source, arrays, strings, device, policy_kwargs)
    except (AlmostSureError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CorruptFile(f"{os.fspath(path)!r} does not hold an agent for this source: {error}", path=path) from error


def _model_of(source: Source) -> MDP:
    if not isinstance(source, gymnasium.Env) and callable(source):
        source = source()
    if not isinstance(source, gymnasium.Env):
        return as_model(source)
    shield = require_shield(source).guarded.guard
    if not isinstance(shield, Shield):
        raise ModelMismatch(f"the environment's shield must be a Shield; got {type(shield).__name__}")
    return shield.mdp


def _rebuild(
    source: Source, arrays: Arrays, strings: dict[str, str], device: str, policy_kwargs: Mapping[str, Any] | None
) -> DeepAgent:
    settings, features = Settings.from_json(strings["settings"]), arrays.pop(FEATURES, None)
    if (features is None) != (isinstance(source, gymnasium.Env) or callable(source)):
        raise ValueError(f"it was trained {'in an environment' if features is None else 'on a model'}; pass that")
    episodes = _episodes(arrays)
    _check_sizes(settings, arrays)
    on = training_env(source, int(strings["budget"]), settings, features=features)
    ppo = build(on, seed=None, device=device, policy_kwargs=policy_kwargs)
    try:
        ppo.policy.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    except RuntimeError as error:  # one line per difference, after a headline
        first = (str(error).splitlines()[1:2] or [str(error)])[0].strip().rstrip(".")
        raise ValueError(f"{first}. Pass the model or environment of the training, and its policy_kwargs.") from error
    if not all(bool(torch.isfinite(value).all()) for value in ppo.policy.state_dict().values()):
        raise ValueError("a parameter is not finite")
    return replace(agent_of(ppo, on), **episodes)


def _episodes(arrays: Arrays) -> dict[str, Any]:
    """The training episodes, which are removed from a file's arrays."""
    found = {name: arrays.pop(f"training.{name}") for name in EPISODES}
    if any(found[name].dtype != kind or found[name].ndim != 1 for name, kind in EPISODES.items()):
        raise ValueError("the training episodes must be one-dimensional arrays of numbers")
    if len({array.size for array in found.values()}) > 1:
        raise ValueError("the training episodes must have the same number of ends, returns and damages")
    return found


def _check_sizes(settings: Settings, arrays: Arrays) -> None:
    """Raise if the settings would allocate far more memory than the file's arrays justify, before it is allocated."""
    stored = max((array.size for array in arrays.values()), default=0)
    if max(settings.net_arch, default=0) > max(stored, 1) or settings.n_envs * settings.n_steps > MAX_ROLLOUT:
        raise ValueError(f"its settings need much more memory than its arrays: {settings}")
