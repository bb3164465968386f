"""Compiled sweeps over a layer, and what the direct solves of slow pockets need.

A component is given by compact arrays (:class:`almostsure.plan.assured.steps.Part`): the choices of position x are
``ptr[x] … ptr[x+1] − 1``, the entries of choice k are ``entry_ptr[k] … entry_ptr[k+1] − 1``, and

    worth of choice k  =  constant[k] + Σ factor[e] · value[column[e]].
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np
from numba import njit

CHUNK = 128  # positions that are visited together
STUCK = 32  # rounds after which a sweep looks further ahead


@njit(cache=True, inline="always")
def _best(x, ptr, entry_ptr, column, factor, constant, value):
    """The best choice of a position and its worth."""
    best, choice = -np.inf, ptr[x]
    for k in range(ptr[x], ptr[x + 1]):
        worth = constant[k]
        for e in range(entry_ptr[k], entry_ptr[k + 1]):
            worth += factor[e] * value[column[e]]
        if worth > best:
            best, choice = worth, k
    return best, choice


@njit(cache=True, inline="always")
def _worth(k, entry_ptr, column, factor, constant, value):
    """The worth of one choice."""
    worth = constant[k]
    for e in range(entry_ptr[k], entry_ptr[k + 1]):
        worth += factor[e] * value[column[e]]
    return worth


@njit(cache=True, inline="always")
def _wake(x, pred_ptr, pred, active, is_dirty, lowest):
    """Everybody who looks at position x has to look again; returns the lowest chunk concerned.

    Whether they were awake is not asked: a wrong guess at the answer costs the processor more than to write it again.
    """
    for q in range(pred_ptr[x], pred_ptr[x + 1]):
        y = np.int64(pred[q])
        active[y] = True
        is_dirty[y // CHUNK] = True
        lowest = min(lowest, y // CHUNK)
    return lowest


@njit(cache=True)
def sweep(threshold, lookahead, policy_sweeps, patience, max_updates, ptr, entry_ptr, column, factor, constant, value, policy, pred_ptr, pred, active, is_dirty, todo, changes, account):  # noqa: E501  # fmt: skip
    """Update active positions, chunk by chunk, until all are within ``threshold`` of their best choice's worth.

    A round visits the first ``lookahead`` chunks with active positions, in order, and more of them the longer the
    first one has been stuck: it may wait for somebody far ahead.  A full visit looks at all choices and puts what it
    sees to rest; the next few visits look at the policy's choices only.  A value that changes by more than the
    threshold wakes its predecessors.  Returns −1 when everybody rests, −2 after ``max_updates``, or else a chunk in
    which some value has changed ``patience`` times.  ``account`` holds updates made, first chunk ever reached, and
    rounds since then.
    """
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


@njit(cache=True)
def pocket(begin, end, often, limit, changes, level, ptr, entry_ptr, column, pred_ptr, pred, mark, found):
    """Positions in a range that changed ``often``; those met before bring their neighbourhood, wider every time.

    Writes to ``found`` and returns how many there are, at most ``limit`` beyond the first; ``mark`` is all False
    before and after.
    """
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


@njit(cache=True)
def _may_leave(k, local, leaving, entry_ptr, column, factor):
    """Whether a choice may lead out of the pocket, or to a position of it that is already known to leave."""
    chance = 0.0
    for e in range(entry_ptr[k], entry_ptr[k + 1]):
        inside = local[column[e]]
        if inside < 0 or leaving[inside]:
            return True
        chance += factor[e]
    return chance < 1.0 - 1e-9


@njit(cache=True)
def make_proper(members, local, ptr, entry_ptr, column, factor, constant, value, policy):
    """Give each member its best choice, or one that comes nearer to an exit where the best ones lead round in circles.

    ``local`` maps positions to members, −1 for others.  Returns False if some member cannot leave at all.
    """
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
                    leaving[f] = _may_leave(policy[x], local, leaving, entry_ptr, column, factor)
                else:
                    for k in range(ptr[x], ptr[x + 1]):
                        if constant[k] > -np.inf and _may_leave(k, local, leaving, entry_ptr, column, factor):
                            leaving[f] = True
                            policy[x] = k
                            break
                if leaving[f]:
                    more = True
                    left -= 1
    return left == 0


@njit(cache=True)
def equations(members, local, entry_ptr, column, factor, constant, value, policy):
    """The equations of the members' values under the policy, everything else as it is: row offsets, columns,
    factors (of identity minus transitions) and right-hand side.
    """  # noqa: D205
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


@njit(cache=True)
def improve(members, threshold, ptr, entry_ptr, column, factor, constant, value, policy):
    """Switch members to clearly better choices; returns how many did."""
    switched = 0
    for f in range(members.size):
        x = members[f]
        best, choice = _best(x, ptr, entry_ptr, column, factor, constant, value)
        now = _worth(policy[x], entry_ptr, column, factor, constant, value)
        if best > now + max(threshold, 1e-14 * abs(now)):
            policy[x] = choice
            switched += 1
    return switched


@njit(cache=True)
def wake_changed(members, old, value, pred_ptr, pred, active, is_dirty, todo, changes):
    """After a direct solve: members that changed, and who looks at them, become active."""
    for f in range(members.size):
        x = members[f]
        changes[x] = 0
        active[x] = True
        is_dirty[x // CHUNK] = True
        todo[x // CHUNK] = 0
        if value[x] != old[f]:
            _wake(x, pred_ptr, pred, active, is_dirty, 0)


# ---------------------------------------------------------------------- proof


@njit(cache=True)
def check_bounds(remaining, discount, choice_ptr, outcome_ptr, successor, probability, damage, of_choice, reward, reward_size, place, can_stay, choice, lower, upper, proved):  # noqa: E501  # fmt: skip
    """Verify one layer's bounds on the model itself; returns the first state that fails, or −1.

    Upper bound: no allowed choice is worth more than it.  Lower bound: the policy's choice is worth at least that.
    Both with a margin for rounding.  Choices that stay within a collapsed place are left out; a place is proved
    by the member at which it is left, or by staying, for 0.
    """
    epsilon = 2.0**-53
    for s in range(choice_ptr.size - 1):
        high, low = upper[remaining, s], lower[remaining, s]
        if not (high > -np.inf):
            continue
        if can_stay[place[s]]:
            if high < 0.0:
                return s
            if low <= 0.0:
                proved[place[s]] = True
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            if of_choice[c] > remaining:
                continue
            above, below, inside = reward[c], reward[c], discount == 1.0
            size_above, size_below = 2.0 * reward_size[c], 2.0 * reward_size[c]
            for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                d, t, p = damage[o], successor[o], discount * probability[o]
                above += p * upper[remaining - d, t]
                below += p * lower[remaining - d, t]
                size_above += p * abs(upper[remaining - d, t])
                size_below += p * abs(lower[remaining - d, t])
                inside = inside and d == 0 and place[t] == place[s]
            if inside:
                continue
            roundings = epsilon * (outcome_ptr[c + 1] - outcome_ptr[c] + 4)
            if above > -np.inf and above + roundings * size_above > high:
                return s
            if c == choice[remaining, s] and below - roundings * size_below >= low:
                proved[place[s]] = True
    for s in range(choice_ptr.size - 1):
        if upper[remaining, s] > -np.inf and not proved[place[s]]:
            return s
    return -1
