"""``BudgetObservation``: what remains of a budget, where an agent can see it."""

from __future__ import annotations

from typing import Any, final

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from almostsure.arguments import check_budget
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym.damage import check_damage
from almostsure.gym.forms import Form, Shown, show_remaining


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
        ``"flat"`` or ``"dict"``; see :mod:`almostsure.gym.forms`.
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
        self, env: gymnasium.Env[Any, Any], budget: int, *, observe: Form = "flat", normalised: bool = False
    ) -> None:
        RecordConstructorArgs.__init__(self, budget=budget, observe=observe, normalised=normalised)
        gymnasium.Wrapper.__init__(self, env)
        self._shown = shown(env.observation_space, check_budget(budget), observe, normalised)
        self.observation_space = self._shown.space
        self.budget = self._remaining = check_budget(budget)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._remaining = self.budget
        return self._shown.single(observation, self.budget, None), {**info, "remaining": self.budget}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and show what remains after it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "damage" not in info:
            raise unsaid()
        self._remaining -= check_damage(info["damage"], f"after action {action!r}")
        seen = self._shown.single(observation, self._remaining, None)
        return seen, reward, terminated, truncated, {**info, "remaining": self._remaining}


def shown(space: Any, budget: int, observe: Form, normalised: bool) -> Shown:
    """The form that observations get, without masks."""
    if observe not in ("flat", "dict"):
        raise ArgumentError(f"observe must be 'flat' or 'dict'; got {observe!r}. Masks need ShieldedEnv.")
    return show_remaining(space, budget, observe, normalised=normalised, num_actions=0)


def unsaid() -> ModelError:
    """The error for an environment that does not say its damage."""
    return ModelError("the environment must say its damage in info['damage']. Wrap it in DamageTracker first.")
