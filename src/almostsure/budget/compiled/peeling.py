"""Settles acyclic parts, without levels.

See :mod:`almostsure.budget.compiled.parts`.  To save cache misses, ``peel`` keeps two numbers side by side for each
state, ``node[2s]`` and ``node[2s + 1]``.  The first is initially 0 if ``s`` is settled, and UNSETTLED otherwise; in the
end it is the value.  A state waits for its first unsettled successor ``t`` in a list that begins at ``node[2t + 1]``
and continues through ``node[2s]`` of the waiting states, as ``−2 − next``.  When no state waits for ``t`` any longer,
``node[2t + 1]`` becomes its rank.  A stride ``n`` means that all states have ``n`` choices (all choices ``n``
outcomes), 0 that the offsets must be read.  States with many outcomes resume the search where they stopped
(``reached``); for others it is faster to begin again.
"""

# mypy: ignore-errors
# Numba infers the types of these functions, and ignores annotations.

from __future__ import annotations

import numpy as np

from almostsure.budget.compiled.parts import (
    DOOMED,
    INFINITE,
    MANY,
    NO_CAP,
    NOWHERE,
    PEELED,
    UNSETTLED,
    unsigned,
)
from almostsure.kernels import njit
from almostsure.model.mdp import Ints

BLOCK = 1 << 12  # offsets that are compared at a time
NEVER = np.int64(2**40)  # stands for an infinite cost; finite ones are below 2³²


def stride(ptr: Ints) -> int:
    """The number of items per owner if it is the same for all; otherwise 0."""
    width = int(ptr[1]) - int(ptr[0])
    blocks = (ptr[begin : begin + BLOCK + 1] for begin in range(0, ptr.size - 1, BLOCK))
    return width if all((np.diff(block) == width).all() for block in blocks) else 0


@njit(cache=True, borrows=True, nogil=True)
def peel(strides, game, doomed, node, reached, order, cap):
    """Settle, in topological order, all doomed states whose other successors are settled, and list them in ``order``.

    Returns their number; −1 if, without a cap, a finite value is too large.  Values above ``cap`` are INFINITE.
    """
    choice_ptr, outcome_ptr, successor, damage = game
    per_state, per_choice = strides
    num_states, settled, done = node.size // 2, 0, 0
    for i in range(num_states):
        s = num_states - 1 - i  # successors mostly have larger numbers, so going backward settles more states at once
        if doomed[s] != DOOMED:
            continue
        woken = False
        while True:
            first = s * per_state if per_state else np.int64(choice_ptr[s])
            last = first + per_state if per_state else np.int64(choice_ptr[s + 1])
            blocker = np.int64(NOWHERE)
            if (last - first) * per_choice > MANY or (not per_choice and outcome_ptr[last] - outcome_ptr[first] > MANY):
                j = np.int64(reached[s]) if woken else np.int64(outcome_ptr[first])
                while j < outcome_ptr[last] and (node[2 * np.int64(successor[j])] >= 0 or successor[j] == s):
                    j += 1
                if j < outcome_ptr[last]:
                    blocker, reached[s] = np.int64(successor[j]), j
            best, c = NEVER, first
            while c < last and blocker == NOWHERE:
                begin = c * per_choice if per_choice else np.int64(outcome_ptr[c])
                end = begin + per_choice if per_choice else np.int64(outcome_ptr[c + 1])
                worst = np.int64(0)
                for j in range(begin, end):
                    t = np.int64(successor[j])
                    v = node[unsigned(2 * t)]
                    if t == s:  # a self-loop: free without damage; with damage the choice is never safe
                        worst = NEVER if damage[j] else worst
                    elif v < 0:
                        blocker = t
                        break
                    else:
                        worst = max(worst, NEVER if v == INFINITE else np.int64(v) + np.int64(damage[j]))
                if cap == NO_CAP < worst < NEVER:
                    return -1
                best = min(best, worst)
                c += 1
            if blocker != NOWHERE:
                node[2 * s] = -2 - node[2 * blocker + 1]
                node[2 * blocker + 1] = s
            else:
                node[2 * s] = best if best <= cap else np.int64(INFINITE)
                order[settled] = s
                settled += 1
            while done < settled and node[2 * np.int64(order[done]) + 1] == NOWHERE:
                node[2 * np.int64(order[done]) + 1] = done
                done += 1
            if done == settled:
                break
            t = np.int64(order[done])
            s = np.int64(node[2 * t + 1])
            node[2 * t + 1] = -2 - node[2 * s]
            node[2 * s] = UNSETTLED
            woken = True
    return settled


@njit(cache=True, borrows=True, nogil=True)
def unzip(node, doomed, rank):
    """Separate the results of ``peel`` in ``node``: values to its first half, ranks of peeled states to ``rank``.

    States that could not be peeled get the value INFINITE for now.
    """
    one = unsigned(1)
    for s in range(unsigned(doomed.size)):
        value = node[s + s]
        if doomed[s]:
            if value < 0:
                value = INFINITE
            else:
                doomed[s] = PEELED
                rank[s] = node[s + s + one]
        node[s] = value
