"""Compiled preparation of a layer: its constants, who can surely leave, the order of the states, compact arrays.

States that may rest together for nothing were collapsed into *places* (see :mod:`almostsure.plan.graph`);
otherwise a place is a state.  ``place`` maps states to places, ``member_ptr`` and ``member`` map back.

Numba compiles these functions when they are first called and keeps the result on disk.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np
from numba import njit

RING = 4096  # buckets of the queue in `estimate`
DONE = -2  # the slot of places that are settled, or not to be settled
NOWHERE = np.uint32(2**32 - 1)  # the position of places without one
NOT_LATE = 0.3  # up to this probability of unsettled outcomes, `estimate` extrapolates


@njit(cache=True)
def read_choices(outcome_ptr, probability, rewards, damage, mean, size, hurts):
    """Expected reward of each choice, exactly 0 where rewards cancel out up to rounding, and size; whether it may hurt.

    Returns how far, at most, probabilities are off a sum of 1, in units of rounding.
    """
    worst = 0.0
    for c in range(mean.size):
        chance, worth, absolute, most = 0.0, 0.0, 0.0, 0
        for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
            chance += probability[o]
            worth += probability[o] * rewards[o]
            absolute += probability[o] * abs(rewards[o])
            most = max(most, damage[o])
        mean[c] = 0.0 if abs(worth) <= 1e-12 * absolute else worth
        size[c], hurts[c] = absolute, most > 0
        worst = max(worst, abs(chance - 1.0) / (outcome_ptr[c + 1] - outcome_ptr[c]))
    return worst / 2.0**-52


@njit(cache=True)
def list_predecessors(num_places, choice_ptr, outcome_ptr, successor, probability, damage, of_choice, budget, place, discount):  # noqa: E501  # fmt: skip
    """For each place, the choices elsewhere that may lead to it without damage, and whose they are.

    Returns offsets by place, choices, their places, and factors: discounted probabilities with own loops divided
    out.  By choice, the probability to stay, and how many outcomes lead elsewhere without damage.  Probabilities are in
    single precision: they serve estimates only.
    """
    ptr = np.zeros(num_places + 1, np.uint32)
    own = np.zeros(of_choice.size, np.float32)
    entries = np.zeros(of_choice.size, np.uint32)
    for s in range(choice_ptr.size - 1):
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            if of_choice[c] <= budget:
                for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                    if damage[o] == 0:
                        if place[successor[o]] == place[s]:
                            own[c] += probability[o]
                        else:
                            ptr[place[successor[o]] + 1] += 1
                            entries[c] += 1
    for i in range(num_places):
        ptr[i + 1] += ptr[i]
    at = ptr[:-1].copy()
    choices = np.empty(ptr[num_places], np.uint32)
    places = np.empty(ptr[num_places], np.uint32)
    factors = np.empty(ptr[num_places], np.float32)
    for s in range(choice_ptr.size - 1):
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            if of_choice[c] > budget:
                continue
            scale = discount / max(1e-6, 1.0 - discount * own[c])
            for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                there = place[successor[o]]
                if damage[o] == 0 and there != place[s]:
                    q = at[there]
                    choices[q], places[q], factors[q] = c, place[s], scale * probability[o]
                    at[there] = q + 1
    return ptr, choices, places, factors, own, entries


@njit(cache=True)
def list_neighbours(ptr, places):
    """The places that may lead to each place, from :func:`list_predecessors`, without repeating one in a row."""
    start = np.zeros(ptr.size, np.uint32)
    near = np.empty(places.size, np.uint32)
    z = 0
    for i in range(ptr.size - 1):
        for q in range(ptr[i], ptr[i + 1]):
            if q == ptr[i] or places[q] != places[q - 1]:
                near[z] = places[q]
                z += 1
        start[i + 1] = z
    return start, near[:z].copy()


@njit(cache=True)
def open_layer(remaining, hurting, outcome_ptr, successor, probability, damage, of_choice, reward, discount, values, constant, exit_chance, usable):  # noqa: E501  # fmt: skip
    """Fold reward and solved lower layers into one constant for each of the choices that may hurt.

    A choice becomes unusable if one of its exits is worth −∞.
    """
    for h in range(hurting.size):
        c = hurting[h]
        if of_choice[c] > remaining:
            continue
        worth, chance = 0.0, 0.0
        for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
            d = damage[o]
            if d > 0:
                worth += probability[o] * values[remaining - d, successor[o]]
                chance += probability[o]
        usable[c] = worth > -np.inf
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
    any_known = False
    for i in range(num_places):
        any_known = any_known or finite[i]
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
                    if any_known and not hit:
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
    """Put a place at the end of another bucket (or, with a negative slot, in none)."""
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
def _judge(choice_ptr, outcome_ptr, successor, probability, damage, member_ptr, member, place, own, fresh, known, usable, constant, exit_chance, reward, discount, judged, value):  # noqa: E501  # fmt: skip
    """Prepare the judgement of fresh places' choices; raises ``value`` to what exits and known places promise.

    By choice: worth of settled outcomes, chance of unsettled ones, worth of the best settled one, and gain.  A gain
    is not counted again and again while outcomes are unsettled, as a cost is.  Returns the lowest possible value.
    """
    lowest = 0.0
    for i in range(fresh.size):
        if not fresh[i]:
            continue
        for m in range(member_ptr[i], member_ptr[i + 1]):
            for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
                away = 1.0 - discount * own[c]
                judged[c, 1] = np.nan
                if not usable[c] or away < 1e-6:
                    continue
                gain, settled = max(reward[c], 0.0) / away, exit_chance[c]
                worth, ahead = constant[c] / away - gain, np.nan
                if known.size > 0:
                    for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                        j = place[successor[o]]
                        if damage[o] == 0 and known[j]:
                            settled += probability[o]
                            worth += discount * probability[o] * value[j] / away
                            ahead = value[j] if np.isnan(ahead) else max(ahead, value[j])
                later = discount * max(0.0, 1.0 - own[c] - settled) / away
                judged[c, 0], judged[c, 1], judged[c, 2], judged[c, 3] = worth, later, ahead, gain
                if settled > 0.0:
                    value[i] = max(value[i], _guess(worth, later, ahead, gain))
                if discount < 1.0:  # nobody is worth less than the worst choice for ever
                    lowest = min(lowest, constant[c] / (1.0 - discount * (1.0 - exit_chance[c])))
    return lowest


@njit(cache=True)
def _guess(worth, later, ahead, gain):
    """What a choice is worth: unsettled outcomes lead back, or as far behind as settled ones are ahead."""
    if later < NOT_LATE and not np.isnan(ahead):
        return gain + (worth - later * ahead) / (1.0 - 2.0 * later)
    return gain + worth / (1.0 - later)


@njit(cache=True)
def estimate(choice_ptr, outcome_ptr, successor, probability, damage, member_ptr, member, place, pred_ptr, pred_choice, pred_place, pred_factor, own, can_stay, fresh, known, usable, constant, exit_chance, reward, discount, width, judged, value, order):  # noqa: E501  # fmt: skip
    """Settle the fresh places one by one, the most valuable first; fills ``order``, returns how many there are.

    ``value`` holds those of known places (``known`` is empty if there are none) and estimates of fresh ones
    afterwards; discounted, the lowest possible value is returned too.

    As in Dijkstra's algorithm, but with expectations: a choice is judged by its settled outcomes, as if the others
    led back to where one is, or, when they are few, as far behind as the settled ones are ahead.  The estimates
    need not be right; the order in which they are found is what makes sweeps converge fast.  Values count as
    equal within ``width``: the queue is a ring of buckets, with one more for what lies too far behind.
    """
    size = fresh.size
    lowest = _judge(choice_ptr, outcome_ptr, successor, probability, damage, member_ptr, member, place, own, fresh, known, usable, constant, exit_chance, reward, discount, judged, value)  # noqa: E501  # fmt: skip
    slot_of = np.full(size, -1, np.int32)
    before, after = np.empty(size, np.int32), np.empty(size, np.int32)
    head, tail = np.full(RING + 1, -1, np.int32), np.full(RING + 1, -1, np.int32)
    top, waiting, settled, current = -np.inf, 0, 0, np.int64(0)
    for i in range(size):
        if not fresh[i]:
            slot_of[i] = DONE
            continue
        if can_stay[i]:
            value[i] = max(value[i], 0.0)
        top = max(top, value[i])
        if value[i] > -np.inf:
            _move(i, RING, slot_of, before, after, head, tail)
    while True:
        if waiting == 0 and head[RING] < 0:  # discounted, nobody has to come to rest: take those who cannot
            for i in range(size):
                if slot_of[i] != DONE:
                    value[i] = max(value[i], lowest)
                    top = max(top, value[i])
                    _move(i, RING, slot_of, before, after, head, tail)
            if head[RING] < 0:
                return settled, lowest
        if waiting == 0:  # go to the nearest of those that lay too far behind
            nearest, i = -np.inf, np.int64(head[RING])
            while i >= 0:
                nearest, i = max(nearest, value[i]), np.int64(after[i])
            current, i = _bucket(nearest, top, width, lowest, discount), np.int64(head[RING])
            while i >= 0:
                following, bucket = np.int64(after[i]), _bucket(value[i], top, width, lowest, discount)
                if bucket < current + RING:
                    _move(i, np.int64(bucket % RING), slot_of, before, after, head, tail)
                    waiting += 1
                i = following
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
            c, j = pred_choice[q], np.int64(pred_place[q])
            if slot_of[j] == DONE or np.isnan(judged[c, 1]):
                continue
            worth = judged[c, 0] + pred_factor[q] * here
            later = max(0.0, judged[c, 1] - pred_factor[q])
            judged[c, 0], judged[c, 1] = worth, later
            if np.isnan(judged[c, 2]):
                judged[c, 2] = here
            guess = _guess(worth, later, judged[c, 2], judged[c, 3])
            if guess > value[j]:
                value[j] = guess
                bucket = max(current, _bucket(guess, top, width, lowest, discount))
                slot = np.int64(bucket % RING if bucket < current + RING else RING)
                if slot != slot_of[j]:
                    waiting += (slot < RING) - (0 <= slot_of[j] < RING)
                    _move(j, slot, slot_of, before, after, head, tail)


@njit(cache=True)
def rank(value, finite, width, lowest, discount, order):
    """Put finite places in order of value, by counting how many lie in each of many buckets; returns their number."""
    top, bottom, num = -np.inf, np.inf, 0
    for i in range(finite.size):
        if finite[i]:
            top, bottom, num = max(top, value[i]), min(bottom, value[i]), num + 1
    width = max(width, (top - bottom) / (4.0 * num + 1.0))
    last = np.int64(4 * num + 1)
    start = np.zeros(last + 2, np.uint32)
    for i in range(finite.size):
        if finite[i]:
            start[min(last, _bucket(value[i], top, width, lowest, discount)) + 1] += 1
    for b in range(last + 1):
        start[b + 1] += start[b]
    for i in range(finite.size):
        if finite[i]:
            b = min(last, _bucket(value[i], top, width, lowest, discount))
            order[start[b]] = i
            start[b] += 1
    return num


@njit(cache=True)
def arrange(order, guess, start, near, position, value, pred_ptr, pred):
    """Number the places as ``order`` says, and fill in by these positions: values, and who may lead to each.

    ``position`` is −1 (the largest number) before, and stays so for places that are not in the order.
    """
    for x in range(order.size):
        position[order[x]] = x
    z = 0
    pred_ptr[0] = 0
    for x in range(order.size):
        i = order[x]
        value[x] = guess[i]
        for q in range(start[i], start[i + 1]):
            if position[near[q]] != NOWHERE:
                pred[z] = position[near[q]]
                z += 1
        pred_ptr[x + 1] = z


@njit(cache=True)
def store(position, values, errors, origin, policy, owner, member_ptr, member, value, error, choice, chosen):
    """Write a layer's values and errors by state, and the choices with which places are left.

    ``chosen`` gets the same choices by place; −1 where one stays, and untouched where there is no finite value.
    """
    for i in range(position.size):
        x = position[i]
        if x == NOWHERE:
            continue
        c = origin[policy[x]]
        chosen[i] = c
        for m in range(member_ptr[i], member_ptr[i + 1]):
            value[member[m]], error[member[m]] = values[x], errors[x]
        if c >= 0:
            choice[owner[c]] = c


@njit(cache=True)
def gather(position, finite, entries, choice_ptr, outcome_ptr, successor, probability, damage, member_ptr, member, can_stay, usable, constant, exit_chance, discount, ptr, entry_ptr, column, factor, worth, origin):  # noqa: E501  # fmt: skip
    """The layer as compact arrays, places in the given order, own loops divided out; ``position`` is by state.

    Fills the arrays of :class:`almostsure.plan.assured.sweep_pockets.Compact`; returns how many positions there are.
    Reads the model in its own order and writes where the positions say: memory waits less for writes.  A choice that
    stays where it is for ever is never better than what else there is, and becomes unusable.
    """
    num = 0
    for i in range(finite.size):
        num += finite[i]
    first = np.zeros(num + 1, np.uint32)  # entries of each position, then the first of them
    ptr[0] = 0
    for i in range(finite.size):
        if finite[i]:
            k, z = np.int64(can_stay[i]), np.int64(0)
            for m in range(member_ptr[i], member_ptr[i + 1]):
                for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
                    if entries[c] == 0 and exit_chance[c] == 0.0 and discount == 1.0:
                        usable[c] = False
                    if usable[c]:
                        k += 1
                        z += np.int64(entries[c])
            x = position[member[member_ptr[i]]]
            ptr[x + 1], first[x + 1] = k, z
    for x in range(num):
        ptr[x + 1] += ptr[x]
        first[x + 1] += first[x]
    for i in range(finite.size):
        if not finite[i]:
            continue
        x = position[member[member_ptr[i]]]
        k, z = np.int64(ptr[x]), np.int64(first[x])
        if can_stay[i]:
            worth[k], origin[k], entry_ptr[k] = 0.0, -1, z
            k += 1
        for m in range(member_ptr[i], member_ptr[i + 1]):
            for c in range(choice_ptr[member[m]], choice_ptr[member[m] + 1]):
                if not usable[c]:
                    continue
                start, away, loops = z, 0.0, False
                for o in range(outcome_ptr[c], outcome_ptr[c + 1]):
                    y = position[successor[o]]
                    if damage[o] > 0:
                        away += probability[o]
                    elif y == x:
                        loops = True
                    else:
                        away += probability[o]
                        column[z] = y
                        factor[z] = discount * probability[o]
                        z += 1
                scale = 1.0
                if loops:
                    scale = 1.0 / (1.0 - discount + discount * away)
                    for e in range(start, z):
                        factor[e] *= scale
                worth[k], origin[k], entry_ptr[k] = constant[c] * scale, c, start
                k += 1
    entry_ptr[ptr[num]] = first[num]
    return num
