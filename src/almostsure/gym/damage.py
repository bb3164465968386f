"""The damage of environments: ``DamageTracker`` reads it, ``BudgetObservation`` shows the remaining budget to agents.

Both have a form for vector environments, and neither prevents damage: that is what shields are for.

The damage is computed by a function or a rule, or read from ``info``: from the entry that is named, or else from
``damage`` and ``cost``, which must agree if both are there (:class:`almostsure.learn.damage.StepDamage`).  The third of
the six values that a step of Safety-Gymnasium returns is its cost.  In all cases it must be an integer 0 … 255 (True is
1), since a budget that holds with certainty allows no rounding.  It is written to ``info["damage"]`` and, unless the
environment has an entry there, to ``info["cost"]``: at every step, and 0 at resets.
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
from almostsure.gym.autoreset import Infos, Resets, check_columns, info_of, info_of_step, merge_exactly, with_columns
from almostsure.gym.observation import Form, Shown, show, show_final
from almostsure.learn.damage import StepDamage
from almostsure.model.build.damage import DAMAGE_KEYS, Damage
from almostsure.model.build.environment import SKIPPING, check_layers, five_values, two_values
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.model.mdp import Bools


@names_right_word
@final
class DamageTracker(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Writes the damage of every step, and the remaining budget, into ``info``.

    ``info`` gets ``damage`` and, unless the environment has its own, ``cost``; with a budget also ``remaining``, which
    is negative once the budget is overspent: the wrapper does not prevent damage.

    Parameters
    ----------
    env
        The environment.
    damage
        ``damage(observation, action, next_observation, reward, terminated)``, as for
        :func:`almostsure.from_gymnasium`; or a rule such as ``"reward<=-100"``; or the key of the damage in ``info``.
        By default ``"damage"`` or ``"cost"``, whichever there is; if both are there, they must agree.
    budget
        The budget of every episode; adds ``remaining`` to ``info``.

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
        self._damage = StepDamage(env, damage)
        self._budget = None if budget is None else check_budget(budget)
        self._remaining = 0
        self._before: Any = None
        self._started = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget."""
        self._started = False  # in case the reset fails
        observation, info = two_values(self.env.reset(seed=seed, options=options))
        self._damage.check_reset(info)
        self._before, self._remaining, self._started = self._copied(observation), self._budget or 0, True
        return observation, self._info(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and report its damage."""
        if not self._started:
            raise ResetNeeded("call reset() before step()")
        observation, reward, terminated, truncated, info = five_values(self.env.step(action))
        reported = self._damage(self._before, action, observation, reward, terminated, info)
        damage = check_damage(reported, f"after action {action!r}")
        self._before, self._remaining = self._copied(observation), self._remaining - damage
        return observation, reward, terminated, truncated, self._info(info, damage)

    def _copied(self, observation: Any) -> Any:
        """A copy for the damage function's next call: some environments overwrite the observations they returned."""
        return None if self._damage.function is None else copy.deepcopy(observation)

    def _info(self, info: dict[str, Any], damage: int) -> dict[str, Any]:
        left = {} if self._budget is None else {"remaining": self._remaining}
        return {"cost": damage, **info, "damage": damage, **left}


@names_right_word
@final
class VectorDamageTracker(VectorWrapper[Any, Any, Any, Any, Any]):
    """Writes the damage of every step of every environment, and the remaining budgets, into ``infos``.

    Parameters
    ----------
    env
        The vector environment.
    damage
        As for :class:`DamageTracker`; called once per environment.  The only keys are ``"damage"`` and ``"cost"``.
    budget
        The budget of every episode; adds ``remaining`` to ``infos``.

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
        self._damage = StepDamage(env, damage)
        if not set(self._damage.keys) <= set(DAMAGE_KEYS):
            raise ArgumentError(
                f"the damage of a vector must be a function, a rule, or one of {', '.join(map(repr, DAMAGE_KEYS))}; "
                f"got {damage!r}. Wrap each environment in DamageTracker(env, {damage!r})."
            )
        self._budget = None if budget is None else check_budget(budget)
        self._remaining: npt.NDArray[np.int64] = np.zeros(env.num_envs, np.int64)
        self._before: list[Any] = []

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Begin episodes with the whole budget."""
        selected = self._resets.selected(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._resets.finish_reset(selected)
        check_resets(infos, selected, *self._damage.keys)
        self._before = self._copies(observations)
        self._remaining[selected] = self._budget or 0
        return observations, self._infos(infos, selected, np.zeros(self.num_envs, np.int64))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each environment, and report their damages."""
        acting = self._resets.begin_step()
        observations, rewards, terminated, truncated, infos = five_values(self.env.step(actions))
        ended = terminated | truncated
        final = self._resets.final(infos, ended)
        after = self._copies(observations)
        played = list(iterate(self.env.action_space, actions))
        damages = np.zeros(self.num_envs, np.int64)
        for at in np.flatnonzero(acting).tolist():
            where = f"in environment {at}, after action {played[at]!r}"
            if self._damage.function is not None:
                reached = infos["final_obs"][at] if final is not None and ended[at] else after[at]
                outcome = self._before[at], played[at], reached, rewards[at], terminated[at]
                reported = self._damage(*outcome, {})
            elif (reported := self._damage.reported(row_of(self._damage, infos, final, ended, at))) is None:
                raise self._damage.missing(infos, where)
            damages[at] = check_damage(reported, where)
        # Without _cost, infos["cost"] is the cost of this step, also where an environment was reset.
        keys = [key for key in self._damage.keys if key != "cost" or "_cost" in infos]
        check_resets(infos, ~acting if final is None else ended, *keys)
        self._before = after
        self._remaining = np.where(acting, self._remaining - damages, self._budget or 0)
        if final is not None:
            infos = {**infos, "final_info": self._infos(final, ended, damages)}
            self._remaining[ended] = self._budget or 0
            damages = np.where(ended, 0, damages)
        self._resets.finish_step(ended)
        return observations, rewards, terminated, truncated, self._infos(infos, self._resets.all_envs, damages)

    def _copies(self, observations: Any) -> list[Any]:
        """The observations one by one, for the damage function; copies, since they may be overwritten."""
        if self._damage.function is None:
            return []
        return list(iterate(self.env.observation_space, copy.deepcopy(observations)))

    def _infos(self, infos: Infos, selected: Bools, damages: npt.NDArray[np.int64]) -> Infos:
        left = {} if self._budget is None else {"remaining": self._remaining.copy()}
        cost = {} if "cost" in infos else {"cost": damages.copy()}
        return with_columns(infos, selected, {"damage": damages, **cost, **left})


@final
class BudgetObservation(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds the remaining budget to the observations, for agents without a shield.

    It counts the damage that the environment reports, as :class:`DamageTracker` does by default.  An overspent budget
    is observed as 0; ``info["remaining"]`` is then negative.

    Parameters
    ----------
    env
        An environment that reports its damage.
    budget
        The budget of every episode.
    observe
        ``"flat"`` or ``"dict"``; flat by default, if possible.  See :mod:`almostsure.gym.observation`.
    normalised
        Show remaining / budget instead of remaining.

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
        check_layers(env, "BudgetObservation", SKIPPING)
        self.budget = check_budget(budget)
        self._tracker = DamageTracker(env, budget=self.budget)
        self._shown = _without_masks(env.observation_space, self.budget, observe, normalised)
        self.observation_space = self._shown.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget."""
        observation, info = self._tracker.reset(seed=seed, options=options)
        return self._shown.single(observation, (info["remaining"],), None), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and show the remaining budget."""
        observation, *rest, info = self._tracker.step(action)
        return self._shown.single(observation, (info["remaining"],), None), *rest, info


@final
class VectorBudgetObservation(VectorWrapper[Any, Any, Any, Any, Any]):
    """Adds each environment's remaining budget to its observations; see :class:`BudgetObservation`.

    Parameters
    ----------
    env, budget
        The vector environment, and the budget of each episode.
    observe, normalised
        See :class:`BudgetObservation`.

    Examples
    --------
    >>> from almostsure.gym import ModelVectorEnv, VectorBudgetObservation
    >>> envs = VectorBudgetObservation(ModelVectorEnv("paper", 2), 3)
    >>> _ = envs.reset(seed=0)
    >>> envs.step(np.array([0, 0]))[0]  # state and remaining budget, one row per environment
    array([[0, 2],
           [0, 2]])
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], budget: int, *, observe: Form = "auto", normalised: bool = False
    ) -> None:
        super().__init__(env)
        check_layers(env, "VectorBudgetObservation", SKIPPING)
        self.budget = check_budget(budget)
        self._tracker = VectorDamageTracker(env, budget=self.budget)
        self._shown = _without_masks(env.single_observation_space, self.budget, observe, normalised)
        self.single_observation_space = self._shown.space
        self.observation_space = batch_space(self._shown.space, env.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Begin episodes with the whole budget."""
        observations, infos = self._tracker.reset(seed=seed, options=options)
        return self._shown.batch(observations, (infos["remaining"],), None), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each environment, and show the remaining budgets."""
        observations, rewards, terminated, truncated, infos = self._tracker.step(actions)
        ended = terminated | truncated
        if (final := self._tracker._resets.final(infos, ended)) is not None:
            infos["final_obs"] = show_final(self._shown, infos["final_obs"], (final["remaining"],), ended)
        seen = self._shown.batch(observations, (infos["remaining"],), None)
        return seen, rewards, terminated, truncated, infos


# ---------------------------------------------------------------------- damage and costs of environments


def _without_masks(space: Any, budget: int, observe: Form, normalised: bool) -> Shown:
    if observe not in ("auto", "flat", "dict"):
        raise ArgumentError(f"observe must be 'flat' or 'dict'; got {observe!r}. Masks need ShieldedEnv.")
    return show(space, {"remaining": budget}, observe, normalised=normalised, num_actions=0)


def row_of(damage: StepDamage, infos: Infos, final: Infos | None, ended: Bools, at: int) -> dict[str, Any]:
    """What the infos report of the damage of one environment's last step, unconverted, with None where nothing."""
    return {key: info_of_step(infos, final, ended, key, at) for key in damage.keys}


def check_resets(infos: Infos, selected: Bools, *keys: str) -> None:
    """Raise if a reset of a selected environment did damage, according to the keys of ``infos``."""
    check_columns(infos, selected.size)
    for at in np.flatnonzero(selected).tolist() if infos.keys() & keys else ():
        for key in keys:
            if damage := info_of(infos, key, at):
                where = f"infos[{key!r}] of environment {at}"
                raise ModelError(f"a reset must do no damage; {where} is {damage!r} after it")


def check_damage(value: Any, where: str) -> int:
    """The damage as an integer 0 … 255; True is 1.  ModelError for anything else."""
    number = as_damage(value.item() if getattr(value, "size", 0) == 1 else value)
    if number is None:
        raise ModelError(
            f"damage must be an integer 0 … {MAX_DAMAGE}; got {value!r} {where}. Give DamageTracker a function that "
            "counts in whole units, rounding up."
        )
    return number
