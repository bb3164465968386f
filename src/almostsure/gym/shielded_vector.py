"""``ShieldedVectorEnv``: many shielded environments, with one look-up of the shield per step."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from almostsure.arguments import as_python, names_right_word
from almostsure.errors import AlmostSureError, ArgumentError, ModelError
from almostsure.gym.autoreset import Infos, Resets, any_set, merge_exactly, with_columns
from almostsure.gym.damage import check_resets, row_of
from almostsure.gym.fitting import check_kind, most_steps
from almostsure.gym.guarded import NO_ACTION, Forbidden, Guarded, LedgerOrPath, StateOf, no_action
from almostsure.gym.observation import Form, show_final
from almostsure.learn.damage import StepDamage
from almostsure.learn.ledger import Episode
from almostsure.model.build.environment import five_values
from almostsure.model.mdp import Bools
from almostsure.shield.protocol import Guard, Run

Numbers = npt.NDArray[np.int64]


@names_right_word
@final
class ShieldedVectorEnv(VectorWrapper[Any, Any, Any, Any, Any]):
    """A vector environment in which no episode takes more than ``budget`` damage.

    It wraps a Gymnasium vector environment in any autoreset mode, with the parameters of :class:`ShieldedEnv`.
    ``infos`` has the same entries, one row per environment; ``action_masks()`` is [num_envs, num_actions].  Damages of
    different types (False, 2, 0.5) are read from each environment, before Gymnasium's merging converts them; the
    vector's own arrays of damage are used as they are.

    An :class:`almostsure.OnlineShield` is shared by all environments.  It may end the episode of one environment early,
    so it needs a vector that you reset yourself: ``autoreset_mode=AutoresetMode.DISABLED``.

    If environments have wrappers of their own, or run in a vector environment of Stable-Baselines3, shield each with
    :class:`ShieldedEnv` instead, which is slower.

    Parameters
    ----------
    env, shield, budget, observe, normalised, forbidden, fallback, state_of, ledger
        See :class:`ShieldedEnv`.  ``state_of`` gets the environment itself if it is in this process, otherwise None.

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
        check_kind(env, VectorEnv)
        super().__init__(env)
        self._envs = getattr(env.unwrapped, "envs", None) or [None] * env.num_envs
        parts = [env, *(inner for inner in self._envs if inner is not None)]
        limits = [steps for part in parts if (steps := most_steps(part)) is not None]
        options: dict[str, Any] = {"forbidden": forbidden, "fallback": fallback, "state_of": state_of, "ledger": ledger}
        self.guarded = Guarded(
            shield,
            budget,
            most_steps=max(limits, default=None),
            plays=getattr((self._envs[0] or env).unwrapped, "mdp", None),
            **options,
        )
        self._resets = Resets(env)
        merge_exactly(env)
        if self.guarded.learns and self._resets.mode != AutoresetMode.DISABLED:
            raise ArgumentError(
                "an OnlineShield may end the episode of one environment early, so the vector must not reset its "
                f"environments itself; its autoreset mode is {self._resets.mode.value}. Make it with "
                "autoreset_mode=AutoresetMode.DISABLED, and reset those that ended with options={'reset_mask': …}."
            )
        for part in parts:
            self.guarded.fit(part, env.single_observation_space, env.single_action_space)
        if self.guarded.counts_steps:
            self._check_limits(limits)
        self.shown = self.guarded.show(env.single_observation_space, observe, normalised=normalised)
        self.single_observation_space = self.shown.space
        self.observation_space = batch_space(self.shown.space, env.num_envs)
        self.ledger = self.guarded.ledger
        self._damage = StepDamage(env, None)
        count, space = env.num_envs, self.guarded.space
        self._all, self._zeros, self._rows = self._resets.all_envs, np.zeros(count, np.int64), np.arange(count)
        self._run: Run = ()  # arrays, after the first reset
        self._points: list[Any] = [None] * count  # the last coordinates, for a guard that watches
        self._steps, self._interventions = np.zeros((2, count), np.int64)
        self._episodes = [0] * count
        self._rewards = np.zeros(count)
        self._masks: npt.NDArray[np.int8] = np.zeros((count, space.num_actions), np.int8)
        self._violated: Bools = np.zeros(count, np.bool_)  # the last step's damage exceeded the remaining budget
        self._stuck: Bools = np.zeros(count, np.bool_)  # a learning guard knows no safe action
        self._over: Bools = np.zeros(count, np.bool_)  # no step of the guard's horizon is left

    # ------------------------------------------------------------------ episodes

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Infos]:
        """Begin episodes with the whole budget: in all environments, or in those of ``options["reset_mask"]``."""
        selected, over = self._resets.selected(options), self._resets.over
        if over is not None:
            for at in np.flatnonzero(selected & ~over & (self._steps > 0)).tolist():
                self._note(at, "reset")
        self._resets.over = None  # in case the reset fails
        observations, infos = self.env.reset(seed=seed, options=options)
        check_resets(infos, selected, *self._damage.keys)
        states, self._points = self._states(observations, selected)
        self._begin(selected, states)
        self._resets.over = over
        self._resets.finish_reset(selected)
        seen = self.shown.batch(observations, self.guarded.shown(self._run), self._masks)
        return seen, self._infos(infos, selected, self._zeros, self._zeros + NO_ACTION, self._zeros != 0)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Play one action per environment, if it is allowed; otherwise raise or replace it, as ``forbidden`` says."""
        played, replaced = self._checked(actions)
        acting = self._resets.begin_step()
        before = self._run if self.guarded.is_sure else tuple(column.copy() for column in self._run)
        observations, rewards, terminated, truncated, infos = five_values(self.env.step(played))
        self.guarded.count_steps(int(np.count_nonzero(acting)))
        ended: Bools = terminated | truncated
        final: Infos | None = None
        try:
            final = self._resets.final(infos, ended)
            seen, points = self._states(observations, None)
            reached, ends = (seen, points) if final is None else self._finals(infos["final_obs"], ended, seen, points)
            if self.guarded.watching is not None:
                rows = acting.nonzero()[0].tolist()
                self.guarded.watch([self._points[at] for at in rows], played[rows].tolist(), [ends[at] for at in rows])
                self._points = points
            reported = self._reported(infos, final, ended, acting)
            if reported is None and self.guarded.damage is not None:
                steps = zip(self._run[0], played, reached, rewards, terminated, strict=True)
                reported = np.array([self.guarded.damage(*step) for step in steps], np.float64)
            if self.guarded.learns:
                damages = self._learn(played, reached, terminated, reported, rewards)
            else:
                damages = self._follow(played, reached, acting, terminated, reported)
        except AlmostSureError:
            self._note_error(acting, played, infos, final, ended)
            raise
        self._steps += 1
        self._rewards += rewards
        if not self.guarded.is_sure:
            self._note_violations(before, played, damages)
        executed = played if acting is self._all else np.where(acting, played, NO_ACTION)
        self._update_masks()
        if self.guarded.learns or self.guarded.counts_steps:
            truncated = truncated | ((self._stuck | (self._over & acting)) & ~terminated)
            self._check_ended(ended, acting)
            ended = terminated | truncated
        for at in ended.nonzero()[0].tolist():
            self._note(at, self._reason(at, bool(terminated[at])))
        if final is not None:
            infos = {**infos, "final_info": self._infos(final, ended, damages, executed, replaced)}
            carried = self.guarded.shown(self._run)
            infos["final_obs"] = show_final(self.shown, infos["final_obs"], carried, ended, self._masks)
            damages, executed = np.where(ended, 0, damages), np.where(ended, NO_ACTION, executed)
            replaced = replaced & ~ended
        if final is not None or acting is not self._all:
            selected = ended if final is not None else ~acting
            check_resets(infos, selected, *self._damage.keys)
            self._begin(selected, seen)
        self._resets.finish_step(ended)
        shown = self.shown.batch(observations, self.guarded.shown(self._run), self._masks)
        infos = self._infos(infos, self._all, damages, executed, replaced)
        return shown, rewards, terminated, truncated, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The masks of allowed actions, [num_envs, num_actions]: a new array."""
        if self._resets.over is None:
            raise ResetNeeded("call reset() before action_masks()")
        return self._masks.astype(np.bool_)

    @property
    def budget(self) -> int:
        """The budget of every episode; it cannot be changed."""
        return self.guarded.budget

    @property
    def remaining(self) -> Numbers:
        """The remaining budgets of these episodes: a new array."""
        return np.array(self._run[1]) if self._run else self._zeros.copy()

    # ------------------------------------------------------------------ runs

    def _begin(self, selected: Bools, states: Numbers) -> None:
        """Begin the runs of the selected environments in these states."""
        for at in selected.nonzero()[0].tolist():
            run, mask = self.guarded.begin(states.item(at))
            if not self._run:
                self._run = tuple(np.full(self.num_envs, value) for value in run)
            for column, value in zip(self._run, run, strict=True):
                column[at] = value
            self._masks[at] = mask
            self._steps[at] = self._rewards[at] = self._interventions[at] = self._violated[at] = 0

    def _follow(
        self, actions: Numbers, seen: Numbers, acting: Bools, terminated: Bools, reported: npt.NDArray[Any] | None
    ) -> Numbers:
        """Continue the runs that acted; returns the damages, 0 for environments that were reset."""
        guarded, before = self.guarded, self._run
        reached = seen
        if guarded.only_ends or any_set(terminated):
            reached = guarded.arrived_many(before[0], actions, seen, terminated)
        rows: Any = slice(None) if acting is self._all else acting.nonzero()[0]
        part = tuple(column[rows] for column in before)
        after = guarded.after(part, actions[rows], reached[rows], None if reported is None else reported[rows])
        damages = self._zeros.copy()
        damages[rows] = part[1] - after[1]
        for column, values in zip(before, after, strict=True):
            column[rows] = values  # the caller begins new runs in the other rows
        return damages

    def _learn(
        self, actions: Numbers, seen: Numbers, terminated: Bools, reported: npt.NDArray[Any] | None, rewards: Any
    ) -> Numbers:
        """Continue all runs one by one, since the guard learns from each; returns the damages."""
        before, runs = self._run[1], []
        for at in range(self.num_envs):
            damage = None if reported is None else as_python(reported[at])
            step = self._one(at), int(actions[at]), int(seen[at]), bool(terminated[at])
            runs.append(self.guarded.follow(*step, damage, float(rewards[at])))
        self._run = tuple(np.array(column) for column in zip(*runs, strict=True))
        damages: Numbers = before - self._run[1]
        return damages

    def _update_masks(self) -> None:
        """Look up the masks of all runs."""
        guarded = self.guarded
        if guarded.counts_steps:
            self._over = self._run[guarded.steps_at] == 0
            if any_set(self._over):
                self._update_masks_within()
                return
        if not guarded.learns:
            self._masks = guarded.guard.mask(*self._run).view(np.int8)  # a new array
            return
        for at in range(self.num_envs):
            self._masks[at], continues = guarded.look(self._one(at))
            self._stuck[at] = not continues

    def _update_masks_within(self) -> None:
        """Look up the masks if some runs have no step left."""
        self._masks = np.zeros_like(self._masks)
        rows = np.flatnonzero(~self._over)
        if rows.size:
            self._masks[rows] = self.guarded.guard.mask(*(column[rows] for column in self._run))
        for at in np.flatnonzero(self._over).tolist():
            self._masks[at] = self.guarded.unrestricted_row(int(self._run[0][at]))

    def _check_limits(self, limits: list[int]) -> None:
        """Raise if a vector resets by itself and its episodes may be longer than the guard's horizon."""
        horizon = getattr(self.guarded.guard, "horizon", None)
        if self._resets.mode == AutoresetMode.DISABLED or horizon is None:
            return
        if not limits or max(limits) > horizon:
            raise ArgumentError(
                f"the environments must end their episodes within the shield's horizon of {horizon:,} steps; this "
                f"vector resets by itself, and its limit is {max(limits, default=None)}. Make it with "
                f"max_episode_steps={horizon}, or with autoreset_mode=AutoresetMode.DISABLED and reset it yourself."
            )

    def _check_ended(self, ended: Bools, acting: Bools) -> None:
        """Raise if a vector that resets by itself has not ended an episode within the horizon."""
        late = self._over & acting & ~ended
        if self._resets.mode != AutoresetMode.DISABLED and any_set(late):
            raise ModelError(
                f"environment {int(np.argmax(late))} must have ended its episode: no step of the horizon is left, and "
                "the shield promises nothing beyond it"
            )

    def _one(self, at: int) -> Run:
        return tuple(column[at].item() for column in self._run)

    def _reason(self, at: int, terminated: bool) -> str:
        """The reason why an episode ended, for the ledger."""
        if self._stuck[at]:
            return "violation" if self._violated[at] else "stuck"
        return "terminated" if terminated else "truncated"

    # ------------------------------------------------------------------ observations and reported damages

    def _states(self, observations: Any, selected: Bools | None) -> tuple[Numbers, list[Any]]:
        """The states that observations show, and their coordinates; of all environments, or the selected ones."""
        guarded = self.guarded
        if guarded.plain and np.asarray(observations).dtype.kind in "iu":
            states = np.array(observations, np.int64)  # a copy, since the agent gets the observations themselves
            invalid = states.view(np.uint64) >= guarded.num_seen  # negative numbers become large ones
            if not any_set(invalid):
                return states, self._points
        each = list(iterate(self.env.observation_space, observations))
        needed = self._all if selected is None else selected
        places = [
            guarded.place(seen, self._envs[at]) if needed[at] else (0, self._points[at]) for at, seen in enumerate(each)
        ]
        return np.array([state for state, _ in places], np.int64), [point for _, point in places]

    def _finals(self, finals: Any, ended: Bools, seen: Numbers, points: list[Any]) -> tuple[Numbers, list[Any]]:
        """The states and coordinates after the steps: of episodes that ended, those of their final observations."""
        states, reached = seen.copy(), list(points)
        for at in np.flatnonzero(ended).tolist():
            states[at], reached[at] = self.guarded.place(finals[at], self._envs[at])
        return states, reached

    def _reported(self, infos: Infos, final: Infos | None, ended: Bools, acting: Bools) -> npt.NDArray[Any] | None:
        """The damages that environments report, with None for those that do not; None if none of them does."""
        keys = [key for key in self._damage.keys if key in infos or key in (final or {})]
        if not keys:
            return None
        if final is None and all(np.all(infos.get(f"_{key}", True) | ~acting) for key in keys):  # the common case
            column = np.asarray(infos[keys[0]])
            if len(keys) == 1 or np.array_equal(column, infos[keys[1]]):
                return column
        each: npt.NDArray[Any] = np.full(self.num_envs, None, object)
        for at in np.flatnonzero(acting).tolist():
            each[at] = self._damage.reported(row_of(self._damage, infos, final, ended, at))
        return each

    # ------------------------------------------------------------------ actions

    def _checked(self, actions: Any) -> tuple[Numbers, Bools]:
        """The actions to play, and which of them replace forbidden ones; those of environments to be reset are free."""
        given, over = np.asarray(actions), self._resets.over
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise no_action(actions, self.env.action_space)
        given = given.astype(np.int64)  # a copy, which infos will hold
        try:
            place = np.ravel_multi_index((self._rows, given), self._masks.shape)
        except ValueError:
            raise no_action(actions, self.env.action_space) from None
        offered = self._masks
        if self.guarded.learns and over is not None:
            offered = self._masks.copy()
            self._update_masks()
        allowed, replaced = self._masks.reshape(-1)[place], np.zeros(self.num_envs, np.bool_)
        if over is None or not (0 in allowed.tobytes() or any_set(self._stuck)):
            return given, replaced
        for at in np.flatnonzero(((allowed == 0) | self._stuck) & ~over).tolist():
            action, was_offered = int(given[at]), bool(offered[at, given[at]])
            given[at], replaced[at] = self.guarded.instead(self._one(at), action, was_offered=was_offered), True
            self._interventions[at] += 1
        return given, replaced

    # ------------------------------------------------------------------ records

    def _note(self, at: int, ended: str) -> None:
        self._write(at, self.budget - self._run[1].item(at), ended)

    def _write(self, at: int, damage: int, ended: Any) -> None:
        """Write an episode into the ledger, with its total damage."""
        self._episodes[at] += 1
        totals = self._episodes[at], self._steps.item(at), self._rewards.item(at), damage, self.budget
        self.guarded.ledger.note(Episode(*totals, self._interventions.item(at), ended, at, self.guarded.risk))

    def _note_violations(self, before: Run, actions: Numbers, damages: Numbers) -> None:
        """Record the steps whose damage exceeded the remaining budget."""
        self._violated = (before[1] >= 0) & (before[1] < damages)
        for at in np.flatnonzero(self._violated).tolist():
            run = tuple(column[at].item() for column in before)
            after, damage = int(self._run[0][at]), int(damages[at])
            self.guarded.note_violation(run, int(actions[at]), after, damage)

    def _note_error(self, acting: Bools, actions: Numbers, infos: Infos, final: Infos | None, ended: Bools) -> None:
        """Record all episodes, which end with an impossible step of one of them; some may have overspent."""
        self._steps += 1
        for at in np.flatnonzero(acting).tolist():
            reported = None
            with suppress(LookupError, TypeError):  # infos of another form, which is the error
                reported = self._damage.most(row_of(self._damage, infos, final, ended, at))
            self._write(at, self.guarded.note_error(self._one(at), int(actions[at]), reported), "error")

    def _infos(self, infos: Infos, selected: Bools, damages: Numbers, executed: Numbers, replaced: Bools) -> Infos:
        own: dict[str, npt.NDArray[Any]] = {
            "damage": damages,
            "action_mask": self._masks.copy(),
            "executed_action": executed,
            "replaced": replaced,
            "interventions": self._interventions.copy(),
        }
        for name, column in zip(self.guarded.shows, self._run[1:], strict=False):
            own[name] = column.copy()
        if "cost" not in infos:
            own["cost"] = damages.copy()
        if not self.guarded.is_sure and any_set(self._violated | self._stuck):
            own |= {"violation": self._violated.copy(), "stuck": self._stuck & ~self._violated}
        return with_columns(infos, selected, own)
