"""``ShieldedEnv``: an environment in which only safe actions can be played.

It follows the run of each episode (its state and the remaining budget), shows the agent what remains, and says which
actions the guard allows (Theorem 1; see :mod:`almostsure.shield`).  Whatever the agent does, an episode never takes
more than ``budget`` damage.

Truncation is not termination: an episode that a time limit cuts has its budget until it is reset, and what it ended in
keeps its mask.
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
from almostsure.gym.guarded import NOWHERE, Forbidden, Guarded, LedgerOrPath, Mask, StateOf
from almostsure.gym.observation import Form
from almostsure.learn.ledger import Episode
from almostsure.model.build.damage import check_reset
from almostsure.shield.protocol import Guard, Run

NONE: frozenset[int] = frozenset()  # nothing may be played before the first reset, and after the end
MOST_KEPT = 1 << 17  # transitions whose consequences are kept


class Stage(NamedTuple):
    """Where an episode is, and what may be played there."""

    run: Run
    carried: tuple[Any, ...]  # what of the run is shown beside its state
    allowed: frozenset[int]
    mask: Mask
    info: dict[str, Any]  # the damage of the step, what is carried by name, and perhaps why nothing can follow


@names_right_word
@final
class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment in which an episode never takes more than ``budget`` damage.

    Parameters
    ----------
    env
        A Gymnasium environment with discrete actions, numbered as in the shield's model.
    shield
        A :class:`almostsure.Shield` of the environment's model, whether that was built or learned, an
        :class:`almostsure.OnlineShield`, or any other :class:`almostsure.shield.Guard`.  One that is for a number of
        steps counts no more of them than the environment's own limit (``TimeLimit``, ``max_episode_steps``), and ends
        an episode after the last one that it is for.
    budget
        The budget of every episode.
    observe
        How observations show what remains: ``"flat"``, ``"dict"``, ``"rllib"`` or ``"none"``; by default flat where
        that is possible, and else a dict.  See :mod:`almostsure.gym.observation`.
    normalised
        Show remaining / budget instead of the number itself.
    forbidden
        What to do with an action that is not allowed: ``"raise"`` NoSafeAction, or ``"replace"`` it.
    fallback
        What replaces it: a policy or solution of the model.  Without one, or where that plays what is not allowed
        either, the allowed action with the least minimal budget, of several the first.
    state_of
        ``state_of(observation, env)`` returns the model's state, by index or name, for observations that are not states
        and where the shield was not learned with an ``encode`` of its own.
    ledger
        A :class:`almostsure.learn.Ledger` in which every episode is noted, or the path of a file to which it is
        appended as a line of JSON.  ``env.ledger`` exists in any case; with an online shield it is the shield's, so
        that surprises and violations are in it too.

    Notes
    -----
    ``info`` holds ``damage`` (of the step), ``remaining`` and whatever else the guard carries, ``action_mask`` (int8,
    as ``Discrete.sample`` wants it), ``executed_action`` (−1 after a reset) and whether it ``replaced`` the one that
    was given, ``interventions`` (replaced actions so far in the episode), and ``cost``, which is the damage unless the
    environment has its own.

    A guard that takes risks may let an episode overspend: ``info["violation"]`` says at which step.  With an online
    shield surprises happen.  One that overspends, or after which nothing safe is known, truncates the
    episode with ``info["violation"]`` or ``info["stuck"]``.  Several environments may share the shield: what one has
    learned since another saw its mask holds for that one too, and an action that is no longer safe is replaced.

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
        told: dict[str, Any] = {"forbidden": forbidden, "fallback": fallback, "state_of": state_of, "ledger": ledger}
        RecordConstructorArgs.__init__(
            self, shield=shield, budget=budget, observe=observe, normalised=normalised, _disable_deepcopy=True, **told
        )
        check_kind(env, gymnasium.Env)
        gymnasium.Wrapper.__init__(self, env)
        self.guarded = Guarded(
            shield, budget, most_steps=most_steps(env), plays=getattr(env.unwrapped, "mdp", None), **told
        )
        self.guarded.fit(env, env.observation_space, env.action_space)
        self.shown = self.guarded.show(env.observation_space, observe, normalised=normalised)
        self.observation_space = self.shown.space
        self.budget, self.ledger = self.guarded.budget, self.guarded.ledger
        self._stages: dict[Any, Stage] = {}  # by run, action, what was seen and said, and its type; of a fixed guard
        self._stage: Stage | None = None
        self._allowed = self._offered = NONE  # offered: what the agent last saw to be allowed
        self._number = self._steps = self._interventions = 0
        self._reward = 0.0
        self._seen: Any = None  # the last observation, to be shown again where a guard that learns breaks off
        self._point: Any = None  # the last one's coordinates, for a guard that watches

    # ------------------------------------------------------------------ an episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget."""
        if self._allowed and self._steps:
            self._note("reset")
        self._allowed = NONE  # until all is well
        observation, info = self.env.reset(seed=seed, options=options)
        check_reset(info, "damage" if "damage" in info else "cost")
        state, point = self.guarded.place(observation, self.env)
        run, _ = self.guarded.begin(state)
        self._steps, self._interventions, self._reward = 0, 0, 0.0
        self._stage = stage = self._at(run, self.budget)
        self._allowed = self._offered = stage.allowed
        self._seen, self._point = observation, point
        return self.shown.single(observation, stage.carried, stage.mask), self._info(info, stage, NOWHERE, False)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, if it is allowed; otherwise do what ``forbidden`` says."""
        guarded = self.guarded
        if guarded.learns and not self._look_again():
            return self._break_off()
        before = self._stage
        try:
            chosen = index(action)
        except TypeError:
            chosen = NOWHERE
        replaced = False
        if chosen not in self._allowed or before is None:
            before, chosen, replaced = self._instead(action)
            action = chosen
        self._allowed = NONE  # until all is well: after an error nothing may be played before a reset
        observation, reward, terminated, truncated, info = self.env.step(action)
        guarded.count_steps(1)
        said = info["damage"] if "damage" in info else info.get("cost")
        if said is None and guarded.damage is not None:
            said = guarded.damage(before.run[0], chosen, observation, float(reward), bool(terminated))
        try:
            seen, point = guarded.place(observation, self.env)
            if guarded.watching is not None:
                guarded.watch([self._point], [chosen], [point])
                self._point = point
            try:
                stage = self._stages.get((before.run, chosen, seen, terminated, said, type(said)))
            except TypeError:  # what is said cannot be looked up, and will be refused
                stage = None
            if stage is None:
                stage = self._follow(before.run, chosen, seen, bool(terminated), said, float(reward))
        except AlmostSureError:
            self._steps += 1
            self._write(guarded.note_error(before.run, chosen, said), "error")
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
        """Which actions are allowed now, as sb3-contrib asks for it: a new array."""
        if self.guarded.learns:
            self._look_again()
            self._offered = self._allowed
        if self._stage is None:
            raise ResetNeeded("call reset() before action_masks()")
        return self._stage.mask.astype(np.bool_)

    @property
    def remaining(self) -> int:
        """What is left of the budget of this episode."""
        return 0 if self._stage is None else int(self._stage.carried[0])

    # ------------------------------------------------------------------ pieces

    def _at(self, run: Run, before: int) -> Stage:
        """The stage of a run that had ``before`` left until its last step."""
        guarded, carried = self.guarded, self.guarded.shown(run)
        info = {"damage": before - carried[0], **dict(zip(guarded.shows, carried, strict=True))}
        if carried[0] < 0 <= before:
            info["violation"] = True
        mask, goes_on = guarded.look(run)
        if not goes_on and guarded.learns:
            info.setdefault("violation" if carried[0] < 0 else "stuck", True)
        return Stage(run, carried, frozenset(np.flatnonzero(mask).tolist()) if goes_on else NONE, mask, info)

    def _follow(self, run: Run, action: int, seen: int, terminated: bool, damage: Any, reward: float) -> Stage:
        """The stage after a step; kept for the next time, if the guard is fixed."""
        stage = self._at(self.guarded.follow(run, action, seen, terminated, damage, reward), run[1])
        if self.guarded.is_fixed and (damage is None or isinstance(damage, (int, np.integer))):
            if len(self._stages) >= MOST_KEPT:
                self._stages.clear()
            self._stages[run, action, seen, terminated, damage, type(damage)] = stage
        return stage

    def _info(self, info: dict[str, Any], stage: Stage, action: int, replaced: bool) -> dict[str, Any]:
        said = {"cost": stage.info["damage"], **info, **stage.info}
        said["action_mask"] = stage.mask.copy()
        said["executed_action"] = action
        said["replaced"] = replaced
        said["interventions"] = self._interventions
        return said

    def _instead(self, action: Any) -> tuple[Stage, int, bool]:
        """The stage, what is played in it, and whether that replaces an action that is not allowed."""
        if not self._allowed or self._stage is None:
            raise ResetNeeded("there is no episode: call reset() before step()")
        chosen, run = self.guarded.action(action, self.action_space), self._stage.run
        if chosen in self._allowed:  # an array with one entry
            return self._stage, chosen, False
        played = self.guarded.instead(run, chosen, was_offered=chosen in self._offered)
        self._interventions += 1
        return self._stage, played, True

    def _look_again(self) -> bool:
        """Whether anything is still safe: others who share a learning guard may have taught it since the last step."""
        if self._allowed and self._stage is not None:
            self._stage = self._at(self._stage.run, self._stage.run[1])
            self._allowed = self._stage.allowed or self._allowed  # where nothing is, the next step breaks off
            return bool(self._stage.allowed)
        return True

    def _break_off(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End an episode in which nothing is safe any more, without another step."""
        assert self._stage is not None
        self._allowed = NONE
        info = self._info({}, self._stage, NOWHERE, False)
        self._note("truncated", info)
        return self.shown.single(self._seen, self._stage.carried, self._stage.mask), 0.0, False, True, info

    def _note(self, ended: str, info: dict[str, Any] | None = None) -> None:
        """Note that the episode is over."""
        assert self._stage is not None
        broken = info is not None and not self._stage.allowed
        why = next((word for word in ("violation", "stuck") if broken and info and info.get(word)), ended)
        self._write(self.budget - self.remaining, why)

    def _write(self, damage: int, ended: Any) -> None:
        """Write the episode into the ledger, with its damage in all."""
        self._number += 1
        lived = self._number, self._steps, self._reward, damage, self.budget, self._interventions
        self.guarded.ledger.note(Episode(*lived, ended, risk=self.guarded.risk))


def shielded_in(env: Any) -> ShieldedEnv | None:
    """The ShieldedEnv in a stack of wrappers, if there is one."""
    while env is not None and not isinstance(env, ShieldedEnv):
        env = getattr(env, "env", None)
    return env
