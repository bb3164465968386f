"""``ShieldedEnv``: an environment in which only safe actions can be played.

It follows the run of each episode (its state and the remaining budget), shows the agent the remaining budget, and
refuses or replaces actions that the guard does not allow (Theorem 1; see :mod:`almostsure.shield`).  Whatever the agent
does, no episode takes more than ``budget`` damage.

Truncation is not termination: the final observation of a truncated episode keeps its mask and its remaining budget.
"""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from almostsure.arguments import names_right_word
from almostsure.errors import AlmostSureError
from almostsure.gym.fitting import check_kind, most_steps
from almostsure.gym.guarded import NO_ACTION, Forbidden, Guarded, LedgerOrPath, Mask, StateOf
from almostsure.gym.observation import Form
from almostsure.learn.damage import StepDamage
from almostsure.learn.ledger import Episode
from almostsure.model.build.environment import five_values, two_values
from almostsure.shield.protocol import Guard, Run

NONE: frozenset[int] = frozenset()  # the allowed actions before the first reset, and after the end of an episode
MAX_CACHED = 1 << 17  # transitions


class Stage(NamedTuple):
    """A point of an episode: its run, and the allowed actions."""

    run: Run
    carried: tuple[Any, ...]  # the carried quantities that are observed
    allowed: frozenset[int]
    mask: Mask
    info: dict[str, Any]  # the damage of the step, carried quantities by name, and perhaps "violation" or "stuck"


@names_right_word
@final
class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment in which an episode never takes more than ``budget`` damage.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete actions, numbered as in the shield's model.
    shield
        A :class:`almostsure.Shield` of the environment's model, built or learned, an
        :class:`almostsure.OnlineShield`, or any other :class:`almostsure.shield.Guard`.  If it has a horizon, that is
        shortened to the environment's own limit (``TimeLimit``, ``max_episode_steps``), and episodes are truncated
        after its last step.
    budget
        The budget of every episode.
    observe
        How observations show the remaining budget: ``"flat"``, ``"dict"``, ``"rllib"`` or ``"none"``; by default flat
        if that is possible, otherwise a dict.  See :mod:`almostsure.gym.observation`.
    normalised
        Show remaining / budget instead of remaining.
    forbidden
        What to do with an action that is not allowed: ``"raise"`` NoSafeAction, or ``"replace"`` it.
    fallback
        A policy or solution of the model, whose actions replace forbidden ones.  Without one, or if its action is not
        allowed either, the replacement is the first allowed action with the least minimal budget.
    state_of
        ``state_of(observation, env)`` returns the model's state, by index or name.  Needed if observations are not
        states, unless the shield was learned with ``encode``.
    ledger
        A :class:`almostsure.learn.Ledger` that records every episode, or the path of a file to which episodes are
        appended as lines of JSON.  ``env.ledger`` exists in any case; with an online shield it is the shield's, which
        also records surprises and violations.

    Notes
    -----
    ``info`` holds ``damage`` (of the step), ``remaining`` and the other quantities that the guard carries,
    ``action_mask`` (int8, for ``Discrete.sample``), ``executed_action`` (−1 after a reset), ``replaced`` (whether it
    differs from the given action), ``interventions`` (replaced actions so far in the episode), and ``cost``, which is
    the damage unless the environment has its own.

    With a guard that accepts a risk, an episode may overspend; that step has ``info["violation"]``.  With an online
    shield there are surprises: one that overspends, or after which no safe action is known, truncates the episode with
    ``info["violation"]`` or ``info["stuck"]``.  Several environments may share an online shield.  If one environment's
    steps show that an action which another's last mask allowed is unsafe, that action is replaced.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.gym import ShieldedEnv, to_gymnasium
    >>> mdp = asure.example("paper")
    >>> env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 1)
    >>> observation, info = env.reset(seed=0)
    >>> observation, info["remaining"], env.action_masks()
    (array([0, 1]), 1, array([ True,  True]))
    >>> observation, reward, terminated, truncated, info = env.step(0)  # left: reward 1, damage 1
    >>> observation, info["remaining"], env.action_masks()
    (array([0, 0]), 0, array([False,  True]))
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        shield: Guard,
        budget: int,
        *,
        observe: Form = "auto",
        normalised: bool = False,
        forbidden: Forbidden = "raise",
        fallback: Any = None,
        state_of: StateOf | None = None,
        ledger: LedgerOrPath = None,
    ) -> None:
        options: dict[str, Any] = {"forbidden": forbidden, "fallback": fallback, "state_of": state_of, "ledger": ledger}
        RecordConstructorArgs.__init__(
            self,
            shield=shield,
            budget=budget,
            observe=observe,
            normalised=normalised,
            _disable_deepcopy=True,
            **options,
        )
        check_kind(env, gymnasium.Env)
        gymnasium.Wrapper.__init__(self, env)
        self.guarded = Guarded(
            shield, budget, most_steps=most_steps(env), plays=getattr(env.unwrapped, "mdp", None), **options
        )
        self.guarded.fit(env, env.observation_space, env.action_space)
        self.shown = self.guarded.show(env.observation_space, observe, normalised=normalised)
        self.observation_space = self.shown.space
        self.ledger = self.guarded.ledger
        self._damage = StepDamage(env, None)
        self._stages: dict[Any, Stage] = {}  # of a fixed guard: by run, action, observed state, damage and its type
        self._stage: Stage | None = None
        self._allowed = self._offered = NONE  # offered: the actions that the agent's last mask allowed
        self._number = self._steps = self._interventions = 0
        self._reward = 0.0
        self._seen: Any = None  # the last observation, returned again if a learning guard ends the episode
        self._point: Any = None  # its coordinates, for a guard that watches

    # ------------------------------------------------------------------ an episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget."""
        if self._allowed and self._steps:
            self._note("reset")
        self._allowed = NONE  # in case the reset fails
        observation, info = two_values(self.env.reset(seed=seed, options=options))
        self._damage.check_reset(info)
        state, point = self.guarded.place(observation, self.env)
        run, _ = self.guarded.begin(state)
        self._steps, self._interventions, self._reward = 0, 0, 0.0
        self._stage = stage = self._at(run, self.budget)
        self._allowed = self._offered = stage.allowed
        self._seen, self._point = observation, point
        return self.shown.single(observation, stage.carried, stage.mask), self._info(info, stage, NO_ACTION, False)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, if it is allowed; otherwise raise or replace it, according to ``forbidden``."""
        guarded = self.guarded
        if guarded.learns and not self._refresh():
            return self._truncate()
        before = self._stage
        try:
            chosen = index(action)
        except TypeError:
            chosen = NO_ACTION
        replaced = False
        if chosen not in self._allowed or before is None:
            before, chosen, replaced = self._instead(action)
            action = chosen
        self._allowed = NONE  # in case of an error: it makes a reset necessary
        observation, reward, terminated, truncated, info = five_values(self.env.step(action))
        guarded.count_steps(1)
        damage = None
        try:
            damage = self._damage.reported(info)
            if damage is None and guarded.damage is not None:
                damage = guarded.damage(before.run[0], chosen, observation, float(reward), bool(terminated))
            seen, point = guarded.place(observation, self.env)
            if guarded.watching is not None:
                guarded.watch([self._point], [chosen], [point])
                self._point = point
            try:
                stage = self._stages.get((before.run, chosen, seen, terminated, damage, type(damage)))
            except TypeError:  # a damage that is not hashable, and will be refused
                stage = None
            if stage is None:
                stage = self._follow(before.run, chosen, seen, bool(terminated), damage, float(reward))
        except AlmostSureError:
            self._steps += 1
            reported = self._damage.most(info) if damage is None else damage
            self._write(guarded.note_error(before.run, chosen, reported), "error")
            raise
        self._stage, self._seen = stage, observation
        self._steps += 1
        self._reward += float(reward)
        info = self._info(info, stage, chosen, replaced)
        if "violation" in stage.info:
            guarded.note_violation(before.run, chosen, stage.run[0], stage.info["damage"])
        if guarded.learns or guarded.counts_steps:
            truncated = bool(truncated or (not stage.allowed and not terminated))
        if terminated or truncated:
            self._note("terminated" if terminated else "truncated", info)
        else:
            self._allowed = self._offered = stage.allowed
        return self.shown.single(observation, stage.carried, stage.mask), reward, terminated, truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The mask of allowed actions, as a new array; the method that sb3-contrib calls."""
        if self.guarded.learns:
            self._refresh()
            self._offered = self._allowed
        if self._stage is None:
            raise ResetNeeded("call reset() before action_masks()")
        return self._stage.mask.astype(np.bool_)

    @property
    def budget(self) -> int:
        """The budget of every episode; it cannot be changed."""
        return self.guarded.budget

    @property
    def remaining(self) -> int:
        """The remaining budget of this episode."""
        return 0 if self._stage is None else int(self._stage.carried[0])

    # ------------------------------------------------------------------ stages

    def _at(self, run: Run, before: int) -> Stage:
        """The stage of a run whose remaining budget was ``before`` until its last step."""
        guarded, carried = self.guarded, self.guarded.shown(run)
        info = {"damage": before - carried[0], **dict(zip(guarded.shows, carried, strict=True))}
        if carried[0] < 0 <= before:
            info["violation"] = True
        mask, continues = guarded.look(run)
        if not continues and guarded.learns:
            info.setdefault("violation" if carried[0] < 0 else "stuck", True)
        return Stage(run, carried, frozenset(np.flatnonzero(mask).tolist()) if continues else NONE, mask, info)

    def _follow(self, run: Run, action: int, seen: int, terminated: bool, damage: Any, reward: float) -> Stage:
        """The stage after a step; cached if the guard is fixed."""
        stage = self._at(self.guarded.follow(run, action, seen, terminated, damage, reward), run[1])
        if self.guarded.is_fixed and (damage is None or isinstance(damage, (int, np.integer))):
            if len(self._stages) >= MAX_CACHED:
                self._stages.clear()
            self._stages[run, action, seen, terminated, damage, type(damage)] = stage
        return stage

    def _info(self, info: dict[str, Any], stage: Stage, action: int, replaced: bool) -> dict[str, Any]:
        result = {"cost": stage.info["damage"], **info, **stage.info}
        result["action_mask"] = stage.mask.copy()
        result["executed_action"] = action
        result["replaced"] = replaced
        result["interventions"] = self._interventions
        return result

    def _instead(self, action: Any) -> tuple[Stage, int, bool]:
        """The stage, the action to play in it, and whether that replaces a forbidden one."""
        if not self._allowed or self._stage is None:
            raise ResetNeeded("there is no episode: call reset() before step()")
        chosen, run = self.guarded.action(action, self.action_space), self._stage.run
        if chosen in self._allowed:  # it was given as an array with one entry
            return self._stage, chosen, False
        played = self.guarded.instead(run, chosen, was_offered=chosen in self._offered)
        self._interventions += 1
        return self._stage, played, True

    def _refresh(self) -> bool:
        """Update the allowed actions; False if none is safe any more.

        A learning guard may have learned from other environments since the last step.
        """
        if self._allowed and self._stage is not None:
            self._stage = self._at(self._stage.run, self._stage.run[1])
            self._allowed = self._stage.allowed or self._allowed  # if none is, the next step truncates the episode
            return bool(self._stage.allowed)
        return True

    def _truncate(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End an episode without a safe action, without another step of the environment."""
        assert self._stage is not None
        self._allowed = NONE
        info = self._info({}, self._stage, NO_ACTION, False)
        self._note("truncated", info)
        return self.shown.single(self._seen, self._stage.carried, self._stage.mask), 0.0, False, True, info

    def _note(self, ended: str, info: dict[str, Any] | None = None) -> None:
        """Record the end of the episode, and its reason."""
        assert self._stage is not None
        if info is not None and not self._stage.allowed:
            ended = next((reason for reason in ("violation", "stuck") if info.get(reason)), ended)
        self._write(self.budget - self.remaining, ended)

    def _write(self, damage: int, ended: Any) -> None:
        """Write the episode into the ledger, with its total damage."""
        self._number += 1
        totals = self._number, self._steps, self._reward, damage, self.budget, self._interventions
        self.guarded.ledger.note(Episode(*totals, ended, risk=self.guarded.risk))


def shielded_in(env: Any) -> ShieldedEnv | None:
    """The ShieldedEnv in a stack of wrappers, if there is one."""
    while env is not None and not isinstance(env, ShieldedEnv):
        env = getattr(env, "env", None)
    return env
