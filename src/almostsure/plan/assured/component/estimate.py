"""Compiled: the order in which sweeps visit a component, and first values."""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit
from almostsure.memory import side_by_side
from almostsure.plan.assured.component.parts import STAY

RING = 4096  # buckets of the queue
DONE = -2  # the slot of settled positions
NOT_LATE = 0.3  # up to this probability of unsettled outcomes, values are extrapolated


class EstimateRoom(NamedTuple):
    """The arrays that an estimate writes to."""

    order: np.ndarray  # [positions], the positions in the order in which they are settled
    via: np.ndarray  # [entries], for each position the choices that may lead there
    factor: np.ndarray  # [entries], and with which factor
    judged: np.ndarray  # [choices, 4], see :func:`_judge`
    slot_of: np.ndarray  # [positions], the bucket of each; negative: none
    before: np.ndarray  # [positions], the previous position in its bucket (a doubly linked list)
    after: np.ndarray  # [positions], the next one


def room_to_estimate(positions: int, choices: int, entries: int) -> EstimateRoom:
    """Uninitialised arrays for an estimate, from NumPy, which gets larger memory pages than compiled code would."""
    order, via = side_by_side(np.uint32, positions, entries)
    factor, judged = side_by_side(np.float32, entries, 4 * choices)
    return EstimateRoom(
        order, via, factor, judged.reshape(-1, 4), *side_by_side(np.int32, positions, positions, positions)
    )


@njit(cache=True, error_model="numpy", inner=True)
def _move(i, slot, slot_of, before, after, head, tail):
    """Move a position to the end of another bucket, or take it out of all if the slot is negative."""
    old = slot_of[i]
    if old >= 0:
        if before[i] >= 0:
            after[before[i]] = after[i]
        else:
            head[old] = after[i]
        if after[i] >= 0:
            before[after[i]] = before[i]
        else:
            tail[old] = before[i]
    slot_of[i] = slot
    if slot < 0:
        return
    before[i], after[i] = tail[slot], -1
    if tail[slot] >= 0:
        after[tail[slot]] = i
    else:
        head[slot] = i
    tail[slot] = i


@njit(cache=True, error_model="numpy", inner=True)
def _guess(worth, later, ahead, gain):
    """The estimated value of a choice; see :func:`estimate` for what is assumed of unsettled outcomes."""
    if later < NOT_LATE and not np.isnan(ahead):
        return gain + (worth - later * ahead) / (1.0 - 2.0 * later)
    return gain + worth / max(1e-6, 1.0 - later)


@njit(cache=True, error_model="numpy", inner=True)
def _bucket(worth, top, width, lowest, discount):
    """The bucket of a value: its distance from the best one in widths or, discounted, in quarters of a step."""
    if discount == 1.0:
        return np.int64(min((top - worth) / width, 1e18))
    if worth <= lowest or top <= lowest:
        return np.int64(2**60)
    return np.int64(min(4.0 * np.log((worth - lowest) / (top - lowest)) / np.log(discount), 1e18))


@njit(cache=True, error_model="numpy", inner=True)
def _judge(part, usable, rewards, discount, value, judged):
    """Fill in what is known of each choice before any position is settled, and raise ``value`` by the exits.

    ``judged`` holds, by choice, the value of the settled outcomes, the probability of the unsettled ones (NaN:
    unusable), the value of the best settled one, and the positive part of the reward, which is counted only once while
    outcomes are unsettled, unlike costs.  Returns the lowest possible value.
    """
    ptr, entry_ptr, factor, constant, leak = part.ptr, part.entry_ptr, part.factor, part.constant, part.leak
    (graph_origin, gains), origin, lowest = rewards, part.origin, 0.0
    for x in range(value.size):
        for k in range(ptr[x], ptr[x + 1]):
            later = 0.0
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                later += factor[e]
            gain = 0.0 if origin[k] == STAY else max(0.0, gains[graph_origin[origin[k]]])
            judged[k, 0], judged[k, 1], judged[k, 2], judged[k, 3] = constant[k] - gain, later, np.nan, gain
            if not usable[k]:
                judged[k, 1] = np.nan
                continue
            if leak[k] > 0.0:
                value[x] = max(value[x], _guess(np.float64(judged[k, 0]), later, np.nan, gain))
            if discount < 1.0:  # no value is less than that of the worst choice for ever
                lowest = min(lowest, constant[k] / max(1e-9, 1.0 - later))
    return lowest


@njit(cache=True, error_model="numpy", inner=True)
def _backward(part, choice, factor):
    """Fill in, for each position, the choices that may lead there and their factors."""
    ptr, entry_ptr, column = part.ptr, part.entry_ptr, part.column
    size = part.ptr.size - 1
    at = part.pred_ptr[:size].copy()
    for x in range(size):
        for k in range(ptr[x], ptr[x + 1]):
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                y = column[e]
                choice[at[y]], factor[at[y]] = k, part.factor[e]
                at[y] += 1


@njit(cache=True, error_model="numpy", inner=True)
def _refill(value, queue, scale):
    """Move positions from the overflow bucket to the ring, from the best on; returns its bucket, and how many moved."""
    slot_of, before, after, head, tail = queue
    top, width, lowest, discount = scale
    nearest, waiting, i = -np.inf, 0, np.int64(head[RING])
    while i >= 0:
        nearest, i = max(nearest, value[i]), np.int64(after[i])
    current, i = _bucket(nearest, top, width, lowest, discount), np.int64(head[RING])
    while i >= 0:
        following, bucket = np.int64(after[i]), _bucket(value[i], top, width, lowest, discount)
        if bucket < current + RING:
            _move(i, np.int64(bucket % RING), slot_of, before, after, head, tail)
            waiting += 1
        i = following
    return current, waiting


@njit(cache=True, error_model="numpy")
def estimate(part, usable, rewards, width, discount, room):
    """Settle the positions one by one, the most valuable first; returns their order, estimated values, and the lowest.

    This is Dijkstra's algorithm with expectations: a choice is valued by its settled outcomes.  The others count as
    self-loops or, if their probability is small, as lying as far behind the position as the best settled outcome is
    ahead.  The estimates need not be right; the order is what makes sweeps converge fast.  Values count as equal
    within ``width``: the queue is a ring of buckets, with one more for values too far behind (overflow).  ``rewards``
    holds the model's choice of each of the graph's choices, and the mean reward of each of the model's.
    """
    pred_ptr, pred = part.pred_ptr, part.pred
    order, via, factor, judged, slot_of, before, after = room
    size = part.ptr.size - 1
    value = np.full(size, -np.inf)
    lowest = _judge(part, usable, rewards, discount, value, judged)
    _backward(part, via, factor)
    slot_of[:] = -1
    head, tail = np.full(RING + 1, -1, np.int32), np.full(RING + 1, -1, np.int32)
    top, waiting, settled, current = -np.inf, 0, 0, np.int64(0)
    for i in range(size):
        top = max(top, value[i])
        if value[i] > -np.inf:
            _move(i, RING, slot_of, before, after, head, tail)
    while True:
        if waiting == 0 and head[RING] < 0:  # discounted values are finite also where nothing leaves: settle these too
            for i in range(size):
                if slot_of[i] != DONE and discount < 1.0:
                    value[i] = max(value[i], lowest)
                    top = max(top, value[i])
                    _move(i, RING, slot_of, before, after, head, tail)
            if head[RING] < 0:
                return order[:settled], value, lowest
        if waiting == 0:
            current, waiting = _refill(value, (slot_of, before, after, head, tail), (top, width, lowest, discount))
        i = np.int64(head[current % RING])
        if i < 0:
            current += 1
            continue
        _move(i, DONE, slot_of, before, after, head, tail)
        waiting -= 1
        order[settled] = i
        settled += 1
        here = value[i]
        for q in range(pred_ptr[i], pred_ptr[i + 1]):
            k, j = via[q], np.int64(pred[q])
            if slot_of[j] == DONE or np.isnan(judged[k, 1]):
                continue
            worth = judged[k, 0] + factor[q] * here
            later = max(0.0, judged[k, 1] - factor[q])
            judged[k, 0], judged[k, 1] = worth, later
            if np.isnan(judged[k, 2]):
                judged[k, 2] = here
            guess = _guess(worth, later, np.float64(judged[k, 2]), np.float64(judged[k, 3]))
            if guess > value[j]:
                value[j] = guess
                bucket = max(current, _bucket(guess, top, width, lowest, discount))
                slot = np.int64(bucket % RING if bucket < current + RING else RING)
                if slot != slot_of[j]:
                    waiting += int(slot < RING) - int(0 <= slot_of[j] < RING)
                    _move(j, slot, slot_of, before, after, head, tail)
