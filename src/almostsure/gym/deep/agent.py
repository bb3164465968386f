"""``DeepAgent``: a trained network with its shield, and agents in files; see :mod:`almostsure.files`.

The arrays of a file are the network's parameters, under sb3's names, and ``features``, what the network sees of each
state, for those that were trained on a model; and ``training.ends``, ``training.returns`` and ``training.damages``, the
episodes of the training.  The strings are ``budget`` and ``settings``.  Nothing is pickled.
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
MOST_STEPS = 1 << 24  # of a rollout that a file may ask for; the buffer is made when the file is read

Arrays = dict[str, npt.NDArray[Any]]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeepAgent:
    """A network trained with masks, and the shield that makes them.  Made by :func:`train_maskable_ppo`.

    ``ppo`` is Stable-Baselines3's own object, for whatever else it can do; ask it with ``action_masks=``, always.

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
    observe: Observe | None  # how the network sees (states, remaining); None if only the environment knows
    ends: Ints  # [episodes] of the training: the step at which each ended,
    returns: Floats  # [episodes] what it returned,
    damages: Ints  # [episodes] and took

    # ------------------------------------------------------------------ playing

    def probabilities(self, state: int | str, remaining: int) -> Floats:
        """The probability of each action, [num_actions]; 0 for what is not allowed.  NoSafeAction where nothing is."""
        shield = self._exact()
        at, left = np.array([shield.mdp.state(state)]), np.array([remaining])
        mask = shield.mask(at, left)
        spread: Floats = distribution(self.ppo, self._observe()(at, np.minimum(left, self.budget)), mask)[0]
        return spread

    def act(self, state: int | str, remaining: int, rng: np.random.Generator | None = None) -> int:
        """The likeliest allowed action, or with ``rng`` a random one."""
        shares = self.probabilities(state, remaining)
        return int(np.argmax(shares)) if rng is None else int(rng.choice(shares.size, p=shares))

    # ------------------------------------------------------------------ exactly

    def policy(self, *, deterministic: bool | None = None) -> Policy:
        """What the network plays on every (state, remaining), as a policy that is proved to keep the budget.

        Parameters
        ----------
        deterministic
            True for the likeliest action everywhere, False for the network's own randomness; by default whichever
            returns more, by exact evaluation.
        """
        shield, observe = self._exact(), self._observe()
        needs = shield.minimal.of_state
        rows = layers(self.ppo, shield.mdp, observe, shield.mask, needs=needs, budget=self.budget)
        policy = as_table(shield.mdp, rows, self.budget, deterministic=deterministic)
        violation = shield.first_violation(policy, self.budget)
        if violation is not None:  # cannot be: what is masked has probability 0
            raise AlmostSureError(f"the network plays what its shield refuses. Please report this. {violation}")
        return policy

    def evaluate(self, *, deterministic: bool | None = None) -> Evaluation:
        """The exact return, damage distribution and length of :meth:`policy`; ``overspends`` is 0."""
        return evaluate(self._exact().mdp, self.policy(deterministic=deterministic))

    @property
    def training(self) -> Training:
        """The policy that would be deployed, and the episodes of the training."""
        return Training(policy=self.policy(), ends=self.ends, returns=self.returns, damages=self.damages)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to a safetensors file, atomically; :func:`load_agent` reads it, and runs no code.

        ``agent.ppo.save`` writes sb3's own zip instead, which holds pickles: load such files only if you trust
        whoever made them.
        """
        if not isinstance(self.shield, Shield):
            raise ArgumentError(
                f"an agent inside {type(self.shield).__name__} is not written to such files; keep it with "
                "agent.ppo.save(path)"
            )
        arrays = {name: value.cpu().numpy() for name, value in self.ppo.policy.state_dict().items()}
        if isinstance(self.observe, Features):
            arrays[FEATURES] = self.observe.states
        arrays |= {f"training.{name}": getattr(self, name) for name in EPISODES}
        strings = {"budget": str(self.budget), "settings": self.settings.to_json()}
        save_tensors(path, kind=KIND, model=self.shield.mdp.fingerprint, arrays=arrays, strings=strings)

    def __repr__(self) -> str:
        parameters = sum(x.numel() for x in self.ppo.policy.parameters())
        training = "no episode of its training is on record"
        if self.ends.size:
            training = f"trained on {counted(self.ends.size, 'episode')}; the most damage of any: {self.damages.max()}"
        return f"<DeepAgent: MaskablePPO with {parameters:,} parameters, budget {self.budget}\n  {training}>"

    # ------------------------------------------------------------------ pieces

    def _exact(self) -> Shield:
        if not isinstance(self.shield, Shield):
            raise ArgumentError(
                f"an agent that was trained inside {type(self.shield).__name__} cannot be evaluated exactly. Try it "
                "out: sb3_contrib.common.maskable.evaluation.evaluate_policy(agent.ppo, env). With a stated risk, "
                "ShieldedPPO(risk=…) trains an agent that can."
            )
        return self.shield

    def _observe(self) -> Observe:
        if self.observe is None:
            raise ArgumentError(
                "what the network observes in a state of the model is not known: the environment's observations are "
                "changed above the ShieldedEnv, or are not the model's states. Try it out: "
                "sb3_contrib.common.maskable.evaluation.evaluate_policy(agent.ppo, env)."
            )
        return self.observe


def agent_of(ppo: Any, on: TrainingEnv) -> DeepAgent:
    """The network with what it was trained on."""
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
    """Read an agent that was trained on ``source``: the same model, or the same environment.

    ``policy_kwargs`` are those that it was trained with, if any.

    Parameters
    ----------
    path, source
        The file; and the model or environment that it was trained on.
    device, policy_kwargs
        As for :func:`train_maskable_ppo`.

    Raises
    ------
    ModelMismatch
        It was trained on another model.
    CorruptFile
        The file is damaged, foreign, or lies about its contents.

    Examples
    --------
    >>> from almostsure.gym.deep import Settings, train_maskable_ppo
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> train_maskable_ppo("corridor", 3, total_timesteps=256, seed=0, settings=quick).save("agent.safetensors")
    >>> load_agent("agent.safetensors", "corridor").budget
    3
    """
    if device != "auto":
        check_device(device)
    file_name(path, "load_agent(path, source)")
    arrays, strings = load_tensors(path, kind=KIND, model=_model_of(source).fingerprint)
    try:
        return _rebuild(source, arrays, strings, device, policy_kwargs)
    except (AlmostSureError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CorruptFile(f"{os.fspath(path)!r} does not hold an agent for this: {error}", path=path) from error


def _model_of(source: Source) -> MDP:
    if not isinstance(source, gymnasium.Env) and callable(source):
        source = source()
    if not isinstance(source, gymnasium.Env):
        return as_model(source)
    shield = require_shield(source).guarded.guard
    if not isinstance(shield, Shield):
        raise ModelMismatch("an agent from a file belongs to a model; an OnlineShield has none")
    return shield.mdp


def _rebuild(
    source: Source, arrays: Arrays, strings: dict[str, str], device: str, policy_kwargs: Mapping[str, Any] | None
) -> DeepAgent:
    settings, features = Settings.from_json(strings["settings"]), arrays.pop(FEATURES, None)
    episodes = _episodes(arrays)
    _check_sizes(settings, arrays)
    on = training_env(source, int(strings["budget"]), settings, features=features)
    ppo = build(on, seed=None, device=device, policy_kwargs=policy_kwargs)
    ppo.policy.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    if not all(bool(torch.isfinite(value).all()) for value in ppo.policy.state_dict().values()):
        raise ValueError("a parameter is not finite")
    return replace(agent_of(ppo, on), **episodes)


def _episodes(arrays: Arrays) -> dict[str, Any]:
    """The episodes of the training, taken out of a file's arrays."""
    found = {name: arrays.pop(f"training.{name}") for name in EPISODES}
    if any(found[name].dtype != kind or found[name].ndim != 1 for name, kind in EPISODES.items()):
        raise ValueError("the episodes of its training must be lists of numbers")
    if len({array.size for array in found.values()}) > 1:
        raise ValueError("the episodes of its training must have as many ends as returns and damages")
    return found


def _check_sizes(settings: Settings, arrays: Arrays) -> None:
    """Refuse a file that would have us make room for more than it holds, before that room is made."""
    stored = max((array.size for array in arrays.values()), default=0)
    if max(settings.net_arch, default=0) > max(stored, 1) or settings.n_envs * settings.n_steps > MOST_STEPS:
        raise ValueError(f"its settings ask for much more than it holds: {settings}")
