"""Compiled preparation of a layer: its constants, who can surely leave, the order of the states, compact arrays.

States that may rest together for nothing were collapsed into *places* (see :mod:`almostsure.policy.components`);
otherwise a place is a state.  ``place`` maps states to places, ``member_ptr`` and ``member`` map back.

Numba compiles these functions when they are first called and keeps the result on disk.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np
from numba import njit

RING = 4096  # buckets of the queue in `estimate`
NOT_LATE = 0.3  # up to this probability of unsettled outcomes, `estimate` extrapolates


@njit(cache=True)
def read_choices(outcome_ptr, probability, rewards, mean, size):
    """Expected reward of each choice, exactly 0 where rewards cancel out up to rounding, and expected size.

    Returns how far, at most, probabilities are off a sum of 1, in units of rounding.
    """
    worst = 0.0
    for c in range(mean.size):
        chance, worth, absolute = 0.0, 0.0, 0.0
        for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
            chance += probability[o]
            worth += probability[o] * rewards[o]
            absolute += probability[o] * abs(rewards[o])
        mean[c] = 0.0 if abs(worth) <= 1e-12 * absolute else worth
        size[c] = absolute
        worst = max(worst, abs(chance - 1.0) / (outcome_ptr[c + 1] - outcome_ptr[c]))
    return worst / 2.0**-52


@njit(cache=True)
def list_predecessors(num_places, choice_ptr, outcome_ptr, successor, probability, damage, of_choice, total, place):
    """For each place, the choices elsewhere that may lead to it without damage, and how likely.

    Returns offsets by place, choices and probabilities, and how likely each choice leads back to where it starts;
    in single precision, for estimates only.
    """
    ptr = np.zeros(num_places + 1, np.uint32)
    position = ptr
    choices = np.empty(0, np.uint32)
    chances = np.empty(0, np.float32)
    own = np.zeros(of_choice.size, np.float32)
    for fill in range(2):
        if fill == 1:
            for i in range(num_places):
                ptr[i + 1] += ptr[i]
            position = ptr[:-1].copy()
            choices = np.empty(ptr[num_places], np.uint32)
            chances = np.empty(ptr[num_places], np.float32)
        for s in range(choice_ptr.size - 1):
            here = place[s]
            for c in range(choice_ptr[s], choice_ptr[s + 1]):
                if of_choice[c] > total:
                    continue
                for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                    there = place[successor[o]]
                    if damage[o] > 0:
                        continue
                    if there == here:
                        own[c] += fill * probability[o]
                    elif fill == 0:
                        ptr[there + 1] += 1
                    else:
                        choices[position[there]] = c
                        chances[position[there]] = probability[o]
                        position[there] += 1
    return ptr, choices, chances, own


@njit(cache=True)
def open_layer(remaining, outcome_ptr, successor, probability, damage, of_choice, reward, discount, values, constant, exit_chance, usable):  # noqa: E501  # fmt: skip
    """Fold reward and solved lower layers into one constant a choice.

    A choice is usable if the budget allows it and none of its exits is worth −∞.
    """
    for c in range(of_choice.size):
        usable[c] = False
        if of_choice[c] > remaining:
            continue
        worth, chance = 0.0, 0.0
        for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
            d = damage[o]
            if d > 0:
                worth += probability[o] * values[remaining - d, successor[o]]
                chance += probability[o]
        if worth == -np.inf:
            continue
        usable[c] = True
        constant[c] = reward[c] + discount * worth
        exit_chance[c] = chance


@njit(cache=True)
def leave_surely(choice_ptr, outcome_ptr, successor, damage, owner, place, member_ptr, member, pred_ptr, pred_choice, can_stay, exit_chance, usable, finite, queue):  # noqa: E501  # fmt: skip
    """Extend ``finite`` (known places) to all from which some policy surely comes to rest or leaves the layer.

    Repeats two steps until nothing changes: search backwards from exits and known places along usable choices;
    drop what was not found, and with it every choice that may lead there (it becomes unusable).
    """
    num_places = finite.size
    candidate = np.zeros(num_places, np.bool_)
    for i in range(num_places):
        if not finite[i]:
            for m in range(member_ptr[i], member_ptr[i + 1]):
                for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
                    candidate[i] = candidate[i] or usable[c]
    dropped = 0
    for i in range(num_places):  # what has no usable choice is lost from the start
        if not finite[i] and not candidate[i] and not can_stay[i]:
            for q in range(pred_ptr[i], pred_ptr[i + 1]):
                usable[pred_choice[q]] = False
    while True:
        found = 0
        for i in range(num_places):
            if finite[i] or not (candidate[i] or can_stay[i]):
                continue
            hit = can_stay[i]
            for m in range(member_ptr[i], member_ptr[i + 1]):
                if hit:
                    break
                for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
                    if not usable[c]:
                        continue
                    hit = hit or exit_chance[c] > 0
                    for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                        hit = hit or (damage[o] == 0 and finite[place[successor[o]]])
            if hit:
                queue[found] = i
                found += 1
        for f in range(found):
            finite[queue[f]] = True
        done = 0
        while done < found:
            i = queue[done]
            done += 1
            for q in range(pred_ptr[i], pred_ptr[i + 1]):
                c = pred_choice[q]
                j = owner[c]
                if usable[c] and not finite[j]:
                    finite[j] = True
                    queue[found] = j
                    found += 1
        lost = 0
        for i in range(num_places):
            if candidate[i] and not finite[i]:
                candidate[i] = False
                lost += 1
                for q in range(pred_ptr[i], pred_ptr[i + 1]):
                    usable[pred_choice[q]] = False
        dropped += lost
        if lost == 0:
            return dropped
        for f in range(found):  # found along choices that are no longer usable, perhaps: search again
            if candidate[queue[f]]:
                finite[queue[f]] = False


@njit(cache=True)
def _move(i, slot, slot_of, before, after, head, tail):
    """Put a place at the end of another bucket (or, with slot −1, in none)."""
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


@njit(cache=True)
def _bucket(worth, top, width, lowest, discount):
    """How far a value lies behind the best one: in widths or, discounted, in quarters of a step."""
    if discount == 1.0:
        return np.int64(min((top - worth) / width, 1e18))
    if worth <= lowest or top <= lowest:
        return np.int64(2**60)
    return np.int64(min(4.0 * np.log((worth - lowest) / (top - lowest)) / np.log(discount), 1e18))


@njit(cache=True)
def _first_guess(i, choice_ptr, member_ptr, member, can_stay, judged, discount):
    """What a place is worth if every outcome that does not leave the layer led back to it."""
    best = 0.0 if can_stay[i] else -np.inf
    for m in range(member_ptr[i], member_ptr[i + 1]):
        for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
            if judged[c, 1] > 0.0:
                best = max(best, judged[c, 3] + judged[c, 0] / (1.0 - discount * (1.0 - judged[c, 1])))
    return best


@njit(cache=True)
def estimate(choice_ptr, owner, member_ptr, member, pred_ptr, pred_choice, pred_chance, own, can_stay, finite, usable, constant, exit_chance, reward, discount, width, judged, value, order):  # noqa: E501  # fmt: skip
    """Settle the places one by one, the most valuable first; fills ``order``, returns how many there are.

    ``value`` holds lower bounds before and estimates afterwards; discounted, the lowest possible value is returned too.

    As in Dijkstra's algorithm, but with expectations: a choice is judged by its settled outcomes, as if the others
    led back to where one is, or, when they are few, as far behind as the settled ones are ahead.  The estimates
    need not be right; the order in which they are found is what makes sweeps converge fast.  Values count as
    equal within ``width``: the queue is a ring of buckets, with one more for what lies too far behind.
    """
    size = finite.size
    lowest = 0.0
    for c in range(constant.size):  # settled worth and chance, what the first settled outcome is worth, and gains
        gain = max(reward[c], 0.0)  # is not counted again and again while outcomes are unsettled, as costs are
        judged[c, 0], judged[c, 1] = constant[c] - gain, exit_chance[c] if usable[c] else np.nan
        judged[c, 2], judged[c, 3] = np.nan, gain
        if discount < 1.0 and usable[c]:  # nobody is worth less than the worst choice for ever
            lowest = min(lowest, constant[c] / (1.0 - discount * (1.0 - exit_chance[c])))
    slot_of = np.full(size, -1, np.int32)
    before, after = np.empty(size, np.int32), np.empty(size, np.int32)
    head, tail = np.full(RING + 1, -1, np.int32), np.full(RING + 1, -1, np.int32)
    done = ~finite
    top, waiting, settled, current = -np.inf, 0, 0, np.int64(0)
    for i in range(size):
        if finite[i]:
            guess = _first_guess(i, choice_ptr, member_ptr, member, can_stay, judged, discount)
            value[i] = max(value[i], guess)
            top = max(top, value[i])
            if value[i] > -np.inf:
                _move(i, RING, slot_of, before, after, head, tail)
    while True:
        if waiting == 0 and head[RING] < 0:  # discounted, nobody has to come to rest: take those who cannot
            for i in range(size):
                if not done[i]:
                    value[i] = max(value[i], lowest)
                    top = max(top, value[i])
                    _move(i, RING, slot_of, before, after, head, tail)
            if head[RING] < 0:
                return settled, lowest
        if waiting == 0:  # go to the nearest of those that lay too far behind
            nearest, i = -np.inf, head[RING]
            while i >= 0:
                nearest, i = max(nearest, value[i]), after[i]
            current, i = _bucket(nearest, top, width, lowest, discount), head[RING]
            while i >= 0:
                later, bucket = after[i], _bucket(value[i], top, width, lowest, discount)
                if bucket < current + RING:
                    _move(i, bucket % RING, slot_of, before, after, head, tail)
                    waiting += 1
                i = later
        i = head[current % RING]
        if i < 0:
            current += 1
            continue
        _move(i, -1, slot_of, before, after, head, tail)
        waiting -= 1
        done[i] = True
        order[settled] = i
        settled += 1
        for q in range(pred_ptr[i], pred_ptr[i + 1]):
            c = pred_choice[q]
            j = owner[c]
            chance = judged[c, 1]
            if done[j] or np.isnan(chance):
                continue
            worth = judged[c, 0] + discount * pred_chance[q] * value[i]
            chance += pred_chance[q]
            judged[c, 0], judged[c, 1] = worth, chance
            if np.isnan(judged[c, 2]):
                judged[c, 2] = value[i]
            later, away = discount * max(0.0, 1.0 - chance - own[c]), 1.0 - discount * own[c]
            if later < NOT_LATE * away:
                guess = judged[c, 3] + (worth - later * judged[c, 2]) / (away - 2.0 * later)
            else:
                guess = judged[c, 3] + worth / (away - later)
            if guess > value[j]:
                value[j] = guess
                bucket = max(current, _bucket(guess, top, width, lowest, discount))
                slot = bucket % RING if bucket < current + RING else RING
                if slot != slot_of[j]:
                    waiting += (slot < RING) - (0 <= slot_of[j] < RING)
                    _move(j, slot, slot_of, before, after, head, tail)


@njit(cache=True)
def gather(order, position, choice_ptr, outcome_ptr, successor, probability, damage, member_ptr, member, can_stay, usable, constant, discount, ptr, entry_ptr, column, factor, worth, origin, scaled):  # noqa: E501  # fmt: skip
    """The layer as compact arrays, places in the given order, own loops divided out; ``position`` is by state.

    Fills the arrays of :class:`almostsure.policy.sweep_pockets.Compact`; returns how many choices and entries it has.
    """
    num = order.size
    ptr[0], entry_ptr[0] = 0, 0
    k, z = 0, 0
    for x in range(num):
        i = order[x]
        if can_stay[i]:
            worth[k], scaled[k], origin[k] = 0.0, 1.0, -1
            k += 1
            entry_ptr[k] = z
        for m in range(member_ptr[i], member_ptr[i + 1]):
            for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
                if not usable[c]:
                    continue
                start = z
                away, loops = 0.0, False
                for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                    if damage[o] > 0:
                        away += probability[o]
                        continue
                    y = position[successor[o]]
                    if y == x:
                        loops = True
                        continue
                    away += probability[o]
                    column[z] = y
                    factor[z] = discount * probability[o]
                    z += 1
                if away == 0.0 and discount == 1.0:
                    z = start  # stays here for ever: never better than what else there is
                    continue
                scale = 1.0 / (1.0 - discount + discount * away) if loops else 1.0
                for e in range(start, z):
                    factor[e] *= scale
                worth[k], scaled[k], origin[k] = constant[c] * scale, scale, c
                k += 1
                entry_ptr[k] = z
        ptr[x + 1] = k
    return k, z
