"""The compact game: what level 0 and peeling leave, copied together.

See :mod:`almostsure.budget.compiled.parts`.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np

from almostsure.budget.compiled.parts import ALIVE, DAMAGE_BITS, DAMAGE_MASK, DOOMED, INFINITE, MANY, NOWHERE, unsigned
from almostsure.kernels import njit


@njit(cache=True, borrows=True, nogil=True)
def measure(game, doomed):
    """How many choices and outcomes the doomed states have, and how many outcomes their longest choice has."""
    choice_ptr, outcome_ptr, _, _ = game
    choices = 0
    outcomes = 0
    longest = 0
    for s in range(unsigned(doomed.size)):
        if doomed[s] == DOOMED:
            first, last = unsigned(choice_ptr[s]), unsigned(choice_ptr[s + unsigned(1)])
            choices += last - first
            outcomes += np.int64(outcome_ptr[last]) - np.int64(outcome_ptr[first])
            for c in range(first, last):
                longest = max(longest, np.int64(outcome_ptr[c + unsigned(1)]) - np.int64(outcome_ptr[c]))
    return np.int64(choices), outcomes, longest


@njit(cache=True, borrows=True, nogil=True, inner=True)
def number_doomed(doomed, local, states):
    """Number the doomed states from 1; returns how many there are, and one more."""
    count = 1
    states[0] = NOWHERE
    for s in range(doomed.size):
        if doomed[s] == DOOMED:
            local[s] = count
            states[count] = s
            count += 1
    return count


@njit(cache=True, borrows=True, nogil=True, inner=True)
def damaging_first(outcome, begin, end):
    """Move the damaging outcomes of a choice to its front."""
    front = begin
    for j in range(begin, end):
        if outcome[j] & DAMAGE_MASK:
            outcome[front], outcome[j] = outcome[j], outcome[front]
            front += 1


@njit(cache=True, borrows=True, nogil=True)
def extract(game, doomed, value, local, states, small):
    """Copy the doomed states into a game of their own.

    Returns its numbers of states, choices and outcomes, and the outcomes of each state's longest choice together.

    There an outcome is one integer, its damage in the low bits: what is read together lies together.  A choice
    with many outcomes has the damaging ones in front, and keeps in ``reached`` how many are good for ever.

    Local state 0 stands for all states of value 0; then come the doomed states (listed in ``states``, with
    ``local`` their inverse), then the peeled states of finite value that they lead to.  Choices that lead to a
    peeled state of value ∞ are left out: nobody can ever rely on them.
    """
    choice_ptr, outcome_ptr, successor, damage = game
    small_choice_ptr, small_outcome_ptr, small_outcome, reached = small
    num_states = number_doomed(doomed, local, states)
    small_choice_ptr[0] = 0
    small_choice_ptr[1] = 0
    small_outcome_ptr[0] = 0
    choices = 0
    outcomes = 0
    widest = 0
    for i in range(1, num_states):
        s = states[i]
        wide = 0
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            begin = outcomes
            harm = 0  # the worst damage on the way to a state of value 0
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
