"""``CellShield``: the shield of a continuous system, for single actions.

It keeps the rests of the patterns that were safe where they began and agree with the actions played since, adds the
patterns that are safe from the current cell, and allows every action that begins one of these.

*Why some action is always allowed.*  A pattern that begins with need q ≤ remaining does at most its own damage d, and
ends in cells that need at most q − d.  So an agent that follows it to the end arrives where some pattern is safe with
the remaining budget; before the end, its rest is in the set.  Other patterns that begin on the way only add actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.evaluate import harms
from almostsure.abstract.enclosure.images import open_cells
from almostsure.abstract.enclosure.inclusion import reachable
from almostsure.abstract.patterns import WORD
from almostsure.abstract.shield.cells import Cells
from almostsure.arguments import and_more, check_budget, whole, whole_array
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, ModelError, ModelMismatch, NoSafeAction
from almostsure.shield.lookups import look_ups
from almostsure.shield.protocol import Run
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction
    from almostsure.abstract.upper import UpperBudget

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
KEPT = 1 << 18  # the most (cell, remaining) whose safe patterns are cached for single runs


@final
class CellShield:
    """Allows the actions that are proved to keep the remaining budget.

    Made by ``Shield(minimal_budget(abstraction))``.  It is a :class:`almostsure.shield.Guard`: runs are (cell,
    remaining) and, with patterns of several steps, a set of begun patterns as whole numbers.

    Parameters
    ----------
    minimal
        Verified upper budgets of an abstraction.
    """

    is_fixed = True

    def __init__(self, minimal: UpperBudget) -> None:
        self.minimal = minimal
        self.space = Cells(minimal.abstraction)
        words = minimal.abstraction.patterns.words
        self.carries: tuple[str, ...] = ("remaining", *(f"_begun{w or ''}" for w in range(words)))
        self._begin_at = lru_cache(KEPT)(self._starts)
        patterns = minimal.abstraction.patterns
        self._moves = [
            [(q, int(patterns.rest_rest[q])) for q in range(len(patterns.rests)) if patterns.rest_first[q] == a]
            for a in range(patterns.num_actions)
        ]  # per action: the rests that it continues, and the rests after it

    @property
    def abstraction(self) -> Abstraction:
        """The continuous system."""
        return self.minimal.abstraction

    def __reduce__(self) -> tuple[Any, ...]:
        return CellShield, (self.minimal,)

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int) -> Run:
        """The run that begins in a cell or at a point with a budget; for arrays of either, the runs.

        Integers are cells, alone or in a list or array; tuples and floats are points.

        Raises
        ------
        NoSafeAction
            Outside the box, and where the budget is not proved to suffice; the message has a remedy.
        """
        remaining, words = check_budget(budget), self.abstraction.patterns.words
        cells = self.space.states(state)
        short = self._needs_of(cells) > remaining
        if short.any():
            self._refuse(int(cells[np.argmax(short)]), remaining, int(short.sum()) - 1)
        if self.space.is_one(state):
            return (int(cells[0]), remaining, *(0 for _ in range(words)))
        none = (np.zeros(cells.size, np.int64) for _ in range(words))
        return (cells, np.full(cells.size, remaining, np.int64), *none)

    def allowed(self, state: Any, remaining: int, *begun: int) -> Ints:
        """The ids of the actions that are allowed in one run, ascending; there is at least one."""
        cell, left = self.space.state(state), whole("remaining", remaining)
        starts, _ = self._begin_at(cell, left)
        bits = _joined(self._words(begun))
        actions = [
            a for a in range(len(self._moves)) if starts >> a & 1 or any(bits >> q & 1 for q, _ in self._moves[a])
        ]
        if not actions or left < 0:
            self._refuse(cell, left, 0)
        return np.array(actions, np.int64)

    def mask(self, states: Any, remaining: Any, *begun: Any) -> Bools:
        """The mask of allowed actions for many runs, [n, num_actions]; raises NoSafeAction if some run has none.

        Parameters
        ----------
        states
            Cells (integers, in a list or array) or points (floats, [n, coordinates]); or one state, as for
            :meth:`allowed`.
        remaining, begun
            The quantities that runs carry, one for all or one per run.
        """
        where, carried, _ = look_ups(self.space, self.space.states(states), remaining)
        s = where.astype(np.int64, copy=False)
        left = np.broadcast_to(carried.astype(np.int64, copy=False), s.shape)
        patterns = self.abstraction.patterns
        masks = patterns.actions(self._safe(s, left), patterns.unpacked(self._words(begun), s.size))
        masks[left < 0] = False
        empty = ~masks.any(axis=1)
        if empty.any():
            at = int(np.argmax(empty))
            self._refuse(int(s[at]), int(left[at]), int(empty.sum()) - 1)
        return masks

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after an action with its next cell or point and its damage; for many runs, arrays.

        Raises
        ------
        ModelMismatch
            If the abstraction excludes this: a cell that the enclosure of the step does not touch, more damage than the
            pattern may do, or the end of a pattern outside the proved cells.
        ModelError
            If the damage is not given and the cell does not determine it.
        """
        following = self.follow(run, action, next_state, damage)
        cells, reached = self.space.states(run[0]), self.space.states(following[0])
        actions = np.atleast_1d(np.asarray(action, np.int64))
        known = np.flatnonzero((cells < self.abstraction.num_cells) & (reached != self.space.end))
        wrong = ~reachable(self.abstraction, cells[known], actions[known], reached[known])
        if wrong.any():
            at = known[np.argmax(wrong)]
            self._mismatch(int(cells[at]), int(actions[at]), int(reached[at]), "which no state of that cell can reach")
        return following

    def follow(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """Like :meth:`after`, without checking that the step is possible: for steps that :meth:`watch` has checked."""
        if not self.space.is_one(run[0]):
            return self._after_many(run, action, self.space.states(next_state), damage)
        left, *begun = run[1:]
        cell, reached, a = self.space.state(run[0]), self.space.state(next_state), self.space.action(action)
        starts, rests = self._begin_at(cell, int(left))
        bits, continued = _joined(begun), rests[a]
        if damage is not None:
            hurt = _damage(damage)
        else:
            unhurt = not left and (starts >> a & 1 or any(bits >> q & 1 for q, _ in self._moves[a]))
            hurt = int(self._known_damage(np.array([cell]), np.array([reached]), np.array([unhurt], np.bool_))[0])
        now = int(left) - hurt
        for q, rest in self._moves[a]:
            if bits >> q & 1 and rest >= 0:
                continued |= 1 << rest
        if now < 0 or not (continued or self._needs_of(np.array([reached]))[0] <= now):
            self._mismatch(cell, a, reached, _why(now))
        return (reached, now, *_split(continued, self.abstraction.patterns.words))

    def _after_many(self, run: Run, action: Any, reached: Ints, damage: Any) -> Run:
        cells, left = self.space.states(run[0]), whole_array("remaining", run[1]).astype(np.int64, copy=False)
        actions = whole_array("action", action).astype(np.int64, copy=False)
        if not cells.shape == left.shape == actions.shape == reached.shape:
            raise ArgumentError(
                f"{counted(cells.size, 'run')} must have one action and one next state each; "
                f"got {actions.size} and {reached.size}"
            )
        if cells.size and not 0 <= actions.min() <= actions.max() < self.space.num_actions:
            self.space.action(int(actions[(actions < 0) | (actions >= self.space.num_actions)][0]))  # raises
        patterns, safe = self.abstraction.patterns, self._safe(cells, left)
        begun = patterns.unpacked(run[2:], cells.size)
        reported, silent = _damages(damage, reached.shape)
        if silent.any():
            allowed = patterns.actions(safe, begun)[np.arange(cells.size), actions]
            reported[silent] = self._known_damage(cells[silent], reached[silent], (allowed & (left == 0))[silent])
        wrong = (reported < 0) | (reported != np.floor(reported))  # NaN too
        if wrong.any():
            raise ModelError(f"damage must be a whole number, 0 or more; got {reported[np.argmax(wrong)]:g}")
        now = left - np.minimum(reported, INFINITE).astype(np.int64)
        bits = patterns.after(safe, begun, actions)
        bad = (now < 0) | ~(bits.any(axis=1) | (self._needs_of(reached) <= now))
        if bad.any():
            at = int(np.argmax(bad))
            self._mismatch(int(cells[at]), int(actions[at]), int(reached[at]), _why(int(now[at])))
        return (reached, now, *patterns.packed(bits))

    # ------------------------------------------------------------------ steps of an environment

    def point(self, observation: Any) -> list[float]:
        """The coordinates of the state of an observation."""
        return self.space.point(observation)

    def watch(self, points: Sequence[Sequence[float]], actions: Any, next_points: Sequence[Sequence[float]]) -> None:
        """Check observed steps of an environment against their enclosures.

        Raises
        ------
        ModelMismatch
            If a next point lies outside; the message names the point, the action and the distance.
        """
        self.abstraction.check_step(points, actions, next_points, observed=True)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the shield's upper budgets; ``UpperBudget.load(path, abstraction).shield()`` reads them."""
        self.minimal.save(path)

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            hint = f" Its policy is exported: shield.minimal.policy().{name}(path)." if name[:7] == "export_" else ""
            raise AttributeError(f"the shield of a continuous system has no {name!r}.{hint}")

    def __repr__(self) -> str:
        return f"<CellShield of {self.abstraction!r}>"

    # ------------------------------------------------------------------ pieces

    def _words(self, begun: tuple[Any, ...]) -> tuple[Any, ...]:
        """The words of begun patterns, checked; by default none has begun."""
        words = self.abstraction.patterns.words
        if not begun:
            return (0,) * words
        if len(begun) != words:
            raise ArgumentError(f"a run carries {', '.join(self.carries)}; got {1 + len(begun)} values")
        return begun

    def _needs_of(self, states: Any) -> Ints:
        """The needs of states: the upper budget of a cell, 0 at the end, and INFINITE for the unknown."""
        known = states < self.abstraction.num_cells
        needs = np.where(states == self.space.end, 0, INFINITE).astype(np.int64)
        needs[known] = self.minimal.of_state[states[known]]
        return needs

    def _safe(self, states: Ints, left: Ints) -> Bools:
        """The mask of the patterns that may begin, [n, patterns]."""
        row = np.where(states < self.abstraction.num_cells, states, 0)
        row = np.where(states < self.abstraction.num_cells, self.minimal.row[row], -1)
        table = self.minimal.needs
        none = np.iinfo(table.dtype).max
        safe: Bools = (
            table[np.maximum(row, 0)] <= np.clip(left, -1, none - 1)[:, None]
            if len(table)
            else np.zeros((len(states), self.abstraction.patterns.count), np.bool_)
        )
        safe &= (row >= 0)[:, None] & (left >= 0)[:, None]
        if self.space.end is not None:
            safe[states == self.space.end] = True
        return safe

    def _starts(self, cell: int, left: int) -> tuple[int, tuple[int, ...]]:
        """The actions that begin a safe pattern, and for each action the rests after it; both as bits."""
        patterns, enough = self.abstraction.patterns, max(min(left, INFINITE), -1)
        safe = self._safe(np.array([cell]), np.array([enough]))[0]
        actions, rests = 0, [0] * patterns.num_actions
        for first, rest in zip(patterns.first[safe].tolist(), patterns.rest[safe].tolist(), strict=True):
            actions |= 1 << first
            if rest >= 0:
                rests[first] |= 1 << rest
        return actions, tuple(rests)

    def unclear(self, budget: int) -> int:
        """The number of cells that may be entered and do not determine the damage of entering them."""
        if self.abstraction.goal is not None or self.abstraction.unsafe is None or not budget:
            return 0
        least, most = self._harms
        return int(np.count_nonzero((least != most) & (self.minimal.of_state <= budget)))

    @cached_property
    def _harms(self) -> list[npt.NDArray[np.uint8]]:
        """The least and the largest damage of entering each cell, [cells] each, if there are unsafe states."""
        cells = self.abstraction.grid.cells
        ends = harms(self.abstraction, open_cells(self.abstraction, 0, cells[0]))
        return [np.broadcast_to(np.minimum(end, 255), cells).reshape(-1).astype(np.uint8) for end in ends]

    def _known_damage(self, cells: Ints, reached: Ints, unhurt: Bools) -> npt.NDArray[np.float64]:
        """The damage of steps, as far as cells determine it; 0 for ``unhurt``, allowed steps with nothing remaining."""
        abstraction = self.abstraction
        if abstraction.goal is not None:
            arrived = np.append(abstraction.goal_cells, [True, False])
            return np.where(arrived[cells], 0.0, 1.0)
        if abstraction.unsafe is None:
            return np.zeros(reached.size)
        at = np.minimum(reached, abstraction.num_cells - 1)
        least, most = (
            np.where(reached < abstraction.num_cells, bound[at], side)
            for bound, side in zip(self._harms, (0, 255), strict=True)
        )
        unclear = (least != most) & ~unhurt
        if unclear.any():
            where = self.space.describe_state(int(reached[np.argmax(unclear)]))
            raise ModelError(
                f"{where} does not determine the damage of entering it; the environment must report it in "
                "info['damage'] or info['cost']. Wrap it in DamageTracker(env, damage)."
            )
        return least.astype(np.float64)

    def _refuse(self, state: int, remaining: int, more: int) -> NoReturn:
        where = self.space.describe_state(state) + and_more(more, "run")
        if remaining < 0:
            why = f"the budget is overspent by {-remaining}."
        elif state == self.space.unknown:
            why = "nothing is known there. Narrow the start, or widen the box."
        elif (need := self._needs_of(np.array([state]))[0]) == INFINITE:
            why = "no budget was proved to suffice there. Narrow the start, use finer cells or longer patterns."
        else:
            why = f"{need} would be needed."
        raise NoSafeAction(
            f"no action is safe at {where} with {remaining} left: {why}", state=state, remaining=remaining
        )

    def _mismatch(self, cell: int, action: int, reached: int, what: str) -> NoReturn:
        raise ModelMismatch(
            f"the environment left the enclosure: from {self.space.describe_state(cell)} the action "
            f"{self.space.action_name(action)} led to {self.space.describe_state(reached)}, {what}. Its dynamics are "
            "not those of the abstraction; abstraction.check_step(state, action, next_state) says by how much."
        )


def _why(now: int) -> str:
    return f"overspent by {-now}" if now < 0 else "where no pattern is safe, and none that has begun continues"


def _damage(value: Any) -> int:
    number = whole("damage", int(value) if isinstance(value, (bool, np.bool_)) else value)
    if number < 0:
        raise ModelError(f"damage must be a whole number, 0 or more; got {number}")
    return number


def _damages(said: Any, shape: tuple[int, ...]) -> tuple[npt.NDArray[np.float64], Bools]:
    """The damages of many steps as numbers, and a mask of those not given (None)."""
    words = np.broadcast_to(np.asarray(said), shape)
    if words.dtype.kind in "biuf":
        return words.astype(np.float64), np.zeros(shape, np.bool_)
    silent = np.array([word is None for word in words], np.bool_)
    return np.array([0 if word is None else _damage(word) for word in words], np.float64), silent


def _joined(words: Any) -> int:
    """Words as one integer of any size."""
    return sum(int(word) << (WORD * w) for w, word in enumerate(words))


def _split(bits: int, words: int) -> tuple[int, ...]:
    return tuple(bits >> (WORD * w) & ((1 << WORD) - 1) for w in range(words))
