"""Compiled: the values of a component by sweeps that are mixed, or by elimination.

**Mixing.**  A round looks at all choices of all positions, one after the other, and then a few times at those of the
policy only.  Where a component is left slowly, rounds crawl along few directions.  Anderson's mixing (1965) takes the
combination of the last rounds whose changes cancel out best: some tens of rounds do what thousands did.  What it finds
is a guess like any other; bounds are proved afterwards, by :func:`almostsure.plan.assured.steps.prove`.

**Bridges.**  In models of programs and protocols most choices have one outcome.  A position whose choice leads to a
single position is worth ``shift + scale`` times that one: of a policy's equations, only those with several outcomes are
left.  Where these are few, every policy is evaluated on them, by sweeps that are mixed (policy iteration); elsewhere
rounds are mixed.

**Elimination.**  Policies of small components are evaluated by elimination, without subtracting probabilities
(Grassmann, Taksar and Heyman), so that loops that are hardly ever left cost no accuracy.
"""

# mypy: ignore-errors
# Numba infers the types of these functions; annotations would say nothing to it.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from almostsure.kernels import njit
from almostsure.plan.assured.component.parts import LATE
from almostsure.plan.assured.steps import NOWHERE

POLICY_SWEEPS = 4  # that look at the policy's choices only, after one that looks at all
FEW = 4  # times as many positions as those in which the policy has several outcomes: then it is evaluated
BRIDGED = 4  # single outcomes are crossed where at least one position in so many has one
BLOCK = 4  # sweeps of an evaluation that are mixed with the last ones
BLOCKS = 60
EVALUATED = 0.1  # times the threshold, the change at which an evaluation ends
EASY = 8  # mixed rounds after which more of them are made, and again
HARD = 32  # mixed rounds after which every other goes backward
MEMORY = 3  # rounds that are mixed with the last one
MIXED_ROUNDS = 150
DOUBTFUL = 1e8  # weights above this are rounding, and are not used
PASSED = np.uint32(2**32 - 2)  # on the way of a chain of single outcomes
POLICIES = 1000  # that are evaluated by elimination, at most
SURE = 1e-14  # of what is added up, by which another choice is surely better


@njit(cache=True, error_model="numpy", borrows=True)
def relax(part, usable, order, value, policy):
    """Sweep over all choices once; returns the largest change."""
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
    """Sweep over the policy's choices only; if the number of sweeps is negative, every other one goes backward."""
    count = copy_rows(part, order, value, policy, rows)
    sweep_rows(rows, count, sweeps)
    expand(order, value, rows)


@njit(cache=True, error_model="numpy", borrows=True)
def copy_rows(part, order, value, policy, rows):
    """Copy the policy's choices, which are read much faster side by side; returns how many :func:`bridge` leaves."""
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


@njit(cache=True, error_model="numpy", borrows=True)
def sweep_rows(rows, count, sweeps):
    """Sweep over what is left; returns the largest change in the last sweep."""
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


@njit(cache=True, error_model="numpy", borrows=True)
def expand(order, value, rows):
    """The values of all positions from those that are left."""
    root, shift, scale, now = rows.root, rows.shift, rows.scale, rows.now
    for i in range(order.size):
        value[order[i]] = shift[i] + scale[i] * now[root[i]]


class Rows(NamedTuple):
    """The equations of a policy in :func:`follow`; in the end only those in which it has several outcomes, or none."""

    position: np.ndarray  # [positions of the component], where they are in the order
    first: np.ndarray  # [positions + 1], offsets of all rows' entries
    start: np.ndarray  # [positions + 1], offsets of the entries of those that are kept
    columns: np.ndarray  # [entries]
    factors: np.ndarray  # [entries]
    constants: np.ndarray  # [positions]
    kept: np.ndarray  # [positions], which rows are kept
    number: np.ndarray  # [positions], where they are among those
    root: np.ndarray  # [positions], the kept row with which each is worth shift + scale · its worth
    shift: np.ndarray  # [positions]
    scale: np.ndarray  # [positions]
    now: np.ndarray  # [positions], values of those that are kept


@njit(cache=True, error_model="numpy", borrows=True)
def bridge(rows, size):
    """Leave out rows with a single entry, if they are many; returns how many are left, at the beginning of the arrays.

    Models of programs and protocols have few outcomes by chance: what lies between them is crossed at once.
    """
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
        if loop > LATE:  # a cycle; nothing is to be learned from going round again and again
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
    """Room for one choice of each position."""
    ptr, entry_ptr, size = part.ptr, part.entry_ptr, order.size
    position, entries = np.empty(ptr.size, np.uint32), 0
    for i in range(size):
        x, most = order[i], 0
        position[x] = i
        for k in range(ptr[x], ptr[x + 1]):
            most = max(most, np.int64(entry_ptr[k + 1]) - np.int64(entry_ptr[k]))
        entries += most
    return Rows(
        position, np.zeros(size + 1, np.uint32), np.zeros(size + 1, np.uint32), np.empty(entries, np.uint32),
        np.empty(entries), np.empty(size), np.empty(size, np.uint32), np.empty(size, np.uint32),
        np.empty(size, np.uint32), np.empty(size), np.empty(size), np.empty(size),
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def approach(part, usable, order, value, policy, threshold):
    """Mixed rounds until nothing changes by more than the threshold; returns the last change, or ∞ if that is late.

    Where the policy has few outcomes by chance it is evaluated, by mixed sweeps over those; elsewhere rounds are mixed.
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
                before[:count] = now[:count]
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
    """The last rounds."""

    change: np.ndarray  # [positions]
    found: np.ndarray  # [positions]
    changes: np.ndarray  # [MEMORY, positions], differences from round to round
    founds: np.ndarray  # [MEMORY, positions]
    products: np.ndarray  # [MEMORY, MEMORY], of the differences


@njit(cache=True, error_model="numpy")
def room_for_history(size):
    """Room for some rounds."""
    return History(
        np.zeros(size), np.zeros(size), np.empty((MEMORY, size)), np.empty((MEMORY, size)), np.zeros((MEMORY, MEMORY))
    )


@njit(cache=True, error_model="numpy")
def mix(history, before, now, size, done):
    """Mix what a round has found with the rounds before it; this is the round of the given number."""
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


@njit(cache=True, error_model="numpy")
def _weights(changes, change, products, slot, count, size):
    """The weights with which the differences of earlier changes come nearest to the last change; none if doubtful.

    ``products`` holds the inner products of differences, and gets those of the one in ``slot``.
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
    for m in range(count):  # a little on the diagonal, as Tikhonov: differences may be nearly parallel
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
def eliminate(part, order, policy, value):
    """The values of a policy by elimination, without subtracting probabilities (Grassmann, Taksar and Heyman)."""
    entry_ptr, column, factor, constant, leaks = part.entry_ptr, part.column, part.factor, part.constant, part.leak
    size = order.size
    local = np.empty(part.ptr.size, np.int64)
    for i in range(size):
        local[order[i]] = i
    moves, leak, right = np.zeros((size, size)), np.empty(size), np.empty(size)
    for i in range(size):
        k = policy[order[i]]
        leak[i], right[i] = leaks[k], constant[k]
        for e in range(entry_ptr[k], entry_ptr[k + 1]):
            moves[i, local[column[e]]] += factor[e]
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


@njit(cache=True, error_model="numpy")
def iterate(part, usable, order, policy, value):
    """The best policy, and its values, by policy iteration with elimination from one that surely leaves.

    What :func:`almostsure.plan.assured.component.sweeps.solve_directly` does for larger components.  False if a policy
    that does not leave came up.
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
