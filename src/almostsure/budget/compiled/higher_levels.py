"""The levels above 0, on the compact game.  See :mod:`almostsure.budget.compiled.parts`.

There may be a million levels, so the kernels that run once per level are inlined: a call would count the references of
its arrays.
"""

# mypy: ignore-errors
# Numba infers the types of these functions, and ignores annotations.

from __future__ import annotations

import numpy as np

from almostsure.budget.compiled.parts import (
    BUCKETS,
    DAMAGE_BITS,
    DAMAGE_MASK,
    DONE,
    EVENT,
    INFINITE,
    LEVEL,
    MANY,
    MORE,
    NO_CAP,
    NOWHERE,
    RANKS,
    SETTLED,
    TOO_LARGE,
    UNLINKED,
    WIDEN,
    unsigned,
)
from almostsure.kernels import njit


@njit(cache=True, borrows=True, nogil=True, inline="always")
def file_under(board, c, t, d, level):
    """File a choice under its witness, of damage ``d``, or if that was settled before ``level``, where it falls due."""
    value, filed, card, harm, due = board.value, board.filed, board.card, board.harm, board.due
    harm[c] = d
    if value[t] < level:
        at = (np.int64(value[t]) + d) % BUCKETS
        card[2 * c], due[at] = due[at], c
    else:
        at = 2 * t + (d > 0)
        card[2 * c], filed[at] = filed[at], c


@njit(cache=True, borrows=True, nogil=True)
def file_witnesses(board, num_doomed):
    """File every choice of the compact game under the witness that is likely to stay bad for the most levels."""
    choice_ptr, outcome_ptr, outcome, _, value, rank, _, card, _, _ = board
    for s in range(1, num_doomed + 1):
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            witness = np.int64(NOWHERE)
            for j in range(outcome_ptr[c], outcome_ptr[c + 1]):
                t = unsigned(outcome[j] >> DAMAGE_BITS)
                if value[t] != INFINITE:
                    if witness == NOWHERE:
                        witness = np.int64(j)
                elif outcome[j] & DAMAGE_MASK:
                    witness = np.int64(j)
                    break
                elif witness == NOWHERE and rank[t] < rank[s]:
                    witness = np.int64(j)
            card[2 * c + 1] = s
            t, d = np.int64(outcome[witness] >> DAMAGE_BITS), np.int64(outcome[witness] & DAMAGE_MASK)
            file_under(board, c, t, d, 1)


@njit(cache=True, borrows=True, nogil=True, inline="always")
def collect(board, queue, level, events, first, last):
    """Queue the dead states that become suspects at this level; returns their number.

    Choices lose their witness if they are due, or filed with a damage-free witness under a peeled state of this value
    (an event) or under a queued state.  If such a choice has no other witness, its state is queued, with the tentative
    value.
    """
    _, outcome_ptr, outcome, reached, value, rank, filed, card, _, due = board
    queued = 0
    source = first - last - 1  # first the choices that are due, then the events, then the growing queue
    while source < queued:
        if source < first - last:
            c = np.int64(due[level % BUCKETS])
            due[level % BUCKETS] = NOWHERE
        else:
            at = 2 * np.int64(events[last + source] if source < 0 else queue[source])
            c = np.int64(filed[at])
            filed[at] = NOWHERE
        source += 1
        while c != NOWHERE:
            following = np.int64(card[2 * c])
            card[2 * c] = UNLINKED
            s = unsigned(card[2 * c + 1])
            if value[s] == INFINITE:
                found = False
                begin, end = np.int64(outcome_ptr[c]), np.int64(outcome_ptr[c + 1])
                many = end - begin > MANY
                if many:
                    begin = np.int64(reached[c])
                for j in range(begin, end):
                    t = np.int64(outcome[j] >> DAMAGE_BITS)
                    d = np.int64(outcome[j] & DAMAGE_MASK)
                    v = np.int64(value[unsigned(t)])
                    if many and v < level and v + d <= level:  # it stays good: never examine it again
                        outcome[j], outcome[begin] = outcome[begin], outcome[j]
                        begin += 1
                        reached[c] = begin
                        continue
                    # a damage-free witness must have died earlier, since two states must not justify each other
                    if v + d > level and (d > 0 or v != INFINITE or rank[t] < rank[s]):
                        file_under(board, c, t, d, level)
                        found = True
                        break
                if not found:
                    value[s] = level
                    queue[queued] = s
                    queued += 1
            c = following
    return queued


@njit(cache=True, borrows=True, nogil=True, inner=True)
def register_anew(board, scratch, queued, beyond, level):
    """If the pool is full, mostly of outdated watchers, fill it anew from the first ``beyond`` suspects."""
    outcome_ptr, outcome, value = board.outcome_ptr, board.outcome, board.value
    relies, watchers, pool_next, pool_choice, queue, _ = scratch
    for k in range(queued):
        watchers[queue[k]] = NOWHERE
    pooled = 0
    for k in range(beyond):
        s = np.int64(queue[k])
        if value[s] != level or relies[s] == NOWHERE:
            continue
        for j in range(outcome_ptr[relies[s]], outcome_ptr[relies[s] + 1]):
            t = np.int64(outcome[j] >> DAMAGE_BITS)
            if t != s and (value[t] == level or value[t] == INFINITE):
                pool_choice[pooled], pool_next[pooled] = relies[s], watchers[t]
                watchers[t] = pooled
                pooled += 1
    return pooled


@njit(cache=True, borrows=True, nogil=True, inline="always")
def decide(board, scratch, next_rank, queued, level):
    """Decide which suspects die at this level; returns their number.

    A suspect relies on its first good choice, and registers with the suspects that this leads to; the bad choices
    before it are filed.  A suspect without a good choice dies and notifies its watchers, which resume their search.
    """
    choice_ptr, outcome_ptr, outcome, reached, value, rank, _, card, _, _ = board
    relies, watchers, pool_next, pool_choice, queue, dead = scratch
    num_dead = woken = pooled = 0
    for i in range(queued):
        s = np.int64(queue[i])
        relies[s] = NOWHERE
        c = np.int64(choice_ptr[s])
        entry = np.int64(NOWHERE)
        while s != NOWHERE:
            last = np.int64(choice_ptr[s + 1])
            while c < last:
                if card[2 * c] == UNLINKED:
                    begin, end = np.int64(outcome_ptr[c]), np.int64(outcome_ptr[c + 1])
                    j = np.int64(reached[c]) if end - begin > MANY else begin
                    while j < end and value[unsigned(outcome[j] >> DAMAGE_BITS)] + (outcome[j] & DAMAGE_MASK) <= level:
                        j += 1
                    if j == end:
                        break
                    t, d = np.int64(outcome[j] >> DAMAGE_BITS), np.int64(outcome[j] & DAMAGE_MASK)
                    file_under(board, c, t, d, level)
                c += 1
            if c == last:
                value[s] = INFINITE
                rank[s] = next_rank + num_dead
                dead[num_dead] = s
                num_dead += 1
            else:
                relies[s] = c
                if pooled + outcome_ptr[c + 1] - outcome_ptr[c] > pool_next.size:
                    pooled, woken, entry = register_anew(board, scratch, queued, i + 1, level), 0, np.int64(NOWHERE)
                else:
                    for j in range(outcome_ptr[c], outcome_ptr[c + 1]):
                        t = np.int64(outcome[j] >> DAMAGE_BITS)
                        if t != s and (value[t] == level or value[t] == INFINITE):  # it may have just died
                            pool_choice[pooled], pool_next[pooled] = c, watchers[t]
                            watchers[t] = pooled
                            pooled += 1
            s = np.int64(NOWHERE)  # next: a watcher that is still a suspect and still relies on the choice turned bad
            while s == NOWHERE and (entry != NOWHERE or woken < num_dead):
                if entry == NOWHERE:
                    entry = np.int64(watchers[dead[woken]])
                    woken += 1
                else:
                    c, entry = np.int64(pool_choice[entry]), np.int64(pool_next[entry])
                    t = np.int64(card[2 * c + 1])
                    if value[t] == level and relies[t] == c:
                        s = t
    return num_dead


@njit(cache=True, borrows=True, nogil=True, inline="always")
def settle(board, scratch, queued, level, events, first, last):
    """Schedule the choices filed under states of value ``level``; returns the number of suspects that survived."""
    value, filed, card, harm, due = board.value, board.filed, board.card, board.harm, board.due
    watchers, queue = scratch.watchers, scratch.queue
    count = 0
    for i in range(first - last, queued):
        t = np.int64(events[last + i] if i < 0 else queue[i])
        watchers[t] = NOWHERE
        if value[t] == level:
            count += i >= 0
            c = np.int64(filed[2 * t + 1])
            filed[2 * t + 1] = NOWHERE
            while c != NOWHERE:
                following = np.int64(card[2 * c])
                at = (level + np.int64(harm[c])) % BUCKETS
                card[2 * c], due[at] = due[at], c
                c = following
    return count


# ---------------------------------------------------------------------- all levels


@njit(cache=True, borrows=True, nogil=True)
def advance(board, scratch, tally, events, cap, patience, most_ranks):
    """Run levels until the answer is complete up to ``cap``, or about ``patience`` states were examined.

    ``events`` lists the peeled states of finite value, sorted by value.  WIDEN: ranks need a wider type.
    """
    value, due = board.value, board.due
    spent = 0
    while spent <= patience:
        if tally[RANKS] + value.size > most_ranks:
            return WIDEN
        first = tally[EVENT]
        event_level = np.int64(value[events[first]]) if first < events.size else np.int64(-1)
        level = event_level  # the next level at which anything can change, −1 if there is none
        for ahead in range(1, BUCKETS):
            nearby = tally[LEVEL] + ahead
            if nearby == event_level or due[nearby % BUCKETS] != NOWHERE:
                level = nearby
                break
        if level > cap == NO_CAP:
            return TOO_LARGE
        if level < 0 or level > cap:
            return DONE
        last = first
        while last < events.size and value[events[last]] == level:
            last += 1
        queued = collect(board, scratch.queue, level, events, first, last)
        tally[RANKS] += decide(board, scratch, tally[RANKS], queued, level)
        tally[SETTLED] += settle(board, scratch, queued, level, events, first, last)
        tally[LEVEL] = level
        tally[EVENT] = last
        spent += queued + 1
    return MORE
