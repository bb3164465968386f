"""The compact game: a copy of the states that level 0 and peeling leave.

See :mod:`almostsure.budget.compiled.parts`.
"""

# mypy: ignore-errors
# Numba infers the types of these functions, and ignores annotations.

from __future__ import annotations

import numpy as np

from almostsure.budget.compiled.parts import ALIVE, DAMAGE_BITS, DAMAGE_MASK, DOOMED, INFINITE, MANY, NOWHERE, unsigned
from almostsure.kernels import njit


@njit(cache=True, borrows=True, nogil=True, inner=True)
def damaging_first(outcome, begin, end):
    """Move the damaging outcomes of a choice to its front."""
    front = begin
    for j in range(begin, end):
        if outcome[j] & DAMAGE_MASK:
            outcome[front], outcome[j] = outcome[j], outcome[front]
            front += 1


@njit(cache=True, borrows=True, nogil=True)
def extract(game, doomed, value, local, states, left, small):
    """Copy the doomed states into a compact game.

    Returns its numbers of states, choices and outcomes, and the sum over states of the outcomes of the longest choice.

    An outcome is one integer, with its damage in the low bits, so that both are read together.  A choice with many
    outcomes has the damaging ones in front; outcomes before ``reached`` are known to stay good.

    Local state 0 stands for all states of value 0.  Then come the ``left`` doomed states, which ``states`` lists, with
    ``local`` as the inverse, and then the peeled states of finite value that they lead to.  Choices that lead to a
    peeled state of value ∞ are left out: no state can ever rely on them.
    """
    choice_ptr, outcome_ptr, successor, damage = game
    small_choice_ptr, small_outcome_ptr, small_outcome, reached = small
    num_states = left + 1
    small_choice_ptr[0] = 0
    small_choice_ptr[1] = 0
    small_outcome_ptr[0] = 0
    choices = 0
    outcomes = 0
    widest = 0
    for i in range(1, left + 1):
        s = states[i]
        wide = 0
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            begin = outcomes
            harm = 0  # the largest damage on the way to a state of value 0
            hopeless = False
            for j in range(outcome_ptr[c], outcome_ptr[c + 1]):
                t = unsigned(successor[j])
                d = damage[j]
                if doomed[t] == ALIVE:
                    harm = max(harm, np.int64(d))
                    continue
                if doomed[t] != DOOMED:
                    if value[t] == INFINITE:
                        hopeless = True
                        break
                    if local[t] == NOWHERE:
                        local[t] = num_states
                        states[num_states] = t
                        num_states += 1
                small_outcome[outcomes] = (np.int64(local[t]) << DAMAGE_BITS) | d
                outcomes += 1
            if hopeless:
                outcomes = begin
                continue
            if harm:
                small_outcome[outcomes] = harm
                outcomes += 1
            if outcomes - begin > MANY:
                damaging_first(small_outcome, begin, outcomes)
                reached[choices] = begin
            choices += 1
            small_outcome_ptr[choices] = outcomes
            wide = max(wide, outcomes - begin)
        small_choice_ptr[i + 1] = choices
        widest += wide
    return num_states, choices, outcomes, widest
