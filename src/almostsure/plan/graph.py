"""Graph searches on a whole model, by SciPy: end components, ways inside them, and states that leave almost surely.

An *end component* is a set of states with choices that never leave it and by which every state reaches every other.
One whose choices all have reward 0 behaves as one state, with all exits of its members and one more choice, to stay,
with value 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from almostsure.model.arrays import ascending, grouped, spans
from almostsure.model.mdp import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceGraph:
    """The choices of some states and their successors, without probabilities."""

    num_states: int
    owner: Ints  # [num_choices], the state of each choice
    entry_choice: Ints  # [num_entries], the choice of each entry, ascending
    entry_state: Ints  # [num_entries], the successor of each entry

    def having(self, entries: Bools) -> Bools:
        """The choices with at least one of the marked entries, as a mask."""
        result = np.zeros(self.owner.size, np.bool_)
        result[self.entry_choice[entries]] = True
        return result

    def edges(self, choices: Bools) -> tuple[Ints, Ints]:
        """The sources and targets of the given choices."""
        kept = choices[self.entry_choice]
        return self.owner[self.entry_choice[kept]], self.entry_state[kept]


def end_components(graph: ChoiceGraph, usable: Bools) -> tuple[Ints, Bools]:
    """The maximal end components of the ``usable`` choices.

    Returns the component of each state (−1: none), and a mask of the choices that stay inside their component.
    Its compiled twin for large models is :func:`almostsure.plan.assured.component.places.end_components`.
    """
    from scipy.sparse.csgraph import connected_components

    inside = usable.copy()
    while True:
        _drop_dead_ends(graph, inside)
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


def _drop_dead_ends(graph: ChoiceGraph, inside: Bools) -> None:
    """Drop choices that may lead to another state without choices (self-loops aside), and repeat this backward.

    Such a state is in no end component with others.  Without this, each round on a long chain would drop one state.
    """
    origin = graph.owner[graph.entry_choice]
    moves = graph.having(origin != graph.entry_state)
    ways = np.bincount(graph.owner[inside & moves], minlength=graph.num_states)
    ptr, entries = grouped(graph.entry_state, graph.num_states)
    dead = np.flatnonzero(ways == 0)
    while dead.size:
        at, of = spans(ptr, dead)
        led = entries[at]
        dropped = ascending(graph.entry_choice[led[origin[led] != dead[of]]])
        dropped = dropped[inside[dropped]]
        inside[dropped] = False
        losing, count = np.unique(graph.owner[dropped], return_counts=True)
        ways[losing] -= count
        dead = losing[ways[losing] == 0]


def surely_leave(graph: ChoiceGraph, leaving: Bools) -> tuple[Bools, Bools, Ints]:
    """The states from which some policy plays a ``leaving`` choice almost surely.

    Returns these states, the choices that never leave this set (both as masks), and one such policy (−1 for other
    states).  Its compiled twin for large models is :func:`almostsure.plan.assured.component.parts.leave_surely`.
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
    """Give each state without a choice its first of these, if any; returns the states that got one."""
    fresh = choices[policy[owner[choices]] < 0]
    policy[owner[fresh][::-1]] = fresh[::-1]
    return ascending(owner[fresh])


def spread(back: Any, owner: Ints, policy: Ints, usable: Bools) -> None:
    """Give each state without a choice a usable one that may lead to a state with one, backward until none is left.

    ``back`` is a sparse matrix whose ``indptr`` and ``indices`` list, by state, the choices that may lead to it.
    """
    frontier: Ints = np.flatnonzero(policy >= 0)
    while frontier.size:
        choices = ascending(back.indices[spans(back.indptr, frontier)[0]])
        frontier = give(policy, owner, choices[usable[choices]])


def _sparse(begin: Ints, end: Ints, size: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(begin.size, np.int8), (begin, end)), shape=(size, size))
