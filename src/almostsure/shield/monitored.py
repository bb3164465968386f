"""``MonitoredShield``: a shield of a product, for runs of the model that the product was made of.

An environment shows states of the base model and knows nothing of what a monitor remembers.  This guard tracks it:
a run carries the state of the product beside what remains of the budget.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction
from almostsure.model.mdp import MDP, Bools
from almostsure.model.monitors import ENDED, FORBIDDEN, verdict_of
from almostsure.shield.outcomes import Outcomes
from almostsure.shield.protocol import Run
from almostsure.shield.shield import Shield

NOWHERE = -1


@final
class MonitoredShield:
    """Guards runs of a base model by a shield of its product with a monitor.

    Parameters
    ----------
    shield
        ``Shield(minimal_budget(product(mdp, monitor)))``.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import Steps
    >>> from almostsure.shield import MonitoredShield
    >>> pit = asure.from_transitions([0], [0], [0], [1], [0], [1])  # no finite budget suffices, but 3 do for 3 steps
    >>> shield = MonitoredShield(asure.Shield(asure.minimal_budget(asure.product(pit, Steps(3)))))
    >>> run = shield.begin(0, 3)
    >>> for _ in range(3):
    ...     run = shield.after(run, 0, 0, 1)
    >>> run[1]
    0
    """

    carries = ("remaining", "memory")
    is_fixed = True

    def __init__(self, shield: Shield) -> None:
        origin = shield.mdp.origin if isinstance(shield, Shield) else None
        if origin is None or origin.parts is None:
            raise ArgumentError(
                "a MonitoredShield needs the shield of a product: Shield(minimal_budget(product(mdp, …)))"
            )
        self.shield, self.parts = shield, origin.parts
        base = self.parts.base
        if base.origin is not None and base.origin.parts is not None:
            raise ArgumentError(
                "products of products cannot guard an environment of their base. Let one monitor remember both, or "
                "play in the product itself: to_gymnasium(product)."
            )
        self._outcomes, self._is_over = Outcomes(base), base.is_terminal()
        self._read_letters(base)
        states, memories = self.parts.states.tolist(), self.parts.memories
        kept = dict.fromkeys(m for s, m in zip(states, memories, strict=True) if s != NOWHERE)
        # What is remembered at first has the greatest number; 0 stands for runs in which nothing counts any more.
        self._memories = [None, *reversed(kept)]
        self._code = {memory: code for code, memory in enumerate(self._memories) if code}
        self._place = {
            (s, self._code[m]): at for at, (s, m) in enumerate(zip(states, memories, strict=True)) if s != NOWHERE
        }

    def _read_letters(self, base: MDP) -> None:
        """The letter of each step of the base, by state, action, next state and damage; None where undecided."""
        numbers, self._letters = self.parts.monitor.letters(base)
        choice = base.outcome_choices()
        columns = (base.choice_states()[choice], base.choice_action[choice], base.successor, base.damage, numbers)
        self._letter: dict[tuple[int, ...], int | None] = {}
        for *step, number in zip(*(column.tolist() for column in columns), strict=True):
            same = self._letters[self._letter.get(tuple(step), number) or 0] == self._letters[number]
            known = tuple(step) not in self._letter or self._letter[tuple(step)] == number or same
            self._letter[tuple(step)] = number if known else None

    @property
    def space(self) -> MDP:
        """The states and actions that an environment shows: the base model's."""
        return self.parts.base

    def begin(self, state: Any, budget: int) -> Run:
        """The run (state, remaining, memory) that begins in an initial state; for many states, three arrays."""
        if np.ndim(state) == 0:
            s = self.space.state(state)
            memory = self._code[self.parts.monitor.start]
            if s not in self.space.initial_states:
                raise NoSafeAction(
                    f"runs begin in the initial states of the model; {self.space.describe_state(s)} is not one of "
                    "them. Build the product of a model that starts there.",
                    state=s,
                )
            _, remaining = self.shield.begin(self._at(s, memory), budget)
            return s, remaining, memory
        runs = [self.begin(s, budget) for s in np.asarray(state).tolist()]
        return tuple(np.array(column, np.int64) for column in zip(*runs, strict=True))

    def allowed(self, state: int | str, remaining: int, memory: int) -> npt.NDArray[np.int64]:
        """The ids of the actions that are safe, ascending; there is at least one."""
        s = self.space.state(state)
        if not memory:
            return self.space.actions(s).astype(np.int64)
        return self.shield.allowed(self._at(s, memory), remaining)

    def _at(self, state: int, memory: int) -> int:
        """The state of the product."""
        place = self._place.get((state, memory))
        if place is None:
            raise ModelMismatch(f"{self.space.describe_state(state)} is never reached with memory {memory}")
        return place

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike, memory: npt.ArrayLike) -> Bools:
        """Which actions are safe, for many runs at once: [n, num_actions]."""
        columns = np.broadcast_arrays(*map(np.atleast_1d, (states, remaining, memory)))
        result = np.zeros((columns[0].size, self.space.num_actions), np.bool_)
        for at, run in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            result[at, self.allowed(*run)] = True
        return result

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, arrays of both."""
        state, remaining, memory = run
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            said = [None] * next_state.size if damage is None else np.broadcast_to(damage, next_state.shape).tolist()
            said = [None if d is None or d != d else d for d in said]  # NaN says nothing
            columns = (x.tolist() for x in (state, remaining, memory, action, next_state))
            rows = np.array([self._after(*row) for row in zip(*columns, said, strict=True)], np.int64).reshape(-1, 3)
            return rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy()
        return self._after(
            self.space.state(state), remaining, memory, self.space.action(action), self.space.state(next_state), damage
        )

    def _after(self, state: int, remaining: int, memory: int, action: int, after: int, damage: Any) -> Run:
        told = self._outcomes.damage(state, action, after, damage)  # of the base; it says what is impossible
        if not memory or self._is_over[state]:
            return after, remaining, memory
        letter = self._letter[state, action, after, told]
        if letter is None:
            raise ModelMismatch(
                f"the monitor cannot tell what happened from {self.space.describe_state(state)}, action "
                f"{self.space.action_name(action)}, to {self.space.describe_state(after)} with damage {told}: several "
                "outcomes look alike and count differently."
            )
        verdict, spent = verdict_of(self.parts.monitor.read(self._memories[memory], self._letters[letter]))
        spent = told if spent is None else spent
        if verdict is FORBIDDEN:
            raise NoSafeAction(
                f"{self.space.action_name(action)} at {self.space.describe_state(state)} led to what the monitor "
                "forbids; no shield allows it",
                state=state,
                remaining=remaining,
            )
        return after, remaining - spent, 0 if verdict is ENDED else self._code[verdict]

    def __repr__(self) -> str:
        return f"<MonitoredShield of {self.shield!r}>"


def guard_of(shield: Any) -> Any:
    """What guards an environment: a shield of a product tracks its monitor, others are guards already."""
    origin = shield.mdp.origin if isinstance(shield, Shield) else None
    return shield if origin is None or origin.parts is None else MonitoredShield(shield)
