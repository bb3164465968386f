"""Linear equations of chains that are left eventually, solved with proved errors.

:class:`Leaking` stands for x = b + A x, where A ≥ 0 are the probabilities of moving from state to state and what is
missing in a row of A, its *leak*, is the probability of leaving.  Written as

    leak(i) x(i) + Σ over j ≠ i of A(i,j) (x(i) − x(j)) = b(i)

it needs no difference like 1 − A(i,i), however slowly a state is left.  Small systems are eliminated, large ones
factorised.

*Elimination* without any subtraction (Grassmann, Taksar and Heyman, 1985): the diagonal is always the sum of what is
beside it.  So every entry of (I − A)⁻¹ keeps its digits, whatever the condition of the system.  Proof: leaving a state
out of n changes each entry that is left by a factor within (1 ± ε)^(n+4), if that bounds every operation.  By the
matrix-tree theorem an entry of the inverse is a quotient of two sums of products of at most n entries each, so it
changes by a factor within (1 ± ε)^(2n(n+4)), and over all states by one within (1 ± ε)^((n+4)³).  States that were left
out before follow from those that are left, by sums of products that keep their digits too.  All of it is done with
twice the digits (:mod:`almostsure.policy.evaluation.wide`), so this is nothing.  The error of x is that factor times
(I − A)⁻¹ |b|.

*Factorisation* by SuperLU, and *refinement*: the residual of the equation is computed with twice the digits, solved for
and added, until it cannot be told from rounding.  Proof: if u ≥ 0 satisfies leak u + Σ A (u(i) − u(j)) ≥ |residual|
everywhere, then no x(i) is wrong by more than u(i), as (I − A)⁻¹ ≥ 0.  That is checked, whoever computed x and u; where
the check fails, the error is infinite.  One u serves all right-hand sides, scaled by the largest residual of each.

For the transposed equations, n = m + Aᵀ n (how often each state is visited when it is entered with the masses m), the
proof is simpler: a residual is mass that was lost or made, and no probability that follows from n is wrong by more than
its sum.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from almostsure.model.mdp import Floats, Ints
from almostsure.policy.evaluation.wide import (
    LOST,
    TINY,
    Groups,
    Wide,
    add,
    divide,
    multiply,
    put,
    subtract,
    total,
    wide,
)

EPS = 2.0**-52
ELIMINATED = 16  # states up to which a system is eliminated at once
ELIMINATED_LAST = 300  # states up to which it is if nothing else gives good digits
STEPS = 8  # of refinement, at most
GOOD = 1e-14  # an error that is not worth more work, as a share of the largest value
NOTHING = 1e-250  # and one that is never worth more work
TOGETHER = 1 << 20  # numbers that are worked on together
CLOSE = 1e-14  # a share of the masses whose loss is not worth more work


class Values(NamedTuple):
    """Numbers, such as what is collected from states on, and how much each may be wrong by."""

    value: Wide  # [n, columns]
    error: Floats  # [n, columns]

    def at(self, places: Any) -> Values:
        """Those of some states."""
        return Values(self.value[places], self.error[places])

    @classmethod
    def zeros(cls, size: int, columns: int) -> Values:
        """Nothing is collected anywhere."""
        return cls(Wide(np.zeros((size, columns)), np.zeros((size, columns))), np.zeros((size, columns)))

    def put(self, at: Any, given: Values) -> None:
        """Write those of some states."""
        self.value.high[at], self.value.low[at], self.error[at] = *given.value, given.error


def together(size: int, columns: int) -> list[slice]:
    """Columns of so many numbers each, in parts that are worked on together."""
    step = columns if size * columns <= TOGETHER else 1
    return [slice(first, first + step) for first in range(0, columns, step)]


class Visits(NamedTuple):
    """How often states are visited, and the mass that was lost or made on the way."""

    often: Floats  # [n], rounded
    lost: float


@final
class Leaking:
    """x = b + A x on states that are all left eventually: see the module.

    Parameters
    ----------
    row, column
        Where the entries of A stand, [m]; repeated entries add up, and those on the diagonal are ignored.
    weight
        The entries, [m].
    leak
        What leaves each state, [n].
    """

    def __init__(self, row: Ints, column: Ints, weight: Wide, leak: Wide) -> None:
        beside = row != column
        self.size = leak.high.size
        self._system = row[beside], column[beside], weight[beside], leak

    def solve(self, right: Wide, slack: Floats) -> Values:
        """Solve for right-hand sides, [n, columns], of which every entry may be wrong by ``slack``."""
        something = right.high.any(axis=0) | slack.any(axis=0)
        result = Values.zeros(*slack.shape)
        if something.any():
            some = slice(None), something
            result.put(some, self._solve(right[some], slack[some]))
        return result

    def _solve(self, right: Wide, slack: Floats) -> Values:
        if self.size <= ELIMINATED:
            return self._elimination.solve(right, slack)
        found = self._refinement.solve(right, slack)
        is_good = (found.error <= GOOD * np.abs(found.value.high).max(axis=0, initial=0.0) + NOTHING).all()
        return found if is_good or self.size > ELIMINATED_LAST else self._elimination.solve(right, slack)

    def visits(self, mass: Floats) -> Visits:
        """How often each state is visited when the states are entered with these masses."""
        if self.size <= ELIMINATED:
            return self._elimination.visits(mass)
        found = self._refinement.visits(mass)
        is_good = found.lost <= CLOSE * mass.sum() + NOTHING
        return found if is_good or self.size > ELIMINATED_LAST else self._elimination.visits(mass)

    @cached_property
    def _elimination(self) -> Eliminated:
        return Eliminated(*self._system)

    @cached_property
    def _refinement(self) -> Refining:
        return Refining(*self._system)


# ---------------------------------------------------------------------- elimination


class Eliminated:
    """Elimination without subtraction, of a dense matrix: its inverse."""

    def __init__(self, row: Ints, column: Ints, weight: Wide, leak: Wide) -> None:
        size = leak.high.size
        self.size, self.share_lost = size, ((size + 4) ** 3 + 64 * size) * TINY
        entries = Groups(row * size + column, size * size).add_up(weight)
        # Column k holds A until state k is left out, and the inverse from then on; the last one is the leak.
        matrix = Wide(*(np.column_stack([a.reshape(size, size), b]) for a, b in zip(entries, leak, strict=True)))
        factors = Wide(np.ones(size), np.zeros(size))
        with np.errstate(all="ignore"):  # what underflows ends in an error that is not finite
            for k in range(size):
                put(factors, k, divide(wide(np.array(1.0)), total(matrix[k, k + 1 :])))
                share = multiply(matrix[:, k], factors[k])
                put(share, k, wide(np.array(0.0)))
                put(matrix, (slice(None), k), wide(np.arange(size) == k))
                matrix = add(matrix, multiply(share[:, None], matrix[k]))
            self._inverse = multiply(matrix[:, :size], factors[:, None])
        self._rows = Groups(np.repeat(np.arange(size), size), size)

    def solve(self, right: Wide, slack: Floats) -> Values:
        """Solve x = b + A x for right-hand sides, [n, columns], of which every entry may be wrong by ``slack``."""
        inverse, columns = self._inverse, right.high.shape[1]
        with np.errstate(all="ignore"):
            items = multiply(inverse[:, :, None], right[None])
            x = self._rows.add_up(Wide(*(part.reshape(-1, columns) for part in items)))
            share = self.share_lost + (self._rows.rounds + 16) * TINY
            error = 1.01 * (share * (inverse.high @ right.size) + inverse.high @ (slack + LOST))
        return Values(x, np.where(np.isfinite(error), error, np.inf))

    def visits(self, mass: Floats) -> Visits:
        """Solve n = m + Aᵀ n: all that is added up is positive."""
        count: Floats = mass @ self._inverse.high
        lost = (self.share_lost + (self.size + 4) * EPS) * float(mass.sum()) + LOST
        return Visits(count, lost if np.isfinite(count).all() else np.inf)


# ---------------------------------------------------------------------- factorisation and refinement


class Refining:
    """Sparse factorisation, residuals with twice the digits, and proofs of what comes out."""

    def __init__(self, row: Ints, column: Ints, weight: Wide, leak: Wide) -> None:
        self.size = leak.high.size
        self._row, self._column, self._weight, self._leak = row, column, weight, leak
        self._by_row, self._by_column = Groups(row, self.size), Groups(column, self.size)
        self._rounds = max(self._by_row.rounds, self._by_column.rounds) + 16
        self._diagonal = add(self._by_row.add_up(weight), leak)
        self._matrix = self._sparse(self._row, self._column, weight.high)
        self._factor = self._factorise()

    def _sparse(self, row: Ints, column: Ints, entries: Floats) -> Any:
        from scipy.sparse import csc_array

        return csc_array((entries, (row, column)), shape=(self.size, self.size))

    def _factorise(self) -> SuperLU | None:
        everybody = np.arange(self.size)
        try:
            return SuperLU(self._sparse(everybody, everybody, self._diagonal.high) - self._matrix)
        except RuntimeError:  # singular, to its eyes
            return None

    def solve(self, right: Wide, slack: Floats) -> Values:
        """Solve x = b + A x for right-hand sides, [n, columns], of which every entry may be wrong by ``slack``."""
        if self._factor is None:
            return Values(wide(np.zeros_like(right.high)), np.full(slack.shape, np.inf))
        result = Values.zeros(*slack.shape)
        for columns in together(self._row.size, right.high.shape[1]):
            some = slice(None), columns
            x, residual, rounding = self._refined(self._factor, right[some])
            result.put(some, Values(x, self._proved(self._factor, np.abs(residual) + rounding + slack[some])))
        return result

    def _refined(self, factor: SuperLU, right: Wide, digits: float = 2.0**-90) -> tuple[Wide, Floats, Floats]:
        """Solutions, their residuals and what of these may be rounding.

        Steps end once the next one is expected to change less than the share ``digits``.
        """
        x, last = wide(np.zeros_like(right.high)), np.full(right.high.shape[1], np.inf)
        residual, rounding = right.high, EPS * right.size
        for _ in range(STEPS):
            step = factor.solve(residual)
            size = np.abs(step).sum(axis=0)
            better = size < last / 2
            if not better.any():
                break
            x = add(x, wide(np.where(better, step, 0.0)))
            before = np.where(last < np.inf, last, size)
            last = np.where(better, size, last)
            residual, rounding = self._residual(x, right)
            if (size * last <= digits * before * np.abs(x.high).sum(axis=0)).all():
                break
        return x, residual, rounding

    def _proved(self, factor: SuperLU, miss: Floats) -> Floats:
        """Bounds on the errors of solutions that miss their equations by no more than this."""
        if not np.isfinite(miss).all():
            return np.full(miss.shape, np.inf)
        scale = miss.max(axis=0)
        need = (miss / scale).max(axis=1, keepdims=True) * (1 + 2.0**-40)
        more = need * (1 + 2.0**-10) + 4 * LOST
        for digits in (1.0, 2.0**-90):  # the first step will often do
            bound, residual, rounding = self._refined(factor, wide(more), digits)
            if (residual + rounding <= (more - need) * (1 - 2.0**-40)).all() and (bound.high >= 0).all():
                error: Floats = 1.01 * scale * bound.size + LOST
                return error
        return np.full(miss.shape, np.inf)

    def _residual(self, x: Wide, right: Wide) -> tuple[Floats, Floats]:
        """What b + A x − x is, and how much of it may be rounding; [n, columns]."""
        differences = subtract(x[self._column], x[self._row])
        moves = self._by_row.add_up(multiply(self._weight[:, None], differences))
        whole = add(subtract(right, multiply(self._leak[:, None], x)), moves).high
        # As much flows as leads away: Σ A(i,j) (|x(i)| + |x(j)|).
        size = right.size + self._diagonal.high[:, None] * x.size + self._matrix @ x.size
        return whole, self._rounds * TINY * size + EPS * np.abs(whole) + LOST

    # ------------------------------------------------------------------ visits

    def visits(self, mass: Floats) -> Visits:
        """Solve n = m + Aᵀ n; the result is rounded to floats, which is not counted as lost."""
        if self._factor is None:
            return Visits(mass, np.inf)
        count, last, (lost, rounding) = wide(np.zeros(self.size)), np.inf, (mass, mass)
        for _ in range(STEPS):
            step = self._factor.solve_transposed(lost)
            size = float(np.abs(step).sum())
            if not size < last / 2:
                break
            count, last = add(count, wide(step)), size
            count = Wide(*(np.where(count.high < 0, 0.0, part) for part in count))
            lost, rounding = self._lost(count, mass)
            if (np.abs(lost) + rounding).sum() <= CLOSE * mass.sum():
                break
        return Visits(count.high, float((np.abs(lost) + rounding).sum()))

    def _lost(self, count: Wide, mass: Floats) -> tuple[Floats, Floats]:
        """What m + Aᵀ n − n is, and how much of it may be rounding."""
        arriving = self._by_column.add_up(multiply(self._weight, count[self._row]))
        leaving = multiply(self._diagonal, count)
        lost = add(wide(mass), subtract(arriving, leaving)).high
        return lost, self._rounds * TINY * (mass + arriving.size + leaving.size) + EPS * np.abs(lost) + LOST


class SuperLU:
    """SciPy's sparse factorisation of a matrix.  Raises RuntimeError if it is singular to working precision.

    It reorders the matrix to keep its factors sparse, unless the order that it has is said to be a good one.
    """

    def __init__(self, matrix: Any, *, is_ordered: bool = False) -> None:
        from scipy.sparse.linalg import splu

        # SciPy's stubs miss solve's second argument
        factor: Any = splu(matrix, permc_spec="NATURAL" if is_ordered else "COLAMD")
        self._matrix, self._factor = matrix, factor

    def solve(self, right: Floats) -> Floats:
        """Solve M x = right."""
        result: Floats = self._factor.solve(right)
        return result

    def solve_transposed(self, right: Floats) -> Floats:
        """Solve Mᵀ x = right."""
        result: Floats = self._factor.solve(right, trans="T")
        return result

    def refined(self, right: Floats, *, transposed: bool = False) -> Floats:
        """The same with one step of refinement, which brings back what the factorisation rounds away."""
        solve, matrix = (self.solve_transposed, self._matrix.T) if transposed else (self.solve, self._matrix)
        x = solve(right)
        return x + solve(right - matrix @ x)
