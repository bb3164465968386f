"""Compiled: sweeps over a component, and the parts of direct solves of slow pockets.

A component is given by compact arrays (:class:`almostsure.plan.assured.steps.Part`): the choices of position x are
``ptr[x] … ptr[x+1] − 1``, the entries of choice k are ``entry_ptr[k] … entry_ptr[k+1] − 1``, and

    worth of choice k  =  constant[k] + Σ factor[e] · value[column[e]].

Arrays are taken out of their tuples before loops: inside, every access would count a reference.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit

CHUNK = 128  # positions that are visited together
STUCK = 8  # rounds after which a sweep looks further ahead


class SweepState(NamedTuple):
    """The state of a run of sweeps."""

    value: np.ndarray  # [positions]
    policy: np.ndarray  # [positions], choices
    active: np.ndarray  # [positions], whether the value must be updated
    is_dirty: np.ndarray  # [chunks], whether a position of the chunk is active
    todo: np.ndarray  # [chunks], the next visits that update by the policy's choices only
    changes: np.ndarray  # [positions], how often each value has changed
    account: np.ndarray  # [3], updates made, the furthest first dirty chunk so far, and rounds since it was reached


class SweepLimits(NamedTuple):
    """The parameters of a run of sweeps."""

    threshold: float
    lookahead: int  # chunks that a round visits
    policy_sweeps: int  # visits of a chunk by the policy's choices only, after a full one
    patience: int  # changes of one value after which the run is interrupted
    max_updates: int


class PocketSearch(NamedTuple):
    """The arrays of the search for a pocket."""

    level: np.ndarray  # [positions], in how many pockets each was
    mark: np.ndarray  # [positions], all False before and after
    found: np.ndarray  # [positions]


@njit(cache=True, error_model="numpy", inline="always")
def _best(x, ptr, entry_ptr, column, factor, constant, value):
    """The best choice of a position and its worth."""
    first, last = np.int64(ptr[x]), np.int64(ptr[x + 1])
    best, choice, e = -np.inf, first, np.int64(entry_ptr[first])
    for k in range(first, last):
        worth, end = constant[k], np.int64(entry_ptr[k + 1])
        while e < end:
            worth += factor[e] * value[column[e]]
            e += 1
        choice = k if worth > best else choice  # conditional moves: a branch would be unpredictable
        best = worth if worth > best else best
    return best, choice


@njit(cache=True, error_model="numpy", inline="always")
def _worth(k, entry_ptr, column, factor, constant, value):
    """The worth of one choice."""
    worth = constant[k]
    for e in range(np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])):
        worth += factor[e] * value[column[e]]
    return worth


@njit(cache=True, error_model="numpy", inline="always")
def _wake(x, pred_ptr, pred, active, is_dirty, lowest):
    """Activate all predecessors of position x; returns the lowest chunk concerned.

    Whether they are active already is not tested: a mispredicted branch costs more than writing again.
    """
    for q in range(np.int64(pred_ptr[x]), np.int64(pred_ptr[x + 1])):
        y = pred[q]
        active[y] = True
        is_dirty[y // CHUNK] = True
        lowest = min(lowest, np.int64(y // CHUNK))
    return lowest


@njit(cache=True, error_model="numpy")
def sweep(part, run, limits):
    """Update active positions, chunk by chunk, until all residuals are within the threshold.

    A round visits the first ``lookahead`` dirty chunks, in order, and more of them the longer the first one has been
    stuck, since it may depend on positions far ahead.  A full visit updates by all choices and makes the positions
    inactive; the next few visits of the chunk update by the policy's choices only.  A value that changes by more than
    the threshold activates its predecessors.  Returns −1 once all positions are inactive, −2 after ``max_updates``, or
    else a chunk in which some value has changed ``patience`` times.
    """
    value, policy, active, is_dirty, todo, changes, account = run
    threshold, lookahead, policy_sweeps, patience, max_updates = limits
    ptr, entry_ptr, column, factor, constant = part[:5]
    pred_ptr, pred = part.pred_ptr, part.pred
    num, num_chunks = value.size, is_dirty.size
    lowest = 0
    while True:
        while lowest < num_chunks and not is_dirty[lowest]:
            lowest += 1
        if lowest == num_chunks:
            return -1
        if account[0] > max_updates:
            return -2
        account[2] += 1
        if lowest > account[1]:
            account[1], account[2] = lowest, 0
        visited, j = 0, lowest
        reach = lookahead * (1 + account[2] // STUCK)
        while j < num_chunks and visited < reach:
            if not is_dirty[j]:
                j += 1
                continue
            visited += 1
            full = todo[j] == 0
            if full:
                is_dirty[j] = False
            updates, moved, most = 0, 0, 0
            for x in range(j * CHUNK, min(num, (j + 1) * CHUNK)):
                if not active[x]:
                    continue
                updates += 1
                if full:
                    active[x] = False
                    worth, policy[x] = _best(x, ptr, entry_ptr, column, factor, constant, value)
                else:
                    worth = _worth(policy[x], entry_ptr, column, factor, constant, value)
                if abs(worth - value[x]) > threshold:
                    value[x] = worth
                    moved += 1
                    changes[x] += 1
                    most = max(most, changes[x])
                    lowest = _wake(x, pred_ptr, pred, active, is_dirty, lowest)
            account[0] += updates
            if full:
                todo[j] = policy_sweeps if moved > 0 else 0
            else:
                todo[j] = todo[j] - 1 if moved > 0 else 0
            if most >= patience:
                return j
            j += 1


# ---------------------------------------------------------------------- slow pockets


@njit(cache=True, error_model="numpy")
def pocket(part, search, changes, begin, end, often, limit):
    """Find the positions of a range that changed at least ``often`` times; writes them to the search.

    Those that were in a pocket before bring their neighbourhood, a wider one every time, up to ``limit`` members in
    all.  Returns the number of members.
    """
    level, mark, found = search
    ptr, entry_ptr, column, pred_ptr, pred = part.ptr, part.entry_ptr, part.column, part.pred_ptr, part.pred
    count, top = 0, 0
    for x in range(begin, end):
        if changes[x] >= often:
            mark[x] = True
            found[count] = x
            count += 1
            top = max(top, level[x])
    seeds, first, last = count, 0, count
    for _ in range(0 if top == 0 else 1 << min(top, 8)):
        for f in range(first, last):
            x = found[f]
            if f < seeds and level[x] < top:
                continue
            for e in range(entry_ptr[ptr[x]], entry_ptr[ptr[x + 1]]):
                if not mark[column[e]] and count < limit:
                    mark[column[e]] = True
                    found[count] = column[e]
                    count += 1
            for q in range(pred_ptr[x], pred_ptr[x + 1]):
                if not mark[pred[q]] and count < limit:
                    mark[pred[q]] = True
                    found[count] = pred[q]
                    count += 1
        first, last = last, count
    for f in range(count):
        mark[found[f]] = False
    for f in range(seeds):
        level[found[f]] += 1
    return count


@njit(cache=True, error_model="numpy", inner=True)
def _may_leave(k, local, leaving, part):
    """Whether a choice may lead out of the pocket, or to a member that is known to leave it."""
    chance = 0.0
    for e in range(part.entry_ptr[k], part.entry_ptr[k + 1]):
        inside = local[part.column[e]]
        if inside < 0 or leaving[inside]:
            return True
        chance += part.factor[e]
    return chance < 1.0 - 1e-9


@njit(cache=True, error_model="numpy")
def make_proper(members, local, part, value, policy):
    """Make the policy proper: each member takes its best choice or, where these never leave, one towards an exit.

    ``local`` maps positions to members, −1 for others.  Returns False if some member cannot leave at all.
    """
    ptr, entry_ptr, column, factor, constant = part[:5]
    num = members.size
    leaving = np.zeros(num, np.bool_)
    for f in range(num):
        _, policy[members[f]] = _best(members[f], ptr, entry_ptr, column, factor, constant, value)
    left = num
    for any_choice in range(2):
        more = True
        while more and left > 0:
            more = False
            for f in range(num):
                x = members[f]
                if leaving[f]:
                    continue
                if any_choice == 0:
                    leaving[f] = _may_leave(np.uint64(policy[x]), local, leaving, part)
                else:
                    for k in range(part.ptr[x], part.ptr[x + 1]):
                        if part.constant[k] > -np.inf and _may_leave(k, local, leaving, part):
                            leaving[f] = True
                            policy[x] = k
                            break
                if leaving[f]:
                    more = True
                    left -= 1
    return left == 0


@njit(cache=True, error_model="numpy")
def equations(members, local, part, value, policy):
    """The linear system of the members' values under the policy, with all other values fixed.

    Returns row offsets, columns, factors (identity minus transitions) and the right-hand side.
    """
    _, entry_ptr, column, factor, constant = part[:5]
    num = members.size
    room = num
    for f in range(num):
        k = policy[members[f]]
        room += entry_ptr[k + 1] - entry_ptr[k]
    start = np.zeros(num + 1, np.int32)
    columns = np.empty(room, np.int32)
    factors = np.empty(room, np.float64)
    right = np.empty(num, np.float64)
    z = 0
    for f in range(num):
        k = policy[members[f]]
        columns[z], factors[z] = f, 1.0
        z += 1
        right[f] = constant[k]
        for e in range(entry_ptr[k], entry_ptr[k + 1]):
            inside = local[column[e]]
            if inside >= 0:
                columns[z], factors[z] = inside, -factor[e]
                z += 1
            else:
                right[f] += factor[e] * value[column[e]]
        start[f + 1] = z
    return start, columns[:z], factors[:z], right


@njit(cache=True, error_model="numpy")
def improve(members, threshold, part, value, policy):
    """Switch members to clearly better choices; returns the number of switches."""
    ptr, entry_ptr, column, factor, constant = part[:5]
    switched = 0
    for f in range(members.size):
        x = members[f]
        best, choice = _best(x, ptr, entry_ptr, column, factor, constant, value)
        now = _worth(policy[x], entry_ptr, column, factor, constant, value)
        if best > now + max(threshold, 1e-14 * abs(now)):
            policy[x] = choice
            switched += 1
    return switched


@njit(cache=True, error_model="numpy")
def wake_changed(members, old, part, run):
    """After a direct solve: activate all members, and the predecessors of those that changed."""
    for f in range(members.size):
        x = members[f]
        run.changes[x] = 0
        run.active[x] = True
        run.is_dirty[x // CHUNK] = True
        run.todo[x // CHUNK] = 0
        if run.value[x] != old[f]:
            _wake(x, part.pred_ptr, part.pred, run.active, run.is_dirty, 0)
