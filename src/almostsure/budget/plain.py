"""The plain engine: the definition of W_L in NumPy, for models too small to be worth loading a compiler.

For L = 0, 1, 2, …: all states that are not settled are candidates.  A choice is bad if it has an outcome with
``d + v(s') > L``, where ``v`` is L for candidates, ∞ for dead states, and k* for settled states.  A candidate without a
good choice dies, which makes further choices bad; the candidates that remain have k* = L.  The next level is the least
at which a damaging outcome of an unsettled state becomes affordable; if there is none, all unsettled states have ∞.

The rank of a dead state is the round in which it last died.
"""

from __future__ import annotations

import numpy as np

from almostsure.budget.minimal import INFINITE, Answer
from almostsure.model.arrays import owners
from almostsure.model.mdp import Support


def solve_plain(support: Support, *, cap: int, patience: float = np.inf) -> Answer | None:
    """k* level by level, in NumPy; None if it would examine more than ``patience`` outcomes."""
    first, starts = support.choice_ptr[:-1], support.outcome_ptr[:-1]
    owner = owners(support.choice_ptr)[owners(support.outcome_ptr)]
    damage = support.damage.astype(np.int64)
    value = np.full(support.num_states, INFINITE, np.int64)
    rank = np.zeros(support.num_states, np.int64)
    level, rounds = 0, 0
    while level <= cap:
        candidate = value == INFINITE
        value[candidate] = level
        while True:
            rounds += 1
            if rounds * support.num_outcomes > patience:
                return None
            cost = value[support.successor] + damage
            best = np.minimum.reduceat(np.maximum.reduceat(cost, starts), first)
            dead = candidate & (value == level) & (best > level)
            if not dead.any():
                break
            value[dead] = INFINITE
            rank[dead] = rounds
        later = cost[(cost > level) & (cost < INFINITE) & (value[owner] == INFINITE)]
        if not later.size:
            break
        level = int(later.min())
    cost = value[support.successor] + damage
    of_choice = np.minimum(np.maximum.reduceat(cost, starts), INFINITE)
    return Answer(of_state=value.astype(np.int32), of_choice=of_choice.astype(np.int32), rank=rank, cap=cap).capped()
