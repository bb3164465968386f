"""``Guard``: what watches over a run, whatever it has to remember about it.

A *run* is a tuple ``(state, *carried)``: numbers for one run, arrays of equal length for many.  What a guard carries
beside the state is its own affair; ``carries`` only names it.  A shield carries what remains of the budget.  Whoever
plays under a guard does three things and needs to know no more::

    run = guard.begin(state, budget)
    actions = guard.allowed(*run)                            # or guard.mask(*run), for many runs at once
    run = guard.after(run, action, next_state, damage)       # what happened

Safety is a promise about all runs that begin like this and play only what is allowed: none of them ever overspends its
budget, and none of them ever gets to where nothing is allowed.

A guard whose answers never change may say so, with an attribute ``is_fixed = True``: then wrappers keep its answers
instead of asking again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import Bools
from almostsure.model.space import Space

Run = tuple[Any, ...]  # (state, *carried)


@runtime_checkable
class Guard(Protocol):
    """What is asked of everything that guards a run.

    Examples
    --------
    >>> import almostsure as asure
    >>> guard = asure.Shield(asure.minimal_budget("paper"))
    >>> isinstance(guard, Guard), guard.carries
    (True, ('remaining',))
    >>> run = guard.begin(0, 1)  # a run: the state, and what is carried
    >>> guard.allowed(*run).tolist(), guard.after(run, 0, 0, 1)
    ([0, 1], (0, 0))
    """

    @property
    def space(self) -> Space:
        """The states and actions that it knows."""
        ...

    @property
    def carries(self) -> tuple[str, ...]:
        """The names of what it carries beside the state: ``("remaining",)`` for a shield.

        Names that begin with an underscore come last: they are the guard's own notes, which wrappers hand back to it
        and show to nobody.
        """
        ...

    def begin(self, state: Any, budget: int) -> Run:
        """The run that begins in a state with a budget, or the runs that begin in several states.

        Raises NoSafeAction where nothing is safe; it says what would be needed, where that is known.
        """
        ...

    def allowed(self, state: Any, *carried: Any) -> npt.NDArray[np.int64]:
        """The ids of the actions that one run may play, ascending; NoSafeAction where there is none."""
        ...

    def mask(self, states: Any, *carried: Any) -> Bools:
        """Which actions each of many runs may play, [n, num_actions]; NoSafeAction where some run has none."""
        ...

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after an action that led to a state and did some damage, or the runs after one action each.

        ``damage`` is what the environment says, one entry for each of many runs, and None where it says nothing.  The
        guard then knows it, or raises ModelError.  It raises ModelMismatch where it knows that this cannot happen.
        """
        ...


@runtime_checkable
class Watching(Guard, Protocol):
    """A guard of a continuous system: it compares each step of an environment with what it takes to be possible."""

    def point(self, observation: Any) -> Sequence[float]:
        """The coordinates that an observation shows."""
        ...

    def watch(self, points: Sequence[Sequence[float]], actions: Any, next_points: Sequence[Sequence[float]]) -> None:
        """Raise ModelMismatch unless each action may have led from its point to the next one."""
        ...

    def follow(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The same as :meth:`after`, of steps that :meth:`watch` has compared."""
        ...

    def unclear(self, budget: int) -> int:
        """How many states do not say whether entering them hurts, of those that a run with the budget may enter."""
        ...


@runtime_checkable
class ForSteps(Guard, Protocol):
    """A guard that may be for a number of steps; it then carries ``steps_left``."""

    @property
    def horizon(self) -> int | None:
        """For how many steps it is; None if for any number of them."""
        ...

    def within(self, steps: int) -> Guard:
        """The guard for episodes that end after fewer steps; itself where they do not."""
        ...
