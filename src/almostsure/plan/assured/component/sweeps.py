"""Sweeps with direct solves: the values of one component, until every residual is below a threshold.

*Sweeps.*  Positions are ordered by value (:func:`.estimate.estimate`), and a value that changes activates its
predecessors.  A sweep visits active positions only, and only a limited number of chunks ahead, so that the values it
propagates are already nearly right: the work goes where the residual is.

*Pockets.*  Where a policy leaves a region only after hundreds of steps, sweeps converge slowly.  Positions that changed
too often are solved together, by policy iteration with sparse LU, with all values around them fixed.  Each member
starts with its best choice if that leads out, and otherwise with one that does, so every policy that is evaluated is
proper.  A pocket that is found again is widened.

*Models without locality.*  Where choices lead anywhere, no order helps, there are no pockets, and LU factors would fill
up.  But few modes converge slowly, and Anderson mixing finds them (:mod:`.approach`).  The same holds where a whole
component is slow.

*Last resort.*  Where all this takes too long and LU of the whole component is affordable, it is solved by LU: at once
if that is cheap, as on long chains.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from almostsure.model.mdp import Floats, Ints
from almostsure.plan.assured.component import sweep_kernels as kernels
from almostsure.plan.assured.component.approach import MIXED_ROUNDS, approach, eliminate
from almostsure.plan.assured.component.parts import list_predecessors
from almostsure.plan.assured.component.sweep_kernels import CHUNK, PocketSearch, SweepLimits, SweepState
from almostsure.plan.assured.steps import Part
from almostsure.policy.evaluation.linear import SuperLU

REFINEMENTS = 2  # steps of iterative refinement after a factorisation
ELIMINATED = 1_000  # the most positions of a policy that is evaluated by elimination instead of LU
SLOW = 1e12  # expected steps until the component is left, from which LU may lose all digits
LOOKAHEAD = 12  # times the square root of the number of positions: how many a round visits, in a model with locality
POLICY_SWEEPS = 2  # visits by the policy's choices only, after one by all choices
MIXED = 16_000  # the most positions of a component in which mixed rounds are tried first despite locality
PATIENCE = 60  # changes after which a position belongs to a pocket
POCKET_REACH = 1 << 16  # how far, in positions, its members may be from the chunk
POCKET = 2_000  # the most members of a pocket that is solved by LU
LOCAL_POCKET = 6_000  # the same in a model with locality, where factors hardly fill up
POCKET_LIMIT = 16_000  # members at which a pocket is not widened further
SEEDS = 4_000  # the most positions that changed often in a pocket
UPDATES_PER_POSITION = 20_000  # after which sweeps give up
MAX_ROUNDS = 1000  # of policy iteration
WORN = 20  # updates per position after which mixed rounds are tried if no pocket stands out
STUBBORN = 300  # updates per position after which LU of the whole component is considered
THIN = 1e11  # the most multiplications that it may take then
QUICK = 1e8  # multiplications up to which LU is tried as soon as mixed rounds have failed
HOPELESS = 1e9  # if values grow by this factor, the policy almost never leaves, and they are mere rounding errors


def choice_worth(part: Part, value: Floats) -> Floats:
    """The value of each choice of a component, [choices]."""
    from scipy.sparse import csr_array

    shape = (part.origin.size, part.ptr.size - 1)
    matrix = csr_array((part.factor, part.column.view(np.int32), part.entry_ptr.view(np.int32)), shape=shape)
    worth: Floats = part.constant + matrix @ value
    return worth


def choice_owner(part: Part) -> Ints:
    """The position of each choice, [choices]."""
    return np.repeat(np.arange(part.ptr.size - 1), np.diff(part.ptr))


def is_local(part: Part) -> bool:
    """Whether most entries lead to positions nearby."""
    sample = np.arange(0, part.origin.size, max(1, part.origin.size // 2_000))
    sample = sample[part.entry_ptr[sample] < part.entry_ptr[sample + 1]]
    at = np.searchsorted(part.ptr, sample, side="right") - 1
    distance = np.abs(part.column[part.entry_ptr[sample]].astype(np.int64) - at)
    return bool(np.mean(distance > (part.ptr.size - 1) / 8) < 0.05) if sample.size else True


def solve_directly(part: Part, policy: Ints, constant: Floats) -> tuple[Ints, Floats]:
    """The best policy and its values, by policy iteration with LU from a policy that leaves almost surely.

    Choices whose constant is −∞ are not used.
    """
    from scipy.sparse import csr_array

    size = part.ptr.size - 1
    shape = (part.origin.size, size)
    matrix = csr_array((part.factor, part.column.view(np.int32), part.entry_ptr.view(np.int32)), shape=shape)
    owner, starts = choice_owner(part), part.ptr[:-1].astype(np.int64)
    value = np.full(size, np.nan)
    for _ in range(MAX_ROUNDS):
        found = _evaluate(part._replace(constant=constant), policy, matrix[policy.astype(np.int64)])
        if found is None:
            break
        value = found
        worth = constant + matrix @ value
        best = np.maximum.reduceat(worth, starts)
        size = np.abs(worth[policy]) + np.abs(constant[policy]) + matrix[policy.astype(np.int64)] @ np.abs(value)
        better = best - worth[policy] > 1e-14 * size
        if not better.any():
            break
        hits = np.flatnonzero(worth == best[owner])
        first = policy.copy()
        first[owner[hits][::-1]] = hits[::-1]
        policy = np.where(better, first, policy).astype(np.uint32)
    return policy, value


def _evaluate(part: Part, policy: Ints, matrix: Any) -> Floats | None:
    """The values of a policy with transition matrix ``matrix``, by LU with refinement; None if that is singular.

    The residual is computed from differences between successors, as in the proofs, so nothing cancels.  A policy that
    hardly ever leaves has a nearly singular system; it is evaluated by elimination, which loses no accuracy.
    """
    from scipy.sparse import csc_array, eye_array

    leak, right = part.leak[policy], part.constant[policy]
    try:
        factor = SuperLU(csc_array(eye_array(right.size) - matrix))
    except RuntimeError:
        return None
    if right.size <= ELIMINATED:
        time = factor.solve(np.ones(right.size))
        if not (time.min() > 0 and time.max() < SLOW):
            value = np.zeros(right.size)
            return value if eliminate(part, np.arange(right.size, dtype=np.uint32), policy, value) else None
    row, column = np.repeat(np.arange(right.size), np.diff(matrix.indptr)), matrix.indices
    value = factor.solve(right)
    for _ in range(REFINEMENTS):
        moved = np.bincount(row, matrix.data * (value[column] - value[row]), minlength=right.size)
        value = value + factor.solve(right - leak * value + moved)
    return value


class Sweeper:
    """Solves one component for given constants, to a given residual."""

    def __init__(self, part: Part, *, discounted: bool) -> None:
        self.part, self.discounted = part, discounted
        self.size = size = part.ptr.size - 1
        local = is_local(part)
        self.mixes_first, self.solves_first = size <= MIXED or not local, False
        self.pocket = LOCAL_POCKET if local else POCKET
        self.lookahead = max(16, int(LOOKAHEAD * size**0.5) // CHUNK) if local else 2**20
        self.local = np.full(size, -1, np.int32)
        self.knows_predecessors = False

    def run(self, constant: Floats, value: Floats, policy: Ints, threshold: float) -> bool:
        """Update ``value`` and ``policy`` in place until no residual exceeds ``threshold``; False if that fails."""
        size, chunks = self.size, -(-self.size // CHUNK)
        self.part, self.threshold = self.part._replace(constant=constant), threshold
        self.state = SweepState(
            value, policy, np.ones(size, np.bool_), np.ones(chunks, np.bool_), np.zeros(chunks, np.int32),
            np.zeros(size, np.int32), np.zeros(3, np.int64),
        )  # fmt: skip
        self.search = PocketSearch(np.zeros(size, np.int32), np.zeros(size, np.bool_), np.empty(size, np.uint32))
        patience, stubborn = PATIENCE, STUBBORN * size
        positions = np.arange(size, dtype=np.uint32)
        if self.solves_first:
            self._solve(positions, 50)
        while True:
            if self.mixes_first and self._mix():
                return True
            self._list_predecessors()
            limits = SweepLimits(threshold, self.lookahead, POLICY_SWEEPS, patience, UPDATES_PER_POSITION * size)
            chunk = kernels.sweep(self.part, self.state, limits)
            if chunk < 0:
                return bool(chunk == -1 and np.isfinite(value).all())
            quick = self.mixes_first and not self.solves_first and self.cost < QUICK
            if quick or (self.state.account[0] > stubborn and self.cost < THIN):
                self.solves_first, stubborn = quick or self.solves_first, 4 * int(self.state.account[0])
                self._solve(positions, 50)
            elif not 0 < self._settle(chunk, patience) <= self.pocket:  # no pocket stands out, or it is too large
                if self.state.account[0] > WORN * size and not self.mixes_first and self._mix():
                    return True
                patience += patience // 4

    def _list_predecessors(self) -> None:
        """Fill in the predecessors on first use: mixed rounds do without them."""
        if not self.knows_predecessors:
            list_predecessors(self.part, self.size)
            self.knows_predecessors = True

    def _mix(self) -> bool:
        """Run mixed rounds over all positions; False if they do not converge."""
        usable, order = np.ones(self.part.origin.size, np.bool_), np.arange(self.size, dtype=np.uint32)
        change = approach(self.part, usable, order, self.state.value, self.state.policy, self.threshold)
        self.state.account[0] += MIXED_ROUNDS * self.size
        self.state.active[:], self.state.is_dirty[:] = True, True
        return bool(change < np.inf and np.isfinite(self.state.value).all())

    # ------------------------------------------------------------------ pockets

    def _settle(self, chunk: int, patience: int) -> int:
        """Solve the pocket around a chunk directly, unless it is too large; returns how many members it has."""
        members = self._pocket(chunk, patience)
        if 0 < members.size <= self.pocket:
            self._solve(members, 30)
        return members.size

    def _solve(self, members: Ints, rounds: int) -> None:
        """Policy iteration on the members, with all other values fixed."""
        part, value, policy = self.part, self.state.value, self.state.policy
        before = value[members]
        self.local[members] = np.arange(members.size, dtype=np.int32)
        proper = kernels.make_proper(members, self.local, part, value, policy)
        for _ in range(rounds if proper or self.discounted else 0):
            solution = self._factor(members, *kernels.equations(members, self.local, part, value, policy))
            if solution is None or not np.abs(solution).max() < HOPELESS * (1.0 + np.abs(before).max()):
                break
            value[members] = solution
            if kernels.improve(members, self.threshold, part, value, policy) == 0:
                break
        self.local[members] = -1
        kernels.wake_changed(members, before, part, self.state)

    @cached_property
    def cost(self) -> float:
        """Estimated multiplications of LU of the whole component: size · bandwidth², in a bandwidth-reducing order."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        part, size = self.part, self.size
        start, column = part.entry_ptr[part.ptr].view(np.int32), part.column.view(np.int32)
        order = reverse_cuthill_mckee(csr_array((part.factor, column, start), shape=(size, size)))
        rank = np.empty(size, np.int64)
        rank[order] = np.arange(size)
        distance = np.abs(rank[column] - np.repeat(rank, np.diff(start)))
        return size * float(np.quantile(distance, 0.999) if distance.size else 0.0) ** 2

    def _pocket(self, chunk: int, patience: int) -> Ints:
        """The members of the pocket around a chunk: those that changed most often, and their neighbourhood, sorted.

        None if too many changed that often; then the counts start again.
        """
        begin, end = max(0, chunk * CHUNK - POCKET_REACH), min(self.size, chunk * CHUNK + POCKET_REACH)
        often = self._often(begin, end, patience)
        if often > patience:
            self.state.changes[begin:end] = 0
            return np.zeros(0, np.uint32)
        count = kernels.pocket(self.part, self.search, self.state.changes, begin, end, often, POCKET_LIMIT)
        return np.sort(self.search.found[:count])

    def _often(self, begin: int, end: int, patience: int) -> int:
        """The number of changes from which a position belongs to the pocket, so that it has at most SEEDS such."""
        counts = np.bincount(np.minimum(self.state.changes[begin:end], patience), minlength=patience + 1)
        at_least = np.cumsum(counts[::-1])[::-1]
        fits = np.flatnonzero(at_least[patience // 2 :] <= SEEDS)
        return patience // 2 + int(fits[0]) if fits.size else patience + 1

    def _factor(self, members: Ints, start: Ints, columns: Ints, factors: Floats, right: Floats) -> Floats | None:
        """Solve the equations of the members' values by LU; None if they are singular to working precision."""
        from scipy.sparse import csc_array

        try:
            transposed = SuperLU(csc_array((factors, columns, start), shape=(members.size, members.size)))
        except RuntimeError:
            return None
        return transposed.solve(right, transposed=True)
