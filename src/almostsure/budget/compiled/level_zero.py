"""Level 0 on the whole model: finds the states that need no budget.  See :mod:`almostsure.budget.compiled.parts`.

Kernels unpack their tuples before the loops, and inner loops call no functions: Numba counts references when an array
is taken out of a tuple, and passes arrays to a function field by field.
"""

# mypy: ignore-errors
# Numba infers the types of these functions, and ignores annotations.

from __future__ import annotations

import numpy as np

from almostsure.budget.compiled.parts import DOOMED, INFINITE, NOWHERE, unsigned
from almostsure.kernels import njit


@njit(cache=True, borrows=True, nogil=True)
def first_sweep(game, doom, next_rank, first, beyond):
    """Examine the states ``first … beyond − 1`` once; returns the number of newly doomed ones."""
    choice_ptr, outcome_ptr, successor, damage = game
    doomed, relies, rank = doom
    one = unsigned(1)
    count = 0
    for s in range(unsigned(first), unsigned(beyond)):
        last = unsigned(choice_ptr[s + one])
        c = unsigned(choice_ptr[s])
        while c < last:
            j, end = unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])
            while j < end and not (damage[j] or doomed[unsigned(successor[j])]):
                j += one
            if j == end:
                break
            c += one
        if c < last:
            relies[s] = c
        else:
            doomed[s] = DOOMED
            rank[s] = next_rank + count
            count += 1
    return count


@njit(cache=True, borrows=True, nogil=True)
def sweep(game, doom, next_rank, first, beyond, forward):
    """Examine those of them that are not doomed, forward or backward; returns the number of newly doomed ones."""
    choice_ptr, outcome_ptr, successor, damage = game
    doomed, relies, rank = doom
    one = unsigned(1)
    count = 0
    for i in range(unsigned(beyond - first)):
        s = unsigned(first) + i if forward else unsigned(beyond) - one - i
        if doomed[s]:
            continue
        c = unsigned(relies[s])
        bad = np.uint8(0)  # no branches, since this runs over all states; the choice has no damage
        for j in range(unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])):
            bad |= doomed[unsigned(successor[j])]
        if not bad:
            continue
        last = unsigned(choice_ptr[s + one])
        c += one
        while c < last:
            j, end = unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])
            while j < end and not (damage[j] or doomed[unsigned(successor[j])]):
                j += one
            if j == end:
                break
            c += one
        if c < last:
            relies[s] = c
        else:
            doomed[s] = DOOMED
            rank[s] = next_rank + count
            count += 1
    return count


@njit(cache=True, borrows=True, nogil=True)
def spread(game, doom, next_rank, watch):
    """Finish level 0 if sweeps take too long: each state registers with the successors that it relies on."""
    choice_ptr, outcome_ptr, successor, damage = game
    doomed, relies, rank = doom
    watchers, following, pool_state, pool_choice, stack = watch
    one = unsigned(1)
    count = 0
    pooled = 0
    for i in range(unsigned(doomed.size)):
        s = unsigned(i)
        depth = 0
        relied = NOWHERE  # the choice for which the state registered; it is skipped if it relies on another by now
        while True:
            if not doomed[s] and (relied == NOWHERE or relied == np.int64(relies[s])):
                last = unsigned(choice_ptr[s + one])
                c = unsigned(relies[s])
                while c < last:
                    j, end = unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])
                    while j < end and not (damage[j] or doomed[unsigned(successor[j])]):
                        j += one
                    if j == end:
                        break
                    c += one
                if c == last:
                    doomed[s] = DOOMED
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
