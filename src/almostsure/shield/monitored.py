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

    def __init__(self, shield: Shield) -> None:
        origin = shield.mdp.origin if isinstance(shield, Shield) else None
        if origin is None or origin.parts is None:
            raise ArgumentError(
                "a MonitoredShield needs the shield of a product: Shield(minimal_budget(product(mdp, …)))"
            )
        self.shield, self.parts = shield, origin.parts
        model, states = shield.mdp, self.parts.states.tolist()
        self._outcomes = Outcomes(self.parts.base)
        number: dict[Any, int] = {}
        for state, memory in zip(states, self.parts.memories, strict=True):
            if state != NOWHERE:
                number.setdefault(memory, len(number))
        # What is remembered at first has the greatest number, and 0 stands for runs in which nothing counts any more.
        codes = [
            0 if s == NOWHERE else len(number) - number[m] for s, m in zip(states, self.parts.memories, strict=True)
        ]
        self._code, self._place = codes, {(s, c): i for i, (s, c) in enumerate(zip(states, codes, strict=True))}
        self._start: dict[int, int] = {states[s]: s for s in model.initial_states.tolist()}
        choice = model.outcome_choices()
        columns = (model.choice_states()[choice], model.choice_action[choice], model.successor, model.damage)
        self._next: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for s, a, t, d in zip(*(column.tolist() for column in columns), strict=True):
            self._next.setdefault((s, a, states[t]), []).append((t, d))

    @property
    def space(self) -> MDP:
        """The states and actions that an environment shows: the base model's."""
        return self.parts.base

    def begin(self, state: Any, budget: int) -> Run:
        """The run (state, remaining, memory) that begins in an initial state; for many states, three arrays."""
        if np.ndim(state) == 0:
            s = self.space.state(state)
            place, remaining = self.shield.begin(self._initial(s), budget)
            return s, remaining, self._code[place]
        runs = [self.begin(s, budget) for s in np.asarray(state).tolist()]
        return tuple(np.array(column, np.int64) for column in zip(*runs, strict=True))

    def _initial(self, state: int) -> int:
        if state not in self._start:
            raise NoSafeAction(
                f"runs begin in the initial states of the model; {self.space.describe_state(state)} is not one of "
                "them. Build the product of a model that starts there.",
                state=state,
            )
        return self._start[state]

    def allowed(self, state: int | str, remaining: int, memory: int) -> npt.NDArray[np.int64]:
        """The ids of the actions that are safe, ascending; there is at least one."""
        return self.shield.allowed(self._at(self.space.state(state), memory), remaining)

    def _at(self, state: int, memory: int) -> int:
        """The state of the product."""
        place = self._place.get((state if memory else NOWHERE, memory))
        if place is None:
            raise ModelMismatch(f"{self.space.describe_state(state)} is never reached with memory {memory}")
        return place

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike, memory: npt.ArrayLike) -> Bools:
        """Which actions are safe, for many runs at once: [n, num_actions]."""
        pairs = zip(np.ravel(states).tolist(), np.ravel(memory).tolist(), strict=True)
        return self.shield.mask(np.array([self._at(s, m) for s, m in pairs]), np.ravel(remaining))

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, arrays of both."""
        state, remaining, memory = run
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            said = [None] * next_state.size if damage is None else np.broadcast_to(damage, next_state.shape).tolist()
            said = [None if d is None or d != d else d for d in said]  # NaN says nothing
            columns = (x.tolist() for x in (state, remaining, memory, action, next_state))
            rows = [self._after(*row) for row in zip(*columns, said, strict=True)]
            return tuple(np.array(column, np.int64) for column in zip(*rows, strict=True))
        return self._after(
            self.space.state(state), remaining, memory, self.space.action(action), self.space.state(next_state), damage
        )

    def _after(self, state: int, remaining: int, memory: int, action: int, after: int, damage: Any) -> Run:
        told = self._outcomes.damage(state, action, after, damage)  # of the base; it says what is impossible
        here = self._at(state, memory)
        if not memory:
            return after, remaining, 0
        found = self._next.get((here, action, after)) or self._next.get((here, action, NOWHERE), [])
        places = {place for place, _ in found}
        if len(places) > 1:  # the base's damage tells them apart
            places = {place for place, _ in found if (place, told) in found}
        if len(places) != 1:
            raise ModelMismatch(
                f"the monitor cannot tell what it remembers after {self.space.describe_state(state)}, action "
                f"{self.space.action_name(action)}, led to {self.space.describe_state(after)} with damage {told}."
            )
        place = places.pop()
        spent = [d for target, d in found if target == place]
        return after, remaining - (told if told in spent else max(spent)), self._code[place]

    def __repr__(self) -> str:
        return f"<MonitoredShield of {self.shield!r}>"


def guard_of(shield: Any) -> Any:
    """What guards an environment: a shield of a product tracks its monitor, others are guards already."""
    origin = shield.mdp.origin if isinstance(shield, Shield) else None
    return shield if origin is None or origin.parts is None else MonitoredShield(shield)
