"""``Shield``: which actions keep the remaining budget.  :mod:`almostsure.shield` has the proof."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import names_right_word, whole
from almostsure.budget.certificate import check_never_too_small
from almostsure.budget.minimal import INFINITE, MinimalBudget, known_budget, read_minimal, write_minimal
from almostsure.errors import ArgumentError
from almostsure.files import file_name, must_hold
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.source import Model, as_model
from almostsure.policy.policy import Policy
from almostsure.shield import checks
from almostsure.shield.feasible import Violation, first_violation
from almostsure.shield.lookups import begins_in, is_one, look_ups, no_safe_action
from almostsure.shield.outcomes import Outcomes
from almostsure.shield.protocol import Run
from almostsure.shield.table import Table, table_of
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.shield.inside import Restricted, Trimmed

CHUNK = 1 << 15  # look-ups that are masked at a time, so that intermediate results stay in the cache


def _no_budget(thing: object) -> ArgumentError:
    """The error that something is not a minimal budget, with what to do instead."""
    remedy = "For a number of steps, use HorizonShield(minimal_budget(mdp, horizon=T))."
    if isinstance(getattr(thing, "shield", None), Shield):
        remedy = "Its shield is its attribute shield."
    return ArgumentError(
        f"minimal must be a MinimalBudget, as in Shield(minimal_budget(mdp)); got {type(thing).__name__}. {remedy}"
    )


@final
class Shield:
    """Allows exactly the actions that keep the remaining budget.

    Parameters
    ----------
    minimal
        The minimal budgets of a model, from :func:`almostsure.minimal_budget`.  If its certificate has not been
        verified, the conditions that suffice for safety are verified here.

    Notes
    -----
    A budget that was solved with a ``cap`` does not distinguish needs above the cap.  Choices with such needs are
    always refused.  That is safe, but stricter than necessary if more than the cap remains.

    Raises
    ------
    ModelMismatch
        If the budget belongs to another model.
    CertificateError
        If the budget of a state or choice is too small.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1],
    ...                              action_names=["left", "right"])
    >>> shield = Shield(asure.minimal_budget(mdp))
    >>> shield.allowed(0, 0), shield.allowed(0, 1)
    (array([1]), array([0, 1]))
    >>> shield.mask([0, 0], [0, 1])
    array([[False,  True],
           [ True,  True]])
    """

    minimal: MinimalBudget
    _outcomes: Outcomes

    carries: ClassVar[tuple[str, ...]] = ("remaining",)
    is_fixed: ClassVar[bool] = True

    def __new__(cls, minimal: Any) -> Any:
        """For the upper budgets of a continuous system, make their shield instead."""
        if not isinstance(minimal, MinimalBudget) and callable(getattr(minimal, "shield", None)):
            return minimal.shield()
        return super().__new__(cls)

    def __init__(self, minimal: MinimalBudget) -> None:
        if not isinstance(minimal, MinimalBudget):
            raise _no_budget(minimal)
        check_never_too_small(minimal)
        vars(self).update(minimal=minimal, _outcomes=Outcomes(minimal.mdp))

    @property
    def mdp(self) -> MDP:
        """The model whose choices it allows or refuses."""
        return self.minimal.mdp

    space = mdp  # the states and actions that it knows

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be changed: a shield is immutable. Build another one.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Shield, (self.minimal,)

    # ------------------------------------------------------------------ look-ups

    @names_right_word
    def allowed(self, state: int | str, remaining: int) -> npt.NDArray[np.int64]:
        """The ids of the safe actions of a state, ascending; there is at least one.

        Parameters
        ----------
        state
            The index or name.
        remaining
            The remaining budget; it may be larger than all needs.

        Raises
        ------
        NoSafeAction
            If ``remaining`` is less than the state needs, or negative (already overspent).
        """
        s, left = self.mdp.state(state), whole("remaining", remaining)
        of_state = self.mdp.choices(s)
        safe = self.minimal.of_choice[of_state.start : of_state.stop] <= min(left, INFINITE - 1)
        if not safe.any():
            self._refuse(s, left)
        return self.mdp.choice_action[of_state.start : of_state.stop][safe].astype(np.int64)

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike) -> Bools:
        """A mask of the safe actions of many states.

        Parameters
        ----------
        states, remaining
            The states (indices, names, or states of the function that made the model) and their remaining budgets;
            either may be one for all.  Indices are fastest.

        Returns
        -------
        array
            Booleans, one row per look-up and one column per action id: [n, num_actions], or for inputs of another
            shape their common shape, then num_actions.  No row is empty.

        Raises
        ------
        NoSafeAction
            If any row would be empty; the message names the first one and counts them.  :meth:`choices` allows empty
            rows.
        """
        s, left, shape = look_ups(self.mdp, states, remaining)
        if s.size <= CHUNK:
            result = self._rows(s, left)
        else:
            result = np.empty((s.size, self.mdp.num_actions), np.bool_)
            for begin in range(0, s.size, CHUNK):
                part = slice(begin, begin + CHUNK)
                result[part] = self._rows(s[part], left[part] if left.ndim else left, s, left)
        return result if len(shape) == 1 else result.reshape(*shape, self.mdp.num_actions)

    def _rows(self, states: Ints, remaining: Ints, *all_of_them: Ints) -> Bools:
        """The rows of a mask for validated look-ups, or for some of them."""
        most = np.minimum(remaining, self._table.highest)
        if np.count_nonzero(self.minimal.of_state.take(states) > most):  # faster than any() for few
            self._refuse_first(*(all_of_them or (states, remaining)))
        return self._table.allows(states, most)

    def choices(self, remaining: int) -> Bools:
        """A mask of the choices of the model that are allowed with ``remaining`` left, [num_choices].

        This is the whole table for one remaining budget.  Unlike other look-ups it includes states without a safe
        action: all choices of a state that needs more than ``remaining`` are False.

        Examples
        --------
        One row per state and one column per action:

        >>> import almostsure as asure
        >>> mdp = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 2], [1] * 3, [1, 0, 0], [1, 0, 2], terminal=[2])
        >>> shield = Shield(asure.minimal_budget(mdp))
        >>> mdp.by_action(shield.choices(1), otherwise=False)
        array([[False, False],
               [False, False],
               [ True, False]])
        """
        left = whole("remaining", remaining)
        allowed: Bools = self.minimal.of_choice <= min(left, INFINITE - 1)
        return allowed

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int) -> Run:
        """The run (state, remaining) that begins in a state with a budget; for an array of states, two arrays.

        Raises
        ------
        NoSafeAction
            If the budget is less than the state needs; the message has the need.
        ArgumentError
            If ``budget`` is negative, fractional, or above the cap of the minimal budget.
        """
        remaining = known_budget(self.minimal, budget)
        states = begins_in(self.mdp, state)
        # A Python integer may be larger than any NumPy one, and no run can spend 2**62.
        left = np.full(states.size, min(remaining, 2**62), np.int64)
        if (self.minimal.of_state[states] > min(remaining, INFINITE - 1)).any():
            self._refuse_first(states, left)
        return (int(states[0]), remaining) if is_one(self.mdp, state) else (states, left)

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, both are arrays.

        Parameters
        ----------
        run
            (state, remaining), from :meth:`begin` or from the last step.
        action, next_state
            Indices: numbers for one run, arrays for many.
        damage
            The damage of the step, one entry per run; None to look it up in the model.

        Raises
        ------
        ModelMismatch
            If the step is impossible in the model.
        ModelError
            If several damages are possible and none is given, or ``damage`` is not an integer 0 … 255.

        Examples
        --------
        >>> import almostsure as asure
        >>> shield = Shield(asure.minimal_budget(asure.example("paper")))
        >>> mdp = shield.mdp
        >>> run = shield.begin(mdp.state("circle"), 1)
        >>> shield.after(run, mdp.action("left"), mdp.state("circle"), 1)
        (0, 0)
        """
        state, remaining = run
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            return next_state, remaining - self._outcomes.damages(state, action, next_state, damage)
        try:
            return next_state, remaining - self._outcomes.known[state, action, next_state, damage, type(damage)]
        except (KeyError, TypeError):  # asked for the first time, or not with plain numbers
            s, a, reached = self.mdp.state(state), self.mdp.action(action), self.mdp.state(next_state)
            return reached, remaining - self._outcomes.damage(s, a, reached, damage)

    # ------------------------------------------------------------------ policies and models inside the shield

    def is_feasible(self, policy: Any, budget: int | None = None) -> bool:
        """Whether a policy never takes more than ``budget`` damage from the initial states (Theorem 1).

        Parameters
        ----------
        policy
            An ``almostsure.Policy``, or the ``Solution`` that has it; a table of actions, [num_states] or
            [budgets, num_states]; a table of probabilities, [num_states, num_actions] or
            [budgets, num_states, num_actions]; a mapping from states or from (state, remaining); or a function of the
            state's index, or of it and the remaining budget.  Functions and mappings return an action or a
            distribution (a mapping from actions, or one number per action).  Entries of terminal states are ignored.
        budget
            The budget at the start; by default the one that the policy carries.
        """
        return self.first_violation(policy, budget) is None

    def first_violation(self, policy: Any, budget: int | None = None) -> Violation | None:
        """The first refused choice that a policy may play, largest remaining budget first; None if there is none.

        It takes the same arguments as :meth:`is_feasible`.  Print the result.
        """
        return first_violation(self.mdp, self.minimal, policy, budget)

    def trim(self, budget: int) -> Trimmed:
        """The model without the states and choices that need more than ``budget``.  See :func:`trim`."""
        from almostsure.shield.inside import trim

        return trim(self.minimal, budget)

    def restrict(self, budget: int) -> Restricted:
        """The model on (state, remaining) with the allowed choices: it cannot be overspent.  See :func:`restrict`."""
        from almostsure.shield.inside import restrict

        return restrict(self.minimal, budget)

    def random_policy(self, budget: int) -> Policy:
        """The random shielded policy: for every remaining budget, all allowed actions are equally likely.

        It never takes more than ``budget`` damage.  It is a baseline that learned and solved policies should beat.

        Raises
        ------
        Infeasible
            If an initial state needs more; ``needed`` is the budget that suffices.
        ArgumentError
            If ``budget`` is negative, fractional, or above the cap of the minimal budget.

        Examples
        --------
        >>> import almostsure as asure
        >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
        >>> policy = Shield(asure.minimal_budget(mdp)).random_policy(2)
        >>> policy.probabilities(0, 2), policy.probabilities(0, 0)
        (array([0.5, 0.5]), array([0., 1.]))
        """
        mdp, budget = self.mdp, checks.require_budget(self.minimal, budget)
        size = 8 * (budget + 1) * mdp.num_choices
        require(size, "the random shielded policy", "Call shield.allowed in every step instead.")
        allowed = np.stack([self.choices(remaining) for remaining in range(budget + 1)]).astype(np.float64)
        counts = np.add.reduceat(allowed, mdp.choice_ptr[:-1].astype(np.int64), axis=1)
        allowed /= np.maximum(counts, 1.0)[:, mdp.choice_states()]
        return Policy(mdp, probability=allowed, budget=budget)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the shield to a safetensors file, atomically.  The model is not part of it."""
        write_minimal(self.minimal, path, kind="shield")

    @classmethod
    def load(cls, path: str | PathLike[str], mdp: Model) -> Shield:
        """Read a shield of ``mdp``.  A file whose budgets are too small anywhere is refused."""
        file_name(path, "Shield.load(path, mdp)")
        minimal = read_minimal(path, as_model(mdp), kind="shield")
        with must_hold(path, "a shield of its model"):
            return cls(minimal)

    def export_numpy(self, path: str | PathLike[str], budget: int | None = None) -> tuple[Path, Path]:
        """Write a Python module and its table, which only need NumPy.

        Parameters
        ----------
        path
            The path of the module, such as ``robot/shield_table.py``; the table is next to it, and ends in ``.npz``.
        budget
            The largest remaining budget that the module accepts.  By default 2³¹ − 2, or the cap.

        Returns
        -------
        tuple
            The two paths.  The module has ``allowed(state, remaining)``, and raises errors as this shield does; its
            ``state_number`` finds a state by its name or by the values of its variables.
        """
        from almostsure.shield.export.budget import export_numpy

        return export_numpy(self, path, budget)

    def export_c(self, path: str | PathLike[str], budget: int | None = None, *, name: str = "almostsure") -> Path:
        """Write a self-contained C99 header with the function ``almostsure_allowed``; its comments explain it.

        ``almostsure_state_named``, and ``almostsure_state`` if there are variables, find the index of a state.

        Parameters
        ----------
        path
            The path of the header.
        budget
            The largest remaining budget that the function accepts.  By default 2³¹ − 2, or the cap.
        name
            The prefix of its names, for programs that include several headers.

        Returns
        -------
        Path
            The path of the header.
        """
        from almostsure.shield.export.budget import export_c

        return export_c(self, path, budget, name=name)

    # ------------------------------------------------------------------ tables and errors

    @cached_property
    def _table(self) -> Table:
        return table_of(self.mdp, self.minimal.of_choice)

    def _refuse_first(self, states: Ints, remaining: Ints) -> NoReturn:
        """Raise NoSafeAction for the first look-up without a safe action, and count them."""
        bad = (remaining < 0) | (self.minimal.of_state[states] > np.minimum(remaining, INFINITE - 1))
        at = int(np.argmax(bad))
        count = f" (the first of {np.count_nonzero(bad):,} such look-ups among {bad.size:,})" if bad.size > 1 else ""
        self._refuse(int(states[at]), int(remaining[at] if remaining.ndim else remaining), count)

    def _refuse(self, state: int, remaining: int, count: str = "") -> NoReturn:
        need = self.minimal.need_in_words(int(self.minimal.of_state[state]))
        why = "no finite budget suffices there" if need == "needs ∞" else f"it {need}"
        raise no_safe_action(self.mdp, state, remaining, why, count=count)

    # ------------------------------------------------------------------ text

    def __repr__(self) -> str:
        values, counts = self._levels()
        never, sums = int(counts[values == INFINITE].sum()), zip(values.tolist(), np.cumsum(counts), strict=True)
        steps = [f"{count:,} with {value} left" for value, count in sums if value < INFINITE]
        steps = steps if len(steps) <= 4 else [*steps[:2], "…", steps[-1]]
        if self.minimal.cap is not None:
            never_why = f"are refused, as they need more than the cap {self.minimal.cap}"
        else:
            never_why = "are never safe" if self.mdp.unknown is None else "are refused: what they need is unknown"
        return (
            f"<Shield: of {counted(counts.sum(), 'choice')} in {counted(self._num_states(), 'state')} it allows\n"
            f"  {', '.join(steps) if steps else 'none'}; {never:,} {never_why}\n"
            f"  {self.minimal.start_in_words()}>"
        )

    def _levels(self) -> tuple[Ints, Ints]:
        """The needs of choices, and the number of choices with each; those of the unknown state are not counted."""
        last = self.mdp.choice_ptr[self._num_states()]
        return np.unique(self.minimal.of_choice[:last], return_counts=True)

    def _num_states(self) -> int:
        return self.mdp.num_states if self.mdp.unknown is None else self.mdp.unknown

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import budget_map, card, levels_table

        values, counts = self._levels()
        levels = dict(zip(values.tolist(), counts.tolist(), strict=True))
        unknown = 0 if self.mdp.unknown is None else levels.pop(INFINITE, 0)
        size = f"{counted(counts.sum(), 'choice')} in {counted(self._num_states(), 'state')}"
        facts = [("model", size), ("start", self.minimal.start_in_words())]
        facts += [("unknown", f"what {unknown:,} of the choices need")] if unknown else []
        table = levels_table("choices become safe with", levels)
        return card("Shield", facts, table, budget_map(self.mdp, self.minimal.of_state))
