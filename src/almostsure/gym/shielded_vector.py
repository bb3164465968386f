"""``ShieldedVectorEnv``: many shielded copies of an environment, with one look-up for all of them."""

from __future__ import annotations

import contextlib
from os import PathLike
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from almostsure.arguments import names_right_word
from almostsure.errors import AlmostSureError, ArgumentError
from almostsure.gym import checks
from almostsure.gym.autoreset import Infos, Resets, said, some, write
from almostsure.gym.checks import StateOf
from almostsure.gym.lookup import Lookup, Numbers
from almostsure.gym.observation import Form, show, show_final
from almostsure.gym.overseer import Overseer
from almostsure.gym.shielded import Forbidden
from almostsure.learn.ledger import Episode, Ledger, Violation
from almostsure.learn.online import OnlineShield
from almostsure.model.mdp import Bools
from almostsure.policy.policy import as_policy
from almostsure.shield.shield import Shield


@names_right_word
@final
class ShieldedVectorEnv(VectorWrapper[Any, Any, Any, Any, Any]):
    """A vector environment none of whose episodes ever takes more than ``budget`` damage.

    The parameters are those of :class:`ShieldedEnv`, around a Gymnasium vector environment in any of its autoreset
    modes.  ``infos`` holds the same entries, one row a copy; ``action_masks()`` is [num_envs, num_actions].

    Where copies have wrappers of their own, run in Stable-Baselines3's vector environments, or share an OnlineShield,
    shield each copy with :class:`ShieldedEnv` instead; this form is the faster one.

    Parameters
    ----------
    env, shield, budget, observe, normalised, forbidden, fallback, state_of, ledger
        See :class:`ShieldedEnv`.  ``state_of`` gets the copy's own environment where it is in this process, and
        None otherwise.

    Examples
    --------
    >>> import almostsure as asure, gymnasium
    >>> from almostsure.gym import ShieldedVectorEnv
    >>> mdp = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    >>> envs = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")
    >>> envs = ShieldedVectorEnv(envs, asure.Shield(asure.minimal_budget(mdp)), 1)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations
    array([[0, 1],
           [0, 1],
           [0, 1]])
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        shield: Shield,
        budget: int,
        *,
        observe: Form = "flat",
        normalised: bool = False,
        forbidden: Forbidden = "raise",
        fallback: Any = None,
        state_of: StateOf | None = None,
        ledger: Ledger | str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(env)
        _check_fixed(shield)
        self.overseer = Overseer(shield, budget)
        checks.check_forbidden(forbidden)
        checks.check_actions(self.overseer, env.single_action_space)
        checks.check_observations(self.overseer, env.single_observation_space, state_of)
        self._copies = getattr(env.unwrapped, "envs", None) or [None] * env.num_envs
        for part in (env, *(copy for copy in self._copies if copy is not None)):
            checks.check_same_model(self.overseer, part, state_of)
        self._resets, self._lookup = Resets(env), Lookup(shield)
        self._all = self._resets.everybody
        self.budget, self.forbidden, self.state_of = self.overseer.budget, forbidden, state_of
        self.fallback = None if fallback is None else as_policy(self.overseer.policies_of, fallback, budget=self.budget)
        self._shown = show(
            env.single_observation_space, {"remaining": self.budget}, observe, normalised=normalised,
            num_actions=self.overseer.num_actions,
        )  # fmt: skip
        self.single_observation_space = self._shown.space
        self.observation_space = batch_space(self._shown.space, env.num_envs)
        self.ledger = checks.open_ledger(ledger, shield)
        self._is_terminal = self.overseer.mdp.is_terminal()
        count = env.num_envs
        self._none = np.zeros(count, np.int64)
        self._state, self._remaining, self._interventions, self._steps, self._episodes = np.zeros((5, count), np.int64)
        self._rewards = np.zeros(count)
        self._masks: npt.NDArray[np.int8] = np.zeros((count, self.overseer.num_actions), np.int8)

    # ------------------------------------------------------------------ episodes

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Start episodes with the whole budget: in all copies, or in those of ``options["reset_mask"]``."""
        who, over = self._resets.chosen(options), self._resets.over
        if over is not None:
            for at in np.flatnonzero(who & ~over & (self._steps > 0)).tolist():
                self._note(at, "reset")
        self._resets.over = None  # until all is well
        observations, infos = self.env.reset(seed=seed, options=options)
        checks.check_resets(infos, who)
        self._begin(who, self._find(observations, who))
        self._resets.over = over
        self._resets.reset(who)
        return self._shown.batch(observations, (self._remaining,), self._masks), self._infos(infos, who, self._none)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action in each copy, if it is allowed; otherwise do what ``forbidden`` says."""
        actions = self._checked(actions)
        acting = self._resets.before()
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        ended: Bools = terminated | truncated
        final = self._resets.final(infos, ended) if some(ended) else None
        try:
            arrived = self._find(observations, None)
            reached = arrived if final is None else self._finals(infos["final_obs"], ended, arrived)
            reached, damages = self._happened(actions, reached, acting, terminated, self._said(infos, final, ended))
        except AlmostSureError:
            self._note_error(acting, actions, [said(infos, final, ended, "damage", at) for at in range(self.num_envs)])
            raise
        self._state, self._remaining = reached, self._remaining - damages
        self._steps += 1
        self._rewards += rewards
        if some(ended):
            for at in np.flatnonzero(ended).tolist():
                self._note(at, "terminated" if terminated[at] else "truncated")
        if final is not None:
            self._masks = self._look()
            infos = {**infos, "final_info": self._infos(final, ended, damages)}
            infos["final_obs"] = show_final(self._shown, infos["final_obs"], (self._remaining,), ended, self._masks)
            damages = np.where(ended, 0, damages)
        if final is not None or acting is not self._all:
            began = ended if final is not None else ~acting
            checks.check_resets(infos, began)
            self._begin(began, arrived)
        else:
            self._masks = self._look()
        self._resets.step(ended)
        seen = self._shown.batch(observations, (self._remaining,), self._masks)
        return seen, rewards, terminated, truncated, self._infos(infos, self._all, damages)

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are allowed now, [num_envs, num_actions]: a new array."""
        if self._resets.over is None:
            raise ResetNeeded("call reset() before action_masks()")
        return self._masks.astype(np.bool_)

    @property
    def remaining(self) -> Numbers:
        """What is left of the budgets of these episodes: a new array."""
        return self._remaining.copy()

    # ------------------------------------------------------------------ pieces

    def _begin(self, who: Bools, states: Numbers) -> None:
        """Give the copies that begin an episode in these states their budgets, and look up everybody's masks."""
        self._state = np.where(who, states, self._state)
        began = np.flatnonzero(who)  # few of many: faster by number
        self._remaining[began] = self.budget
        for counter in (self._steps, self._rewards, self._interventions):
            counter[began] = 0
        self._lookup.check(self._state, self._remaining)
        self._masks = self._look()

    def _look(self) -> npt.NDArray[np.int8]:
        return self._lookup.masks(self._state, self._remaining)

    def _find(self, observations: Any, who: Bools | None) -> Numbers:
        """The model's states; an observation that is none is an error.  Those who do not count need not be any."""
        if self.state_of is None:
            states = np.array(observations, np.int64)  # a copy: the agent gets the observations as they are
        else:
            each = iterate(self.env.observation_space, observations)
            count = self._all if who is None else who
            states = np.array(
                [self._one(seen, at) if count[at] else 0 for at, seen in enumerate(each)], np.int64
            )  # fmt: skip
        if states.view(np.uint64).max() >= self.overseer.num_states:  # negative ones read as huge
            at = int(np.argmax(states.view(np.uint64) >= self.overseer.num_states))
            seen = list(iterate(self.env.observation_space, observations))[at]
            raise checks.strange(seen, int(states[at]), self.overseer)
        return states

    def _one(self, observation: Any, at: int) -> int:
        assert self.state_of is not None
        state = self.state_of(observation, self._copies[at])
        if isinstance(state, str):
            return self.overseer.mdp.state(state)
        number = checks.as_number(state)
        if number is None:
            raise checks.strange(observation, state, self.overseer)
        return number

    def _finals(self, finals: Any, ended: Bools, arrived: Numbers) -> Numbers:
        """Where each step led: for episodes that ended, not where the next one begins."""
        result = arrived.copy()
        for at in np.flatnonzero(ended).tolist():
            state = self._one(finals[at], at) if self.state_of is not None else checks.as_number(finals[at])
            if state is None or not 0 <= state < self.overseer.num_states:
                raise checks.strange(finals[at], state, self.overseer)
            result[at] = state
        return result

    def _said(self, infos: Infos, final: Infos | None, ended: Bools) -> npt.NDArray[Any] | None:
        """The damages that the copies say, NaN where they do not; None if nobody does."""
        if "damage" not in infos and "damage" not in (final or {}):
            return None
        everybody = infos.get("_damage")
        if final is None and everybody is not None and everybody.all():  # the common case, at once
            with contextlib.suppress(TypeError, ValueError):
                return np.asarray(infos["damage"], np.float64)
        each = (said(infos, final, ended, "damage", at) for at in range(self.num_envs))
        return np.array([np.nan if damage is None else _number(damage) for damage in each], np.float64)

    def _ends(self, actions: Numbers, reached: Numbers, terminated: Bools) -> None:
        """Put where the model ends in place of where the environment says that it ended."""
        for at in np.flatnonzero(terminated & ~self._is_terminal[reached]).tolist():
            reached[at] = self.overseer.after(int(self._state[at]), int(actions[at]), int(reached[at]))

    def _happened(
        self, actions: Numbers, reached: Numbers, acting: Bools, terminated: Bools, told: npt.NDArray[Any] | None
    ) -> tuple[Numbers, Numbers]:
        """The model's states after a step and its damages, none for copies that were reset by it."""
        if some(terminated):
            self._ends(actions, reached, terminated)
        damages = self._lookup.damages(self._state, actions, reached, told)
        if acting is not self._all:
            damages[~acting] = 0
        if damages.min() < 0:
            for at in np.flatnonzero(damages < 0).tolist():
                word = None if told is None or np.isnan(told[at]) else told[at]
                step = int(self._state[at]), int(actions[at]), int(reached[at])
                damages[at] = self.overseer.damage(*step, word)  # says what is wrong
        return reached, damages

    def _checked(self, actions: Any) -> Numbers:
        """The actions that are played; those of copies that will only be reset do not matter."""
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise checks.no_action(actions, self.env.action_space)
        given = given.astype(np.int64, copy=False)
        if given.view(np.uint64).max() >= self.overseer.num_actions:  # negative ones read as huge
            raise checks.no_action(actions, self.env.action_space)
        refused = self._lookup.refuses(self._state, given, self._remaining)
        if not some(refused) or self._resets.over is None:
            return given
        given = given.copy()
        for at in np.flatnonzero(refused & ~self._resets.over).tolist():
            given[at] = self._instead(int(given[at]), at)
        return given

    def _instead(self, action: int, at: int) -> int:
        state, remaining = int(self._state[at]), int(self._remaining[at])
        if self.forbidden == "raise":
            raise checks.refused(self.overseer, state, action, remaining)
        self._interventions[at] += 1
        allowed = self.overseer.row(state, remaining).allowed
        return self.overseer.best(state, remaining, allowed, self.fallback)

    def _note_error(self, acting: Bools, actions: Numbers, told: list[Any]) -> None:
        """Write down all episodes, which one ends by what the model says is impossible; some may have overspent."""
        self._steps += 1
        for at in np.flatnonzero(acting).tolist():
            harm, left = checks.harm(told[at]), int(self._remaining[at])
            if harm > left:
                place = self.ledger.steps + int(self._steps[at]), int(self._state[at]), int(actions[at]), checks.NOWHERE
                self.ledger.note(Violation(*place, harm, left, allowed=True, new=True))
            self._remaining[at] -= harm
            self._note(at, "error")

    def _note(self, at: int, ended: Any) -> None:
        """Write an episode into the ledger."""
        self._episodes[at] += 1
        steps, damage = int(self._steps[at]), self.budget - int(self._remaining[at])
        self.ledger.steps += steps
        self.ledger.note(
            Episode(
                int(self._episodes[at]), steps, float(self._rewards[at]), damage, self.budget,
                int(self._interventions[at]), ended, at,
            )
        )  # fmt: skip

    def _infos(self, infos: Infos, who: Bools, damages: Numbers) -> Infos:
        own = {} if "cost" in infos else {"cost": damages.copy()}
        return write(
            infos, who, damage=damages, remaining=self._remaining.copy(), action_mask=self._masks.copy(),
            interventions=self._interventions.copy(), **own,
        )  # fmt: skip


def _number(damage: Any) -> float:
    """What is said, or −1, which is refused."""
    try:
        return float(damage)
    except (TypeError, ValueError):
        return -1.0


def _check_fixed(shield: Any) -> None:
    if isinstance(shield, OnlineShield):
        raise ArgumentError(
            "an OnlineShield must be able to break off an episode, which a vector environment cannot do for one copy. "
            "Wrap each copy in ShieldedEnv, with the same shield, and make a vector of those."
        )
