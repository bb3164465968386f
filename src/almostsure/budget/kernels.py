"""Compiled kernels of the level engine: k* in near-linear time.

Read ``docs/budget.md`` for the algorithm and its proof; the words here are the words there.  The engine runs in
a few steps, each a few short loops over arrays:

``sweep``, ``spread``
    level 0 on the whole model.  A state is *doomed* if each of its choices has a damaging outcome or one that
    leads to a doomed state; every other state relies on one good choice and is looked at again only when that
    turns bad.  The rest has k* = 0.
``peel``
    doomed states whose successors are all settled, in topological order.  Acyclic parts never see a level.
``rule_out``
    finds, where most states are doomed, those that no budget helps, so that they need not be copied.
``extract``
    copies what is left into a compact game of its own.
``advance``
    runs the levels above 0 on it.  Every state carries a *value*: settled states their k*, suspects of the
    current level ``L`` the tentative value ``L``, all others INFINITE.  An outcome ``(s', d)`` is *bad* at level
    ``L`` exactly if ``value[s'] + d > L``.  Each dead state keeps, for each choice, one bad outcome: its
    *witness*.  The choice is filed under the witness's target.  When a target settles at level ``M``, what is
    filed there with damage ``d`` falls due at level ``M + d``.  A fallen choice looks for another witness; if
    there is none, its state becomes a suspect, and so do, at once, those that relied on its death.  Suspects
    then try to rely on one good choice each; whoever finds none is dead again.  The survivors settle.

A damage-free witness must be of smaller *rank* (step of death) than the state it serves, so that no two states
justify each other.  These ranks are the certificate.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

import numpy as np
from numba import njit

INFINITE = np.int32(2**31 - 1)
NO_CAP = 2**31 - 2
unsigned = np.uint64  # for indices: Numba then spares the test for negative ones
UNSETTLED = np.int32(-1)
NOWHERE = -1  # end of a list
UNLINKED = -2  # a choice that is filed under no witness
BUCKETS = 256  # damages are below this, so levels that fall due never collide
DAMAGE_BITS, DAMAGE_MASK = 8, 255  # where an outcome of the compact game keeps its damage
MANY = 32  # outcomes of a state
ALIVE, DOOMED, PEELED = 0, 1, 2  # what a state is after level 0 and peeling

FINITE, HOPED, LOST = 0, 2, 3  # bit 0: bad to reach, bit 1: bad to reach with damage
LEVEL, RANKS, SETTLED, EVENT = 0, 1, 2, 3  # what ``tally`` holds
DONE, MORE, TOO_LARGE, WIDEN = 0, 1, 2, 3  # how ``advance`` ends


# ---------------------------------------------------------------------- level 0


@njit(cache=True, nogil=True)
def first_sweep(choice_ptr, outcome_ptr, successor, damage, doomed, relies, rank, next_rank, first, beyond):
    """Look once at every state from ``first`` to before ``beyond``; returns how many were doomed."""
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


@njit(cache=True, nogil=True)
def sweep(choice_ptr, outcome_ptr, successor, damage, doomed, relies, rank, next_rank, first, beyond, forward):
    """Look again at each of these states that is not doomed, in order or against it; returns how many were doomed."""
    one = unsigned(1)
    count = 0
    for i in range(unsigned(beyond - first)):
        s = unsigned(first) + i if forward else unsigned(beyond) - one - i
        if doomed[s]:
            continue
        c = unsigned(relies[s])
        bad = np.uint8(0)  # no branches: this runs over every state, and damage was ruled out before
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


@njit(cache=True, nogil=True)
def spread(
    choice_ptr, outcome_ptr, successor, damage, doomed, relies, rank, next_rank, watchers, pool_next, pool_state,
    pool_choice, stack,
):  # fmt: skip
    """Finish level 0 where sweeping takes too long: each state registers with the successors that it relies on."""
    one = unsigned(1)
    count = 0
    pooled = 0
    for i in range(unsigned(doomed.size)):
        s = unsigned(i)
        depth = 0
        relied = NOWHERE  # on which choice a state relied that is woken below; others it has left before
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
                        pool_next[pooled] = watchers[t]
                        watchers[t] = pooled
                        pooled += 1
            while depth and stack[depth - 1] == NOWHERE:
                depth -= 1
            if not depth:
                break
            entry = stack[depth - 1]
            stack[depth - 1] = pool_next[entry]
            s = unsigned(pool_state[entry])
            relied = np.int64(pool_choice[entry])
    return count


# ---------------------------------------------------------------------- peeling


@njit(cache=True, nogil=True)
def stride(ptr):
    """How many items each owner has, where all have equally many; otherwise 0."""
    width = ptr[1] - ptr[0]
    if ptr[-1] == ptr.size - 1:  # as many items as owners, and everybody has one
        return 1
    for begin in range(0, ptr.size - 1, 4096):
        differs = ptr[0] & 0
        for i in range(begin, min(begin + 4096, ptr.size - 1)):  # without a branch: the processor takes several at once
            differs |= (ptr[i + 1] - ptr[i]) ^ width
        if differs:
            return 0
    return width


@njit(cache=True, nogil=True)
def peel(
    choice_stride, outcome_stride, choice_ptr, outcome_ptr, successor, damage, doomed, node, reached, order, cap
):  # fmt: skip
    """Settle, in topological order, every doomed state all of whose other successors are settled.

    ``node[2s]`` starts as 0 where ``s`` is settled and UNSETTLED elsewhere; in the end it is the value.  A state
    waits for its first unsettled successor ``t`` in a list that starts at ``node[2t + 1]`` and goes on through
    ``node[2s]`` of those who wait, as ``−2 − next``.  When nobody waits for ``t`` any more, ``node[2t + 1]`` becomes
    its rank: what is written beside what was just read cannot miss the cache.

    A damage-free self-loop costs nothing; one with damage is never worth relying on.  A stride of ``n`` says that
    every state has ``n`` choices (every choice ``n`` outcomes), 0 that the offsets must be read: what need not be
    read cannot miss the cache either.  States with many outcomes go on looking where they had stopped
    (``reached``); it is quicker for small ones to start again.

    Returns how many states were settled; they are listed in ``order``.  What exceeds ``cap`` is INFINITE.
    −1: without a cap, a finite value is too large.
    """
    num_states = node.size // 2
    settled = 0
    done = 0
    for i in range(num_states):
        s = num_states - 1 - i  # models are mostly numbered forwards, so going backwards settles more at once
        if doomed[s] != DOOMED:
            continue
        woken = False
        while True:
            if choice_stride:
                first, last = s * choice_stride, (s + 1) * choice_stride
            else:
                first, last = np.int64(choice_ptr[s]), np.int64(choice_ptr[s + 1])
            blocker = np.int64(NOWHERE)
            if outcome_stride:
                span = (last - first) * outcome_stride
            else:
                span = np.int64(outcome_ptr[last]) - np.int64(outcome_ptr[first])
            if span > MANY:
                begin = np.int64(reached[s]) if woken else np.int64(outcome_ptr[first])
                for j in range(begin, outcome_ptr[last]):
                    t = np.int64(successor[j])
                    if node[2 * t] < 0 and t != s:
                        blocker = t
                        reached[s] = j
                        break
            best = np.int64(INFINITE)
            c = first
            while c < last and blocker == NOWHERE:
                if outcome_stride:
                    begin, end = c * outcome_stride, (c + 1) * outcome_stride
                else:
                    begin, end = np.int64(outcome_ptr[c]), np.int64(outcome_ptr[c + 1])
                worst = np.int64(0)
                for j in range(begin, end):
                    t = np.int64(successor[j])
                    cost = np.int64(damage[j])
                    v = node[unsigned(2 * t)]
                    if t == s:
                        if cost:
                            cost = np.int64(INFINITE)
                    elif v < 0:
                        blocker = t
                        break
                    elif v == INFINITE:
                        cost = np.int64(INFINITE)
                    else:
                        cost += v
                        if cost > cap:
                            if cap == NO_CAP:
                                return -1
                            cost = np.int64(INFINITE)
                    if cost > worst:
                        worst = cost
                if worst < best:
                    best = worst
                c += 1
            if blocker != NOWHERE:
                node[2 * s] = -2 - node[2 * blocker + 1]
                node[2 * blocker + 1] = s
            else:
                node[2 * s] = best
                order[settled] = s
                settled += 1
            while done < settled:
                t = np.int64(order[done])
                s = np.int64(node[2 * t + 1])
                if s != NOWHERE:
                    break
                node[2 * t + 1] = done
                done += 1
            if done == settled:
                break
            node[2 * t + 1] = -2 - node[2 * s]
            node[2 * s] = UNSETTLED
            woken = True
    return settled


@njit(cache=True, nogil=True)
def unzip(node, doomed, rank):
    """Take apart what ``peel`` left in ``node``: values to its first half, ranks of peeled states to ``rank``.

    What could not be peeled has the value INFINITE so far.
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


# ---------------------------------------------------------------------- where nothing finite is left


@njit(cache=True, nogil=True)
def rule_out(choice_ptr, outcome_ptr, successor, damage, kind, relies, rank, next_rank, forward, first):
    """Look once at every hoped-for state, for a choice that harms only on the way to finite states.

    ``kind`` is FINITE, HOPED or LOST.  A damage-free outcome may lead to FINITE and HOPED states, a damaging one
    to FINITE states only.  Returns how many states were lost.
    """
    num_states = unsigned(kind.size)
    one = unsigned(1)
    count = 0
    for i in range(num_states):
        s = unsigned(i) if forward else num_states - one - unsigned(i)
        if kind[s] != HOPED:
            continue
        last = unsigned(choice_ptr[s + one])
        c = unsigned(choice_ptr[s]) if first else unsigned(relies[s])
        while c < last:
            j, end = unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + one])
            while j < end and not (kind[unsigned(successor[j])] & (2 if damage[j] else 1)):
                j += one
            if j == end:
                break
            c += one
        if c < last:
            relies[s] = c
        else:
            kind[s] = LOST
            rank[s] = next_rank + count
            count += 1
    return count


# ---------------------------------------------------------------------- the compact game


@njit(cache=True, nogil=True)
def measure(choice_ptr, outcome_ptr, doomed):
    """How many choices and outcomes the doomed states have, and how many outcomes their longest choice has."""
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


@njit(cache=True, nogil=True)
def extract(
    choice_ptr, outcome_ptr, successor, damage, doomed, value, local, states,
    small_choice_ptr, small_outcome_ptr, small_outcome, reached,
):  # fmt: skip
    """Copy the doomed states into a game of their own.

    Returns its numbers of states, choices and outcomes, and the outcomes of each state's longest choice together.

    There an outcome is one integer, its damage in the low bits: what is read together lies together.  A choice
    with many outcomes has the damaging ones in front, and keeps in ``reached`` how many are good for ever.

    Local state 0 stands for all states of value 0; then come the doomed states (listed in ``states``, with
    ``local`` their inverse), then the peeled states of finite value that they lead to.  Choices that lead to a
    peeled state of value ∞ are left out: nobody can ever rely on them.
    """
    num_states = 1
    states[0] = NOWHERE
    for s in range(doomed.size):
        if doomed[s] == DOOMED:
            local[s] = num_states
            states[num_states] = s
            num_states += 1
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
                front = begin
                for j in range(begin, outcomes):
                    if small_outcome[j] & DAMAGE_MASK:
                        small_outcome[front], small_outcome[j] = small_outcome[j], small_outcome[front]
                        front += 1
                reached[choices] = begin
            choices += 1
            small_outcome_ptr[choices] = outcomes
            wide = max(wide, outcomes - begin)
        small_choice_ptr[i + 1] = choices
        widest += wide
    return num_states, choices, outcomes, widest


@njit(cache=True, nogil=True)
def file_witnesses(choice_ptr, outcome_ptr, outcome, value, rank, filed, card, hurt, due, num_doomed):
    """File every choice of the compact game under the witness that is likely to last longest.

    ``filed[2t]`` starts the list of choices whose damage-free witness leads to ``t``, ``filed[2t + 1]`` that of
    the damaging ones, ``due[L % BUCKETS]`` that of those which fall at level ``L``; all go on through
    ``card[2c]``, while ``card[2c + 1]`` is the state of choice ``c``.
    """
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
            t = np.int64(outcome[witness] >> DAMAGE_BITS)
            d = outcome[witness] & DAMAGE_MASK
            card[2 * c + 1] = s
            hurt[c] = d
            if t == 0:
                card[2 * c] = due[d]
                due[d] = c
            else:
                at = 2 * t + (d > 0)
                card[2 * c] = filed[at]
                filed[at] = c


@njit(cache=True, nogil=True)
def collect(outcome_ptr, outcome, reached, value, rank, filed, card, hurt, due, queue, level, events, first, last):
    """Queue everybody who may leave the dead at this level; returns how many there are.

    Choices fall that are due, that are filed damage-free under a peeled state of this value (an event), or so
    under a state that has been queued.  Whoever finds no other witness is queued with the tentative value.
    """
    queued = 0
    source = first - last - 1  # first what is due, then the events, then the queue as it grows
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
                    if many and v < level and v + d <= level:  # good for ever: never look at it again
                        outcome[j], outcome[begin] = outcome[begin], outcome[j]
                        begin += 1
                        reached[c] = begin
                        continue
                    # a damage-free witness must have died before: two states must not justify each other
                    if v + d > level and (d > 0 or v != INFINITE or rank[t] < rank[s]):
                        hurt[c] = d
                        if v < level:  # settled before: it is known when the witness falls
                            card[2 * c] = due[(v + d) % BUCKETS]
                            due[(v + d) % BUCKETS] = c
                        else:
                            at = 2 * t + (d > 0)
                            card[2 * c] = filed[at]
                            filed[at] = c
                        found = True
                        break
                if not found:
                    value[s] = level
                    queue[queued] = s
                    queued += 1
            c = following
    return queued


@njit(cache=True, nogil=True)
def decide(
    choice_ptr, outcome_ptr, outcome, reached, value, rank, next_rank, filed, card, hurt, due, relies, watchers,
    pool_next, pool_choice, queue, queued, dead, level,
):  # fmt: skip
    """Find out which suspects die at this level; returns how many do.

    A suspect relies on its first good choice and registers with the suspects that this leads to; the bad ones
    before it are filed.  Whoever finds none dies and wakes its watchers, which look on from where they were.
    """
    num_dead = 0
    woken = 0
    pooled = 0
    for i in range(queued):
        s = np.int64(queue[i])
        relies[s] = NOWHERE
        c = np.int64(choice_ptr[s])
        entry = np.int64(NOWHERE)
        while True:
            last = np.int64(choice_ptr[s + 1])
            while c < last:
                if card[2 * c] == UNLINKED:
                    bad = np.int64(NOWHERE)
                    begin, end = np.int64(outcome_ptr[c]), np.int64(outcome_ptr[c + 1])
                    if end - begin > MANY:
                        begin = np.int64(reached[c])
                    for j in range(begin, end):
                        v = np.int64(value[unsigned(outcome[j] >> DAMAGE_BITS)])
                        if v + (outcome[j] & DAMAGE_MASK) > level:
                            bad = np.int64(j)
                            break
                    if bad == NOWHERE:
                        break
                    t = np.int64(outcome[bad] >> DAMAGE_BITS)
                    d = np.int64(outcome[bad] & DAMAGE_MASK)
                    hurt[c] = d
                    if v < level:
                        card[2 * c] = due[(v + d) % BUCKETS]
                        due[(v + d) % BUCKETS] = c
                    else:
                        at = 2 * t + (d > 0)
                        card[2 * c] = filed[at]
                        filed[at] = c
                c += 1
            if c == last:
                value[s] = INFINITE
                rank[s] = next_rank + num_dead
                dead[num_dead] = s
                num_dead += 1
            else:
                relies[s] = c
                first = i
                full = pooled + outcome_ptr[c + 1] - outcome_ptr[c] > pool_next.size
                if full:  # of watchers that have moved on: start the pool again with those that count
                    first, pooled, woken, entry = 0, 0, 0, np.int64(NOWHERE)
                    for k in range(queued):
                        watchers[queue[k]] = NOWHERE
                for k in range(first, i + 1):
                    t = np.int64(queue[k]) if full else s
                    if value[t] != level or relies[t] == NOWHERE:
                        continue
                    for j in range(outcome_ptr[relies[t]], outcome_ptr[relies[t] + 1]):
                        u = np.int64(outcome[j] >> DAMAGE_BITS)
                        if u != t and (value[u] == level or value[u] == INFINITE):  # it may have died just now
                            pool_choice[pooled] = relies[t]
                            pool_next[pooled] = watchers[u]
                            watchers[u] = pooled
                            pooled += 1
            # the next watcher that is still hoped for and still relies on the choice that has become bad
            found = False
            while not found:
                while entry == NOWHERE and woken < num_dead:
                    entry = np.int64(watchers[dead[woken]])
                    woken += 1
                if entry == NOWHERE:
                    break
                c = np.int64(pool_choice[entry])
                entry = np.int64(pool_next[entry])
                s = np.int64(card[2 * c + 1])
                found = value[s] == level and relies[s] == c
            if not found:
                break
    return num_dead


@njit(cache=True, nogil=True)
def settle(value, filed, card, hurt, due, watchers, queue, queued, level, events, first, last):
    """Schedule what is filed under the states of value ``level``; returns how many of the queue survived."""
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
                at = (level + np.int64(hurt[c])) % BUCKETS
                card[2 * c] = due[at]
                due[at] = c
                c = following
    return count


@njit(cache=True, nogil=True)
def advance(
    choice_ptr, outcome_ptr, outcome, reached, value, rank, filed, card, hurt, relies, watchers, pool_next, pool_choice,
    queue, dead, due, tally, events, cap, patience, most_ranks,
):  # fmt: skip
    """Run levels until the answer is complete up to ``cap`` or about ``patience`` states were looked at.

    ``events`` lists the peeled states of finite value, sorted by value.  WIDEN: ranks need a wider type.
    """
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
        queued = collect(
            outcome_ptr, outcome, reached, value, rank, filed, card, hurt, due, queue, level, events, first, last
        )
        tally[RANKS] += decide(
            choice_ptr, outcome_ptr, outcome, reached, value, rank, tally[RANKS], filed, card, hurt, due, relies,
            watchers, pool_next, pool_choice, queue, queued, dead, level,
        )  # fmt: skip
        tally[SETTLED] += settle(value, filed, card, hurt, due, watchers, queue, queued, level, events, first, last)
        tally[LEVEL] = level
        tally[EVENT] = last
        spent += queued + 1
    return MORE


# ---------------------------------------------------------------------- k*(s, a)


@njit(cache=True, nogil=True)
def choice_values(outcome_ptr, successor, damage, value, first, beyond, out):
    """k(s,a) = max over outcomes of d + v(s'), for the choices from ``first`` to before ``beyond``."""
    for c in range(unsigned(first), unsigned(beyond)):
        worst = np.int64(0)
        for j in range(unsigned(outcome_ptr[c]), unsigned(outcome_ptr[c + unsigned(1)])):
            worst = max(worst, np.int64(value[unsigned(successor[j])]) + np.int64(damage[j]))
        out[c] = min(worst, np.int64(INFINITE))
