"""The plain level engine: the definition of W_L, vectorised, for models too small to be worth a compiler.

For L = 0, 1, 2, …: among the states that are not settled, a choice is bad if it has an outcome with
``d + v(s') > L`` where ``v`` is L for the states that are still hoped for, ∞ for those already found dead, and
k* for the settled.  A state without a good choice is dead, which makes further choices bad; what survives has
k* = L.  The next level is the least at which some damaging outcome of an unsettled state becomes affordable; when
there is none, all that is left is ∞.

The rank of a dead state is the round in which it was found dead at the last level that it died at.
"""

from __future__ import annotations

import numpy as np

from almostsure.budget.minimal import INFINITE, Answer
from almostsure.model.arrays import owners
from almostsure.model.mdp import Support


def solve_plain(support: Support, *, cap: int, patience: float = np.inf) -> Answer | None:
    """k* by levels, in NumPy.  Returns None if it took more than ``patience`` looks at outcomes."""
    first, starts = support.choice_ptr[:-1], support.outcome_ptr[:-1]
    owner = owners(support.choice_ptr)[owners(support.outcome_ptr)]
    damage = support.damage.astype(np.int64)
    value = np.full(support.num_states, INFINITE, np.int64)
    rank = np.zeros(support.num_states, np.int64)
    level, rounds = 0, 0
    while level <= cap:
        hopeful = value == INFINITE
        value[hopeful] = level
        while True:
            rounds += 1
            if rounds * support.num_outcomes > patience:
                return None
            cost = value[support.successor] + damage
            dead = hopeful & (value == level) & (np.minimum.reduceat(np.maximum.reduceat(cost, starts), first) > level)
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
