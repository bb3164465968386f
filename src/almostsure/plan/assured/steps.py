"""Bounds of pairs, one component after the other from the end: what one step backward proves.

**One step.**  A choice with probabilities p, expected reward g = Σ p r and successors y, of which some are the pair
itself, is worth

    (g + Σ' p V(y)) / (Σ' p + (1 − discount) p_self)        Σ' over the others, p V discounted,

without a subtraction of probabilities (as Grassmann, Taksar and Heyman eliminate), so a loop that is left with
probability 2⁻⁵⁰ costs no accuracy.  With lower and upper bounds in place of V, and all roundings added to them, this
gives a lower and an upper bound.  A pair in no cycle needs nothing else.

**Components.**  Where pairs lead to each other, let V be about right, u = V + e an upper bound at all exits.  If no
choice is worth more than u(x) when its successors are worth u, then u is an upper bound of every policy that surely
leaves; and V − e is a lower bound if the policy's choices are worth at least V(x) − e(x) and it surely leaves.  Both
are checked as g + Σ p (u(y) − u(x)) ≤ 0 and ≥ 0: differences of neighbours lose no digits, however long it takes to
leave.  If every choice that stays has a negative reward, at most −m, then so does every policy
that never leaves, whose return is −∞; the policy that was checked leaves then, since a cycle of it would need
a mean reward of at least 0.  With M the largest of all these values, E the largest error of an exit, and δ the
largest residual, e = E + δ (1 + (M − V) / m) is what is checked.  Where nothing is above 0, e = ε |V| will do as well,
with ε at least δ / m and the largest relative error of an exit; the smaller of the two is what is checked.  Where one
can rest, for 0, V is at least 0, and so is u.

**Without a time.**  Where steps cost nothing, choices that look as good may take for ever to leave, and e would be
δ times that; :mod:`.component.plains` makes bounds there that do not depend on it.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit, prefetch
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.sums import EPSILON

TINY = 1e-300  # more than all underflows of one step
NOWHERE = np.uint32(2**32 - 1)
ROUNDS = 12  # of widening until bounds are proved
AHEAD = 12  # pairs that memory is asked for before they are looked at
NEAR = 3  # the same for what their successors are worth
LINE = 16  # indices that come with one that memory is asked for


class Game(NamedTuple):
    """The pairs and what their choices are worth."""

    graph: Graph
    outcome_ptr: np.ndarray  # of the model
    probability: np.ndarray
    gain: np.ndarray  # [model's choices], Σ probability · reward; where no pair has the choice it may be 0 instead
    is_one: np.ndarray  # [model's choices], whether probabilities add up to exactly 1; the same
    discount: float


class Bounds(NamedTuple):
    """What is known of the pairs."""

    low: np.ndarray  # [pairs]
    high: np.ndarray  # [pairs]
    policy: np.ndarray  # [pairs], the graph's choice
    place: np.ndarray  # [pairs], the position within the component at hand; NOWHERE elsewhere
    rival: np.ndarray  # [pairs], by how much every other choice falls short of the lower bound in one step, at least


class Known(NamedTuple):
    """What states were worth when a pair of theirs was last settled, and what was left in it."""

    worth: np.ndarray  # [states]; NaN if none was
    left: np.ndarray  # [states]


class Part(NamedTuple):
    """One component as compact arrays; positions are states that were collapsed, or single pairs.

    worth of choice k  =  constant[k] + Σ factor[e] · value[column[e]]
    """

    ptr: np.ndarray  # [positions + 1], offsets of choices
    entry_ptr: np.ndarray  # [choices + 1], offsets of entries
    column: np.ndarray  # [entries], positions
    factor: np.ndarray  # [entries], discounted probabilities, own loops divided out
    constant: np.ndarray  # [choices], reward and what exits are worth
    origin: np.ndarray  # [choices], the graph's choice; STAY: rest
    leak: np.ndarray  # [choices], 1 − Σ factor: the probability to leave the component, or to rest
    pred_ptr: np.ndarray  # [positions + 1], offsets of predecessors
    pred: np.ndarray  # [entries], the positions that may lead to each


@njit(cache=True, error_model="numpy", borrows=True)
def read_ahead(game, bounds, member, i):
    """Before a pair of a list is looked at, have what will be read of some that follow brought near."""
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, _ = game
    low, high, last = bounds.low, bounds.high, np.int64(origin.size - 1)
    if i + 2 * AHEAD < member.size and last >= 0:
        prefetch(ptr, member[i + 2 * AHEAD])
        k = ptr[member[i + AHEAD + AHEAD // 2]]
        prefetch(origin, k)
        prefetch(entry_ptr, k)
        k = min(np.int64(ptr[member[i + AHEAD]]), last)  # a pair may have no choice
        e, c = entry_ptr[k], origin[k]
        prefetch(target, e)
        prefetch(target, e + LINE)
        prefetch(gains, c)
        prefetch(outcome_ptr, c)
        o = outcome_ptr[origin[min(np.int64(ptr[member[i + AHEAD // 2]]), last)]]
        prefetch(probability, o)
        prefetch(probability, o + LINE // 2)
        prefetch(probability, o + LINE)
        e = np.int64(entry_ptr[ptr[member[i + NEAR]]])
        for near in range(e, e + LINE // 2):
            if near < target.size:
                prefetch(low, target[near])
                prefetch(high, target[near])


@njit(cache=True, error_model="numpy", borrows=True)
def look(game, bounds, member, begin, end):
    """One step backward from some pairs of a list: they are worth what the best of their choices is worth."""
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, is_one, discount = game
    lows, highs, policy, _, rival = bounds
    for i in range(begin, end):
        read_ahead(game, bounds, member, i)
        x = member[i]
        best, most, choice = -np.inf, -np.inf, ptr[x]
        second, leaves = -np.inf, 1.0
        for k in range(ptr[x], ptr[x + 1]):
            c = origin[k]
            first, last = np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])
            shift = np.int64(outcome_ptr[c]) - first
            gain = gains[c]
            low, high, size, away, stay = 0.0, 0.0, 2.0 * abs(gain), 0.0, 0.0
            for e in range(first, last):
                y, p = target[e], probability[e + shift]
                if y == x:
                    stay += p
                    continue
                away += p
                a, b = lows[y], highs[y]
                low += p * a
                high += p * b
                size += p * max(abs(a), abs(b))
            is_lost, is_endless = False, False
            if not size < np.inf:
                for e in range(first, last):
                    is_lost = is_lost or (target[e] != x and highs[target[e]] == -np.inf)
                    is_endless = is_endless or (target[e] != x and lows[target[e]] == np.inf)
            low, high, roundings = gain + discount * low, gain + discount * high, last - first + 4.0
            if last - first == 1:
                roundings = 2.0
            if stay > 0.0 or not is_one[c]:
                away += (1.0 - discount) * stay
                roundings = 2.0 * (last - first) + 8.0
                if away > 0.0:
                    low, high, size = low / away, high / away, size / away
                elif gain != 0.0:
                    is_endless, is_lost = gain > 0.0, gain < 0.0
            error = roundings * EPSILON * size
            if size > 0.0:
                error += TINY
            low, high = low - error, high + error
            if is_endless:
                low, high = np.inf, np.inf
            elif is_lost:
                low, high = -np.inf, -np.inf
            elif not (error < np.inf and low > -np.inf):
                low, high = -np.inf, np.inf
            most, leaves = max(most, high), min(leaves, away)
            lesser = low if low < best else best  # conditional moves: which choice is better, nobody can predict
            second = lesser if lesser > second else second
            choice = k if low > best else choice
            best = low if low > best else best
        lows[x], highs[x], policy[x] = best, most, choice
        rival[x] = (best - second) * leaves if best > -np.inf else 0.0


@njit(cache=True, error_model="numpy", inline="always")
def change(gain, side, x, entries, rule, target, probability, place):
    """The largest and the smallest that g + Σ p (discount V(y) − V(x)) may be, and Σ' p, with one side of the bounds.

    ``entries`` are the first and the last of a choice's entries, and how far before its outcomes they are; ``rule`` is
    the discount, and whether pairs are merged: then successors in the same place as the pair count as itself.
    Differences of numbers that are close are exact, so this tells far more than V(x) less what the choice is worth.
    """
    first, last, shift = entries
    discount, merged = rule
    total, size, away, here = gain, 2.0 * abs(gain), 0.0, side[x]
    for e in range(first, last):
        y, p = target[e], probability[e + shift]
        if y == x or (merged and place[y] == place[x]):
            step = (discount - 1.0) * here
            away += (1.0 - discount) * p
        else:
            step = discount * side[y] - here
            away += p
            if discount < 1.0:
                size += p * abs(side[y])
        total += p * step
        size += p * abs(step)
    error = (last - first + 4.0) * EPSILON * size
    if size > 0.0:
        error += TINY
    if not abs(total) < np.inf:
        error = 0.0
    return total + error, total - error, away


@njit(cache=True, error_model="numpy", borrows=True)
def lacking(game, bounds, members, merged):
    """By how much the bounds of a component fall short of being proved, at most.

    Choices that never leave their place were looked at before.  Also fills in by how much the rivals of the policy's
    choices fall short of the upper bounds.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, discount = game
    lows, highs, policy, place, rival = bounds
    rule, missing = (discount, merged), 0.0
    for x in members:
        if highs[x] == -np.inf:
            rival[x] = 0.0
            continue
        if np.isnan(lows[x] + highs[x]):
            return np.inf
        nearest = np.inf
        for k in range(ptr[x], ptr[x + 1]):
            c = origin[k]
            first, last = np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])
            entries = (first, last, np.int64(outcome_ptr[c]) - first)
            most, _, away = change(gains[c], highs, x, entries, rule, target, probability, place)
            if away > 0.0 and not most <= 0.0:
                missing = max(missing, np.inf if np.isnan(most) else most / away)
            if policy[x] == k:
                _, least, away = change(gains[c], lows, x, entries, rule, target, probability, place)
                if away > 0.0 and not least >= 0.0:
                    missing = max(missing, np.inf if np.isnan(least) else -least / away)
            else:
                nearest = min(nearest, -most)
        rival[x] = nearest
    return missing


@njit(cache=True, error_model="numpy", borrows=True)
def width(bounds, members):
    """How far apart the bounds of some pairs are at most, half of it, for values above 1 relative to them."""
    low, high, most = bounds.low, bounds.high, 0.0
    for x in members:
        if -np.inf < high[x] < np.inf:
            most = max(most, 0.5 * (high[x] - low[x]) / max(1.0, 0.5 * abs(low[x] + high[x])))
    return most


@njit(cache=True, error_model="numpy", borrows=True)
def step_back(game, bounds, order, begin):
    """Settle components that are single pairs, from the given one on; returns the first that is not."""
    start, member = order
    i = begin
    while i < start.size - 1 and start[i + 1] - start[i] == 1:
        i += 1
    look(game, bounds, member, np.int64(start[begin]), np.int64(start[i]))
    return i


# ---------------------------------------------------------------------- proofs


@njit(cache=True, error_model="numpy", borrows=True)
def prove(game, bounds, members, value, height, exits, merged):
    """Widen bounds around the values until they are proved; False if they never are.

    ``value`` and ``height`` are by position.  ``exits`` holds the largest error of an exit, the largest relative error
    (∞ if values above 0 are about), what a step costs at least, and the first residual.
    """
    error, relative, cost, residual = exits
    lows, highs, _, place, rival = bounds
    for _ in range(ROUNDS):
        share = max(relative, residual / cost) if cost > 0.0 else np.inf
        widest = 0.0
        for x in members:
            i = place[x]
            if value[i] == -np.inf:
                lows[x], highs[x] = -np.inf, -np.inf
                continue
            wide = min(error + residual * height[i], share * abs(value[i]))
            wide *= 1.0 + 8.0 * EPSILON
            widest = max(widest, wide)
            lows[x], highs[x] = value[i] - wide, value[i] + wide
        missing = lacking(game, bounds, members, merged)
        if missing == 0.0:
            for x in members:
                rival[x] -= 2.0 * max(widest, error)
            return True
        if not missing < np.inf:
            return False
        residual = 2.0 * residual + 1.5 * missing
    return False
