"""``MonitoredShield``: applies the shield of a product to runs of the base model.

An environment shows states of the base model, without the memory of the monitor.  This guard tracks the memory: a run
carries a number for it, in addition to what the guard of the product carries.  Products of products are tracked too;
their memory is that of all their monitors.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction
from almostsure.model.labels import TRAP
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.products import Parts, edges_of
from almostsure.shield.lookups import begins_in, one_or_many
from almostsure.shield.outcomes import Numbers, Outcomes, once_each, places
from almostsure.shield.protocol import ForSteps, Guard, Run

NOWHERE = -1
UNCLEAR = -2


@final
class MonitoredShield:
    """Guards runs of a base model with the guard of its product with a monitor.

    Parameters
    ----------
    guard
        The shield of a product: ``Shield(minimal_budget(product(mdp, monitor)))``, ``RiskShield(product(…), …)`` or a
        ``HorizonShield``; it may be a product of a product.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import Steps
    >>> from almostsure.shield import MonitoredShield
    >>> pit = asure.from_transitions([0], [0], [0], [1], [0], [1])  # no finite budget suffices, but 3 does for 3 steps
    >>> shield = MonitoredShield(asure.Shield(asure.minimal_budget(asure.product(pit, Steps(3)))))
    >>> run = shield.begin(0, 3)
    >>> for _ in range(3):
    ...     run = shield.after(run, 0, 0, 1)
    >>> run[1]
    0
    """

    def __init__(self, guard: Guard) -> None:
        parts = _parts(guard)
        if parts is None:
            raise ArgumentError(
                "guard must be the guard of a product, such as Shield(minimal_budget(product(mdp, …))); got "
                f"{type(guard).__name__}"
            )
        self.guard, self.is_fixed = guard, bool(getattr(guard, "is_fixed", False))
        self._product: MDP = guard.space  # type: ignore[assignment]  # it has parts
        self._parts = [parts]  # the outermost product first
        while (inner := _parts_of(self._parts[-1].base)) is not None:
            self._parts.append(inner)
        self.space = self._parts[-1].base  # the states and actions that an environment shows
        self._outcomes, self._is_over = Outcomes(self.space), self.space.is_terminal()
        self._number_memories()

    def _number_memories(self) -> None:
        """Number the memories from 1, in descending order; 0 stands for runs that the monitor no longer tracks."""
        memories, root = list(self._parts[0].memories), self._parts[0].states.astype(np.int64)
        for level in self._parts[1:]:
            inner = [level.memories[s] if s >= 0 else None for s in root.tolist()]
            memories = list(zip(memories, inner, strict=True))
            root = np.where(root < 0, NOWHERE, level.states[np.maximum(root, 0)])
        self._root = root  # the base's state of each state of the product
        tracked = np.flatnonzero(self._root >= 0)
        distinct = list(dict.fromkeys(memories[at] for at in tracked.tolist()))
        number_of = {memory: len(distinct) - number for number, memory in enumerate(distinct)}
        self._memory = np.zeros(len(memories), np.int64)  # of each state of the product
        self._memory[tracked] = [number_of[memories[at]] for at in tracked.tolist()]
        self._width = len(distinct) + 1
        keys = self._root[tracked] * self._width + self._memory[tracked]
        order = np.argsort(keys)
        self._keys, self._places = keys[order], tracked[order]

    @property
    def carries(self) -> tuple[str, ...]:
        """The names of what the guard of the product carries, and "memory"."""
        return (*self.guard.carries, "memory")

    @property
    def horizon(self) -> int | None:
        """The number of steps; None if it is unlimited."""
        return self.guard.horizon if isinstance(self.guard, ForSteps) else None

    def within(self, steps: int) -> MonitoredShield:
        """The guard for episodes of at most ``steps`` steps."""
        if not isinstance(self.guard, ForSteps):
            return self
        result = copy(self)
        result.guard = self.guard.within(steps)
        return result

    # ------------------------------------------------------------------ look-ups

    def allowed(self, state: int | str, *carried: Any) -> npt.NDArray[np.int64]:
        """The ids of the actions that are safe, ascending; there is at least one."""
        s, memory = self.space.state(state), carried[-1]
        if not memory:
            return self.space.actions(s).astype(np.int64)
        return self.guard.allowed(int(self._at(np.array([s]), np.array([memory]))[0]), *carried[:-1])

    def mask(self, states: npt.ArrayLike, *carried: npt.ArrayLike) -> Bools:
        """A mask of the safe actions of many runs, [n, num_actions]."""
        s, *rest = np.broadcast_arrays(*map(np.atleast_1d, (states, *carried)))
        result = np.zeros((s.size, self.space.num_actions), np.bool_)
        counts = np.flatnonzero(rest[-1] != 0)
        if counts.size:
            inside = self.guard.mask(self._at(s[counts], rest[-1][counts]), *(column[counts] for column in rest[:-1]))
            result[counts, : inside.shape[1]] = inside
        for at in np.flatnonzero(rest[-1] == 0).tolist():
            result[at, self.space.actions(int(s[at]))] = True
        return result

    def _at(self, states: Ints, memories: Ints) -> Ints:
        """The states of the product with these states of the base and memories."""
        keys = np.asarray(states, np.int64) * self._width + memories
        at, found = places(self._keys, keys)
        wrong = ~found | (np.asarray(memories) >= self._width)
        if wrong.any():
            first = int(np.argmax(wrong))
            where = self.space.describe_state(int(states[first]))
            raise ModelMismatch(f"{where} is never reached with memory {memories[first]}")
        return self._places[at]

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int) -> Run:
        """The run that begins in an initial state; for many states, arrays."""
        starts = self._product.initial_states.astype(np.int64)
        place = dict(zip(self._root[starts].tolist(), starts.tolist(), strict=True))
        states = begins_in(self.space, state)
        missing = next((s for s in states.tolist() if s not in place), None)
        if missing is not None:
            raise NoSafeAction(
                f"runs begin in the initial states of the model; {self.space.describe_state(missing)} is not one of "
                "them. Build the product of a model that starts there.",
                state=missing,
            )
        places = np.array([place[s] for s in states.tolist()], np.int64)
        _, *carried = self.guard.begin(places, budget)
        return one_or_many(self.space, state, states, *carried, self._memory[places])

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, both are arrays."""
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            return self._after(tuple(np.asarray(column) for column in run), action, next_state, damage)
        one = tuple(np.array([x]) for x in (self.space.state(run[0]), *run[1:]))
        reported = None if damage is None else np.array([damage])
        step = np.array([self.space.action(action)]), np.array([self.space.state(next_state)])
        return tuple(column[0].item() for column in self._after(one, *step, reported))

    def _after(self, run: Run, actions: Numbers, after: Numbers, reported: Any) -> Run:
        state, *carried, memory = run
        damages = self._outcomes.damages(state, actions, after, reported)  # of the base; raises at impossible steps
        ahead, kept = [column.copy() for column in carried], memory.copy()
        counts = np.flatnonzero((memory != 0) & ~self._is_over[state])
        if counts.size:
            place = self._at(state[counts], memory[counts])
            target, damage = self._follow(place, actions[counts], after[counts], damages[counts])
            inner = (place, *(column[counts] for column in carried))
            _, *values = self.guard.after(inner, actions[counts], target, damage)
            for column, value in zip(ahead, values, strict=True):
                column[counts] = value
            kept[counts] = self._memory[target]
        return after.astype(np.int64), *ahead, kept

    @cached_property
    def _steps(self) -> list[_Steps]:
        """For each level, innermost first: where steps of the base lead in the product."""
        return [_Steps(parts) for parts in reversed(self._parts)]

    def _follow(self, place: Ints, actions: Ints, after: Ints, damage: Ints) -> tuple[Ints, Ints]:
        """The state of the product after each step of the base, and the damage of the step there."""
        places = [place]  # at each level, outermost first
        for level in self._parts[:-1]:
            places.append(level.states[places[-1]].astype(np.int64))
        target: Ints = after.astype(np.int64)
        seen = damage  # that of the product
        for step, at in zip(self._steps, reversed(places), strict=True):
            target, seen = step.after(at, actions, target, seen)
            if (target == UNCLEAR).any():
                first = int(np.argmax(target == UNCLEAR))
                raise ModelMismatch(
                    f"the monitor cannot tell what happened from {self._described(place[first])}, "
                    f"action {self.space.action_name(int(actions[first]))}, to "
                    f"{self.space.describe_state(int(after[first]))} with damage {int(damage[first])}: several "
                    "outcomes look alike, but change the monitor differently."
                )
        model = self._product
        trapped = model.labels[TRAP][target] if TRAP in model.labels else np.zeros(target.size, np.bool_)
        if trapped.any():
            first = int(np.argmax(trapped))
            raise NoSafeAction(
                f"{self.space.action_name(int(actions[first]))} at {self._described(place[first])} led to a state that "
                "the monitor forbids; no shield allows it",
                state=int(self._root[place[first]]),
            )
        return target, seen

    def _described(self, place: int) -> str:
        return self.space.describe_state(int(self._root[place]))

    def __repr__(self) -> str:
        return f"<MonitoredShield of {self.guard!r}>"


class _Steps:
    """A sorted table of the steps of a base, and where each leads in its product."""

    def __init__(self, parts: Parts) -> None:
        self.base, (source, outcome, target, damage) = parts.base, edges_of(parts)
        action = self.base.choice_action[self.base.outcome_choices()[outcome]]
        numbers = self._numbers(source, action, self.base.successor[outcome], self.base.damage[outcome])
        columns = target.astype(np.int64), damage.astype(np.int64)
        self.number, (target, self.damage), clear = once_each(numbers, *columns)
        self.target = np.where(clear, target, UNCLEAR)  # states of the product

    def after(self, place: Ints, actions: Ints, after: Ints, damage: Ints) -> tuple[Ints, Ints]:
        """The states of the product that steps lead to, and their damages."""
        at, found = places(self.number, self._numbers(place, actions, after, damage))
        return np.where(found, self.target[at], UNCLEAR), self.damage[at]

    def _numbers(self, place: Ints, action: Ints, after: Ints, damage: Ints) -> Numbers:
        number = np.asarray(place, np.int64) * self.base.num_actions + action
        return (number * self.base.num_states + after) * 256 + damage


def _parts_of(space: Any) -> Parts | None:
    return space.origin.parts if isinstance(space, MDP) else None


def _parts(guard: Any) -> Parts | None:
    return None if isinstance(guard, MonitoredShield) else _parts_of(getattr(guard, "space", None))


def guard_of(guard: Any, shown: Any = None) -> Any:
    """The guard for an environment of the model ``shown``: the guard of a product of it, made to track the monitor."""
    if _parts(guard) is None or (isinstance(shown, MDP) and shown == guard.space):
        return guard
    return MonitoredShield(guard)
