"""Hypothesis strategies for models, for property tests of this package and of code that uses it.

>>> from hypothesis import given
>>> from almostsure.testing import mdps
>>> @given(mdps(max_damage=2))
... def test_every_choice_has_outcomes(mdp):
...     assert mdp.num_outcomes >= mdp.num_choices
>>> test_every_choice_has_outcomes()

The models are small and have many special cases: states with unavoidable damage, cycles without damage, dead ends,
single states, unreachable parts, several outcomes to one successor, different actions per state.  They shrink towards
few states, no damage and no reward.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from almostsure.arguments import names_right_word
from almostsure.errors import MissingExtra
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingExtra("hypothesis", "test") from error

__all__ = ["Transitions", "mdps", "transitions"]


class Transitions(NamedTuple):
    """The arguments of :func:`almostsure.from_transitions`, as plain Python values.

    Examples
    --------
    >>> import almostsure as asure
    >>> rows = Transitions([0], [0], [1], [1.0], [0.0], [2], 2, [1], {0: 1.0})
    >>> asure.minimal_budget(asure.from_transitions(**rows._asdict())).smallest_budget()
    2
    """

    states: list[int]
    actions: list[int]
    next_states: list[int]
    probabilities: list[float]
    rewards: list[float]
    damages: list[int]
    num_states: int
    terminal: list[int]
    initial: dict[int, float]

    @property
    def columns(self) -> tuple[list[Any], ...]:
        """The six columns, one entry per outcome."""
        return self[:6]

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments."""
        return {"num_states": self.num_states, "terminal": self.terminal, "initial": self.initial}

    def build(self) -> MDP:
        """The model with these outcomes."""
        return from_transitions(*self.columns, **self.options)


@names_right_word
def mdps(
    *,
    max_states: int = 6,
    max_actions: int = 3,
    max_outcomes: int = 3,
    max_damage: int = 5,
    proper: bool = False,
) -> st.SearchStrategy[MDP]:
    """Small models.

    Parameters
    ----------
    max_states, max_actions, max_outcomes
        The largest numbers of states, of distinct actions, and of entries per choice.
    max_damage
        The largest damage of an outcome.
    proper
        Only models in which every policy is proper: it reaches a terminal state with probability one, as the paper
        assumes.

    Examples
    --------
    >>> import almostsure as asure
    >>> from hypothesis import given
    >>> @given(mdps())
    ... def test_certificates(mdp):  # pytest calls it with a hundred models
    ...     asure.check_minimal_budget(mdp, asure.minimal_budget(mdp))
    """
    return transitions(
        max_states=max_states, max_actions=max_actions, max_outcomes=max_outcomes, max_damage=max_damage, proper=proper
    ).map(Transitions.build)


@names_right_word
@st.composite
def transitions(
    draw: st.DrawFn,
    *,
    max_states: int = 6,
    max_actions: int = 3,
    max_outcomes: int = 3,
    max_damage: int = 5,
    proper: bool = False,
) -> Transitions:
    """The transitions from which :func:`mdps` builds models, with the same parameters: for tests of constructors.

    Entries are not merged: an outcome may be listed several times, and a terminal state has no entries.

    Examples
    --------
    >>> import almostsure as asure
    >>> from hypothesis import given
    >>> @given(transitions())
    ... def test_building(rows):  # pytest calls it with a hundred of them
    ...     asure.from_transitions(**rows._asdict())
    """
    count = draw(st.integers(1, max_states))
    entries: list[tuple[Any, ...]] = []
    terminal = []
    for state in range(count):
        is_last = state == count - 1
        actions = [] if proper and is_last else draw(_action_sets(max_actions, at_least=int(proper)))
        if not actions:
            terminal.append(state)
        for action in actions:
            outcomes = draw(_outcome_lists(count, max_outcomes, max_damage, above=state if proper else None))
            budget = sum(weight for _, weight, _, _ in outcomes)
            entries += [(state, action, t, weight / budget, r / 2, d) for t, weight, r, d in outcomes]
    columns = [list(column) for column in zip(*entries, strict=True)] if entries else [[] for _ in range(6)]
    s, a, t, p, r, d = columns
    return Transitions(s, a, t, p, r, d, count, terminal, draw(_initials(count)))


def _action_sets(max_actions: int, *, at_least: int) -> st.SearchStrategy[list[int]]:
    """The actions of a state; a state without actions is terminal."""
    some = st.lists(st.integers(0, max_actions - 1), min_size=at_least, max_size=max_actions, unique=True)
    return some.map(sorted)


def _outcome_lists(
    count: int, max_outcomes: int, max_damage: int, *, above: int | None
) -> st.SearchStrategy[list[tuple[int, int, int, int]]]:
    """Successor, weight, twice the reward, and damage; the first successor is above the state ``above``, if given."""

    def outcomes(first: int) -> st.SearchStrategy[tuple[int, int, int, int]]:
        return st.tuples(
            st.integers(first, count - 1), st.integers(1, 4), st.integers(-4, 4), st.integers(0, max_damage)
        )

    if above is None:
        return st.lists(outcomes(0), min_size=1, max_size=max_outcomes)
    rest = st.lists(outcomes(0), max_size=max_outcomes - 1)
    return st.tuples(outcomes(above + 1), rest).map(lambda parts: [parts[0], *parts[1]])


def _initials(count: int) -> st.SearchStrategy[dict[int, float]]:
    def normalised(weights: dict[int, int]) -> dict[int, float]:
        return {state: weight / sum(weights.values()) for state, weight in weights.items()}

    several = st.dictionaries(st.integers(0, count - 1), st.integers(1, 4), min_size=1).map(normalised)
    return st.integers(0, count - 1).map(lambda state: {state: 1.0}) | several
