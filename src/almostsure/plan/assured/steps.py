"""Compiled: proved bounds of pairs by one Bellman backup, component by component in reverse topological order.

**Single pairs.**  A choice with probabilities p, expected reward g = Σ p r and successors y, with a self-loop of
probability p_self, has the value

    (g + Σ' p V(y)) / (Σ' p + (1 − discount) p_self)        Σ' over the other successors, p V discounted.

No probabilities are subtracted (as in Grassmann–Taksar–Heyman elimination), so a self-loop that is left with
probability 2⁻⁵⁰ costs no accuracy.  With lower and upper bounds in place of V, widened by all rounding errors, this
gives a lower and an upper bound.  A pair that is in no cycle with others needs nothing else.

**Components.**  In a component of several pairs, let V be approximate values and u = V + e an upper bound at all exits.
If no choice is worth more than u(x) when its successors are worth u, then u is an upper bound for every policy that
leaves almost surely.  V − e is a lower bound if the policy leaves almost surely and its choices are worth at least
V(x) − e(x) when their successors are worth V − e.  Both are checked as g + Σ p (u(y) − u(x)) ≤ 0 and ≥ 0: differences
between successors lose no digits, however long leaving takes.

If every choice that may stay has a negative reward, at most −m, every policy that never leaves has the return −∞, and
the policy that was checked leaves, since a recurrent class of it would need a mean reward of at least 0.  With M the
largest of all these values, E the largest error of an exit, and δ the largest residual, e = E + δ (1 + (M − V) / m) is
checked.  If no value is above 0, e = ε |V| will do as well, with ε at least δ / m and the largest relative error of an
exit; the smaller of the two is checked.  Where a run can stay for ever with reward 0, V is at least 0, and so is u.

**Free steps.**  Where steps cost nothing, equally good choices may take for ever to leave, and e would be δ times that.
:mod:`.component.plains` proves bounds there that do not depend on the time.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit, prefetch
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.sums import EPSILON

TINY = 1e-300  # more than all underflows of one backup
NOWHERE = np.uint32(2**32 - 1)
ROUNDS = 12  # of widening until bounds are proved
AHEAD = 12  # how many pairs ahead memory is prefetched
NEAR = 3  # the same for the values of their successors
LINE = 16  # indices per cache line


class Game(NamedTuple):
    """The graph of pairs, with probabilities and mean rewards of the model's choices."""

    graph: Graph
    outcome_ptr: np.ndarray  # of the model
    probability: np.ndarray
    gain: np.ndarray  # [model's choices], Σ probability · reward; may be 0 for choices that no pair has
    is_one: np.ndarray  # [model's choices], whether probabilities add up to exactly 1; may be False for these
    discount: float


class Bounds(NamedTuple):
    """Bounds of the pairs, and the policy."""

    low: np.ndarray  # [pairs]
    high: np.ndarray  # [pairs]
    policy: np.ndarray  # [pairs], the graph's choice
    place: np.ndarray  # [pairs], the position in the component at hand; NOWHERE outside it
    rival: np.ndarray  # [pairs], a lower bound on how far all other choices, after one backup, are below ``low``


class Known(NamedTuple):
    """For each state, value and remaining budget of its pair that was settled last: hints for larger budgets."""

    worth: np.ndarray  # [states]; NaN if no pair is settled
    left: np.ndarray  # [states]


class Part(NamedTuple):
    """One component as compact arrays; a position is a single pair, or a collapsed end component.

    worth of choice k  =  constant[k] + Σ factor[e] · value[column[e]]
    """

    ptr: np.ndarray  # [positions + 1], offsets of choices
    entry_ptr: np.ndarray  # [choices + 1], offsets of entries
    column: np.ndarray  # [entries], positions
    factor: np.ndarray  # [entries], discounted probabilities, self-loops divided out
    constant: np.ndarray  # [choices], reward and value of the exits
    origin: np.ndarray  # [choices], the graph's choice; STAY: the choice to stay
    leak: np.ndarray  # [choices], 1 − Σ factor: the probability of leaving the component, or of staying for ever
    pred_ptr: np.ndarray  # [positions + 1], offsets of predecessors
    pred: np.ndarray  # [entries], the predecessors of each position


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def read_ahead(game, bounds, member, i):
    """Prefetch what will be read of the pairs that follow pair ``i`` of a list."""
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
    """One Bellman backup of some pairs of a list: fill in bounds, policy and rivals from the bounds of successors."""
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
            lesser = low if low < best else best  # conditional moves: a branch would be unpredictable
            second = lesser if lesser > second else second
            choice = k if low > best else choice
            best = low if low > best else best
        lows[x], highs[x], policy[x] = best, most, choice
        rival[x] = (best - second) * leaves if best > -np.inf else 0.0


@njit(cache=True, error_model="numpy", inline="always")
def change(gain, side, x, entries, rule, target, probability, place):
    """Upper and lower bound of g + Σ p (discount V(y) − V(x)) in exact arithmetic, and Σ' p; V is one of the bounds.

    ``entries`` are the offsets of a choice's entries (first, end) and the distance from these to its outcomes.
    ``rule`` is the discount, and whether pairs are merged: then successors at the pair's own position count as
    self-loops.  Differences of close numbers are exact, so this is far more accurate than the choice's value − V(x).
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
    """The largest amount by which the bounds of a component violate the inequalities to be proved; 0: proved.

    Choices that never leave their position are skipped: they were examined before.  Also fills in ``rival``, here how
    far the other choices fall short of the upper bounds.
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
    """Half the largest distance between the finite bounds of some pairs, relative for values above 1."""
    low, high, most = bounds.low, bounds.high, 0.0
    for x in members:
        if -np.inf < high[x] < np.inf:
            most = max(most, 0.5 * (high[x] - low[x]) / max(1.0, 0.5 * abs(low[x] + high[x])))
    return most


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def step_back(game, bounds, order, begin):
    """Settle consecutive components of one pair, from the given one on; returns the index of the next larger one."""
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
    (∞ if some values are above 0), the least cost of a step, and the residual to begin with.
    """
    error, relative, cost, residual = exits
    lows, highs, _, place, rival = bounds
    for _ in range(ROUNDS):
        share = max(relative, residual / cost) if 0.0 < cost < np.inf else np.inf  # ∞: no choice stays
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
