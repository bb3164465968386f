"""``MinimalBudget``: the minimal budgets of a model, with their certificate; and the results that engines return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
"""No finite budget suffices; or, if solved with a cap, none up to the cap."""
NO_CAP = INFINITE - 1
UNKNOWN = "unknown engine"
FEW = 4  # up to this many levels are listed
STORED = ("of_state", "of_choice", "rank")  # the arrays in files


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Needs:
    """The needs of all states and choices of a model; the base of minimal budgets and horizon budgets."""

    mdp: MDP
    of_state: npt.NDArray[np.int32]  # [num_states]
    of_choice: npt.NDArray[np.int32]  # [num_choices]
    cap: int | None = None
    upper_bound: bool = False  # whether the values are upper bounds
    checked: bool = field(default=False, init=False)  # whether the values were verified on construction

    def __post_init__(self) -> None:
        if self.cap is not None and not 0 <= self.cap <= NO_CAP:
            raise ModelError(f"cap must be 0 … {NO_CAP}, or None; got {self.cap}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are made anew, so that their arrays cannot be changed either."""
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return _again, (type(self), parts, self.checked)

    @property
    def limit(self) -> int:
        """The largest budget that is distinguished from ∞: the cap, if there is one."""
        return NO_CAP if self.cap is None else self.cap

    def verified(self) -> Self:
        """Mark the values as verified; for callers that have just verified them."""
        object.__setattr__(self, "checked", True)
        return self

    def of(self, state: int | str | Mapping[str, Any], action: int | str | None = None) -> int:
        """The budget that a state, or one of its actions, needs; INFINITE if no finite budget suffices.

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
        """The least budget that suffices at the start: the largest need of any initial state."""
        return int(self.of_state[self.mdp.initial_states].max())

    # ------------------------------------------------------------------ in words

    @property
    def less_may_do(self) -> bool:
        """Whether a smaller budget may suffice: the values are upper bounds, or some outcomes may be impossible.

        The latter is so if probabilities are intervals, some of which begin at 0.
        """
        return self.upper_bound or self.mdp.origin.is_bound

    def at_most(self, needed: object) -> str:
        """A need, for messages: "at most 3" if less may suffice, "3" otherwise."""
        return f"at most {needed}" if self.upper_bound else self.mdp.origin.at_most(needed)

    def nothing_suffices(self) -> str:
        """The meaning of ``INFINITE``, as a sentence without a full stop."""
        which = "finite budget" if self.cap is None else f"budget up to {self.cap}"
        return f"no {which} {'suffices' if self.mdp.unknown is None else 'is known to suffice'}"

    def need_in_words(self, needed: int) -> str:
        """The predicate of a sentence about a state or choice that needs this budget: "needs 3", "needs ∞"."""
        if needed < INFINITE:
            return f"needs {self.at_most(needed)}"
        if self.cap is not None:
            return f"needs more than the cap {self.cap}{self.mdp.origin.if_positive}"
        if self.mdp.unknown is not None:
            return "may lead to an unobserved state, so what it needs is unknown"
        return f"needs ∞{self.mdp.origin.if_positive}"


def _again(kind: type[Needs], parts: dict[str, Any], checked: bool) -> Needs:
    copied = kind(**parts)
    return copied.verified() if checked else copied


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MinimalBudget(Needs):
    """The minimal budgets k* of a model: the least budget that suffices, for every state and every choice.

    :func:`almostsure.minimal_budget` computes it, :func:`almostsure.check_minimal_budget` verifies it.

    ``INFINITE`` means that no finite budget suffices or, if ``cap`` is not None, none up to the cap.  In a learned
    model it also means that nothing is known: no finite budget is *known* to suffice.

    :func:`almostsure.check_upper` makes one of upper bounds (``upper_bound``): they suffice for a shield, but smaller
    budgets may suffice too.

    Examples
    --------
    >>> import almostsure as asure
    >>> minimal = asure.minimal_budget("quicksand")
    >>> minimal.smallest_budget(), minimal.of("r2c2", "north")
    (2, 4)
    >>> minimal.histogram()[asure.INFINITE]  # states for which no finite budget suffices
    18
    """

    rank: Ints  # [num_states], the certificate: the step at which a state was found to need more
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
        """The initial state that needs the most; the first of several."""
        starts = self.mdp.initial_states
        return int(starts[int(np.argmax(self.of_state[starts]))])

    def unsafe_states(self, budget: int) -> Bools:
        """A mask of the states that have no safe action with ``budget``, [num_states]."""
        return self.of_state > min(known_budget(self, budget), NO_CAP)

    def histogram(self) -> dict[int, int]:
        """The number of states per minimal budget, ascending; the last key may be INFINITE.

        The unknown state of a learned model is not counted.
        """
        values, counts = np.unique(self.of_state[: self.mdp.unknown], return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def explain(
        self, state: int | str | Mapping[str, Any] | None = None, action: int | str | None = None
    ) -> Explanation:
        """How nature forces the damage that a state, or an action of it, needs; by default of the start.

        Print the result, a :class:`almostsure.budget.explain.Explanation`.
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
        """Read a budget of ``mdp``.  Its certificate is not verified; ``check_minimal_budget`` does that."""
        file_name(path, "MinimalBudget.load(path, mdp)")
        return read_minimal(path, as_model(mdp), kind="budget")

    # ------------------------------------------------------------------ text and pictures

    def __repr__(self) -> str:
        kind = "MinimalBudget, an upper bound" if self.upper_bound else "MinimalBudget"
        start, levels, proof = self._in_words()
        return f"<{kind}: {start} ({counted(self.mdp.num_states, 'state')})\n  {levels}\n  {proof}>"

    def _in_words(self) -> tuple[str, str, str]:
        """What the start needs, what the states need, and how this is known."""
        counts = self.histogram()
        stuck = counts.pop(INFINITE, 0)
        above = "∞" if self.cap is None else f"more than {self.cap}"
        if stuck and self.mdp.unknown is not None:
            infinite = f"for {stuck:,} it is unknown"
        else:
            infinite = f"{stuck or 'none'} needs {above}" if stuck <= 1 else f"{stuck:,} need {above}"
        if counts:
            levels = f"states need {_levels_in_words(list(counts))}; {infinite}"
        else:
            levels = f"every state needs {above}" if self.mdp.unknown is None else "what states need is unknown"
        by, proof = "", "verified: never too small"
        if not self.upper_bound:
            by = "solved by the "
            proof = "certificate verified" if self.checked else "certificate not yet verified: check_minimal_budget"
        how = self.mdp.origin.how_found
        return (
            self.start_in_words(),
            levels,
            f"{by}{self.engine}; {proof}{f'; the model was {how}' if how else ''}",
        )

    def start_in_words(self) -> str:
        """What the start needs, as a sentence without a full stop."""
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
        """Draw the minimal budget of each cell of the map; without a map, the number of states per minimal budget."""
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
    """A list of ascending levels as text: a range if they are many or consecutive."""
    first, last = levels[0], levels[-1]
    if len(levels) == 1:
        return str(first)
    if len(levels) > FEW or last - first < len(levels):
        return f"{first} … {last} ({len(levels)} levels)"
    return f"{', '.join(map(str, levels[:-1]))} or {last}"


def write_minimal(minimal: MinimalBudget, path: str | PathLike[str], *, kind: str) -> None:
    """Write ``minimal`` to a file of the given kind ("budget" or "shield")."""
    arrays: dict[str, npt.NDArray[Any]] = {name: getattr(minimal, name) for name in STORED}
    strings = {"cap": "" if minimal.cap is None else str(minimal.cap), "engine": minimal.engine}
    if minimal.upper_bound:
        strings["upper bound"] = "yes"
    save_tensors(path, kind=kind, model=minimal.mdp.fingerprint, arrays=arrays, strings=strings)


def read_minimal(path: str | PathLike[str], mdp: MDP, *, kind: str) -> MinimalBudget:
    """Read the budget of ``mdp`` from a file of the given kind."""
    arrays, strings = load_tensors(path, kind=kind, model=mdp.fingerprint)
    if set(arrays) != set(STORED):
        raise CorruptFile(f"{path!s} must hold of_state, of_choice and rank; got {sorted(arrays)}", path=path)
    with must_hold(path, f"a {kind} of its model"):
        cap, engine = int(strings["cap"]) if strings.get("cap") else None, strings.get("engine", UNKNOWN)
        upper_bound = strings.get("upper bound") == "yes"
        return MinimalBudget(mdp=mdp, cap=cap, engine=engine, upper_bound=upper_bound, **arrays)


def cap_limit(cap: int | None) -> int:
    """The largest budget up to the cap, after validating it."""
    if cap is None:
        return NO_CAP
    if isinstance(cap, bool) or not isinstance(cap, (int, np.integer)) or not 0 <= cap <= NO_CAP:
        raise ArgumentError(f"cap must be an integer 0 … {NO_CAP}, or None; got {cap!r}")
    return int(cap)


def known_budget(minimal: MinimalBudget, budget: object) -> int:
    """``budget`` as an int if it is 0 or more, and at most the cap."""
    number = count("budget", budget, least=0)
    if minimal.cap is not None and number > minimal.cap:
        raise ArgumentError(
            f"budget must be at most the cap {minimal.cap} with which it was solved; got {number}. "
            "Solve again without the cap, or with a larger one."
        )
    return number


# ---------------------------------------------------------------------- results of engines


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Minimal budgets and their certificate, as an engine returns them."""

    of_state: npt.NDArray[np.int32]  # [num_states]
    of_choice: npt.NDArray[np.int32]  # [num_choices]
    rank: Ints  # [num_states], the certificate: the steps at which states died
    cap: int

    def capped(self) -> Answer:
        """Replace values above the cap by INFINITE, in place."""
        if self.cap < NO_CAP:
            for array in (self.of_state, self.of_choice):
                array[array > self.cap] = INFINITE
        return self


class Halted(Exception):
    """An engine was interrupted; ``answer`` is exact up to its cap, or None if no level was complete."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__()
        self.answer = answer
