"""End components, the way around inside them, and who can surely leave; the graph searches are SciPy's, in C.

An *end component* is a set of states, with choices for them, that can be stayed in for ever and in which every
state reaches every other.  One whose choices all have reward zero can be left at will or stayed in for nothing: it
behaves as one state with all the exits of its members and one more choice, to stay, worth 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from almostsure.model.arrays import ascending, grouped, spans
from almostsure.model.mdp import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """The choices of a set of states and where they lead, without probabilities."""

    num_states: int
    owner: Ints  # [num_choices], the state of each choice
    entry_choice: Ints  # [num_entries], the choice of each entry, ascending
    entry_state: Ints  # [num_entries], the state that it leads to

    def having(self, entries: Bools) -> Bools:
        """The choices that have at least one of the marked entries."""
        result = np.zeros(self.owner.size, np.bool_)
        result[self.entry_choice[entries]] = True
        return result

    def edges(self, choices: Bools) -> tuple[Ints, Ints]:
        """Where the given choices start and where they lead."""
        kept = choices[self.entry_choice]
        return self.owner[self.entry_choice[kept]], self.entry_state[kept]


def end_components(graph: Graph, usable: Bools) -> tuple[Ints, Bools]:
    """The maximal end components that the ``usable`` choices form.

    Returns the component of each state, −1 for states in none, and the choices that stay inside their component.
    Its compiled twin for large models is :func:`almostsure.plan.assured.component.places.end_components`.
    """
    from scipy.sparse.csgraph import connected_components

    inside = usable.copy()
    while True:
        _strand(graph, inside)
        _, component = connected_components(_sparse(*graph.edges(inside), graph.num_states), connection="strong")
        leaves = component[graph.owner[graph.entry_choice]] != component[graph.entry_state]
        staying = inside & ~graph.having(leaves)
        if (staying == inside).all():
            break
        inside = staying
    labels = np.full(graph.num_states, -1, np.int32)
    members = ascending(graph.owner[inside])
    labels[members] = np.unique(component[members], return_inverse=True)[1]
    return labels, inside


def _strand(graph: Graph, inside: Bools) -> None:
    """Drop choices that may lead to another state that can only stay where it is, and so on, backward.

    Such a state is in no end component with others.  On long chains, rounds would lose one state each.
    """
    origin = graph.owner[graph.entry_choice]
    moves = graph.having(origin != graph.entry_state)
    ways = np.bincount(graph.owner[inside & moves], minlength=graph.num_states)
    ptr, entries = grouped(graph.entry_state, graph.num_states)
    stranded = np.flatnonzero(ways == 0)
    while stranded.size:
        at, of = spans(ptr, stranded)
        led = entries[at]
        dropped = ascending(graph.entry_choice[led[origin[led] != stranded[of]]])
        dropped = dropped[inside[dropped]]
        inside[dropped] = False
        losing, count = np.unique(graph.owner[dropped], return_counts=True)
        ways[losing] -= count
        stranded = losing[ways[losing] == 0]


def surely_leave(graph: Graph, leaving: Bools) -> tuple[Bools, Bools, Ints]:
    """The states from which some policy plays a ``leaving`` choice with probability one.

    Returns these states, the choices that keep it possible, and one such policy (−1 for other states).  Its compiled
    twin for large models is :func:`almostsure.plan.assured.component.parts.leave_surely`.
    """
    live = np.ones(graph.num_states, np.bool_)
    back = _sparse(graph.entry_state, graph.entry_choice, max(graph.num_states, graph.owner.size))
    while True:
        usable = live[graph.owner] & ~graph.having(~live[graph.entry_state])
        policy = np.full(graph.num_states, -1)
        give(policy, graph.owner, np.flatnonzero(usable & leaving))
        spread(back, graph.owner, policy, usable)
        if ((policy >= 0) == live).all():
            return live, usable, policy
        live = policy >= 0


def give(policy: Ints, owner: Ints, choices: Ints) -> Ints:
    """Give each state without a choice one of these; returns the states that got one."""
    fresh = choices[policy[owner[choices]] < 0]
    policy[owner[fresh][::-1]] = fresh[::-1]
    return ascending(owner[fresh])


def spread(back: Any, owner: Ints, policy: Ints, usable: Bools) -> None:
    """Give states without a choice a usable one that may lead to a state with one, as far as that goes.

    ``back`` is a sparse matrix whose ``indptr`` and ``indices`` list, by state, the choices that may lead to it.
    """
    frontier: Ints = np.flatnonzero(policy >= 0)
    while frontier.size:
        choices = ascending(back.indices[spans(back.indptr, frontier)[0]])
        frontier = give(policy, owner, choices[usable[choices]])


def _sparse(begin: Ints, end: Ints, size: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(begin.size, np.int8), (begin, end)), shape=(size, size))
