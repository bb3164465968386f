"""Monitors: memory for models.  ``product(mdp, monitor)`` is the model whose states carry what a monitor remembers.

Much that seems to need another kind of model needs memory only: a second budget, a tank that is refilled, "never B
before A", a number of steps.  A *monitor* has a start and a function

    step(memory, state, action, next_state, damage, labels) → memory
                                                            → (memory, another damage)
                                                            → FORBIDDEN   the step must never happen
                                                            → ENDED       nothing counts any more

States and actions are indices, ``labels`` is the frozenset of the labels that the next state carries, and memory is any
hashable value; a pair is always (memory, damage), so that a memory which is a pair is returned as ``((a, b), None)``,
where None leaves the damage as it was; where the start is a tuple, any other pair is refused.  The product has a state
for each reachable pair (state, memory), named ``"state | memory"``; everything that works on models works on it.  A
forbidden step leads to a state, labelled ``forbidden``, that hurts for ever: no finite budget suffices for it, so no
shield ever allows it.  What is forbidden or unknown in the model itself stays so.

What several monitors remember is remembered by one: ``product(product(mdp, first), second)``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, final, runtime_checkable

import numpy as np

from almostsure.arguments import and_more, count, whole
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.change import Given, per_outcome
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.wording import brief


@final
class Verdict:
    """What a monitor says instead of a memory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


FORBIDDEN: Final = Verdict("FORBIDDEN")
"""What a monitor answers where the step must never happen."""
ENDED: Final = Verdict("ENDED")
"""What a monitor answers where nothing counts any more."""

Step = Callable[[Any, int, int, int, int, frozenset[str]], Any]


@runtime_checkable
class MonitorLike(Protocol):
    """What :func:`product` asks of a monitor."""

    @property
    def start(self) -> Hashable:
        """What is remembered at first."""
        ...

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The letter of each outcome, [num_outcomes], and what each letter stands for.

        Outcomes with the same letter must have the same effect on every memory, and the same damage.
        """
        ...

    def read(self, memory: Any, letter: Any) -> Any:
        """What is remembered after a letter: a memory, (memory, damage), FORBIDDEN or ENDED."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor from a function; see the module's documentation.

    Parameters
    ----------
    start
        The memory that a run begins with: any hashable value.
    step
        ``step(memory, state, action, next_state, damage, labels)``: the new memory, perhaps with another damage.  A
        pair is always (memory, damage): return a memory (a, b) as ``((a, b), None)``.

    Examples
    --------
    Damage that counts only every second time:

    >>> import almostsure as asure
    >>> from almostsure.model import Monitor
    >>> def step(was_hit, state, action, next_state, damage, labels):
    ...     return (not was_hit, damage if was_hit else 0) if damage else was_hit
    >>> mdp = asure.product(asure.example("quicksand"), Monitor(start=False, step=step))
    >>> asure.minimal_budget(mdp).smallest_budget()
    1
    """

    start: Hashable
    step: Step

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """Every outcome is a letter of its own, apart from its reward."""
        labels, columns = label_sets(mdp), (x.tolist() for x in mdp.columns())
        rows = [(s, a, t, d, labels[t]) for s, a, t, _, _, d in zip(*columns, strict=True)]
        return np.arange(mdp.num_outcomes), rows

    def read(self, memory: Any, letter: Any) -> Any:
        """Call the function.  None is a memory only where a run begins with it: a missing return forbids nothing."""
        after = self.step(memory, *letter)
        if after is None and self.start is not None:
            state, action, following = letter[:3]
            raise ModelError(
                "the function of a monitor must return a memory, (memory, damage), FORBIDDEN or ENDED; it returned "
                f"None at state {state}, action {action}, next state {following}. Is a return missing?"
            )
        is_pair = isinstance(after, tuple) and len(after) == 2
        if is_pair and isinstance(self.start, tuple) and not isinstance(after[0], tuple | Verdict):
            state, action, following = letter[:3]
            raise ModelError(
                "a pair that a monitor returns is (memory, damage), and its memory must be a tuple, as the start is; "
                f"got {brief(after)} at state {state}, action {action}, next state {following}. Return a memory that "
                f"is a pair as ({brief(after)}, None)."
            )
        return after


def label_sets(mdp: MDP) -> list[frozenset[str]]:
    """The labels of each state."""
    result: list[list[str]] = [[] for _ in range(mdp.num_states)]
    for name, states in mdp.labels.items():
        for state in np.flatnonzero(states).tolist():
            result[state].append(name)
    return [frozenset(names) for names in result]


# ---------------------------------------------------------------------- ready ones


@final
@dataclass(frozen=True, slots=True)
class SecondBudget:
    """Another damage with a budget of its own.  Use as many as are wanted.

    Parameters
    ----------
    damage
        A label (entering a state that carries it hurts by 1), a mapping from labels to whole numbers, one whole
        number per outcome of the model, or a function ``damage(state, action, next_state, reward, terminated)``.
    budget
        What may be taken of it.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import SecondBudget
    >>> rows = [(0, 0, 1, 1, 0, 1), (0, 1, 1, 1, 0, 0)]
    >>> mdp = asure.from_transitions(*zip(*rows), terminal=[1])
    >>> noise = SecondBudget(lambda s, a, s2, r, terminated: 3 if a == 1 else 0, budget=2)
    >>> asure.minimal_budget(mdp).smallest_budget()  # action 1 is quiet only in the first damage
    0
    >>> asure.minimal_budget(asure.product(mdp, noise)).smallest_budget()
    1
    """

    damage: Given
    budget: int

    @property
    def start(self) -> int:
        """All of the budget."""
        return count("budget", self.budget, least=0)

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The second damage of each outcome."""
        return _by_value(amounts(mdp, self.damage, "damage"))

    def read(self, memory: Any, letter: Any) -> Any:
        """Pay; a step that cannot be paid for is forbidden."""
        return memory - letter if letter <= memory else FORBIDDEN


@final
@dataclass(frozen=True, slots=True)
class Refill:
    """A tank that pays for steps and is filled up in some states: energy, water, time until maintenance.

    It does no damage of its own: a step that it cannot pay for is forbidden.  :func:`almostsure.budget.least_levels`
    says how full it must be in each state, :func:`almostsure.budget.least_capacity` how large.

    Parameters
    ----------
    cost
        What a step takes: as the damage of :class:`SecondBudget`, or one whole number for every step.
    capacity
        What the tank holds.
    at
        Where it is filled on arrival: a label, or states.
    level
        What is in it at first; by default it is full.

    Examples
    --------
    >>> import almostsure as asure
    >>> ring = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 0])
    >>> asure.product(ring, Refill(1, 2, [0])).num_states  # (state, level) that can be reached
    2
    """

    cost: Given
    capacity: int
    at: str | Iterable[int | str]
    level: int | None = None

    @property
    def start(self) -> int:
        """The level at first."""
        capacity = count("capacity", self.capacity, least=0)
        level = capacity if self.level is None else whole("level", self.level)
        if not 0 <= level <= capacity:
            raise ArgumentError(f"level must be 0 … {capacity}, the capacity; got {level}")
        return level

    def stations(self, mdp: MDP) -> Bools:
        """Where it is filled, [num_states]."""
        fills = mdp.label(self.at) if isinstance(self.at, str) else _holds(mdp, self.at)
        if not fills.any():
            raise ModelError("at must name one or more states where the tank is filled; got none")
        return fills

    def costs(self, mdp: MDP) -> Ints:
        """What each outcome takes, [num_outcomes]."""
        return amounts(mdp, self.cost, "cost")

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """Twice the cost of each outcome, and one more where it leads to a filling station."""
        numbers, letters = _by_value(2 * self.costs(mdp) + self.stations(mdp)[mdp.successor])
        return numbers, [divmod(letter, 2) for letter in letters]

    def read(self, memory: Any, letter: Any) -> Any:
        """Pay, then fill up."""
        cost, fills = letter
        return FORBIDDEN if cost > memory else self.capacity if fills else memory - cost


@final
@dataclass(frozen=True, slots=True)
class Steps:
    """Counts down steps; when none is left, nothing counts any more.

    ``minimal_budget(product(mdp, Steps(T)))`` is the least damage that can be forced within T steps.

    Parameters
    ----------
    limit
        How many steps count.

    Examples
    --------
    >>> import almostsure as asure
    >>> pit = asure.from_transitions([0], [0], [0], [1], [0], [1])  # every step hurts
    >>> asure.minimal_budget(asure.product(pit, Steps(2))).smallest_budget()
    2
    """

    limit: int

    @property
    def start(self) -> int:
        """All of the steps."""
        return count("limit", self.limit, least=0)

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The damage of each outcome: it counts in the last step too."""
        return _by_value(mdp.damage.astype(np.int64))

    def read(self, memory: Any, letter: Any) -> Any:
        """One step less."""
        return memory - 1 if memory > 1 else ENDED if memory == 1 else (ENDED, 0)


@final
@dataclass(frozen=True, slots=True)
class Automaton:
    """A finite automaton over labels, such as "never B before A".

    Parameters
    ----------
    edges
        From (where the automaton is, a label) to where it goes when a state with that label is entered.  Only
        labels that occur here matter; a state with none of them leaves the automaton where it is, and for one with
        several of them there must be an edge for the frozenset of these.
    start
        Where the automaton is at first.
    forbidden
        Where it must never get.

    Examples
    --------
    Never use the bridge before it was inspected:

    >>> from almostsure.model import Automaton
    >>> rule = Automaton(
    ...     {
    ...         ("new", "inspected"): "fine", ("new", "bridge"): "trap",
    ...         ("fine", "inspected"): "fine", ("fine", "bridge"): "fine",
    ...     },
    ...     start="new",
    ...     forbidden=["trap"],
    ... )
    """

    edges: Mapping[tuple[Hashable, str | frozenset[str]], Hashable]
    start: Hashable
    forbidden: Iterable[Hashable] = ()

    def __post_init__(self) -> None:
        given = [self.forbidden] if isinstance(self.forbidden, str) else list(self.forbidden)
        for name in given:
            if name not in self.edges.values():
                raise UnknownName("forbidden place", name, map(str, self.edges.values()), "No edge leads there.")
        object.__setattr__(self, "forbidden", frozenset(given))

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The labels of each next state that the automaton looks at."""
        known = {name for _, given in self.edges for name in ([given] if isinstance(given, str) else given)}
        for name in known:
            mdp.label(name)  # says which labels there are
        sets = [names & known for names in label_sets(mdp)]
        letters = list(dict.fromkeys(sets))
        number = {letter: i for i, letter in enumerate(letters)}
        return np.array([number[names] for names in sets])[mdp.successor], letters

    def read(self, memory: Any, letter: Any) -> Any:
        """Follow the edge."""
        if not letter:
            return memory
        for key in ((memory, letter), *((memory, name) for name in letter if len(letter) == 1)):
            if key in self.edges:
                return FORBIDDEN if self.edges[key] in self.forbidden else self.edges[key]
        shown = next(iter(letter)) if len(letter) == 1 else letter
        raise ModelError(f"the automaton has no edge from {memory!r} for {shown!r}. Add it, if only to stay.")


# ---------------------------------------------------------------------- pieces


def amounts(mdp: MDP, given: Any, what: str) -> Ints:
    """The amount of each outcome, as whole numbers 0 or more, [num_outcomes]."""
    values = per_outcome(mdp, given, what)
    bad = ~((values >= 0) & (values == np.floor(values)) & (values < 2**31))
    if bad.any():
        at = int(np.argmax(bad))
        where = mdp.describe_choice(int(mdp.outcome_choices()[at]))
        more = and_more(int(bad.sum()) - 1, "outcome")
        raise ModelError(f"{what} must be a whole number, 0 or more; got {values[at]:g} at {where}{more}")
    return values.astype(np.int64)


def _by_value(values: Ints) -> tuple[Ints, list[Any]]:
    letters, numbers = np.unique(values, return_inverse=True)
    return numbers, letters.tolist()


def _holds(mdp: MDP, states: Iterable[int | str]) -> Bools:
    result = np.zeros(mdp.num_states, np.bool_)
    result[[mdp.state(state) for state in states]] = True
    return result


def verdict_of(result: Any) -> tuple[Any, int | None]:
    """What a monitor says as (memory or verdict, damage); the damage is None where it is left as it was."""
    if not (isinstance(result, tuple) and len(result) == 2):
        return result, None
    memory, damage = result
    if damage is None:
        return memory, None
    is_number = isinstance(damage, (int, np.integer)) and not isinstance(damage, bool)
    if not (is_number and 0 <= damage <= MAX_DAMAGE):
        raise ModelError(
            f"a pair that a monitor returns is (memory, damage), damage 0 … {MAX_DAMAGE}; got {brief(result)}. "
            "Return a memory that is a pair as ((a, b), None)."
        )
    return memory, int(damage)
