"""``ShieldedEnv``: an environment in which only safe actions can be played.

It keeps the remaining budget of each episode, shows it to the agent, and says which actions are allowed: those whose
minimal budget is at most what remains (Theorem 1; see :mod:`almostsure.shield`).  Whatever the agent does, an episode
never takes more than ``total`` damage.

Truncation is not termination: an episode that a time limit cuts has its budget until it is reset, and
what it ended in keeps its mask.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, Literal, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.utils import RecordConstructorArgs

from almostsure.errors import ArgumentError, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.gym.forms import Form, show_remaining
from almostsure.gym.overseer import Overseer
from almostsure.learn.online import OnlineShield
from almostsure.policy.policy import as_policy
from almostsure.shield.shield import Shield

StateOf = Callable[[Any, Any], Any]  # (observation, environment) → a state of the model, by index or name
Forbidden = Literal["raise", "replace"]

NONE: frozenset[int] = frozenset()  # nothing may be played before the first reset, and after the end


@final
class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment in which an episode never takes more than ``total`` damage.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete actions, numbered as in the shield's model.
    shield
        A :class:`almostsure.Shield` of the environment's model, or an :class:`almostsure.OnlineShield`.
    total
        The budget of every episode.
    observe
        How observations show what remains: ``"flat"``, ``"dict"``, ``"rllib"`` or ``"none"``; see
        :mod:`almostsure.gym.forms`.
    normalised
        Show remaining / total instead of the number itself.
    forbidden
        What to do with an action that is not allowed: ``"raise"`` NoSafeAction, or ``"replace"`` it and count it, in
        ``info["interventions"]``.
    fallback
        What replaces it: a policy or solution of the model.  Without one, or where that plays what is not allowed
        either, the allowed action with the least minimal budget, of several the first.
    state_of
        ``state_of(observation, env)`` is the model's state, by index or name, for observations that are not states.

    Notes
    -----
    ``info`` holds ``damage`` (of the step), ``remaining``, ``action_mask`` (int8, as ``Discrete.sample`` wants
    it), ``interventions`` (so far in the episode) and ``cost``, which is the damage unless the environment has its own.

    With an online shield surprises happen.  One that overspends, or after which nothing safe is known, truncates the
    episode with ``info["violation"]`` or ``info["stuck"]``.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.gym import ShieldedEnv, to_gymnasium
    >>> mdp = asure.example("paper")
    >>> env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(mdp, asure.solve_budget(mdp)), 1)
    >>> observation, info = env.reset(seed=0)
    >>> observation, info["remaining"], env.action_masks()
    (array([0, 1]), 1, array([ True,  True]))
    >>> observation, reward, terminated, truncated, info = env.step(0)  # left: earns 1, hurts by 1
    >>> observation, info["remaining"], env.action_masks()
    (array([0, 0]), 0, array([False,  True]))
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        shield: Shield | OnlineShield,
        total: int,
        *,
        observe: Form = "flat",
        normalised: bool = False,
        forbidden: Forbidden = "raise",
        fallback: Any = None,
        state_of: StateOf | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, shield=shield, total=total, observe=observe, normalised=normalised, forbidden=forbidden,
            fallback=fallback, state_of=state_of, _disable_deepcopy=True,
        )  # fmt: skip
        gymnasium.Wrapper.__init__(self, env)
        self.overseer = Overseer(shield, total)
        check_spaces(self.overseer, env, state_of)
        if forbidden not in ("raise", "replace"):
            raise UnknownName("value of forbidden", forbidden, ("raise", "replace"), "Choose from raise, replace.")
        self.total, self.forbidden, self.state_of = self.overseer.total, forbidden, state_of
        self.fallback = None if fallback is None else as_policy(self.overseer.mdp, fallback, total=self.total)
        self._shown = show_remaining(
            env.observation_space, self.total, observe, normalised=normalised, num_actions=self.overseer.num_actions
        )
        self.observation_space = self._shown.space
        self._state, self._remaining, self._interventions = -1, 0, 0
        self._allowed, self._mask = NONE, np.zeros(0, np.int8)

    # ------------------------------------------------------------------ an episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget."""
        self._allowed = NONE
        observation, info = self.env.reset(seed=seed, options=options)
        if info.get("damage"):
            raise ModelError(f"a reset must do no damage; info['damage'] is {info['damage']!r} after it")
        self._state, self._remaining, self._interventions = self._find(observation), self.total, 0
        self._allowed, self._mask = self.overseer.row(self._state, self.total)
        return self._shown.single(observation, self.total, self._mask), self._info(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, if it is allowed; otherwise do what ``forbidden`` says."""
        state, overseer = self._state, self.overseer
        try:
            chosen = index(action)
        except TypeError:
            chosen = -1
        if chosen not in self._allowed:
            action = chosen = self._instead(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        after = self._find(observation)
        if terminated:
            after = overseer.after(state, chosen, after)
        damage = overseer.damage(state, chosen, after, info.get("damage"))
        self._state, self._remaining = after, self._remaining - damage
        if overseer.online is not None:
            truncated |= self._learn(state, chosen, damage, float(reward), terminated)
        else:
            self._allowed, self._mask = overseer.row(after, self._remaining)
        if terminated or truncated:
            self._allowed = NONE
        return (
            self._shown.single(observation, self._remaining, self._mask), reward, terminated, truncated,
            self._info(info, damage),
        )  # fmt: skip

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are allowed now, as sb3-contrib asks for it: a new array."""
        if not self._mask.size:
            raise ResetNeeded("call reset() before action_masks()")
        return self._mask.astype(np.bool_)

    @property
    def remaining(self) -> int:
        """What is left of the budget of this episode."""
        return self._remaining

    # ------------------------------------------------------------------ pieces

    def _info(self, info: dict[str, Any], damage: int) -> dict[str, Any]:
        return {
            "cost": damage, **info, "damage": damage, "remaining": self._remaining, "action_mask": self._mask.copy(),
            "interventions": self._interventions,
        }  # fmt: skip

    def _find(self, observation: Any) -> int:
        """The model's state; an observation that is none is an error."""
        try:
            state = index(observation if self.state_of is None else self.state_of(observation, self.env))
        except TypeError:
            state = self._by_name(observation)
        if 0 <= state < self.overseer.num_states:
            return state
        raise strange(observation, state, self.overseer)

    def _by_name(self, observation: Any) -> int:
        state = observation if self.state_of is None else self.state_of(observation, self.env)
        if isinstance(state, str):
            return self.overseer.mdp.state(state)
        raise strange(observation, state, self.overseer)

    def _instead(self, action: Any) -> int:
        """What is played in place of an action that is not allowed."""
        if not self._allowed:
            raise ResetNeeded("there is no episode: call reset() before step()")
        if not self.action_space.contains(action if isinstance(action, np.generic) else np.asarray(action)[()]):
            raise ArgumentError(f"an action must be one of {self.action_space}; got {action!r}")
        if self.forbidden == "raise":
            raise refused(self.overseer, self._state, int(action), self._remaining)
        self._interventions += 1
        return self.overseer.best(self._state, self._remaining, self._allowed, self.fallback)

    def _learn(self, state: int, action: int, damage: int, reward: float, terminated: bool) -> bool:
        """Let an online shield learn from a step; returns whether the episode cannot go on."""
        overseer, after = self.overseer, self._state
        overseer.learn(state, action, after, damage, reward, self._remaining + damage)
        if terminated:
            overseer.learn_end(after)
        try:
            self._allowed, self._mask = overseer.row(after, self._remaining)
        except NoSafeAction:
            self._allowed, self._mask = overseer.any_row(after)
            return not terminated
        return False


# ---------------------------------------------------------------------- what is refused


def check_spaces(overseer: Overseer, env: Any, state_of: StateOf | None) -> None:
    """Refuse an environment that cannot be the shield's, as early as that can be known."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, Discrete) or actions.start != 0:
        raise ArgumentError(
            f"a shield is for discrete actions numbered from 0; the environment has {actions}. Let the agent choose "
            "among finitely many: wrap it in gymnasium.wrappers.TransformAction, with a Discrete space of "
            "commands and a function that turns a command into the environment's action."
        )
    if actions.n != overseer.num_actions:
        raise ModelMismatch(
            f"the environment has {actions.n} actions and the shield's model {overseer.num_actions}: the shield is for "
            "another environment. Where the last actions are never available, name them all in action_names."
        )
    model = getattr(env.unwrapped, "mdp", None)
    if state_of is None and overseer.online is None and model is not None and model != overseer.mdp:
        raise ModelMismatch("the shield is for another model than the environment's. Use Shield(env.unwrapped.mdp, …).")
    if state_of is None and not isinstance(observations, Discrete):
        raise ArgumentError(
            f"observations of {observations} are not states of a model. Pass state_of, a function that returns the "
            "model's state of (observation, env)."
        )
    if state_of is None and overseer.num_states not in (observations.n, observations.n + 1):
        raise ModelMismatch(
            f"the environment has {observations.n} states and the shield's model {overseer.num_states}: the shield is "
            "for another environment. If observations must be translated, pass state_of."
        )


def strange(observation: Any, state: Any, overseer: Overseer) -> ModelError:
    """The error for an observation that is not a state of the model."""
    shown = repr(observation)
    shown = shown if len(shown) <= 200 else shown[:197] + "…"
    what = "" if state is observation else f" (state_of returned {state!r})"
    return ModelError(
        f"the observation {shown}{what} is not a state 0 … {overseer.num_states - 1} of the shield's model. "
        "Pass state_of, or build the model anew."
    )


def refused(overseer: Overseer, state: int, action: int, remaining: int) -> NoSafeAction:
    """The error for an action that is not allowed."""
    mdp = overseer.mdp
    allowed = ", ".join(mdp.action_name(a) for a in sorted(overseer.row(state, remaining).allowed))
    return NoSafeAction(
        f"{mdp.action_name(action)} is not allowed at {mdp.describe_state(state)} with {remaining} left; allowed: "
        f"{allowed}. Sample from info['action_mask'], or pass forbidden='replace'.",
        state=state, remaining=remaining,
    )  # fmt: skip
