"""The vector forms of :class:`DamageTracker` and :class:`BudgetObservation`: one wrapper around many copies."""

from __future__ import annotations

import copy
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from almostsure.arguments import check_budget
from almostsure.gym.autoreset import Infos, Resets, read, said, write
from almostsure.gym.damage import Damage, check_damage, check_function, check_reset, no_cost, unpack
from almostsure.gym.forms import Form
from almostsure.gym.observation import shown, unsaid
from almostsure.model.mdp import Bools


@final
class VectorDamageTracker(VectorWrapper[Any, Any, Any, Any, Any]):
    """Writes the damage of every step of every copy into ``infos``, and what remains of their budgets.

    Parameters
    ----------
    env
        The vector environment.
    damage
        As :class:`DamageTracker` takes it: it is asked once a copy.  By default the copies' own cost is the damage.
    budget
        The budget of every episode, if what remains shall be tracked.

    Examples
    --------
    >>> import gymnasium
    >>> from almostsure.gym import VectorDamageTracker
    >>> envs = gymnasium.make_vec("CliffWalking-v1", num_envs=2, vectorization_mode="sync")
    >>> envs = VectorDamageTracker(envs, lambda s, a, s2, r, terminated: int(r == -100), budget=2)
    >>> _ = envs.reset()
    >>> envs.step(np.array([0, 1]))[-1]["remaining"]  # up, and over the cliff
    array([2, 1])
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], damage: Damage | None = None, *, budget: int | None = None):
        super().__init__(env)
        self._resets = Resets(env)
        self._damage = check_function(damage)
        self._budget = None if budget is None else check_budget(budget)
        self._remaining: npt.NDArray[np.int64] = np.zeros(env.num_envs, np.int64)
        self._before: list[Any] = []

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Start episodes with the whole budget."""
        who = self._resets.chosen(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._resets.reset(who)
        _check_resets(infos, who)
        self._before = self._each(observations)
        self._remaining[who] = self._budget or 0
        return observations, self._infos(infos, who, np.zeros(self.num_envs, np.int64))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each copy, and write down their damages."""
        acting = self._resets.before()
        observations, rewards, terminated, truncated, infos = unpack(self.env.step(actions))
        ended = terminated | truncated
        final = self._resets.final(infos, ended)
        after = self._each(observations)
        taken = list(iterate(self.env.action_space, actions))
        damages = np.zeros(self.num_envs, np.int64)
        for at in np.flatnonzero(acting).tolist():
            reached = infos["final_obs"][at] if final is not None and ended[at] else after[at]
            cost = said(infos, final, ended, "cost", at)
            if self._damage is not None:
                cost = self._damage(self._before[at], taken[at], reached, float(rewards[at]), bool(terminated[at]))
            elif cost is None:
                raise no_cost(infos)
            damages[at] = check_damage(cost, f"in copy {at}, after action {taken[at]!r}")
        keys = ("damage", "cost") if "_cost" in infos else ("damage",)  # otherwise it is the sixth value of the step
        _check_resets(infos, ~acting if final is None else ended, keys)
        self._before = after
        self._remaining = np.where(acting, self._remaining - damages, self._budget or 0)
        if final is not None:
            infos = {**infos, "final_info": self._infos(final, ended, damages)}
            self._remaining[ended] = self._budget or 0
            damages = np.where(ended, 0, damages)
        self._resets.step(ended)
        return observations, rewards, terminated, truncated, self._infos(infos, np.ones_like(acting), damages)

    def _each(self, observations: Any) -> list[Any]:
        return list(iterate(self.env.observation_space, copy.deepcopy(observations)))  # they may be written over

    def _infos(self, infos: Infos, who: Bools, damages: npt.NDArray[np.int64]) -> Infos:
        left = {} if self._budget is None else {"remaining": self._remaining.copy()}
        return write(infos, who, cost=damages.copy(), damage=damages, **left)


@final
class VectorBudgetObservation(VectorWrapper[Any, Any, Any, Any, Any]):
    """Adds what remains of each copy's budget to its observations; see :class:`BudgetObservation`.

    Examples
    --------
    >>> from almostsure.gym import ModelVectorEnv, VectorBudgetObservation
    >>> envs = VectorBudgetObservation(ModelVectorEnv("paper", 2), 3)
    >>> _ = envs.reset(seed=0)
    >>> envs.step(np.array([0, 0]))[0]  # state and what remains, one row a copy
    array([[0, 2],
           [0, 2]])
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], budget: int, *, observe: Form = "flat", normalised: bool = False
    ) -> None:
        super().__init__(env)
        self._resets = Resets(env)
        self.budget = check_budget(budget)
        self._shown = shown(env.single_observation_space, self.budget, observe, normalised)
        self.single_observation_space = self._shown.space
        self.observation_space = batch_space(self._shown.space, env.num_envs)
        self._remaining: npt.NDArray[np.int64] = np.zeros(env.num_envs, np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Start episodes with the whole budget."""
        who = self._resets.chosen(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._resets.reset(who)
        self._remaining[who] = self.budget
        infos = write(infos, who, remaining=self._remaining.copy())
        return self._shown.batch(observations, self._remaining, None), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each copy, and show what remains after it."""
        acting = self._resets.before()
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        ended = terminated | truncated
        final = self._resets.final(infos, ended)
        for at in np.flatnonzero(acting).tolist():
            damage = said(infos, final, ended, "damage", at)
            if damage is None:
                raise unsaid()
            self._remaining[at] -= check_damage(damage, f"in copy {at}")
        self._remaining[~acting] = self.budget
        if final is not None:
            infos = {**infos, "final_info": write(final, ended, remaining=self._remaining.copy())}
            infos["final_obs"] = show_final(self._shown, infos["final_obs"], self._remaining, ended)
            self._remaining[ended] = self.budget
        infos = write(infos, np.ones_like(acting), remaining=self._remaining.copy())
        self._resets.step(ended)
        seen = self._shown.batch(observations, self._remaining, None)
        return seen, rewards, terminated, truncated, infos


def _check_resets(infos: Infos, who: Bools, keys: tuple[str, ...] = ("damage", "cost")) -> None:
    for at in np.flatnonzero(who).tolist():
        check_reset({key: read(infos, key, at) for key in keys})


def show_final(form: Any, final: Any, remaining: Any, ended: Bools, masks: Any = None) -> npt.NDArray[Any]:
    """What episodes ended in, with what remained then."""
    result = np.full(len(ended), None, np.object_)
    for at in np.flatnonzero(ended).tolist():
        result[at] = form.single(final[at], int(remaining[at]), None if masks is None else masks[at])
    return result
