"""Compiled: the values of a component by Anderson-mixed sweeps, or by elimination.

**Mixing.**  A round is one Gauss–Seidel sweep over all choices, and then a few over the policy's choices only.  Where
runs leave a component slowly, the error shrinks slowly along few directions.  Anderson mixing (1965) extrapolates: it
takes the combination of the last rounds whose residuals cancel best.  The result is only a guess; bounds are proved
afterwards, by :func:`almostsure.plan.assured.steps.prove`.

**Bridges.**  In models of programs and protocols most choices have one outcome.  A position whose choice has a single
successor y has the value ``shift + scale · V(y)``, so only equations with several outcomes are left of a policy's
equations.  If these are few, every policy is evaluated on them by mixed sweeps (policy iteration).  Otherwise whole
rounds are mixed.

**Elimination.**  Policies of small components are evaluated by elimination without subtracting probabilities
(Grassmann, Taksar and Heyman), so self-loops that are hardly ever left cost no accuracy.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.component.parts import LATE, list_predecessors
from almostsure.plan.assured.steps import NOWHERE

POLICY_SWEEPS = 4  # sweeps over the policy's choices only, after one over all choices
FEW = 4  # policies are evaluated if at most 1 in FEW positions has several outcomes
BRIDGED = 4  # single outcomes are bridged if at least 1 in BRIDGED positions has one
BLOCK = 4  # sweeps of an evaluation between two mixing steps
BLOCKS = 60  # the most such blocks
EVALUATED = 0.1  # an evaluation ends at this change, relative to the threshold
EASY = 8  # rounds after which the number of policy sweeps is doubled, twice at most
HARD = 32  # rounds after which every other policy sweep goes backward
MEMORY = 3  # earlier rounds that are mixed with the last one
MIXED_ROUNDS = 150
DOUBTFUL = 1e8  # larger weights are rounding errors, and are not used
PASSED = np.uint32(2**32 - 2)  # marks the current chain of single outcomes
POLICIES = 1000  # the most policies that are evaluated by elimination
SURE = 1e-14  # the improvement, relative to the terms of the sum, from which a choice is better despite rounding


@njit(cache=True, error_model="numpy", borrows=True)
def relax(part, usable, order, value, policy):
    """One Gauss–Seidel sweep over all usable choices; returns the largest change."""
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
    return most


@njit(cache=True, error_model="numpy", borrows=True)
def follow(part, order, value, policy, rows, sweeps):
    """Sweep |sweeps| times over the policy's choices only; if ``sweeps`` is negative, every other one goes backward."""
    count = copy_rows(part, order, value, policy, rows)
    sweep_rows(rows, count, sweeps)
    expand(order, value, rows)


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def copy_rows(part, order, value, policy, rows):
    """Copy the policy's rows side by side, where they are read much faster; returns how many :func:`bridge` leaves."""
    position, first, columns, factors, constants = rows.position, rows.first, rows.columns, rows.factors, rows.constants
    entry_ptr, column, factor, constant = part.entry_ptr, part.column, part.factor, part.constant
    z = 0
    for i in range(order.size):
        k = policy[order[i]]
        constants[i] = constant[k]
        for e in range(entry_ptr[k], entry_ptr[k + 1]):
            columns[z], factors[z] = position[column[e]], factor[e]
            z += 1
        first[i + 1] = z
    count = bridge(rows, order.size)
    for j in range(count):
        rows.now[j] = value[order[rows.kept[j]]]
    return count


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def sweep_rows(rows, count, sweeps):
    """Sweep over the remaining rows; returns the largest change in the last sweep."""
    start, columns, factors, constants, now = rows.start, rows.columns, rows.factors, rows.constants, rows.now
    most = 0.0
    for sweep in range(abs(sweeps)):
        most, backward = 0.0, sweeps < 0 and sweep % 2 == 0
        for i in range(count):
            j = count - 1 - i if backward else i
            worth = constants[j]
            for e in range(start[j], start[j + 1]):
                worth += factors[e] * now[columns[e]]
            most = max(most, abs(worth - now[j]))
            now[j] = worth
    return most


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def expand(order, value, rows):
    """Fill in the values of all positions from those of the remaining rows."""
    root, shift, scale, now = rows.root, rows.shift, rows.scale, rows.now
    for i in range(order.size):
        value[order[i]] = shift[i] + scale[i] * now[root[i]]


class PolicyRows(NamedTuple):
    """The equations of a policy; after :func:`bridge` only the kept rows, which have several outcomes or none."""

    position: np.ndarray  # [positions of the component], the index of each in the order
    first: np.ndarray  # [positions + 1], offsets of all rows' entries
    start: np.ndarray  # [positions + 1], offsets of the kept rows' entries
    columns: np.ndarray  # [entries]
    factors: np.ndarray  # [entries]
    constants: np.ndarray  # [positions]
    kept: np.ndarray  # [positions], the kept rows
    number: np.ndarray  # [positions], the index of each row among the kept ones
    root: np.ndarray  # [positions], the kept row from whose value V that of each is shift + scale · V
    shift: np.ndarray  # [positions]
    scale: np.ndarray  # [positions]
    now: np.ndarray  # [positions], values of the kept rows


@njit(cache=True, error_model="numpy", borrows=True, inner=True)
def bridge(rows, size):
    """Eliminate rows with a single entry, if they are many; returns how many are kept, at the start of the arrays."""
    _, first, start, columns, factors, constants, kept, number, root, shift, scale, _ = rows
    single = 0
    for i in range(size):
        single += first[i + 1] - first[i] == 1
    if BRIDGED * single < size:
        for i in range(size):
            root[i], kept[i], shift[i], scale[i], start[i + 1] = i, i, 0.0, 1.0, first[i + 1]
        return size
    path = number
    for i in range(size):
        root[i] = NOWHERE
    for i in range(size):
        depth, at = 0, np.int64(i)
        while root[at] == NOWHERE and first[at + 1] - first[at] == 1:
            root[at] = PASSED
            path[depth] = at
            depth += 1
            at = np.int64(columns[first[at]])
        if root[at] >= PASSED:  # several outcomes, none, or a cycle
            root[at], shift[at], scale[at] = at, 0.0, 1.0
        for d in range(depth - 1, -1, -1):
            x = path[d]
            if root[x] == PASSED:
                y, f = columns[first[x]], factors[first[x]]
                root[x], shift[x], scale[x] = root[y], constants[x] + f * shift[y], f * scale[y]
    count = 0
    for i in range(size):
        if root[i] == i:
            number[i], kept[count] = count, i
            count += 1
    z = 0
    start[0] = 0
    for j in range(count):
        i, begin, loop = kept[j], z, 0.0
        worth = constants[i]
        for e in range(first[i], first[i + 1]):
            y, f = columns[e], factors[e]
            worth += f * shift[y]
            if root[y] == i:
                loop += f * scale[y]
            else:
                columns[z], factors[z] = number[root[y]], f * scale[y]
                z += 1
        if loop > LATE:  # a cycle that is (almost) never left: dividing by 1 − loop would be meaningless
            worth = worth if z > begin else 0.0
            columns[z], factors[z], loop = j, loop, 0.0
            z += 1
        for e in range(begin, z):
            factors[e] /= 1.0 - loop
        constants[j], start[j + 1] = worth / (1.0 - loop), z
    for i in range(size):
        root[i] = number[root[i]]
    return count


@njit(cache=True, error_model="numpy")
def room_for_rows(part, order):
    """Arrays for one choice of each position."""
    ptr, entry_ptr, size = part.ptr, part.entry_ptr, order.size
    position, entries = np.empty(ptr.size, np.uint32), 0
    for i in range(size):
        x, most = order[i], 0
        position[x] = i
        for k in range(ptr[x], ptr[x + 1]):
            most = max(most, np.int64(entry_ptr[k + 1]) - np.int64(entry_ptr[k]))
        entries += most
    return PolicyRows(
        position, np.zeros(size + 1, np.uint32), np.zeros(size + 1, np.uint32), np.empty(entries, np.uint32),
        np.empty(entries), np.empty(size), np.empty(size, np.uint32), np.empty(size, np.uint32),
        np.empty(size, np.uint32), np.empty(size), np.empty(size), np.empty(size),
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def approach(part, usable, order, value, policy, threshold):
    """Mixed rounds until no value changes by more than the threshold; returns the last change, ∞ after MIXED_ROUNDS.

    If few rows of the policy have several outcomes, it is evaluated by mixed sweeps over these; otherwise rounds are
    mixed.
    """
    size, rows = order.size, room_for_rows(part, order)
    before, now, history, mixed = np.empty(size), rows.now, room_for_history(size), 0
    for done in range(MIXED_ROUNDS):
        for i in range(size):
            before[i] = value[order[i]]
        most = relax(part, usable, order, value, policy)
        if most <= threshold:
            return most
        count = copy_rows(part, order, value, policy, rows)
        if FEW * count <= size:
            mixed = 0
            for block in range(BLOCKS):
                for j in range(count):
                    before[j] = now[j]
                if sweep_rows(rows, count, BLOCK) <= EVALUATED * threshold:
                    break
                mix(history, before, now, count, block)
            expand(order, value, rows)
            continue
        sweeps = POLICY_SWEEPS << min(done // EASY, 2)
        sweep_rows(rows, count, -sweeps if done >= HARD else sweeps)
        expand(order, value, rows)
        for i in range(size):
            now[i] = value[order[i]]
        mix(history, before, now, size, mixed)
        mixed += 1
        for i in range(size):
            value[order[i]] = now[i]
    return np.inf


class History(NamedTuple):
    """What Anderson mixing remembers of the last rounds."""

    change: np.ndarray  # [positions], the change (residual) of the last round
    found: np.ndarray  # [positions], the values it found
    changes: np.ndarray  # [MEMORY, positions], differences of ``change`` from round to round
    founds: np.ndarray  # [MEMORY, positions], differences of ``found``
    products: np.ndarray  # [MEMORY, MEMORY], inner products of ``changes``


@njit(cache=True, error_model="numpy", inner=True)
def room_for_history(size):
    """An empty history."""
    return History(
        np.zeros(size), np.zeros(size), np.empty((MEMORY, size)), np.empty((MEMORY, size)), np.zeros((MEMORY, MEMORY))
    )


@njit(cache=True, error_model="numpy")
def mix(history, before, now, size, done):
    """Mix the values ``now``, found from ``before``, with those of the ``done`` earlier rounds that were mixed."""
    change, found, changes, founds, products = history
    slot = (done + MEMORY - 1) % MEMORY
    for i in range(size):
        changes[slot, i], founds[slot, i] = now[i] - before[i] - change[i], now[i] - found[i]
        change[i], found[i] = now[i] - before[i], now[i]
    if done == 0:
        return
    weights = _weights(changes, change, products, slot, min(done, MEMORY), size)
    for i in range(size if weights.size > 0 else 0):
        mixed = found[i]
        for m in range(weights.size):
            mixed -= weights[m] * founds[m, i]
        now[i] = mixed


@njit(cache=True, error_model="numpy", inner=True)
def _weights(changes, change, products, slot, count, size):
    """The least-squares weights of the differences of earlier changes that add up to the last change; none if doubtful.

    ``products`` holds the inner products of the differences; those of the one in ``slot`` are updated.
    """
    right = np.zeros(count)
    for m in range(count):
        with_slot, with_change = 0.0, 0.0
        for i in range(size):
            with_slot += changes[slot, i] * changes[m, i]
            with_change += change[i] * changes[m, i]
        products[slot, m] = products[m, slot] = with_slot
        right[m] = with_change
    matrix = products[:count, :count].copy()
    for m in range(count):  # Tikhonov regularisation: differences may be nearly parallel
        matrix[m, m] *= 1.0 + 1e-14
    for m in range(count):
        if not matrix[m, m] > 0.0:
            return right[:0]
        for j in range(m + 1, count):
            share = matrix[j, m] / matrix[m, m]
            for k in range(m, count):
                matrix[j, k] -= share * matrix[m, k]
            right[j] -= share * right[m]
    for m in range(count - 1, -1, -1):
        for k in range(m + 1, count):
            right[m] -= matrix[m, k] * right[k]
        right[m] /= matrix[m, m]
        if not abs(right[m]) < DOUBTFUL:
            return right[:0]
    return right


@njit(cache=True, error_model="numpy")
def narrow(part, order):
    """Sort positions breadth first, so that choices lead nearby in the order; returns it and how far they lead at most.

    The search runs twice, the second time from the position that the first one found last.
    """
    size, positions = order.size, part.ptr.size - 1
    list_predecessors(part, positions)
    found, rank = np.empty(size, np.uint32), np.full(positions, -1)
    for _ in range(2):
        waiting = np.zeros(positions, np.bool_)
        for x in order:
            waiting[x] = True
        count = done = 0
        for i in range(size - 1, -1, -1):
            count = _wait_no_more(order[i], waiting, found, count)
            while done < count:
                x, done = found[done], done + 1
                for e in range(part.entry_ptr[part.ptr[x]], part.entry_ptr[part.ptr[x + 1]]):
                    count = _wait_no_more(part.column[e], waiting, found, count)
                for q in range(part.pred_ptr[x], part.pred_ptr[x + 1]):
                    count = _wait_no_more(part.pred[q], waiting, found, count)
        order = found.copy()
    for i in range(size):
        rank[order[i]] = i
    reach = 0
    for i in range(size):
        x = order[i]
        for e in range(part.entry_ptr[part.ptr[x]], part.entry_ptr[part.ptr[x + 1]]):
            if rank[part.column[e]] >= 0:  # other positions are not led to by any usable choice
                reach = max(reach, abs(rank[part.column[e]] - i))
    return order, reach


@njit(cache=True, error_model="numpy", inner=True)
def _wait_no_more(x, waiting, found, count):
    """Append a position to the ``count`` found ones if it is waiting; returns how many there are now."""
    if waiting[x]:
        waiting[x], found[count] = False, x
        return count + 1
    return count


@njit(cache=True, error_model="numpy")
def eliminate(part, order, policy, value):
    """Fill in a policy's values by Grassmann–Taksar–Heyman elimination; False if it does not leave almost surely.

    It does not either if it leads out of the order.  Only the band of the matrix is stored that its choices reach.
    """
    entry_ptr, column, factor, constant, leaks = part.entry_ptr, part.column, part.factor, part.constant, part.leak
    size, band = order.size, 0
    local = np.full(part.ptr.size, -1)
    for i in range(size):
        local[order[i]] = i
    for i in range(size):
        k = policy[order[i]]
        for e in range(entry_ptr[k], entry_ptr[k + 1]):
            if local[column[e]] < 0:
                return False
            band = max(band, abs(local[column[e]] - i))
    moves = np.zeros((size, 2 * band + 1))  # i → j is moves[i, j - i + band]
    leak, right = np.empty(size), np.empty(size)
    for i in range(size):
        k = policy[order[i]]
        leak[i], right[i] = leaks[k], constant[k]
        for e in range(entry_ptr[k], entry_ptr[k + 1]):
            moves[i, local[column[e]] - i + band] += factor[e]
    total = np.empty(size)
    for k in range(size - 1, -1, -1):
        first, here = max(k - band, 0), moves[k, max(band - k, 0) : band]  # to the positions from ``first`` to k − 1
        total[k] = leak[k] + here.sum()
        if total[k] <= 0.0:
            return False
        for i in range(first, k):
            chance = moves[i, k - i + band]
            if chance > 0.0:
                share = chance / total[k]
                there = moves[i, first - i + band : k - i + band]
                for j in range(here.size):
                    there[j] += share * here[j]
                leak[i] += share * leak[k]
                right[i] += share * right[k]
    for k in range(size):
        worth = right[k]
        for j in range(max(k - band, 0), k):
            worth += moves[k, j - k + band] * value[order[j]]
        value[order[k]] = worth / total[k]
    return True


@njit(cache=True, error_model="numpy")
def iterate(part, usable, order, policy, value):
    """Policy iteration with elimination, from a policy that leaves almost surely; fills in the best policy and values.

    False if it meets a policy that does not leave.  For larger components there is
    :func:`almostsure.plan.assured.component.sweeps.solve_directly`.
    """
    ptr, entry_ptr, column, factor, constant = part.ptr, part.entry_ptr, part.column, part.factor, part.constant
    for _ in range(POLICIES):
        if not eliminate(part, order, policy, value):
            return False
        better = False
        for x in order:
            best, choice, now, scale = -np.inf, policy[x], 0.0, 0.0
            for k in range(ptr[x], ptr[x + 1]):
                if not usable[k]:
                    continue
                worth, absolute = constant[k], 2.0 * abs(constant[k])
                for e in range(entry_ptr[k], entry_ptr[k + 1]):
                    worth += factor[e] * value[column[e]]
                    absolute += 2.0 * factor[e] * abs(value[column[e]])
                if k == policy[x]:
                    now, scale = worth, absolute
                if worth > best:
                    best, choice = worth, np.uint32(k)
            if best - now > SURE * scale:
                policy[x], better = choice, True
        if not better:
            return True
    return False
