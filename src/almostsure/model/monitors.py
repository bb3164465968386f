"""Monitors: memory for models.  ``product(mdp, monitor)`` adds the memory of a monitor to the states.

Many problems that seem to need another kind of model only need memory: a second budget, a tank that is refilled, "never
B before A", a number of steps.  A *monitor* has a start and a function

    step(memory, state, action, next_state, damage, labels) → memory
                                                            → (memory, another damage)
                                                            → FORBIDDEN   the step must never happen
                                                            → ENDED       from now on nothing counts

States and actions are indices, ``labels`` is the frozenset of the labels of the next state, and the memory is any
hashable value.  A pair always means (memory, damage).  So a memory that is a pair is returned as ``((a, b), None)``,
and None leaves the damage unchanged; if the start is a tuple, any other pair is refused.  The product has a state for
each reachable pair (state, memory), named ``"state | memory"``, and is a model like any other.  A forbidden step leads
to a state labelled ``forbidden`` whose self-loop does damage: no finite budget suffices there, so no shield allows the
step.  The forbidden and the unknown state of the model itself stay what they are.

Several monitors are combined by ``product(product(mdp, first), second)``.
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
    """What a monitor may return instead of a memory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


FORBIDDEN: Final = Verdict("FORBIDDEN")
"""Returned by a monitor if the step must never happen."""
ENDED: Final = Verdict("ENDED")
"""Returned by a monitor if nothing counts from now on."""

Step = Callable[[Any, int, int, int, int, frozenset[str]], Any]


@runtime_checkable
class MonitorLike(Protocol):
    """The interface of a monitor, for :func:`product`."""

    @property
    def start(self) -> Hashable:
        """The initial memory."""
        ...

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The number of each outcome's letter, [num_outcomes], and the letters.

        Outcomes with the same letter must have the same effect on every memory, and the same damage.
        """
        ...

    def read(self, memory: Any, letter: Any) -> Any:
        """The result of reading a letter: a memory, (memory, damage), FORBIDDEN or ENDED."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor defined by a function; see the documentation of :mod:`almostsure.model.monitors`.

    Parameters
    ----------
    start
        The initial memory: any hashable value.
    step
        ``step(memory, state, action, next_state, damage, labels)``: the new memory, perhaps with another damage.  A
        pair is always (memory, damage): return a memory (a, b) as ``((a, b), None)``.

    Examples
    --------
    Only every second damage counts:

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
        """One letter per outcome, with all of it except probability and reward."""
        labels, columns = label_sets(mdp), (x.tolist() for x in mdp.columns())
        rows = [(s, a, t, d, labels[t]) for s, a, t, _, _, d in zip(*columns, strict=True)]
        return np.arange(mdp.num_outcomes), rows

    def read(self, memory: Any, letter: Any) -> Any:
        """Call the function.  None is only accepted if it is also the start, so that a missing return is an error."""
        after = self.step(memory, *letter)
        if after is None and self.start is not None:
            raise ModelError(
                "the function of a monitor must return a memory, (memory, damage), FORBIDDEN or ENDED; it returned "
                f"None at {_place(letter)}. Is a return missing?"
            )
        is_pair = isinstance(after, tuple) and len(after) == 2
        if is_pair and isinstance(self.start, tuple) and not isinstance(after[0], tuple | Verdict):
            raise ModelError(
                "a pair that a monitor returns is (memory, damage), and its memory must be a tuple, like the start; "
                f"got {brief(after)} at {_place(letter)}. Return a memory that is a pair as ({brief(after)}, None)."
            )
        return after


def _place(letter: tuple[Any, ...]) -> str:
    return "state {}, action {}, next state {}".format(*letter[:3])


def label_sets(mdp: MDP) -> list[frozenset[str]]:
    """The labels of each state, [num_states]."""
    result: list[list[str]] = [[] for _ in range(mdp.num_states)]
    for name, states in mdp.labels.items():
        for state in np.flatnonzero(states).tolist():
            result[state].append(name)
    return [frozenset(names) for names in result]


# ---------------------------------------------------------------------- predefined monitors


@final
@dataclass(frozen=True, slots=True)
class SecondBudget:
    """A second kind of damage with its own budget.  Several can be combined.

    Parameters
    ----------
    damage
        A label (entering a state with it does damage 1), a mapping from labels to whole numbers, one whole number per
        outcome of the model, or a function ``damage(state, action, next_state, reward, terminated)``.
    budget
        The budget for this damage.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import SecondBudget
    >>> rows = [(0, 0, 1, 1, 0, 1), (0, 1, 1, 1, 0, 0)]
    >>> mdp = asure.from_transitions(*zip(*rows), terminal=[1])
    >>> noise = SecondBudget(lambda s, a, s2, r, terminated: 3 if a == 1 else 0, budget=2)
    >>> asure.minimal_budget(mdp).smallest_budget()  # action 1 does none of the first damage
    0
    >>> asure.minimal_budget(asure.product(mdp, noise)).smallest_budget()
    1
    """

    damage: Given
    budget: int

    @property
    def start(self) -> int:
        """The whole budget."""
        return count("budget", self.budget, least=0)

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The second damage of each outcome."""
        return _by_value(amounts(mdp, self.damage, "damage"))

    def read(self, memory: Any, letter: Any) -> Any:
        """Subtract the damage; a step that exceeds the budget is forbidden."""
        return memory - letter if letter <= memory else FORBIDDEN


@final
@dataclass(frozen=True, slots=True)
class Refill:
    """A resource that steps consume and that some states refill: energy, water, time until maintenance.

    It adds no damage: a step that needs more than is left is forbidden.  :func:`almostsure.budget.least_levels`
    computes the level that each state needs, :func:`almostsure.budget.least_capacity` the capacity.

    Parameters
    ----------
    cost
        The consumption of a step: like the damage of :class:`SecondBudget`, or one whole number for every step.
    capacity
        The capacity of the tank.
    at
        The states in which it is filled up on arrival: a label, or a list of states.
    level
        The initial level, by default the capacity.

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
        """The initial level."""
        capacity = count("capacity", self.capacity, least=0)
        level = capacity if self.level is None else whole("level", self.level)
        if not 0 <= level <= capacity:
            raise ArgumentError(f"level must be 0 … {capacity}, the capacity; got {level}")
        return level

    def stations(self, mdp: MDP) -> Bools:
        """A mask of the states that fill it up, [num_states]."""
        if isinstance(self.at, str):
            fills = mdp.label(self.at)
        else:
            fills = np.isin(np.arange(mdp.num_states), [mdp.state(state) for state in self.at])
        if not fills.any():
            raise ModelError("at must name one or more states that fill up the tank; got none")
        return fills

    def costs(self, mdp: MDP) -> Ints:
        """The consumption of each outcome, [num_outcomes]."""
        return amounts(mdp, self.cost, "cost")

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The consumption of each outcome, and whether it leads to a state that fills up (1) or not (0)."""
        numbers, letters = _by_value(2 * self.costs(mdp) + self.stations(mdp)[mdp.successor])
        return numbers, [divmod(letter, 2) for letter in letters]

    def read(self, memory: Any, letter: Any) -> Any:
        """Subtract the consumption, then fill up."""
        cost, fills = letter
        return FORBIDDEN if cost > memory else self.capacity if fills else memory - cost


@final
@dataclass(frozen=True, slots=True)
class Steps:
    """Counts down steps: after the last one nothing counts.

    ``minimal_budget(product(mdp, Steps(T)))`` is the least damage that can be forced within T steps.

    Parameters
    ----------
    limit
        The number of steps that count.

    Examples
    --------
    >>> import almostsure as asure
    >>> pit = asure.from_transitions([0], [0], [0], [1], [0], [1])  # every step does damage 1
    >>> asure.minimal_budget(asure.product(pit, Steps(2))).smallest_budget()
    2
    """

    limit: int

    @property
    def start(self) -> int:
        """The number of steps."""
        return count("limit", self.limit, least=0)

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The damage of each outcome, which counts in the last step too."""
        return _by_value(mdp.damage.astype(np.int64))

    def read(self, memory: Any, letter: Any) -> Any:
        """Count one step."""
        return memory - 1 if memory > 1 else ENDED if memory == 1 else (ENDED, 0)


@final
@dataclass(frozen=True, slots=True)
class Automaton:
    """A finite automaton over labels, such as "never B before A".

    Parameters
    ----------
    edges
        From (location of the automaton, label of the state that is entered) to the next location.  Other labels
        are ignored: a state without any of these labels does not change the location, and a state with several of them
        needs an edge for their frozenset.
    start
        The initial location.
    forbidden
        The locations that must never be reached.

    Examples
    --------
    Never use the bridge before it is inspected:

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
                raise UnknownName("forbidden location", name, map(str, self.edges.values()), "No edge leads there.")
        object.__setattr__(self, "forbidden", frozenset(given))

    def letters(self, mdp: MDP) -> tuple[Ints, list[Any]]:
        """The labels of each next state that have edges."""
        known = {name for _, given in self.edges for name in ([given] if isinstance(given, str) else given)}
        for name in known:
            mdp.label(name)  # raises if there is no such label
        sets = [names & known for names in label_sets(mdp)]
        letters = list(dict.fromkeys(sets))
        number = {letter: i for i, letter in enumerate(letters)}
        return np.array([number[names] for names in sets])[mdp.successor], letters

    def read(self, memory: Any, letter: Any) -> Any:
        """Follow the edge."""
        if not letter:
            return memory
        label = next(iter(letter)) if len(letter) == 1 else letter
        for key in ((memory, letter), (memory, label)):
            if key in self.edges:
                return FORBIDDEN if self.edges[key] in self.forbidden else self.edges[key]
        raise ModelError(f"the automaton has no edge from {memory!r} for {label!r}. Add one, even if it stays there.")


# ---------------------------------------------------------------------- helpers


def amounts(mdp: MDP, given: Any, what: str) -> Ints:
    """The amount of each outcome, a whole number of at least 0, [num_outcomes]."""
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


def verdict_of(result: Any) -> tuple[Any, int | None]:
    """The result of a monitor as (memory or verdict, damage); the damage is None if it is unchanged."""
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
