"""``explore``: the pairs (state, remaining) that are reachable from the start, largest remaining budget first.

Damage only lowers the remaining budget, so the pairs are found in layers, from the budget downwards, and a layer is
complete before a lower one begins.  Below 0 there is one more layer, ``OVERSPENT``, which is never left; a stationary
policy without a budget only has that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from almostsure.model.arrays import ascending, spans
from almostsure.model.mdp import MDP, Bools, Ints

OVERSPENT: Final = -1

Waiting = dict[int, list[Ints]]  # by remaining budget, the states reached with it


class Played(NamedTuple):
    """The choices that are played in some states."""

    choice: Ints  # [k]
    owner: Ints  # [k], the position of the state of each choice


class Reached(NamedTuple):
    """States that are reached with the same remaining budget, and the outcomes that are possible there."""

    remaining: int
    states: Ints  # [n], ascending, none of which was in an earlier step of this layer
    choice: Ints  # [k], the choices that are played
    owner: Ints  # [k], the position of the state of each choice
    outcome: Ints  # [m], the outcomes of these choices
    of: Ints  # [m], the position of the choice of each outcome


Rule = Callable[[Ints, int], Played]  # the choices played at some states with a remaining budget


def all_within(mdp: MDP, needs: Ints) -> Rule:
    """The rule that plays all choices whose need, [num_choices], is at most the remaining budget."""

    def rule(states: Ints, remaining: int) -> Played:
        choice, owner = spans(mdp.choice_ptr, states)
        enough = needs[choice] <= remaining
        return Played(choice[enough], owner[enough])

    return rule


def explore(
    mdp: MDP,
    rule: Rule,
    budget: int | None,
    *,
    sources: Ints | None = None,
    once: bool = False,
    overspend: bool = False,
    skip: Callable[[Waiting], Waiting] | None = None,
) -> Iterator[Reached]:
    """All pairs (state, remaining) that are reached with positive probability, in steps, each pair once.

    Parameters
    ----------
    mdp
        The model.
    rule
        The choices that are played.
    budget
        The budget at the start; None for the layer ``OVERSPENT`` alone.
    sources
        The states in which play begins; by default the initial states.
    once
        Whether each state is only visited with the largest budget that can remain there.
    overspend
        Whether outcomes that overspend are followed, in ``OVERSPENT``.
    skip
        A function that may move waiting states to lower layers, before the highest layer is visited.
    """
    sources = mdp.initial_states if sources is None else sources
    waiting: Waiting = {OVERSPENT if budget is None else budget: [sources.astype(np.int64)]}
    seen = np.zeros(mdp.num_states, np.bool_)
    while waiting:
        waiting = waiting if skip is None else skip(waiting)
        remaining = max(waiting)
        frontier = ascending(np.concatenate(waiting.pop(remaining)))
        frontier = frontier[~seen[frontier]]
        visited = []
        while frontier.size:
            seen[frontier] = True
            visited.append(frontier)
            choice, owner = rule(frontier, remaining)
            outcome, of = spans(mdp.outcome_ptr, choice)
            yield Reached(remaining, frontier, choice, owner, outcome, of)
            frontier = _follow(mdp, outcome, remaining, seen, waiting, overspend)
        if not once:
            for states in visited:  # cheaper than clearing the whole array when few states are reached
                seen[states] = False


def _follow(mdp: MDP, outcome: Ints, remaining: int, seen: Bools, waiting: Waiting, overspend: bool) -> Ints:
    """The new states of this layer; those of lower layers are added to ``waiting``."""
    successor, damage = mdp.successor[outcome].astype(np.int64), mdp.damage[outcome]
    if remaining == OVERSPENT:
        return ascending(successor[~seen[successor]])
    for amount in ascending(damage[damage > 0]).tolist():
        if amount <= remaining or overspend:
            below = max(remaining - amount, OVERSPENT)
            waiting.setdefault(below, []).append(ascending(successor[damage == amount]))
    ahead = successor[damage == 0]
    return ascending(ahead[~seen[ahead]])
