"""``HorizonShield``: a shield for a number of steps, for models in which no budget suffices indefinitely.

With t steps and a budget of K left, an action is allowed if k_t(s, a) ≤ K (:mod:`almostsure.budget.horizon`).  After
any outcome K − d ≥ v_{t−1}(s'), so at s' some action is allowed again with one step less, and the budget is not
overspent before the steps are over.  It is the least restrictive shield for this many steps, as in Theorem 1.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, names_right_word, whole, whole_array
from almostsure.budget.certificate import check_never_too_small_within
from almostsure.budget.horizon import HorizonBudget, read_within, write_within
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError
from almostsure.files import file_name, must_hold
from almostsure.model.arrays import owners, spans
from almostsure.model.mdp import Bools, Ints
from almostsure.model.source import Model, as_model
from almostsure.shield.lookups import (
    begins_in,
    check_goes_on,
    check_states,
    check_steps_left,
    indices,
    no_safe_action,
    one_or_many,
)
from almostsure.shield.outcomes import Outcomes
from almostsure.shield.protocol import Run
from almostsure.wording import counted


@final
class HorizonShield:
    """Allows the actions that do not overspend the budget within the steps of a horizon.

    Parameters
    ----------
    minimal
        The result of ``minimal_budget(mdp, horizon=T)``.  One from another source is first verified as far as safety
        depends on it.

    Raises
    ------
    CertificateError
        If the budget of a state is too small.

    Examples
    --------
    A pit that is never left does damage in every second step: no finite budget suffices, but 5 does for 10 steps.

    >>> import almostsure as asure
    >>> from almostsure.shield import HorizonShield
    >>> pit = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 1])
    >>> shield = HorizonShield(asure.minimal_budget(pit, horizon=10))
    >>> run = shield.begin(0, 5)
    >>> run, shield.allowed(*run)
    ((0, 5, 10), array([0]))
    >>> shield.after(run, 0, 1)
    (1, 5, 9)
    """

    carries = ("remaining", "steps_left")
    is_fixed = True

    def __init__(self, minimal: HorizonBudget) -> None:
        if not isinstance(minimal, HorizonBudget):
            raise ArgumentError(
                "minimal must be a HorizonBudget, as minimal_budget(mdp, horizon=T) returns; got "
                f"{type(minimal).__name__}. Without a horizon, use Shield(minimal_budget(mdp))."
            )
        if not minimal.checked:
            check_never_too_small_within(minimal)
        self.minimal, self.horizon = minimal, minimal.horizon
        self.mdp = self.space = minimal.mdp
        rises = minimal.rises
        self._scale = max(minimal.horizon, int(rises.step.max(initial=0))) + 1
        self._keys = owners(rises.ptr).astype(np.int64) * self._scale + rises.step
        self._outcomes = Outcomes(minimal.mdp)

    def within(self, steps: int) -> HorizonShield:
        """The shield for episodes of at most ``steps`` steps, which allows more if that is less than the horizon."""
        return self if steps >= self.horizon else HorizonShield(self.minimal.at(steps))

    # ------------------------------------------------------------------ look-ups

    @names_right_word
    def allowed(self, state: int | str, remaining: int, steps_left: int) -> npt.NDArray[np.int64]:
        """The ids of the actions that are safe for the steps that are left, ascending.

        Raises
        ------
        NoSafeAction
            If there is none, or no step is left: the shield guarantees nothing beyond the horizon.
        """
        s, left = self.mdp.state(state), min(whole("remaining", remaining), INFINITE)
        row = self.mask(np.array([s]), np.array([left]), np.array([whole("steps_left", steps_left)]))[0]
        return np.flatnonzero(row)

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike, steps_left: npt.ArrayLike) -> Bools:
        """A mask of the safe actions of many runs, [n, num_actions].  No row is empty."""
        states = indices(self.mdp, states)
        given = (
            whole_array(n, x) for n, x in (("states", states), ("remaining", remaining), ("steps_left", steps_left))
        )
        s, left, steps = np.broadcast_arrays(*map(np.atleast_1d, given))
        check_states(self.mdp, s)
        check_steps_left(self.mdp, s, left, steps, self.horizon)
        if steps.max(initial=0) > self.horizon:
            raise ArgumentError(f"steps_left must be at most the horizon {self.horizon}; got {steps.max()}")
        choices, owner = spans(self.mdp.choice_ptr, s)
        safe = self._needed(choices, steps[owner]) <= np.minimum(left[owner], INFINITE - 1)
        result = np.zeros((s.size, self.mdp.num_actions), np.bool_)
        result[owner, self.mdp.choice_action[choices]] = safe
        empty = ~result.any(axis=1)
        if empty.any():
            at = int(np.argmax(empty))
            self._refuse(int(s[at]), int(left[at]), int(steps[at]))
        return result

    def _needed(self, choices: Ints, steps: Ints) -> Ints:
        """k_t of each choice; 0 with no steps left."""
        mdp = self.mdp
        outcome, owner = spans(mdp.outcome_ptr, choices)
        first = np.searchsorted(owner, np.arange(choices.size))
        cost = mdp.damage[outcome] + self._values(mdp.successor[outcome], steps[owner] - 1)
        needed = np.where(steps > 0, np.maximum.reduceat(np.minimum(cost, INFINITE), first), 0)
        return np.where(needed > self.minimal.limit, INFINITE, needed)

    def _values(self, states: Ints, steps: Ints) -> Ints:
        """v_t of each state."""
        rises = self.minimal.rises
        at = np.searchsorted(self._keys, states.astype(np.int64) * self._scale + np.maximum(steps, 0), side="right") - 1
        if not rises.value.size:
            return np.zeros(states.size, np.int64)
        return np.where(at >= rises.ptr[states], rises.value[np.maximum(at, 0)], 0).astype(np.int64)

    def _refuse(self, state: int, remaining: int, steps: int) -> NoReturn:
        need = int(self._values(np.array([state]), np.array([steps]))[0])
        nothing = f"{self.minimal.nothing_suffices()}{self.mdp.origin.if_positive}"
        why = nothing if need >= INFINITE else f"it {self.minimal.need_in_words(need)}"
        raise no_safe_action(self.mdp, state, remaining, why, during=f" for {counted(steps, 'step')}")

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int) -> Run:
        """The run (state, remaining, steps left) that begins in a state; for an array of states, three arrays."""
        remaining = check_budget(budget)
        states = begins_in(self.mdp, state)
        left, steps = np.full(states.size, remaining, np.int64), np.full(states.size, self.horizon, np.int64)
        short = self._values(states, steps) > remaining
        if short.any():
            self._refuse(int(states[np.argmax(short)]), remaining, self.horizon)
        return one_or_many(self.mdp, state, states, left, steps)

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, both are arrays.  See ``Shield.after``."""
        state, remaining, steps = run
        check_goes_on(steps)
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            spent: Any = self._outcomes.damages(state, action, next_state, damage)
        else:
            state, action, next_state = self.mdp.state(state), self.mdp.action(action), self.mdp.state(next_state)
            spent = self._outcomes.damage(state, action, next_state, damage)
        return next_state, remaining - spent, steps - 1

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the shield to a safetensors file, atomically.  The model is not part of it."""
        write_within(self.minimal, path, kind="horizon shield")

    @classmethod
    def load(cls, path: str | PathLike[str], mdp: Model) -> HorizonShield:
        """Read a shield of ``mdp``.  A file whose budgets are too small anywhere is refused."""
        file_name(path, "HorizonShield.load(path, mdp)")
        minimal = read_within(path, as_model(mdp), kind="horizon shield")
        with must_hold(path, "a horizon shield of its model"):
            return cls(minimal)

    def export_numpy(self, path: str | PathLike[str]) -> tuple[Path, Path]:
        """Write a Python module and its table, which only need NumPy.

        It has ``allowed(state, remaining, steps_left)``.  Returns both paths; see :meth:`Shield.export_numpy`.
        """
        from almostsure.shield.export.horizon import export_numpy

        return export_numpy(self, path)

    def export_c(self, path: str | PathLike[str], *, name: str = "almostsure") -> Path:
        """Write a self-contained C99 header; its comments explain it.  See :meth:`Shield.export_c`."""
        from almostsure.shield.export.horizon import export_c

        return export_c(self, path, name=name)

    def __repr__(self) -> str:
        return f"<HorizonShield: for {counted(self.minimal.horizon, 'step')}; {self.minimal.in_words()}>"
