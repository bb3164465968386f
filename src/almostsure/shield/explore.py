"""Where play can get to: the pairs (state, remaining) that are reached from the start, most remaining first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from almostsure.model.mdp import MDP, Ints
from almostsure.shield.table import spans

Rule = Callable[[Ints, int], Ints]  # what is played at the given states with that much remaining: choices


class Step(NamedTuple):
    """States reached with the same remaining budget, and the choices that are played there."""

    remaining: int
    states: Ints
    choices: Ints


def explore(mdp: MDP, rule: Rule, budget: int) -> Iterator[Step]:
    """Every pair (state, remaining) that is reached with positive probability, in steps, each pair once.

    Damage only ever lowers what remains, so budgets are worked off from the budget downwards; a layer is complete
    before a lower one begins.  Whoever iterates must stop at a choice that may overspend.
    """
    waiting: dict[int, list[Ints]] = {budget: [mdp.initial_states.astype(np.int64)]}
    seen = np.zeros(mdp.num_states, np.bool_)
    while waiting:
        remaining = max(waiting)
        frontier = np.unique(np.concatenate(waiting.pop(remaining)))
        visited = []
        while frontier.size:
            seen[frontier] = True
            visited.append(frontier)
            choices = rule(frontier, remaining)
            yield Step(remaining, frontier, choices)
            frontier = _follow(mdp, choices, remaining, seen, waiting)
        for states in visited:  # cheaper than clearing all of it when few states are reached
            seen[states] = False


def _follow(
    mdp: MDP, choices: Ints, remaining: int, seen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    waiting: dict[int, list[Ints]],
) -> Ints:  # fmt: skip
    """The new states of this layer; those of lower layers are put down as waiting."""
    outcome, _ = spans(mdp.outcome_ptr, choices)
    successor, damage = mdp.successor[outcome].astype(np.int64), mdp.damage[outcome]
    for hurt in np.unique(damage[damage > 0]).tolist():
        waiting.setdefault(remaining - hurt, []).append(np.unique(successor[damage == hurt]))
    ahead = successor[damage == 0]
    return np.unique(ahead[~seen[ahead]])
