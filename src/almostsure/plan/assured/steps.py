"""Bounds of pairs, one component after the other from the end: what one step backward proves, and small components.

**One step.**  A choice with probabilities p, expected reward g = Σ p r and successors y, of which some are the pair
itself, is worth

    (g + Σ' p V(y)) / (Σ' p + (1 − discount) p_self)        Σ' over the others, p V discounted,

without a subtraction of probabilities (as Grassmann, Taksar and Heyman eliminate), so a loop that is left with
probability 2⁻⁵⁰ costs no accuracy.  With lower and upper bounds in place of V, and all roundings added to them, this
gives a lower and an upper bound.  A pair in no cycle needs nothing else.

**Components.**  Where pairs lead to each other, let V be about right, u = V + e an upper bound at all exits.  If no
choice is worth more than u(x) when its successors are worth u, then u is an upper bound of every policy that surely
leaves; and V − e is a lower bound if the policy's choices are worth at least V(x) − e(x) and it surely leaves.  Both
are checked by the step above.  If every choice that stays has a negative reward, at most −m, then so does every policy
that never leaves, whose return is −∞; the policy that was checked leaves then, since a cycle of it would need
a mean reward of at least 0.  With M the largest of all these values, E the largest error of an exit, and δ the
largest residual, e = E + δ (1 + (M − V) / m) is what is checked.  Where nothing is above 0, e = ε |V| will do as well,
with ε at least δ / m and the largest relative error of an exit; the smaller of the two is what is checked.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.sums import EPSILON

TINY = 1e-300  # more than all underflows of one step
NOWHERE = np.uint32(2**32 - 1)
STAY = NOWHERE  # the origin of the choice to rest
NO_STAY = np.empty(0, np.bool_)
NO_STAY.flags.writeable = False
POLICY_SWEEPS = 2  # that look at the policy's choices only, after one that looks at all
SWEEPS, MANY_SWEEPS = 12, 150  # after which a small component is solved directly
ELIMINATED = 40  # pairs of a component in which a policy is evaluated by elimination
EXACT_ROUNDS = 20
ROUNDS = 12  # of widening until bounds are proved


class Game(NamedTuple):
    """The pairs and what their choices are worth."""

    graph: Graph
    outcome_ptr: np.ndarray  # of the model
    probability: np.ndarray
    gain: np.ndarray  # [model's choices], Σ probability · reward
    is_one: np.ndarray  # [model's choices], whether probabilities add up to exactly 1
    discount: float


class Bounds(NamedTuple):
    """What is known of the pairs."""

    low: np.ndarray  # [pairs]
    high: np.ndarray  # [pairs]
    policy: np.ndarray  # [pairs], the graph's choice
    place: np.ndarray  # [pairs], the position within the component at hand; NOWHERE elsewhere


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


@njit(cache=True, error_model="numpy")
def look(game, bounds, pairs, settles):
    """One step backward from some pairs: either settles them, or says by how much their bounds fall short at most.

    Settling, a pair is what its choices are worth.  Otherwise successors in the same place as the pair count as itself,
    and choices that never leave it were looked at before.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, is_one, discount = game
    lows, highs, policy, place = bounds
    missing = 0.0
    for i in range(pairs.size):
        x = pairs[i]
        here = place[x]
        if not settles and highs[x] == -np.inf:
            continue
        best, most, kept, choice = -np.inf, -np.inf, np.inf, ptr[x]
        for k in range(ptr[x], ptr[x + 1]):
            c = origin[k]
            first, last = np.int64(entry_ptr[k]), np.int64(entry_ptr[k + 1])
            shift = np.int64(outcome_ptr[c]) - first
            gain = gains[c]
            low, high, size, away, stay = 0.0, 0.0, 2.0 * abs(gain), 0.0, 0.0
            is_lost, is_endless = False, False
            for e in range(first, last):
                y, p = target[e], probability[e + shift]
                if y == x or (not settles and place[y] == here):
                    stay += p
                    continue
                away += p
                a, b = lows[y], highs[y]
                is_lost = is_lost or b == -np.inf
                is_endless = is_endless or a == np.inf
                low += p * a
                high += p * b
                size += p * max(abs(a), abs(b))
            low, high, roundings = gain + discount * low, gain + discount * high, last - first + 4.0
            if last - first == 1:
                roundings = 2.0
            if stay > 0.0 or not is_one[c]:
                away += (1.0 - discount) * stay
                roundings = 2.0 * (last - first) + 8.0
                if away > 0.0:
                    low, high, size = low / away, high / away, size / away
                elif not settles:
                    continue
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
            most = max(most, high)
            if low > best:
                best, choice = low, k
            if policy[x] == k:
                kept = low
        if settles:
            lows[x], highs[x], policy[x] = best, most, choice
        elif np.isnan(lows[x] + highs[x]):
            missing = np.inf
        else:
            missing = max(missing, most - highs[x], lows[x] - kept)
    return missing


@njit(cache=True, error_model="numpy")
def step_back(game, bounds, order, begin):
    """Settle components that are single pairs, from the given one on; returns the first that is not."""
    start, member = order
    i = begin
    while i < start.size - 1 and start[i + 1] - start[i] == 1:
        i += 1
    look(game, bounds, member[start[begin] : start[i]], True)
    return i


# ---------------------------------------------------------------------- components


@njit(cache=True, error_model="numpy")
def staying_gain(game, bounds, members):
    """The largest expected reward of a choice that may stay in the component, and the smallest; −∞, ∞ if there is none.

    ``bounds.place`` tells who is in the component.
    """
    ptr, origin, entry_ptr, target = game.graph.ptr, game.graph.origin, game.graph.entry_ptr, game.graph.target
    place = bounds.place
    gains = game.gain
    most, least = -np.inf, np.inf
    for x in members:
        for k in range(ptr[x], ptr[x + 1]):
            stays = False
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                stays = stays or place[target[e]] != NOWHERE
            if stays:
                gain = gains[origin[k]]
                most, least = max(most, gain), min(least, gain)
    return most, least


@njit(cache=True, error_model="numpy")
def cut(game, bounds, members, can_stay, part):
    """Fill the compact arrays of a component; members of one position follow one another.  Returns their sizes.

    Choices that may lead to pairs without a finite return are left out, and so are those that never leave their own
    position; a position that ``can_stay`` gets the choice to rest, for 0, instead.
    """
    _, _, ptr, origin, entry_ptr, target = game.graph
    _, outcome_ptr, probability, gains, _, discount = game
    low, high, _, place = bounds
    column, factor, constant = part.column, part.factor, part.constant
    k, z, last = 0, 0, -1
    for x in members:
        here = np.int64(place[x])
        if here != last:
            part.ptr[here] = k
            last = here
            if can_stay.size > 0 and can_stay[here]:
                constant[k], part.origin[k], part.leak[k], part.entry_ptr[k] = 0.0, STAY, 1.0, z
                k += 1
        for j in range(ptr[x], ptr[x + 1]):
            c = origin[j]
            shift = np.int64(outcome_ptr[c]) - np.int64(entry_ptr[j])
            away, stay, out, worth_out, lost, start = 0.0, 0.0, 0.0, 0.0, False, z
            for e in range(np.int64(entry_ptr[j]), np.int64(entry_ptr[j + 1])):
                y, p = target[e], probability[e + shift]
                there = np.int64(place[y])
                if there == here:
                    stay += p
                    continue
                away += p
                if there != NOWHERE:
                    column[z], factor[z] = there, discount * p
                    z += 1
                    continue
                out += p
                lost = lost or high[y] == -np.inf
                if low[y] != high[y]:
                    worth_out += p * (0.5 * low[y] + 0.5 * high[y])
                else:
                    worth_out += p * low[y]
            leak = discount * out + (1.0 - discount) * (away + stay)
            away += (1.0 - discount) * stay
            if lost or away == 0.0:
                z = start
                continue
            for e in range(start, z):
                factor[e] /= away
            constant[k] = (gains[c] + discount * worth_out) / away
            part.origin[k], part.leak[k], part.entry_ptr[k] = j, leak / away, start
            k += 1
    part.ptr[last + 1] = k
    part.entry_ptr[k] = z
    return last + 1, k, z


@njit(cache=True, error_model="numpy")
def list_predecessors(part, size):
    """Fill in who leads to each position."""
    ptr, entry_ptr, column, pred_ptr, pred = part.ptr, part.entry_ptr, part.column, part.pred_ptr, part.pred
    for x in range(size + 1):
        pred_ptr[x] = 0
    entries = entry_ptr[ptr[size]]
    for e in range(entries):
        pred_ptr[column[e] + 1] += 1
    for x in range(size):
        pred_ptr[x + 1] += pred_ptr[x]
    for x in range(size):
        for e in range(entry_ptr[ptr[x]], entry_ptr[ptr[x + 1]]):
            y = column[e]
            pred[pred_ptr[y]] = x
            pred_ptr[y] += 1
    for x in range(size, 0, -1):
        pred_ptr[x] = pred_ptr[x - 1]
    pred_ptr[0] = 0


@njit(cache=True, error_model="numpy")
def leave_surely(part, size, usable, queue):
    """List the positions from which some policy surely leaves, nearest to an exit first; returns how many they are.

    Makes the choices unusable that may lead elsewhere.  Repeats two steps until nothing changes: search backward from
    the exits along usable choices; drop what was not found, and with it every choice that may lead there.
    """
    ptr, entry_ptr, column, leak, pred_ptr, pred = (
        part.ptr,
        part.entry_ptr,
        part.column,
        part.leak,
        part.pred_ptr,
        part.pred,
    )
    choices = np.int64(ptr[size])
    for k in range(choices):
        usable[k] = True
    found = np.zeros(size, np.bool_)
    alive = np.ones(size, np.bool_)
    while True:
        count = 0
        for x in range(size):
            found[x] = False
            for k in range(ptr[x], ptr[x + 1]):
                if alive[x] and usable[k] and leak[k] > 0.0:
                    found[x] = True
            if found[x]:
                queue[count] = x
                count += 1
        done = 0
        while done < count:
            y = queue[done]
            done += 1
            for q in range(pred_ptr[y], pred_ptr[y + 1]):
                x = pred[q]
                if found[x] or not alive[x]:
                    continue
                for k in range(ptr[x], ptr[x + 1]):
                    if usable[k] and not found[x]:
                        for e in range(entry_ptr[k], entry_ptr[k + 1]):
                            if column[e] == y:
                                found[x] = True
                if found[x]:
                    queue[count] = x
                    count += 1
        lost = False
        for x in range(size):
            if alive[x] and not found[x]:
                alive[x] = False
                lost = True
        if not lost:
            return count
        for x in range(size):
            for k in range(ptr[x], ptr[x + 1]):
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    if not alive[column[e]]:
                        usable[k] = False


@njit(cache=True, error_model="numpy")
def guess(part, usable, order, value):
    """First values, in the given order: outcomes that are not known yet count as if they led back."""
    ptr, entry_ptr, column, factor, constant, leak = (
        part.ptr,
        part.entry_ptr,
        part.column,
        part.factor,
        part.constant,
        part.leak,
    )
    for x in order:
        best = -np.inf
        for k in range(ptr[x], ptr[x + 1]):
            if not usable[k]:
                continue
            worth, later, leaves = constant[k], 0.0, leak[k] > 0.0
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                if value[column[e]] == -np.inf:
                    later += factor[e]
                else:
                    leaves = True
                    worth += factor[e] * value[column[e]]
            if leaves and later < 0.999999:
                best = max(best, worth / (1.0 - later))
        value[x] = best


@njit(cache=True, error_model="numpy")
def relax(part, usable, order, value, policy):
    """Sweep over all choices once and over the policy's a few times; returns the largest change of the first sweep."""
    ptr, entry_ptr, column, factor, constant = part.ptr, part.entry_ptr, part.column, part.factor, part.constant
    most = 0.0
    for x in order:
        best, choice = -np.inf, np.int64(ptr[x])
        for k in range(ptr[x], ptr[x + 1]):
            if usable[k]:
                worth = constant[k]
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    worth += factor[e] * value[column[e]]
                if worth > best:
                    best, choice = worth, np.int64(k)
        most = max(most, abs(best - value[x]))
        value[x], policy[x] = best, choice
    if most > 0.0:
        for _ in range(POLICY_SWEEPS):
            for x in order:
                k = policy[x]
                worth = constant[k]
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    worth += factor[e] * value[column[e]]
                value[x] = worth
    return most


@njit(cache=True, error_model="numpy")
def eliminate(part, order, policy, value):
    """The values of a policy by elimination, without subtracting probabilities (Grassmann, Taksar and Heyman)."""
    size = order.size
    local = np.empty(part.ptr.size, np.int64)
    for i in range(size):
        local[order[i]] = i
    moves, leak, right = np.zeros((size, size)), np.empty(size), np.empty(size)
    for i in range(size):
        k = policy[order[i]]
        leak[i], right[i] = part.leak[k], part.constant[k]
        for e in range(part.entry_ptr[k], part.entry_ptr[k + 1]):
            moves[i, local[part.column[e]]] += part.factor[e]
    total = np.empty(size)
    for k in range(size - 1, -1, -1):
        total[k] = leak[k]
        for j in range(k):
            total[k] += moves[k, j]
        if total[k] <= 0.0:
            return False
        for i in range(k):
            if moves[i, k] > 0.0:
                share = moves[i, k] / total[k]
                for j in range(k):
                    moves[i, j] += share * moves[k, j]
                leak[i] += share * leak[k]
                right[i] += share * right[k]
    for k in range(size):
        worth = right[k]
        for j in range(k):
            worth += moves[k, j] * value[order[j]]
        value[order[k]] = worth / total[k]
    return True


# ---------------------------------------------------------------------- proofs


@njit(cache=True, error_model="numpy")
def prove(game, bounds, members, value, height, exits):
    """Widen bounds around the values until they are proved; False if they never are.

    ``value`` and ``height`` are by position.  ``exits`` holds the largest error of an exit, the largest relative error
    (∞ if values above 0 are about), what a step costs at least, and the first residual.
    """
    error, relative, cost, residual = exits
    for _ in range(ROUNDS):
        share = max(relative, residual / cost) if cost > 0.0 else np.inf
        for x in members:
            i = bounds.place[x]
            if value[i] == -np.inf:
                bounds.low[x], bounds.high[x] = -np.inf, -np.inf
                continue
            wide = min(error + residual * height[i], share * abs(value[i]))
            wide *= 1.0 + 8.0 * EPSILON
            bounds.low[x], bounds.high[x] = value[i] - wide, value[i] + wide
        missing = look(game, bounds, members, False)
        if missing == 0.0:
            return True
        if not missing < np.inf:
            return False
        residual = 2.0 * residual + 1.5 * missing
    return False


@njit(cache=True, error_model="numpy")
def exits_of(game, bounds, members):
    """The largest value of an exit, the largest error, and the largest relative one (∞ if there is anything above 0).

    The value is ∞ if some exit is worth +∞, and NaN if the bounds of one are not known.
    """
    ptr, origin, entry_ptr, target = game.graph.ptr, game.graph.origin, game.graph.entry_ptr, game.graph.target
    lows, highs, place = bounds.low, bounds.high, bounds.place
    gain = game.gain
    top, error, relative = -np.inf, 0.0, 0.0
    is_known, is_endless = True, False
    for x in members:
        for k in range(ptr[x], ptr[x + 1]):
            if gain[origin[k]] > 0.0:
                relative = np.inf
            for e in range(entry_ptr[k], entry_ptr[k + 1]):
                y = target[e]
                low, high = lows[y], highs[y]
                if place[y] != NOWHERE or high == -np.inf:
                    continue
                is_endless = is_endless or low == np.inf
                is_known = is_known and (high < np.inf or low == np.inf)
                top = max(top, high)
                wide = 0.5 * high - 0.5 * low
                error = max(error, wide)
                if wide > 0.0:
                    relative = max(relative, wide / (0.5 * abs(high) + 0.5 * abs(low)))
    if is_endless:
        return np.inf, error, relative
    if not is_known:
        return np.nan, error, relative
    return top, error, relative if top <= 0.0 else np.inf


@njit(cache=True, error_model="numpy")
def settle_small(game, bounds, members, part, scratch, half):
    """Settle a small component in which staying costs; False where another method is needed."""
    for i in range(members.size):
        bounds.place[members[i]] = i
    most, _ = staying_gain(game, bounds, members)
    top, error, relative = exits_of(game, bounds, members)
    done = False
    if most < 0.0 and top < np.inf and game.discount == 1.0:
        value, usable, queue, policy, height = scratch
        cut(game, bounds, members, NO_STAY, part)
        list_predecessors(part, members.size)
        order = queue[: leave_surely(part, members.size, usable, queue)]
        for i in range(members.size):
            value[i] = -np.inf
        guess(part, usable, order, value)
        change = _approach(part, usable, order, value, policy, -0.5 * half * most)
        if change < np.inf:
            for i in range(members.size):
                k = part.origin[policy[i]] if value[i] > -np.inf else game.graph.ptr[members[i]]
                bounds.policy[members[i]] = k
                top = max(top, value[i])
            for i in range(members.size):
                height[i] = 1.0 + (top - value[i]) / -most
            done = prove(game, bounds, members, value, height, (error, relative, -most, change))
    for x in members:
        bounds.place[x] = NOWHERE
    return done


@njit(cache=True, error_model="numpy")
def _approach(part, usable, order, value, policy, threshold):
    """Sweep until nothing changes by more than the threshold, with eliminations; returns the last change, or ∞."""
    few = order.size <= ELIMINATED
    for _ in range(EXACT_ROUNDS if few else 1):
        for _again in range(SWEEPS if few else MANY_SWEEPS):
            change = relax(part, usable, order, value, policy)
            if change <= threshold:
                return change
        if not few or not eliminate(part, order, policy, value):
            return np.inf
    return np.inf


@njit(cache=True, error_model="numpy")
def settle(game, bounds, order, begin, small, part, scratch, half):
    """Settle components one by one, until one is too large or needs another method; returns its number."""
    start, member = order
    i = begin
    while i < start.size - 1:
        i = step_back(game, bounds, order, i)
        while i < start.size - 1 and start[i + 1] - start[i] > 1:
            if start[i + 1] - start[i] > small:
                return i
            if not settle_small(game, bounds, member[start[i] : start[i + 1]], part, scratch, half):
                return i
            i += 1
    return i
