"""Damage as environments say it: ``DamageTracker`` finds it, ``BudgetObservation`` shows what it leaves of a budget.

Both have a form for vector environments, and neither prevents anything: that is what shields are for.

Damage is looked for in this order: a function, if one is given; the third of the six values that a step of
Safety-Gymnasium returns; ``info["cost"]``.  Whatever it comes from, it must be an integer 0 … 255 (True is 1): a
budget that holds with certainty cannot be kept in numbers that are rounded.  It is written to ``info["damage"]`` and,
unless the environment has its own there, to ``info["cost"]``: at every step, and 0 at resets.
"""

from __future__ import annotations

import copy
from typing import Any, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from almostsure.arguments import check_budget, names_right_word
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym.autoreset import Infos, Resets, merge_exactly, read, said, write
from almostsure.gym.observation import Form, Shown, show, show_final
from almostsure.model.build.damage import Damage, check_reset, damage_function
from almostsure.model.build.environment import SKIPPING, check_layers
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.model.mdp import Bools


@names_right_word
@final
class DamageTracker(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Writes the damage of every step into ``info``, and what remains of a budget.

    ``info`` gets ``damage`` and, unless the environment has its own, ``cost``; with a budget also ``remaining``, which
    is negative once the budget is overspent: nothing is prevented here.

    Parameters
    ----------
    env
        The environment.
    damage
        ``damage(observation, action, next_observation, reward, terminated)``, the signature that
        :func:`almostsure.from_gymnasium` takes too, or a rule such as ``"reward<=-100"``.  By default the environment's
        own cost is the damage.
    budget
        The budget of every episode, to have ``remaining`` in ``info`` too.

    Examples
    --------
    >>> import gymnasium
    >>> from almostsure.gym import DamageTracker
    >>> env = gymnasium.make("CliffWalking-v1")
    >>> env = DamageTracker(env, lambda s, a, s2, r, terminated: int(r == -100), budget=2)
    >>> state, info = env.reset()
    >>> state, reward, terminated, truncated, info = env.step(1)  # over the cliff
    >>> info["damage"], info["remaining"]
    (1, 1)
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], damage: Damage | str | None = None, *, budget: int | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, damage=damage, budget=budget, _disable_deepcopy=True)
        gymnasium.Wrapper.__init__(self, env)
        check_layers(env, "DamageTracker", SKIPPING)
        self._damage = None if damage is None else damage_function(damage)
        self._budget = None if budget is None else check_budget(budget)
        self._remaining = 0
        self._before: Any = None
        self._started = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget."""
        self._started = False  # until all is well
        observation, info = self.env.reset(seed=seed, options=options)
        check_reset(info, "damage", "cost")
        self._before, self._remaining, self._started = self._kept(observation), self._budget or 0, True
        return observation, self._info(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and say its damage."""
        if not self._started:
            raise ResetNeeded("call reset() before step()")
        observation, reward, terminated, truncated, info = _unpack(self.env.step(action))
        if self._damage is not None:
            said = self._damage(self._before, action, observation, float(reward), bool(terminated))
        elif "cost" in info:
            said = info["cost"]
        else:
            raise _no_cost(info)
        damage = check_damage(said, f"after action {action!r}")
        self._before, self._remaining = self._kept(observation), self._remaining - damage
        return observation, reward, terminated, truncated, self._info(info, damage)

    def _kept(self, observation: Any) -> Any:
        """What the function gets at the next step: a copy, since some environments write over what they returned."""
        return None if self._damage is None else copy.deepcopy(observation)

    def _info(self, info: dict[str, Any], damage: int) -> dict[str, Any]:
        left = {} if self._budget is None else {"remaining": self._remaining}
        return {"cost": damage, **info, "damage": damage, **left}


@names_right_word
@final
class VectorDamageTracker(VectorWrapper[Any, Any, Any, Any, Any]):
    """Writes the damage of every step of every environment into ``infos``, and what remains of their budgets.

    Parameters
    ----------
    env
        The vector environment.
    damage
        As :class:`DamageTracker` takes it, called once per environment.  By default their own cost is the damage.
    budget
        The budget of every episode, to have ``remaining`` in ``infos`` too.

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

    def __init__(self, env: VectorEnv[Any, Any, Any], damage: Damage | str | None = None, *, budget: int | None = None):
        super().__init__(env)
        check_layers(env, "VectorDamageTracker", SKIPPING)
        self._resets = Resets(env)
        merge_exactly(env)
        self._damage = None if damage is None else damage_function(damage)
        self._budget = None if budget is None else check_budget(budget)
        self._remaining: npt.NDArray[np.int64] = np.zeros(env.num_envs, np.int64)
        self._before: list[Any] = []

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Begin episodes with the whole budget."""
        who = self._resets.chosen(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._resets.reset(who)
        check_resets(infos, who, "damage", "cost")
        self._before = self._each(observations)
        self._remaining[who] = self._budget or 0
        return observations, self._infos(infos, who, np.zeros(self.num_envs, np.int64))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each environment, and say their damages."""
        acting = self._resets.before()
        observations, rewards, terminated, truncated, infos = _unpack(self.env.step(actions))
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
                raise _no_cost(infos)
            damages[at] = check_damage(cost, f"in environment {at}, after action {taken[at]!r}")
        keys = ("damage", "cost") if "_cost" in infos else ("damage",)  # otherwise it is the sixth value of the step
        check_resets(infos, ~acting if final is None else ended, *keys)
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
        cost = {} if "cost" in infos else {"cost": damages.copy()}
        return write(infos, who, {"damage": damages, **cost, **left})


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
        merge_exactly(env)
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


# ---------------------------------------------------------------------- what environments say


def _without_masks(space: Any, budget: int, observe: Form, normalised: bool) -> Shown:
    if observe not in ("auto", "flat", "dict"):
        raise ArgumentError(f"observe must be 'flat' or 'dict'; got {observe!r}. Masks need ShieldedEnv.")
    return show(space, {"remaining": budget}, observe, normalised=normalised, num_actions=0)


def _unpack(result: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """The five values of a step; the sixth that Safety-Gymnasium has becomes ``info["cost"]``."""
    if len(result) == 6:
        observation, reward, cost, terminated, truncated, info = result
        return observation, reward, terminated, truncated, {**info, "cost": cost}
    observation, reward, terminated, truncated, info = result
    return observation, reward, terminated, truncated, info


def check_resets(infos: Infos, who: Bools, *keys: str) -> None:
    """Refuse a vector some of whose resets hurt, by what ``infos`` says under the keys."""
    for at in np.flatnonzero(who).tolist() if infos.keys() & keys else ():
        for key in keys:
            if damage := read(infos, key, at):
                where = f"infos[{key!r}] of environment {at}"
                raise ModelError(f"a reset must do no damage; {where} is {damage!r} after it")


def check_damage(said: Any, where: str) -> int:
    """The damage as an integer 0 … 255; True is 1.  ModelError for anything else."""
    number = as_damage(said.item() if getattr(said, "size", 0) == 1 else said)
    if number is None:
        raise ModelError(
            f"damage must be an integer 0 … {MAX_DAMAGE}; got {said!r} {where}. Give DamageTracker a function that "
            "counts in whole units, rounding up."
        )
    return number


def _no_cost(info: dict[str, Any]) -> ModelError:
    """The error for an environment that does not say its damage."""
    has = ", ".join(map(str, info)) or "nothing"
    return ModelError(f"the environment must say its damage in info['cost']; info has {has}. Pass damage, a function.")


def _no_damage() -> ModelError:
    return ModelError("the environment must say its damage in info['damage']. Wrap it in DamageTracker first.")
