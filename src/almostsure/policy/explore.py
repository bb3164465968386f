"""Where play can get to: the pairs (state, remaining) that are reached from the start, most remaining first.

Damage only ever lowers what remains, so the pairs are found in layers, from the budget downwards, and a layer is
complete before a lower one begins.  Below 0 there is one more layer, ``OVERSPENT``, which nothing leaves any more; a
stationary policy without a budget has only that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from almostsure.model.arrays import ascending, spans
from almostsure.model.mdp import MDP, Bools, Ints

OVERSPENT: Final = -1

Waiting = dict[int, list[Ints]]  # what remains, and states reached with that


class Played(NamedTuple):
    """The choices that are played in some states."""

    choice: Ints  # [k]
    owner: Ints  # [k], the position of each one's state


class Step(NamedTuple):
    """States that are reached with the same remaining budget, and what may happen there."""

    remaining: int
    states: Ints  # [n], ascending, none of which was in an earlier step of this layer
    choice: Ints  # [k], the choices that are played
    owner: Ints  # [k], the position of each one's state
    outcome: Ints  # [m], the outcomes of these choices
    of: Ints  # [m], the position of each one's choice


Rule = Callable[[Ints, int], Played]  # what is played at the given states with that much remaining


def all_within(mdp: MDP, needs: Ints) -> Rule:
    """Whatever what remains is enough for; ``needs`` says how much each choice needs, [num_choices]."""

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
) -> Iterator[Step]:
    """Every pair (state, remaining) that is reached with positive probability, in steps, each pair once.

    Parameters
    ----------
    mdp
        The model.
    rule
        What is played.
    budget
        What remains at the start; None for the layer ``OVERSPENT`` alone.
    sources
        Where play begins; by default in the model's initial states.
    once
        Whether each state is looked at only with the most that can remain there.
    overspend
        Whether to go on in ``OVERSPENT`` where something overspends.
    skip
        May move what is waiting to lower layers, before the highest of them is looked at.
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
            yield Step(remaining, frontier, choice, owner, outcome, of)
            frontier = _follow(mdp, outcome, remaining, seen, waiting, overspend)
        if not once:
            for states in visited:  # cheaper than clearing all of it when few states are reached
                seen[states] = False


def _follow(mdp: MDP, outcome: Ints, remaining: int, seen: Bools, waiting: Waiting, overspend: bool) -> Ints:
    """The new states of this layer; those of lower layers are put down as waiting."""
    successor, damage = mdp.successor[outcome].astype(np.int64), mdp.damage[outcome]
    if remaining == OVERSPENT:
        return ascending(successor[~seen[successor]])
    for hurt in ascending(damage[damage > 0]).tolist():
        if hurt <= remaining or overspend:
            below = max(remaining - hurt, OVERSPENT)
            waiting.setdefault(below, []).append(ascending(successor[damage == hurt]))
    ahead = successor[damage == 0]
    return ascending(ahead[~seen[ahead]])
