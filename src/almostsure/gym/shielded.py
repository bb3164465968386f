"""``ShieldedEnv``: an environment in which only safe actions can be played.

It keeps the remaining budget of each episode, shows it to the agent, and says which actions are allowed: those whose
minimal budget is at most what remains (Theorem 1; see :mod:`almostsure.shield`).  Whatever the agent does, an episode
never takes more than ``budget`` damage.

Truncation is not termination: an episode that a time limit cuts has its budget until it is reset, and
what it ended in keeps its mask.
"""

from __future__ import annotations

from operator import index
from os import PathLike
from typing import Any, Literal, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from almostsure.arguments import names_right_word
from almostsure.errors import AlmostSureError, ModelError, NoSafeAction
from almostsure.gym import checks
from almostsure.gym.checks import StateOf
from almostsure.gym.observation import Form, show
from almostsure.gym.overseer import Overseer
from almostsure.learn.ledger import Episode, Ledger, Violation
from almostsure.learn.online import OnlineShield
from almostsure.policy.policy import as_policy
from almostsure.shield.shield import Shield

Forbidden = Literal["raise", "replace"]

NONE: frozenset[int] = frozenset()  # nothing may be played before the first reset, and after the end


@names_right_word
@final
class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment in which an episode never takes more than ``budget`` damage.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete actions, numbered as in the shield's model.
    shield
        A :class:`almostsure.Shield` of the environment's model, or an :class:`almostsure.OnlineShield`.
    budget
        The budget of every episode.
    observe
        How observations show what remains: ``"flat"``, ``"dict"``, ``"rllib"`` or ``"none"``; see
        :mod:`almostsure.gym.forms`.
    normalised
        Show remaining / budget instead of the number itself.
    forbidden
        What to do with an action that is not allowed: ``"raise"`` NoSafeAction, or ``"replace"`` it and count it, in
        ``info["interventions"]``.
    fallback
        What replaces it: a policy or solution of the model.  Without one, or where that plays what is not allowed
        either, the allowed action with the least minimal budget, of several the first.
    state_of
        ``state_of(observation, env)`` is the model's state, by index or name, for observations that are not states.
    ledger
        A :class:`almostsure.learn.Ledger` in which every episode is noted, or the path of a file to which it
        shall be appended as a line of JSON.  ``env.ledger`` is there in any case; with an online shield it is the
        shield's, so that surprises and violations are in it too.

    Notes
    -----
    ``info`` holds ``damage`` (of the step), ``remaining``, ``action_mask`` (int8, as ``Discrete.sample`` wants
    it), ``interventions`` (so far in the episode) and ``cost``, which is the damage unless the environment has its own.

    With an online shield surprises happen.  One that overspends, or after which nothing safe is known, truncates the
    episode with ``info["violation"]`` or ``info["stuck"]``.  Several environments may share the shield: what one has
    learned since another saw its mask holds for that one too, and an action that is not safe any more is replaced and
    counted.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.gym import ShieldedEnv, to_gymnasium
    >>> mdp = asure.example("paper")
    >>> env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 1)
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
        budget: int,
        *,
        observe: Form = "flat",
        normalised: bool = False,
        forbidden: Forbidden = "raise",
        fallback: Any = None,
        state_of: StateOf | None = None,
        ledger: Ledger | str | PathLike[str] | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, shield=shield, budget=budget, observe=observe, normalised=normalised, forbidden=forbidden,
            fallback=fallback, state_of=state_of, ledger=ledger, _disable_deepcopy=True,
        )  # fmt: skip
        gymnasium.Wrapper.__init__(self, env)
        self.overseer = Overseer(shield, budget)
        checks.check_forbidden(forbidden)
        checks.check_actions(self.overseer, env.action_space)
        checks.check_observations(self.overseer, env.observation_space, state_of)
        checks.check_same_model(self.overseer, env, state_of)
        self.budget, self.forbidden, self.state_of = self.overseer.budget, forbidden, state_of
        self.fallback = None if fallback is None else as_policy(self.overseer.policies_of, fallback, budget=self.budget)
        self._shown = show(
            env.observation_space,
            {"remaining": self.budget},
            observe,
            normalised=normalised,
            num_actions=self.overseer.num_actions,
        )
        self.observation_space = self._shown.space
        self.ledger = checks.open_ledger(ledger, shield)
        self._state, self._remaining, self._interventions = -1, 0, 0
        self._steps, self._reward, self._episode = 0, 0.0, 0
        self._allowed, self._mask = NONE, np.zeros(0, np.int8)
        self._offered = NONE  # what an online shield's mask said when the agent saw it
        self._seen: Any = None  # the last observation, with an online shield

    # ------------------------------------------------------------------ an episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget."""
        if self._allowed and self._steps:
            self._note("reset")
        self._allowed = NONE  # until all is well
        observation, info = self.env.reset(seed=seed, options=options)
        if info.get("damage"):
            raise ModelError(f"a reset must do no damage; info['damage'] is {info['damage']!r} after it")
        self._state, self._remaining, self._interventions = self._find(observation), self.budget, 0
        self._steps, self._reward = 0, 0.0
        self._allowed, self._mask = self.overseer.row(self._state, self.budget)
        self._offered, self._seen = self._allowed, observation
        return self._shown.single(observation, (self.budget,), self._mask), self._info(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, if it is allowed; otherwise do what ``forbidden`` says."""
        state, overseer = self._state, self.overseer
        if overseer.online is not None and not self._look_again():
            return self._break_off()
        try:
            chosen = index(action)
        except TypeError:
            chosen = -1
        if chosen not in self._allowed:
            action = chosen = self._instead(action)
        self._allowed = NONE  # until all is well: after an error nothing may be played before a reset
        observation, reward, terminated, truncated, info = self.env.step(action)
        try:
            after = self._find(observation)
            if terminated:
                after = overseer.after(state, chosen, after)
            damage = overseer.damage(state, chosen, after, info.get("damage"))
        except AlmostSureError:
            self._note_error(chosen, info.get("damage"))
            raise
        self._state = after
        self._remaining -= damage
        self._steps += 1
        self._reward += float(reward)
        if overseer.online is None:
            allowed, self._mask = overseer.row(after, self._remaining)
            info = self._info(info, damage)
        else:
            allowed, trouble = self._learn(state, chosen, damage, float(reward), terminated)
            self._offered, self._seen = allowed, observation
            info = {**self._info(info, damage), **trouble}
            truncated = bool(truncated or (trouble and not terminated))
        if terminated or truncated:
            self._note("terminated" if terminated else "truncated", info)
        else:
            self._allowed = allowed
        return self._shown.single(observation, (self._remaining,), self._mask), reward, terminated, truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are allowed now, as sb3-contrib asks for it: a new array."""
        if not self._mask.size:
            raise ResetNeeded("call reset() before action_masks()")
        if self.overseer.online is not None:
            self._look_again()
            self._offered = self._allowed
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
        state = observation if self.state_of is None else self.state_of(observation, self.env)
        try:
            number = index(state)
        except TypeError:
            if not isinstance(state, str):
                raise checks.strange(observation, state, self.overseer) from None
            number = self.overseer.mdp.state(state)
        if 0 <= number < self.overseer.num_states:
            return number
        raise checks.strange(observation, state, self.overseer)

    def _instead(self, action: Any) -> int:
        """What is played in place of an action that is not allowed."""
        if not self._allowed:
            raise ResetNeeded("there is no episode: call reset() before step()")
        chosen = checks.as_number(action)
        if chosen is None or not 0 <= chosen < self.overseer.num_actions:
            raise checks.no_action(action, self.action_space)
        if chosen in self._allowed:  # an array with one entry
            return chosen
        if self.forbidden == "raise" and chosen not in self._offered:
            raise checks.refused(self.overseer, self._state, chosen, self._remaining)
        self._interventions += 1
        return self.overseer.best(self._state, self._remaining, self._allowed, self.fallback)

    def _learn(
        self, state: int, action: int, damage: int, reward: float, terminated: bool
    ) -> tuple[frozenset[int], dict[str, bool]]:
        """Let an online shield learn from a step; returns what is allowed next, and why nothing is."""
        overseer, after = self.overseer, self._state
        overseer.learn(state, action, after, damage, reward, self._remaining + damage)
        if terminated:
            overseer.learn_end(after)
        try:
            allowed, self._mask = overseer.row(after, self._remaining)
        except NoSafeAction:
            allowed, self._mask = overseer.any_row(after)
            return allowed, {"violation" if self._remaining < 0 else "stuck": True}
        return allowed, {}

    def _look_again(self) -> bool:
        """Whether anything is still safe: others who share an online shield may have learned since the last step."""
        if self._allowed:
            try:
                self._allowed, self._mask = self.overseer.row(self._state, self._remaining)
            except NoSafeAction:
                return False
        return True

    def _break_off(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End an episode in which nothing is safe any more, without another step."""
        self._allowed = NONE
        info = {**self._info({}, 0), "stuck": True}
        self._note("truncated", info)
        return self._shown.single(self._seen, (self._remaining,), self._mask), 0.0, False, True, info

    def _note_error(self, action: int, said: Any) -> None:
        """Write down an episode that ends by what the model says is impossible, which may have overspent."""
        self._steps += 1
        harm = checks.harm(said)
        if harm > self._remaining:
            place = self.ledger.steps + self._steps, self._state, action, checks.NOWHERE
            self.ledger.note(Violation(*place, harm, self._remaining, allowed=True, new=True))
        self._remaining -= harm
        self._note("error")

    def _note(self, ended: Any, info: dict[str, Any] | None = None) -> None:
        """Write the episode into the ledger."""
        self._episode += 1
        if self.overseer.online is None:
            self.ledger.steps += self._steps  # an online shield counts what it watches itself
        elif info and (info.get("violation") or info.get("stuck")):
            ended = "violation" if info.get("violation") else "stuck"
        damage = self.budget - self._remaining
        self.ledger.note(
            Episode(
                self._episode, self._steps, float(self._reward), damage, self.budget, self._interventions, ended
            )
        )  # fmt: skip
