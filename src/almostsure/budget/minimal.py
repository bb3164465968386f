"""``MinimalBudget``: what every state and every choice needs, with the proof of it; and what engines hand over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from almostsure.arguments import count
from almostsure.budget.certificate import show
from almostsure.errors import ArgumentError, CorruptFile, ModelError
from almostsure.files import file_name, load_tensors, must_hold, save_tensors
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.source import Model, as_model
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.budget.explain import Explanation
    from almostsure.plots import Axes

INFINITE = 2**31 - 1
"""No finite budget suffices; or, in a budget that was solved with a cap, none up to the cap."""
NO_CAP = INFINITE - 1
UNKNOWN = "unknown engine"
FEW = 4  # levels that are listed
STORED = ("of_state", "of_choice", "rank")  # in files


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Needs:
    """What every state and every choice of a model needs."""

    mdp: MDP
    of_state: npt.NDArray[np.int32]  # [num_states]
    of_choice: npt.NDArray[np.int32]  # [num_choices]
    cap: int | None = None
    upper_bound: bool = False  # whether the values were given as upper bounds, instead of what is needed itself
    checked: bool = field(default=False, init=False)  # whether these very numbers were verified when they were made

    def __post_init__(self) -> None:
        if self.cap is not None and not 0 <= self.cap <= NO_CAP:
            raise ModelError(f"cap must be 0 … {NO_CAP}, or None; got {self.cap}")

    @property
    def limit(self) -> int:
        """The largest budget that is told apart from ∞: the cap, if there is one."""
        return NO_CAP if self.cap is None else self.cap

    def verified(self) -> Self:
        """Mark this as verified; for code that has just verified it."""
        object.__setattr__(self, "checked", True)
        return self

    def of(self, state: int | str | Mapping[str, Any], action: int | str | None = None) -> int:
        """What a state needs, or what one of its actions needs; INFINITE if nothing suffices.

        Examples
        --------
        >>> import almostsure as asure
        >>> minimal = asure.minimal_budget(asure.example("paper"))
        >>> minimal.of("circle", "left"), minimal.of("circle")
        (1, 0)
        """
        if action is None:
            return int(self.of_state[self.mdp.state(state)])
        return int(self.of_choice[self.mdp.choice(state, action)])

    def smallest_budget(self) -> int:
        """The least budget from which safety is possible at the start: the worst of the initial states decides."""
        return int(self.of_state[self.mdp.initial_states].max())

    # ------------------------------------------------------------------ in words

    @property
    def less_may_do(self) -> bool:
        """Whether a smaller budget may suffice: these are upper bounds, or an outcome of the model may be impossible.

        That is so where probabilities are intervals of which some begin at 0.
        """
        return self.upper_bound or self.mdp.origin.is_bound

    def at_most(self, needed: object) -> str:
        """What is needed, as messages show it: "at most 3" where less may do, "3" elsewhere."""
        return f"at most {needed}" if self.upper_bound else self.mdp.origin.at_most(needed)

    def nothing_suffices(self) -> str:
        """What is said where ``INFINITE`` stands, as a sentence without its full stop."""
        which = "finite budget" if self.cap is None else f"budget up to {self.cap}"
        return f"no {which} {'suffices' if self.mdp.unknown is None else 'is known to suffice'}"

    def need_in_words(self, needed: int) -> str:
        """What follows "this state" or "this choice" where that needs so much."""
        if needed < INFINITE:
            return f"needs {self.at_most(needed)}"
        if self.cap is not None:
            return f"needs more than the cap {self.cap}{self.mdp.origin.if_positive}"
        if self.mdp.unknown is not None:
            return "may lead to what was never seen, so that what it needs is unknown"
        return f"needs ∞{self.mdp.origin.if_positive}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MinimalBudget(Needs):
    """The minimal budgets k* of a model: how much damage must be affordable, state by state.

    Made by :func:`almostsure.minimal_budget`; verified by :func:`almostsure.check_minimal_budget`.

    ``INFINITE`` stands where no finite budget suffices or, if ``cap`` is not None, where none up to the cap does.  In a
    learned model it also stands where nothing is known: no finite budget is *known* to suffice.

    :func:`almostsure.check_upper` makes one of upper bounds instead (``upper_bound``): they are enough for a shield,
    and nothing proves that less would not do.

    Examples
    --------
    >>> import almostsure as asure
    >>> minimal = asure.minimal_budget("quicksand")
    >>> minimal.smallest_budget(), minimal.of("r2c2", "north")
    (2, 4)
    >>> minimal.histogram()[asure.INFINITE]  # states for which no finite budget suffices
    18
    """

    rank: Ints  # [num_states] the certificate: the step at which a state was found to need more
    engine: str = UNKNOWN

    def __post_init__(self) -> None:
        for name, size in (
            ("of_state", self.mdp.num_states),
            ("of_choice", self.mdp.num_choices),
            ("rank", self.mdp.num_states),
        ):
            array = getattr(self, name)
            if array.shape != (size,) or array.dtype.kind != "i":
                raise ModelError(f"{name} must be {size} integers; got {array.dtype} of shape {array.shape}")
            array.flags.writeable = False
        Needs.__post_init__(self)

    # ------------------------------------------------------------------ questions

    def worst_start(self) -> int:
        """The initial state that needs the most, the first of several."""
        starts = self.mdp.initial_states
        return int(starts[int(np.argmax(self.of_state[starts]))])

    def unsafe_states(self, budget: int) -> Bools:
        """Which states are unsafe with ``budget``: no action of theirs is safe, [num_states]."""
        return self.of_state > min(known_budget(self, budget), NO_CAP)

    def histogram(self) -> dict[int, int]:
        """How many states need which budget, ascending; the last key may be INFINITE.  The unknown does not count."""
        values, counts = np.unique(self.of_state[: self.mdp.unknown], return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def explain(
        self, state: int | str | Mapping[str, Any] | None = None, action: int | str | None = None
    ) -> Explanation:
        """Why a state (or an action of it) needs what it needs: how nature forces the damage; by default the start.

        See :class:`almostsure.budget.explain.Explanation`; print it.
        """
        from almostsure.budget.explain import explain

        if self.upper_bound:
            raise ArgumentError("an upper bound cannot be explained: nothing forces it. Use minimal_budget(mdp).")
        return explain(self, self.worst_start() if state is None else state, action)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the budget and its certificate to a safetensors file, atomically."""
        write_minimal(self, path, kind="budget")

    @classmethod
    def load(cls, path: str | PathLike[str], mdp: Model) -> MinimalBudget:
        """Read a budget of ``mdp``.  Its certificate is not verified by reading it: use ``check_minimal_budget``."""
        file_name(path, "MinimalBudget.load(path, mdp)")
        return read_minimal(path, as_model(mdp), kind="budget")

    # ------------------------------------------------------------------ for people

    def __repr__(self) -> str:
        kind = "MinimalBudget, an upper bound" if self.upper_bound else "MinimalBudget"
        start, levels, proof = self._in_words()
        return f"<{kind}: {start} ({counted(self.mdp.num_states, 'state')})\n  {levels}\n  {proof}>"

    def _in_words(self) -> tuple[str, str, str]:
        """What the start needs, what the states need, and how that is known."""
        counts = self.histogram()
        stuck = counts.pop(INFINITE, 0)
        levels = _levels_in_words(list(counts)) if counts else "nowhere a finite budget"
        above = "∞" if self.cap is None else f"more than {self.cap}"
        if stuck and self.mdp.unknown is not None:
            infinite = f"for {stuck:,} it is unknown"
        else:
            infinite = f"{stuck or 'none'} needs {above}" if stuck <= 1 else f"{stuck:,} need {above}"
        by, proof = "", "verified: never too small"
        if not self.upper_bound:
            by = "solved by the "
            proof = "certificate verified" if self.checked else "certificate not yet verified: check_minimal_budget"
        how = self.mdp.origin.how_found
        return (
            self.start_in_words(),
            f"states need {levels}; {infinite}",
            f"{by}{self.engine}; {proof}{f'; the model was {how}' if how else ''}",
        )

    def start_in_words(self) -> str:
        """What the start needs, as a sentence without its full stop."""
        budget = self.smallest_budget()
        if budget < INFINITE:
            return f"the start needs a budget of {self.at_most(self.mdp.show_damage(budget))}"
        if self.cap is None and self.mdp.unknown is not None:
            return "what the start needs is unknown"
        return f"{self.nothing_suffices()} at the start{self.mdp.origin.if_positive}"

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import budget_map, card, levels_table

        counts = levels_table("states need", self.histogram())
        facts = list(zip(("start", "levels", "proof"), self._in_words(), strict=True))
        return card("MinimalBudget", facts, counts, budget_map(self.mdp, self.of_state))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what each cell of the map needs, or how many states need how much where there is no map."""
        if self.mdp.layout is not None:
            from almostsure.model.show.plot import plot_map

            return plot_map(self.mdp, ax, [show(need) for need in self.of_state], "minimal budgets")
        from almostsure.plots import axes_for, tidy

        counts, axes = self.histogram(), axes_for(ax, 6.0, 3.5)
        axes.bar([show(need) for need in counts], list(counts.values()), color="#1b6ca8")
        axes.set_xlabel("minimal budget")
        axes.set_ylabel("states")
        tidy(axes)
        return axes


def _levels_in_words(levels: list[int]) -> str:
    """Different budgets, ascending: all of them where some are left out between a few."""
    first, last = levels[0], levels[-1]
    if len(levels) == 1:
        return str(first)
    if len(levels) > FEW or last - first < len(levels):
        return f"{first} … {last} ({len(levels)} levels)"
    return f"{', '.join(map(str, levels[:-1]))} or {last}"


def write_minimal(minimal: MinimalBudget, path: str | PathLike[str], *, kind: str) -> None:
    """Write a file of the given kind ("budget" or "shield") that holds ``minimal``."""
    arrays: dict[str, npt.NDArray[Any]] = {name: getattr(minimal, name) for name in STORED}
    strings = {"cap": "" if minimal.cap is None else str(minimal.cap), "engine": minimal.engine}
    if minimal.upper_bound:
        strings["upper bound"] = "yes"
    save_tensors(path, kind=kind, model=minimal.mdp.fingerprint, arrays=arrays, strings=strings)


def read_minimal(path: str | PathLike[str], mdp: MDP, *, kind: str) -> MinimalBudget:
    """The budget in a file of the given kind that belongs to ``mdp``."""
    arrays, strings = load_tensors(path, kind=kind, model=mdp.fingerprint)
    if set(arrays) != set(STORED):
        raise CorruptFile(f"{path!s} must hold of_state, of_choice and rank; got {sorted(arrays)}", path=path)
    with must_hold(path, f"a {kind} of its model"):
        cap, engine = int(strings["cap"]) if strings.get("cap") else None, strings.get("engine", UNKNOWN)
        upper_bound = strings.get("upper bound") == "yes"
        return MinimalBudget(mdp=mdp, cap=cap, engine=engine, upper_bound=upper_bound, **arrays)


def cap_limit(cap: int | None) -> int:
    """The largest budget that a cap lets through."""
    if cap is None:
        return NO_CAP
    if isinstance(cap, bool) or not isinstance(cap, (int, np.integer)) or not 0 <= cap <= NO_CAP:
        raise ArgumentError(f"cap must be an integer 0 … {NO_CAP}, or None; got {cap!r}")
    return int(cap)


def known_budget(minimal: MinimalBudget, budget: object) -> int:
    """``budget`` as an int that is 0 or more and within what the budget knows."""
    number = count("budget", budget, least=0)
    if minimal.cap is not None and number > minimal.cap:
        raise ArgumentError(
            f"budget must be at most the cap {minimal.cap} with which the budget was solved; got {number}. "
            "Solve again without the cap, or with a larger one."
        )
    return number


# ---------------------------------------------------------------------- between engines and results


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Minimal budgets and their certificate."""

    of_state: npt.NDArray[np.int32]  # [num_states]
    of_choice: npt.NDArray[np.int32]  # [num_choices]
    rank: Ints  # [num_states] steps at which states were found bad; they make the answer provable
    cap: int

    def capped(self) -> Answer:
        """Everything above the cap reads INFINITE.  Changes the arrays in place."""
        if self.cap < NO_CAP:
            for array in (self.of_state, self.of_choice):
                array[array > self.cap] = INFINITE
        return self


class Halted(Exception):
    """An engine was interrupted; ``answer`` is exact up to its cap, None if nothing is."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__()
        self.answer = answer
