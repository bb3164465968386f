"""Level 0 on the whole model: finds the states that need no budget.  See :mod:`almostsure.budget.compiled.parts`.

Kernels unpack their tuples before the loops, and inner loops call no functions: Numba counts references when an array
is taken out of a tuple, and passes arrays to a function field by field.
"""

# mypy: ignore-errors
# Numba infers the types of these functions, and ignores annotations.

from __future__ import annotations

import numpy as np

from almostsure.budget.compiled.parts import HOPED, INFINITE, LOST, NOWHERE, unsigned
from almostsure.kernels import njit


@njit(cache=True, borrows=True, nogil=True)
def sweep(game, hope, next_rank, first, beyond, again, forward):
    """Examine the hoped states ``first … beyond − 1``, forward or backward; returns the number of newly lost ones.

    If they were examined before (``again``), only those are of interest that rely on a choice that has turned bad.
    """
    choice_ptr, outcome_ptr, successor, damage = game
    kind, relies, rank = hope
    one = unsigned(1)
    count = 0
    for i in range(unsigned(beyond - first)):
        s = unsigned(first) + i if forward else unsigned(beyond) - one - i
        if kind[s] != HOPED:
            continue
        c, last = unsigned(choice_ptr[s]), unsigned(choice_ptr[s + one])
        if again:
            c = unsigned(relies[s])
            bad = np.uint8(0)  # no branches, since this runs over all states; its damage leads to finite states
            for j in range(unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])):
                bad |= kind[unsigned(successor[j])]
            if not bad & 1:
                continue
            c += one
        while c < last:
            j, end = unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])
            while j < end and not ((damage[j] and kind[unsigned(successor[j])]) or kind[unsigned(successor[j])] & 1):
                j += one
            if j == end:
                break
            c += one
        if c < last:
            relies[s] = c
        else:
            kind[s] = LOST
            rank[s] = next_rank + count
            count += 1
    return count


@njit(cache=True, borrows=True, nogil=True)
def spread(game, hope, next_rank, watch):
    """Finish level 0 if sweeps take too long: each state registers with the successors that it relies on."""
    choice_ptr, outcome_ptr, successor, damage = game
    kind, relies, rank = hope
    watchers, following, pool_state, pool_choice, stack = watch
    one = unsigned(1)
    count = 0
    pooled = 0
    for i in range(unsigned(kind.size)):
        s = unsigned(i)
        depth = 0
        relied = NOWHERE  # the choice for which the state registered; it is skipped if it relies on another by now
        while True:
            if kind[s] == HOPED and (relied == NOWHERE or relied == np.int64(relies[s])):
                last = unsigned(choice_ptr[s + one])
                c = unsigned(relies[s])
                while c < last:
                    j, end = unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])
                    while j < end and not (
                        (damage[j] and kind[unsigned(successor[j])]) or kind[unsigned(successor[j])] & 1
                    ):
                        j += one
                    if j == end:
                        break
                    c += one
                if c == last:
                    kind[s] = LOST
                    rank[s] = next_rank + count
                    count += 1
                    stack[depth] = watchers[s]
                    depth += 1
                else:
                    relies[s] = c
                    for k in range(unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])):
                        t = unsigned(successor[k])
                        pool_state[pooled] = s
                        pool_choice[pooled] = c
                        following[pooled] = watchers[t]
                        watchers[t] = pooled
                        pooled += 1
            while depth and stack[depth - 1] == NOWHERE:
                depth -= 1
            if not depth:
                break
            entry = stack[depth - 1]
            stack[depth - 1] = following[entry]
            s = unsigned(pool_state[entry])
            relied = np.int64(pool_choice[entry])
    return count


@njit(cache=True, borrows=True, nogil=True)
def choice_values(game, value, first, beyond, out):
    """k(s,a) = max over outcomes of d + v(s'), for the choices ``first … beyond − 1``."""
    _, outcome_ptr, successor, damage = game
    for c in range(unsigned(first), unsigned(beyond)):
        worst = np.int64(0)
        for j in range(unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + unsigned(1)])):
            worst = max(worst, np.int64(value[unsigned(successor[j])]) + np.int64(damage[j]))
        out[c] = min(worst, np.int64(INFINITE))
