"""``Guarded``: the logic that single and vector shielded environments share.

The environment reports the next state and perhaps, in ``info["damage"]`` or ``info["cost"]``, the damage.  Both must be
possible according to the guard.  An episode that terminates moves to the ``end`` state of the guard's space, if it has
one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import index
from os import PathLike
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorEnv

from almostsure.arguments import check_budget, one_of
from almostsure.errors import ArgumentError, Blame, Infeasible, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.gym import fitting
from almostsure.gym.observation import Form, Limits, Shown, show
from almostsure.learn.ledger import Ledger, Violation
from almostsure.learn.online import OnlineShield
from almostsure.learn.simulator import Ended
from almostsure.model.arrays import frozen
from almostsure.model.build.damage import Damage
from almostsure.model.build.environment import check_layers
from almostsure.model.build.function import Encode
from almostsure.model.mdp import MDP, Bools
from almostsure.model.space import Space
from almostsure.policy.policy import Policy, as_policy
from almostsure.shield.checks import require_budget
from almostsure.shield.monitored import guard_of
from almostsure.shield.outcomes import STALE
from almostsure.shield.protocol import ForSteps, Guard, Run, Watching
from almostsure.shield.shield import Shield
from almostsure.wording import brief

Forbidden = Literal["raise", "replace"]
FORBIDDEN = ("raise", "replace")
StateOf = Callable[[Any, Any], Any]  # (observation, environment) → a state, by index or name
Mask = npt.NDArray[np.int8]  # [num_actions], the type that ``Discrete.sample`` needs; read-only
Points = Sequence[Sequence[float] | None]  # states of a continuous system
LedgerOrPath = Ledger | str | PathLike[str] | None

NO_ACTION = -1  # the executed action after a reset
NO_STATE = -1  # in a ledger, the next state of a transition that the model does not have


@final
class Guarded:
    """A guard, its budget, and the user's options."""

    def __init__(
        self,
        guard: Guard,
        budget: int,
        *,
        forbidden: Forbidden,
        fallback: Any,
        state_of: StateOf | None,
        ledger: LedgerOrPath,
        most_steps: int | None,
        plays: Any,
    ) -> None:
        if not isinstance(guard, Guard):
            raise ArgumentError(
                f"shield must be a Shield, an OnlineShield or another Guard; got {type(guard).__name__}. "
                "Make one with Shield(minimal_budget(mdp)), or use learned.shield."
            )
        one_of("value of forbidden", forbidden, FORBIDDEN)
        if state_of is not None:
            fitting.check_state_of(state_of)
        self.risk = float(getattr(guard, "risk", 0.0))  # the risk per episode, of a RiskShield
        guard = guard_of(guard, plays)
        if most_steps is not None and isinstance(guard, ForSteps):
            guard = guard.within(most_steps)
        self.guard, self.space, self.forbidden, self.state_of = guard, guard.space, forbidden, state_of
        self.learns, self.is_sure = isinstance(guard, OnlineShield), isinstance(guard, Shield)
        self.watching = guard if isinstance(guard, Watching) else None  # the guard, if it compares steps itself
        # If ``watch`` has compared the observations of a step, ``follow`` need not check that it is possible.
        self.after = guard.after if self.watching is None or state_of is not None else self.watching.follow
        self.is_fixed = bool(getattr(guard, "is_fixed", False))  # whether its answers may be cached
        self.counts_steps = "steps_left" in guard.carries
        self.steps_at = guard.carries.index("steps_left") + 1 if self.counts_steps else 0  # index in a run
        self.shows = [name for name in guard.carries if not name.startswith("_")]  # the others are internal to guards
        self.budget = _feasible(guard, budget)
        self.fallback = None if fallback is None else self._policy(fallback)
        self.ledger = open_ledger(ledger, guard)
        self.plain = state_of is None and self.space.encode is None  # whether observations are states
        self.num_seen = self.space.num_observed  # the number of states that the environment shows
        self.damage: Damage | None = None  # of a well-known environment that does not report it, if it is needed
        self._begun: dict[int, tuple[Run, Mask]] = {}  # by initial state, if the guard is fixed
        self._ends: dict[tuple[int, int, int], int] = {}  # by state, action and observed state: the terminal state
        self.only_ends = _only_ends(self.space) if state_of is None else frozenset()
        self._is_terminal = self.space.is_terminal() if isinstance(self.space, MDP) else None

    def _policy(self, fallback: Any) -> Policy:
        model: Any = self.space
        if not isinstance(model, MDP):
            model = getattr(getattr(fallback, "policy", fallback), "mdp", None)
        if model is None:
            raise ArgumentError("fallback must be a Policy or a Solution, since the shield has no model of its own")
        return as_policy(model, fallback, budget=self.budget)

    def show(self, observations: Any, form: Form, *, normalised: bool) -> Shown:
        """The form of observations that shows the carried quantities, with their names and initial values."""
        first = int(self.space.initial_states[0])
        begun = (self.budget,) if self.learns else self.guard.begin(first, self.budget)[1:]
        limits: Limits = {
            name: int(value) if isinstance(value, (int, np.integer)) else None
            for name, value in zip(self.shows, begun, strict=False)
        }
        return show(observations, limits, form, normalised=normalised, num_actions=self.space.num_actions)

    def shown(self, run: Run) -> tuple[Any, ...]:
        """The carried quantities that agents observe."""
        return run[1 : 1 + len(self.shows)]

    def fit(self, env: Any, observations: Any, actions: Any) -> None:
        """Raise if the guard is not for this environment, as far as that can be checked before it is played."""
        fitting.check_actions(self.space, actions)
        fitting.check_named_actions(self.space, env)
        check_layers(env, "ShieldedVectorEnv" if isinstance(env, VectorEnv) else "ShieldedEnv")
        if self.watching is not None:
            fitting.check_cells(self.watching, env, self.budget)
        elif self.state_of is None and fitting.shows_indices(env, observations) and fitting.has_names(self.space, env):
            self.plain = True  # they are states of its model; ``encode`` is for other environments
        if self.plain:
            self.num_seen = fitting.count_observations(self.space, env, observations)
            fitting.check_outcomes(self.guard, env)
            self.damage = self.damage or fitting.damage_where_needed(self.guard, env)

    def begin(self, state: int) -> tuple[Run, Mask]:
        """The initial run of an episode that begins in a state, and its mask."""
        begun = self._begun.get(state)
        if begun is None:
            self._check_continues(state)
            try:
                run = self.guard.begin(state, self.budget)
            except NoSafeAction as error:
                remedy = "Episodes that begin there need a larger budget, or a shield that knows more."
                raise NoSafeAction(f"{error} {remedy}", state=error.state, remaining=error.remaining) from None
            begun = run, self.row(run)
            if self.is_fixed:
                self._begun[state] = begun
        return begun

    # ------------------------------------------------------------------ states

    def place(self, observation: Any, env: Any) -> tuple[int, Sequence[float] | None]:
        """The state that an observation shows, and its coordinates; ModelError if it shows none.

        The coordinates are None if the guard does not watch, or ``state_of`` returns a cell.
        """
        if self.plain:
            try:
                number = index(observation)
            except TypeError:
                number = -1
            if 0 <= number < self.num_seen:
                return number, None
        state: Any = None
        point: Sequence[float] | None = None
        if self.state_of is not None:
            with Blame(lambda: f"state_of failed for the observation {brief(observation, 200)}"):
                state = self.state_of(observation, env)
            with Blame(lambda: f"state_of must return numbers for the observation {brief(observation, 200)}"):
                if self.watching is not None and np.ndim(state):
                    state = point = [float(value) for value in state]
        elif self.watching is not None:
            state = point = self.watching.point(observation)
        else:
            return self.space.observed(observation), None
        try:
            return self.space.state(state), point
        except UnknownName as error:
            hint = f" ({error})" if isinstance(state, (str, tuple)) or self.watching is not None else ""
            raise ModelError(
                f"state_of must return a state 0 … {self.space.num_states - 1}, or its name; got {state!r}{hint} for "
                f"the observation {brief(observation, 200)}."
            ) from None

    def watch(self, points: Points, actions: Sequence[int], next_points: Points) -> None:
        """Raise ModelMismatch if a step leaves the enclosure of a guard that watches."""
        if self.watching is None:
            return
        known = [
            (before, action, after)
            for before, action, after in zip(points, actions, next_points, strict=True)
            if before is not None and after is not None
        ]
        if known:
            before, played, after = zip(*known, strict=True)
            self.watching.watch(before, played, after)

    def arrived(self, state: int, action: int, seen: int, terminated: bool) -> int:
        """The state after a step that showed ``seen``: if it terminated, the end state of the space, if it has one."""
        space, end, terminal = self.space, self.space.end, self._is_terminal
        if not terminated:
            self._check_continues(seen)
            return seen
        reached = space.outcomes(state, action) if isinstance(space, MDP) and end is not None else []
        if end is not None and (terminal is None or end in (outcome.next_state for outcome in reached)):
            return end
        name = str(Ended(space.state_name(seen)))
        ended = self._named_ends.get(name, seen)
        if terminal is None or terminal[ended]:
            return ended
        raise ModelMismatch(
            f"the environment terminated in {space.describe_state(seen)} after "
            f"{space.describe_choice(space.choice(state, action))}, where the model continues. {STALE} If some "
            f"episodes end there and others continue, add a state without actions named {name!r} to the model, or "
            "pass state_of."
        )

    @cached_property
    def _named_ends(self) -> dict[str, int]:
        """By name: the final states of a model that may have another state with the same observation."""
        prefix = str(Ended(""))
        return {name: state for state, name in enumerate(self.space.state_names or ()) if name.startswith(prefix)}

    def _check_continues(self, state: int) -> None:
        """Raise if exploration observed this state only at the end of episodes."""
        if state in self.only_ends:
            raise ModelMismatch(
                f"an episode continues from {self.space.describe_state(state)}, where all episodes ended when the "
                "environment was explored. If episodes may start there, explore with more resets=, until all initial "
                "states are observed; if not, explore the environment as it is now."
            )

    def arrived_many(
        self, states: npt.NDArray[Any], actions: npt.NDArray[Any], seen: npt.NDArray[Any], terminated: Bools
    ) -> npt.NDArray[Any]:
        """:meth:`arrived` for many steps; a new array, or ``seen`` itself."""
        for state in seen[~terminated].tolist() if self.only_ends else ():
            self._check_continues(state)
        ended = terminated
        if self.space.end is None and self._is_terminal is not None:
            ended = terminated & ~self._is_terminal[seen]
        where = ended.nonzero()[0]
        result = seen.copy() if where.size else seen
        for at in where.tolist():
            step = states.item(at), actions.item(at), seen.item(at)
            if step not in self._ends:
                self._ends[step] = self.arrived(*step, True)
            result[at] = self._ends[step]
        return result

    def follow(self, run: Run, action: int, seen: int, terminated: bool, damage: Any, reward: float) -> Run:
        """The run after one step, which a learning guard also learns from; the damage is None if it is not reported."""
        guard, state = self.guard, self.arrived(int(run[0]), action, seen, terminated)
        if not isinstance(guard, OnlineShield):
            return self.after(run, action, state, damage)
        run = guard.after(run, action, state, damage, reward=reward)
        if terminated:
            guard.end(state)
        return run

    # ------------------------------------------------------------------ actions

    def row(self, run: Run) -> Mask:
        """The mask of allowed actions; NoSafeAction if there is none."""
        return _mask(self.guard.allowed(*run), self.space.num_actions)

    def look(self, run: Run) -> tuple[Mask, bool]:
        """The mask of a run, and whether the run may continue.

        It may not after the last step of a horizon, nor if a learning guard knows no safe action: the mask then has all
        actions.  With other guards this cannot happen, and NoSafeAction is raised.
        """
        try:
            return self.row(run), True
        except NoSafeAction:
            if not self.learns and not (self.counts_steps and run[self.steps_at] == 0):
                raise
            return self.unrestricted_row(int(run[0])), False

    def unrestricted_row(self, state: int) -> Mask:
        """The mask of all actions of a state, for an episode that cannot continue."""
        return _mask(self.space.actions(state), self.space.num_actions)

    def action(self, given: Any, space: Any) -> int:
        """An action as an int, if it is an integer of any type, or an array with a single one."""
        try:
            array = np.asarray(given)
        except ValueError:  # nested sequences of different lengths
            raise no_action(given, space) from None
        if array.size != 1 or array.dtype.kind not in "iu" or not 0 <= array.item() < self.space.num_actions:
            raise no_action(given, space)
        return int(array.item())

    def instead(self, run: Run, action: int, *, was_offered: bool) -> int:
        """The replacement of a forbidden action: the fallback's if allowed, otherwise one with least minimal budget.

        NoSafeAction if forbidden actions are refused, unless this one ``was_offered`` and a learning guard has learned
        from other environments since that it is unsafe.
        """
        if self.forbidden == "raise" and not was_offered:
            raise self._refused(run, action)
        allowed = self.guard.allowed(*run).tolist()
        if self.fallback is not None:
            with contextlib.suppress(NoSafeAction):
                action = int(np.argmax(self.fallback.probabilities(int(run[0]), int(run[1]))))
                if action in allowed:
                    return action
        return self._most_careful(run)

    def _most_careful(self, run: Run) -> int:
        """The first of the actions that the smallest sufficient budget allows."""
        state, remaining, *more = run
        too_little, enough, careful = -1, int(remaining), self.guard.allowed(*run)
        while enough - too_little > 1:
            middle = (too_little + enough) // 2
            try:
                careful, enough = self.guard.allowed(state, middle, *more), middle
            except NoSafeAction:
                too_little = middle
        return int(careful[0])

    def _refused(self, run: Run, action: int) -> NoSafeAction:
        """The error for an action that is not allowed."""
        space, state, remaining = self.space, int(run[0]), int(run[1])
        allowed = ", ".join(space.action_name(a) for a in self.guard.allowed(*run).tolist())
        return NoSafeAction(
            f"{space.action_name(action)} is not allowed at {space.describe_state(state)} with {remaining} left; "
            f"allowed: {allowed}. Sample from info['action_mask'], or pass forbidden='replace'.",
            state=state,
            remaining=remaining,
        )

    # ------------------------------------------------------------------ the ledger

    def count_steps(self, number: int) -> None:
        """Count steps in the ledger; a learning guard does so itself."""
        if not self.learns:
            self.ledger.steps += number

    def note_violation(self, run: Run, action: int, after: int, damage: int) -> None:
        """Record a step whose damage exceeded the remaining budget; a learning guard does so itself."""
        if not self.learns:
            step = self.ledger.steps, int(run[0]), action, int(after)
            self.ledger.note(Violation(*step, int(damage), int(run[1]), allowed=True, new=False))

    def note_error(self, run: Run, action: int, reported: Any) -> int:
        """Record a violation if the reported damage of an impossible step exceeds the remaining budget.

        Returns the damage of the episode, which ends with the step.
        """
        try:
            damage = max(int(reported), 0)
        except (TypeError, ValueError, OverflowError):
            damage = 0
        state, remaining = int(run[0]), int(run[1])
        if damage > remaining:
            step = self.ledger.steps, state, action, NO_STATE
            self.ledger.note(Violation(*step, damage, remaining, allowed=True, new=True))
        return self.budget - remaining + damage


# ---------------------------------------------------------------------- helper functions


def _feasible(guard: Guard, budget: object) -> int:
    """The budget, if it suffices in every initial state; Infeasible otherwise."""
    number = check_budget(budget)
    if isinstance(guard, Shield):
        return require_budget(guard.minimal, number)
    try:
        if isinstance(guard, OnlineShield):
            _check_online(guard, number)
        else:
            guard.begin(guard.space.initial_states.astype(np.int64), number)
    except NoSafeAction as error:
        raise Infeasible(f"a budget of {number} is not enough at the start, as far as is known: {error}") from None
    return number


def _only_ends(space: Space) -> frozenset[int]:
    """The states of an explored environment that were observed only when episodes ended."""
    shown = space.encode.index if isinstance(space.encode, Encode) else {}
    return frozenset(at for state, at in shown.items() if isinstance(state, Ended))


def _check_online(guard: OnlineShield, budget: int) -> None:
    """Raise NoSafeAction if the budget is too small in a known initial state or, if none is known, in all states."""
    starts = np.array(list(guard.starts), np.int64)
    if starts.size:
        guard.mask(starts, budget)
        return
    needs = guard.of_state[: guard.space.num_observed]
    guard.mask(np.array([int(np.argmin(needs))]), budget)


def _mask(allowed: npt.NDArray[Any], num_actions: int) -> Mask:
    mask = np.zeros(num_actions, np.int8)
    mask[allowed] = 1
    return frozen(mask)


def open_ledger(ledger: LedgerOrPath, guard: Guard) -> Ledger:
    """The ledger to use: a learning guard's own, the given one, or a new one."""
    own = guard.ledger if isinstance(guard, OnlineShield) else None
    if isinstance(ledger, Ledger):
        if own is not None and ledger is not own:
            raise ArgumentError("ledger must be the OnlineShield's own Ledger, a path or None; got another Ledger")
        return ledger
    result = Ledger() if own is None else own
    if ledger is None:
        return result
    if not isinstance(ledger, (str, PathLike)):
        raise ArgumentError(f"ledger must be a Ledger or the path of a file; got {ledger!r}")
    return result.record(ledger)


def no_action(action: Any, space: Any) -> ArgumentError:
    """The error for a value that is not an action."""
    return ArgumentError(f"an action must be one of {space}; got {action!r}")
