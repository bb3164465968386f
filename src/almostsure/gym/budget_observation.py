"""``BudgetObservation`` and ``VectorBudgetObservation``: what remains of a budget, for agents that are not shielded."""

from __future__ import annotations

from typing import Any, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from almostsure.arguments import check_budget
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym.autoreset import Infos, Resets, said, write
from almostsure.gym.damage import check_damage
from almostsure.gym.observation import Form, Shown, show, show_final


@final
class BudgetObservation(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds what remains of a budget to the observations, for agents that are not shielded.

    It counts ``info["damage"]``, which :class:`DamageTracker` and this package's environments write.  A budget that is
    overspent shows as 0; ``info["remaining"]`` says by how much.

    Parameters
    ----------
    env
        An environment that says its damage.
    budget
        The budget of every episode.
    observe
        ``"flat"`` or ``"dict"``, by default flat where that is possible; see :mod:`almostsure.gym.observation`.
    normalised
        Show remaining / budget instead of the number itself.

    Examples
    --------
    >>> from almostsure.gym import BudgetObservation, to_gymnasium
    >>> env = BudgetObservation(to_gymnasium("paper"), 3, observe="dict")
    >>> env.observation_space
    Dict('observation': Discrete(2), 'remaining': Discrete(4))
    >>> env.reset()[0]
    {'observation': np.int64(0), 'remaining': np.int64(3)}
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], budget: int, *, observe: Form = "auto", normalised: bool = False
    ) -> None:
        RecordConstructorArgs.__init__(self, budget=budget, observe=observe, normalised=normalised)
        gymnasium.Wrapper.__init__(self, env)
        self.budget = self._remaining = check_budget(budget)
        self._shown = _without_masks(env.observation_space, self.budget, observe, normalised)
        self.observation_space = self._shown.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._remaining = self.budget
        return self._shown.single(observation, (self.budget,), None), {**info, "remaining": self.budget}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and show what remains after it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "damage" not in info:
            raise _no_damage()
        self._remaining -= check_damage(info["damage"], f"after action {action!r}")
        seen = self._shown.single(observation, (self._remaining,), None)
        return seen, reward, terminated, truncated, {**info, "remaining": self._remaining}


@final
class VectorBudgetObservation(VectorWrapper[Any, Any, Any, Any, Any]):
    """Adds what remains of the budget of each environment to its observations; see :class:`BudgetObservation`.

    Parameters
    ----------
    env, budget
        The vector environment, and the budget of each episode.
    observe, normalised
        How it is shown, as for :class:`BudgetObservation`.

    Examples
    --------
    >>> from almostsure.gym import ModelVectorEnv, VectorBudgetObservation
    >>> envs = VectorBudgetObservation(ModelVectorEnv("paper", 2), 3)
    >>> _ = envs.reset(seed=0)
    >>> envs.step(np.array([0, 0]))[0]  # state and what remains, one row per environment
    array([[0, 2],
           [0, 2]])
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], budget: int, *, observe: Form = "auto", normalised: bool = False
    ) -> None:
        super().__init__(env)
        self._resets = Resets(env)
        self.budget = check_budget(budget)
        self._shown = _without_masks(env.single_observation_space, self.budget, observe, normalised)
        self.single_observation_space = self._shown.space
        self.observation_space = batch_space(self._shown.space, env.num_envs)
        self._remaining: npt.NDArray[np.int64] = np.zeros(env.num_envs, np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Begin episodes with the whole budget."""
        who = self._resets.chosen(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._resets.reset(who)
        self._remaining[who] = self.budget
        infos = write(infos, who, {"remaining": self._remaining.copy()})
        return self._shown.batch(observations, (self._remaining,), None), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each environment, and show what remains after it."""
        acting = self._resets.before()
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        ended = terminated | truncated
        final = self._resets.final(infos, ended)
        for at in np.flatnonzero(acting).tolist():
            damage = said(infos, final, ended, "damage", at)
            if damage is None:
                raise _no_damage()
            self._remaining[at] -= check_damage(damage, f"in environment {at}")
        self._remaining[~acting] = self.budget
        if final is not None:
            infos = {**infos, "final_info": write(final, ended, {"remaining": self._remaining.copy()})}
            infos["final_obs"] = show_final(self._shown, infos["final_obs"], (self._remaining,), ended)
            self._remaining[ended] = self.budget
        infos = write(infos, np.ones_like(acting), {"remaining": self._remaining.copy()})
        self._resets.step(ended)
        seen = self._shown.batch(observations, (self._remaining,), None)
        return seen, rewards, terminated, truncated, infos


def _without_masks(space: Any, budget: int, observe: Form, normalised: bool) -> Shown:
    if observe not in ("auto", "flat", "dict"):
        raise ArgumentError(f"observe must be 'flat' or 'dict'; got {observe!r}. Masks need ShieldedEnv.")
    return show(space, {"remaining": budget}, observe, normalised=normalised, num_actions=0)


def _no_damage() -> ModelError:
    return ModelError("the environment must say its damage in info['damage']. Wrap it in DamageTracker first.")
