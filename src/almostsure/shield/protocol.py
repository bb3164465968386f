"""``Guard``: the interface of every shield.

A *run* is a tuple ``(state, *carried)``: numbers for one run, arrays of equal length for many.  What a guard carries
beside the state is private to it; ``carries`` only names it.  A ``Shield`` carries the remaining budget.  Agents only
need three methods::

    run = guard.begin(state, budget)
    actions = guard.allowed(*run)                            # or guard.mask(*run), for many runs at once
    run = guard.after(run, action, next_state, damage)       # update the run after a step

Safety is a guarantee for all runs that begin like this and only play allowed actions: they never overspend the budget,
and never reach a state where no action is allowed.

A guard whose answers never change may have an attribute ``is_fixed = True``: then wrappers cache its answers.
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
    """The interface of every shield.

    Examples
    --------
    >>> import almostsure as asure
    >>> guard = asure.Shield(asure.minimal_budget("paper"))
    >>> isinstance(guard, Guard), guard.carries
    (True, ('remaining',))
    >>> run = guard.begin(0, 1)  # a run: the state, and what the guard carries
    >>> guard.allowed(*run).tolist(), guard.after(run, 0, 0, 1)
    ([0, 1], (0, 0))
    """

    @property
    def space(self) -> Space:
        """The states and actions that it knows."""

    @property
    def carries(self) -> tuple[str, ...]:
        """The names of what it carries beside the state: ``("remaining",)`` for a shield.

        Names that begin with an underscore come last.  They are internal: wrappers pass them back to the guard, and do
        not show them.
        """

    def begin(self, state: Any, budget: int) -> Run:
        """The run that begins in a state with a budget, or the runs that begin in several states.

        Raises NoSafeAction if no action is safe; the message says how much is needed, if that is known.
        """

    def allowed(self, state: Any, *carried: Any) -> npt.NDArray[np.int64]:
        """The ids of the actions that one run may play, ascending; NoSafeAction if there is none."""

    def mask(self, states: Any, *carried: Any) -> Bools:
        """A mask of the actions that each of many runs may play, [n, num_actions]; NoSafeAction if a run has none."""

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after an action that led to a state and did some damage, or the runs after one action each.

        ``damage`` is what the environment reports, one entry per run, and None without a report.  The guard then finds
        it, or raises ModelError.  It raises ModelMismatch if it knows that the step is impossible.
        """


@runtime_checkable
class Watching(Guard, Protocol):
    """A guard of a continuous system, which checks that each step of an environment is possible in its model."""

    def point(self, observation: Any) -> Sequence[float]:
        """The coordinates that an observation shows."""

    def watch(self, points: Sequence[Sequence[float]], actions: Any, next_points: Sequence[Sequence[float]]) -> None:
        """Raise ModelMismatch unless each action may have led from its point to the next one."""

    def follow(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The same as :meth:`after`, for steps that :meth:`watch` has checked."""

    def unclear(self, budget: int) -> int:
        """The number of states that a run with this budget may enter without knowing whether that does damage."""


@runtime_checkable
class ForSteps(Guard, Protocol):
    """A guard that may be limited to a number of steps; it then carries ``steps_left``."""

    @property
    def horizon(self) -> int | None:
        """The number of steps; None if it is unlimited."""

    def within(self, steps: int) -> Guard:
        """The guard for episodes of at most ``steps`` steps; itself if that is not less than the horizon."""
