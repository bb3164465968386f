"""``DamageTracker``: the damage of every step, from wherever an environment has it.

It is looked for in this order: a function, if one is given; the third of the six values that a step of
Safety-Gymnasium returns; ``info["cost"]``.  Whatever it comes from, it must be an integer 0 … 255: a budget that
holds with certainty cannot be kept in numbers that are rounded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, final

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from almostsure.arguments import check_budget, whole
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym.overseer import MOST_DAMAGE
from almostsure.model.damage import takes_an_outcome

Damage = Callable[[Any, Any, Any, float, bool], Any]  # of (observation, action, next observation, reward, terminated)


@final
class DamageTracker(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Writes the damage of every step into ``info``, and what remains of a budget.

    ``info`` gets ``damage`` and ``cost``, and with a budget ``remaining``, which is negative once the budget is
    overspent: nothing is prevented here.

    Parameters
    ----------
    env
        The environment.
    damage
        ``damage(observation, action, next_observation, reward, terminated)``, the signature that
        :func:`almostsure.from_gymnasium` takes too.  By default the environment's own cost is the damage.
    budget
        The budget of every episode, if what remains shall be tracked.

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
        self, env: gymnasium.Env[Any, Any], damage: Damage | None = None, *, budget: int | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, damage=damage, budget=budget, _disable_deepcopy=True)
        gymnasium.Wrapper.__init__(self, env)
        self._damage = check_function(damage)
        self._budget = None if budget is None else check_budget(budget)
        self._remaining = 0
        self._before: Any = None
        self._started = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget."""
        self._started = False  # until all is well
        observation, info = self.env.reset(seed=seed, options=options)
        check_reset(info)
        self._before, self._remaining, self._started = self._kept(observation), self._budget or 0, True
        return observation, self._info(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and write down its damage."""
        if not self._started:
            raise ResetNeeded("call reset() before step()")
        observation, reward, terminated, truncated, info = unpack(self.env.step(action))
        if self._damage is not None:
            said = self._damage(self._before, action, observation, float(reward), bool(terminated))
        elif "cost" in info:
            said = info["cost"]
        else:
            raise no_cost(info)
        damage = check_damage(said, f"after action {action!r}")
        self._before, self._remaining = self._kept(observation), self._remaining - damage
        return observation, reward, terminated, truncated, self._info(info, damage)

    def _kept(self, observation: Any) -> Any:
        """What the function gets at the next step: a copy, since some environments write over what they returned."""
        return None if self._damage is None else copy.deepcopy(observation)

    def _info(self, info: dict[str, Any], damage: int) -> dict[str, Any]:
        left = {} if self._budget is None else {"remaining": self._remaining}
        return {**info, "cost": damage, "damage": damage, **left}


def unpack(result: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """The five values of a step; the sixth that Safety-Gymnasium has becomes ``info["cost"]``."""
    if len(result) == 6:
        observation, reward, cost, terminated, truncated, info = result
        return observation, reward, terminated, truncated, {**info, "cost": cost}
    observation, reward, terminated, truncated, info = result
    return observation, reward, terminated, truncated, info


def check_function(damage: Damage | None) -> Damage | None:
    """Refuse what is no function."""
    if damage is not None and not (callable(damage) and takes_an_outcome(damage)):
        raise ArgumentError(
            f"damage must be a function of (observation, action, next_observation, reward, terminated); got {damage!r}"
        )
    return damage


def check_reset(info: dict[str, Any]) -> None:
    """Refuse an environment whose reset hurts."""
    for key in ("damage", "cost"):
        if info.get(key):
            raise ModelError(f"a reset must do no damage; info[{key!r}] is {info[key]!r} after it")


def check_damage(said: Any, where: str) -> int:
    """The damage as an integer; raise ModelError if it is none."""
    try:
        number = whole("damage", said.item() if hasattr(said, "item") and getattr(said, "size", 0) == 1 else said)
    except ArgumentError:
        number = -1
    if not 0 <= number <= MOST_DAMAGE:
        raise ModelError(
            f"damage must be an integer 0 … {MOST_DAMAGE}; got {said!r} {where}. Give DamageTracker a function that "
            "counts in whole units, rounding up."
        )
    return number


def no_cost(info: dict[str, Any]) -> ModelError:
    """The error for an environment that does not say its damage."""
    has = ", ".join(map(str, info)) or "nothing"
    return ModelError(f"the environment must say its damage in info['cost']; info has {has}. Pass damage, a function.")
