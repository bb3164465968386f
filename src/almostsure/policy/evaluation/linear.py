"""Linear equations of transient Markov chains, solved with proved errors.

:class:`Leaking` stands for x = b + A x, where A ≥ 0 has the transition probabilities between the states, and the
difference of a row sum from 1, its *leak*, is the probability of leaving.  Written as

    leak(i) x(i) + Σ over j ≠ i of A(i,j) (x(i) − x(j)) = b(i)

it needs no differences such as 1 − A(i,i), however slowly a state is left.  Small systems are solved by elimination,
large ones by factorisation.

*Elimination* without subtractions (Grassmann, Taksar and Heyman, 1985): the diagonal is always the sum of the other
entries of its row.  So all entries of (I − A)⁻¹ have a small relative error, whatever the condition of the system.
Proof: eliminating one of n states changes each remaining entry by a factor within (1 ± ε)^(n+4), where ε bounds the
error of every operation.  By the matrix-tree theorem an entry of the inverse is a quotient of two sums of products of
at most n entries each, so it changes by a factor within (1 ± ε)^(2n(n+4)), and over all states by one within
(1 ± ε)^((n+4)³).  The values of eliminated states follow from those of the remaining ones by sums of products, without
cancellation.  With twice the digits (:mod:`almostsure.policy.evaluation.wide`) these errors are negligible.  The error
of x is that factor times (I − A)⁻¹ |b|.

*Factorisation* by SuperLU, with *iterative refinement*: the residual of the equation is computed with twice the digits,
and the correction is added, until the residual is at the level of rounding errors.  Proof: if u ≥ 0 satisfies
leak u + Σ A (u(i) − u(j)) ≥ |residual| for all i, then the error of x(i) is at most u(i), since (I − A)⁻¹ ≥ 0.  That is
verified for the computed x and u; if it fails, the error is infinite.  A single u serves all right-hand sides, scaled
by the largest residual of each.

For the transposed equations, n = m + Aᵀ n (the expected number of visits if the chain is entered with the masses m),
the proof is simpler: a residual is mass that was lost or created, and no probability computed from n has a larger error
than its sum.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from almostsure.model.mdp import Floats, Ints
from almostsure.policy.evaluation.wide import (
    LOST,
    TINY,
    UP,
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
ELIMINATED = 16  # systems of up to this many states are eliminated directly
ELIMINATED_LAST = 300  # up to this many states they are eliminated if refinement is not accurate enough
STEPS = 8  # the most steps of refinement
GOOD = 1e-14  # an error, relative to the largest value, that is good enough
NOTHING = 1e-250  # an absolute error that is always good enough
TOGETHER = 1 << 20  # numbers that are processed together
CLOSE = 1e-14  # a loss of mass, relative to the total, that is good enough


class Values(NamedTuple):
    """Values of states, and bounds on their errors."""

    value: Wide  # [n, columns]
    error: Floats  # [n, columns]

    def at(self, places: Any) -> Values:
        """The values of some states."""
        return Values(self.value[places], self.error[places])

    @classmethod
    def zeros(cls, size: int, columns: int) -> Values:
        """Zeros, without errors."""
        return cls(Wide(np.zeros((size, columns)), np.zeros((size, columns))), np.zeros((size, columns)))

    def put(self, at: Any, given: Values) -> None:
        """Write the values of some states."""
        self.value.high[at], self.value.low[at], self.error[at] = *given.value, given.error


def together(size: int, columns: int) -> list[slice]:
    """Slices of columns, of ``size`` numbers each, that are processed together: all if they are few, else one each."""
    step = columns if size * columns <= TOGETHER else 1
    return [slice(first, first + step) for first in range(0, columns, step)]


Visits = tuple[Floats, float]  # expected numbers of visits, and the mass that was lost or created by rounding


@final
class Leaking:
    """x = b + A x on transient states; see the module's docstring.

    Parameters
    ----------
    row, column
        The positions of the entries of A, [m]; repeated entries add up, and those on the diagonal are ignored.
    weight
        The entries, [m].
    leak
        The probability of leaving from each state, [n].
    """

    def __init__(self, row: Ints, column: Ints, weight: Wide, leak: Wide) -> None:
        beside = row != column
        self.size = leak.high.size
        self._system = row[beside], column[beside], weight[beside], leak

    def solve(self, right: Wide, slack: Floats) -> Values:
        """Solve for right-hand sides, [n, columns], with errors of at most ``slack``."""
        nonzero = right.high.any(axis=0) | slack.any(axis=0)
        result = Values.zeros(*slack.shape)
        if nonzero.any():
            some = slice(None), nonzero
            result.put(some, self._solve(right[some], slack[some]))
        return result

    def _solve(self, right: Wide, slack: Floats) -> Values:
        if self.size <= ELIMINATED:
            return self._elimination.solve(right, slack)
        found = self._refinement.solve(right, slack)
        is_good = (found.error <= GOOD * np.abs(found.value.high).max(axis=0, initial=0.0) + NOTHING).all()
        return found if is_good or self.size > ELIMINATED_LAST else self._elimination.solve(right, slack)

    def visits(self, mass: Floats) -> Visits:
        """The expected number of visits of each state if the states are entered with these masses."""
        if self.size <= ELIMINATED:
            return self._elimination.visits(mass)
        found = self._refinement.visits(mass)
        is_good = found[1] <= CLOSE * mass.sum() + NOTHING
        return found if is_good or self.size > ELIMINATED_LAST else self._elimination.visits(mass)

    @cached_property
    def _elimination(self) -> Eliminated:
        return Eliminated(*self._system)

    @cached_property
    def _refinement(self) -> Refining:
        return Refining(*self._system)


# ---------------------------------------------------------------------- elimination


class Eliminated:
    """The inverse of a dense matrix, by elimination without subtractions."""

    def __init__(self, row: Ints, column: Ints, weight: Wide, leak: Wide) -> None:
        size = leak.high.size
        self.size, self.share_lost = size, ((size + 4) ** 3 + 64 * size) * TINY
        entries = Groups(row * size + column, size * size).add_up(weight)
        # Column k holds A until state k is eliminated, and the inverse from then on; the last column is the leak.
        matrix = Wide(*(np.column_stack([a.reshape(size, size), b]) for a, b in zip(entries, leak, strict=True)))
        factors = Wide(np.ones(size), np.zeros(size))
        with np.errstate(all="ignore"):  # after an underflow the error is not finite
            for k in range(size):
                put(factors, k, divide(wide(np.array(1.0)), total(matrix[k, k + 1 :])))
                share = multiply(matrix[:, k], factors[k])
                put(share, k, wide(np.array(0.0)))
                put(matrix, (slice(None), k), wide(np.arange(size) == k))
                matrix = add(matrix, multiply(share[:, None], matrix[k]))
            self._inverse = multiply(matrix[:, :size], factors[:, None])
        self._rows = Groups(np.repeat(np.arange(size), size), size)

    def solve(self, right: Wide, slack: Floats) -> Values:
        """Solve x = b + A x for right-hand sides, [n, columns], with errors of at most ``slack``."""
        inverse, columns = self._inverse, right.high.shape[1]
        with np.errstate(all="ignore"):
            items = multiply(inverse[:, :, None], right[None])
            x = self._rows.add_up(Wide(*(part.reshape(-1, columns) for part in items)))
            share = self.share_lost + (self._rows.rounds + 16) * TINY
            error = UP * (share * (inverse.high @ right.size) + inverse.high @ (slack + LOST))
        return Values(x, np.where(np.isfinite(error), error, np.inf))

    def visits(self, mass: Floats) -> Visits:
        """Solve n = m + Aᵀ n; all terms are positive."""
        count: Floats = mass @ self._inverse.high
        lost = (self.share_lost + (self.size + 4) * EPS) * float(mass.sum()) + LOST
        return count, lost if np.isfinite(count).all() else np.inf


# ---------------------------------------------------------------------- factorisation and refinement


class Refining:
    """Sparse factorisation, residuals with twice the digits, and proofs of the errors."""

    def __init__(self, row: Ints, column: Ints, weight: Wide, leak: Wide) -> None:
        from scipy.sparse import csc_array, diags_array

        self.size = leak.high.size
        self._row, self._column, self._weight, self._leak = row, column, weight, leak
        self._by_row, self._by_column = Groups(row, self.size), Groups(column, self.size)
        self._rounds = max(self._by_row.rounds, self._by_column.rounds) + 16
        self._diagonal = add(self._by_row.add_up(weight), leak)
        self._matrix: Any = csc_array((weight.high, (row, column)), shape=(self.size, self.size))
        self._factor: SuperLU | None = None
        with suppress(RuntimeError):  # singular to working precision
            self._factor = SuperLU(csc_array(diags_array(self._diagonal.high)) - self._matrix)

    def solve(self, right: Wide, slack: Floats) -> Values:
        """Solve x = b + A x for right-hand sides, [n, columns], with errors of at most ``slack``."""
        if self._factor is None:
            return Values(wide(np.zeros_like(right.high)), np.full(slack.shape, np.inf))
        result = Values.zeros(*slack.shape)
        for columns in together(self._row.size, right.high.shape[1]):
            some = slice(None), columns
            x, residual, rounding = self._refined(self._factor, right[some])
            result.put(some, Values(x, self._proved(self._factor, np.abs(residual) + rounding + slack[some])))
        return result

    def _refined(self, factor: SuperLU, right: Wide, digits: float = 2.0**-90) -> tuple[Wide, Floats, Floats]:
        """Solutions, their residuals, and bounds on the rounding errors of these.

        Refinement ends when the next step is expected to change less than ``digits``, relative to the solution.
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
        """Bounds on the errors of solutions whose residuals are at most ``miss``."""
        if not np.isfinite(miss).all():
            return np.full(miss.shape, np.inf)
        scale = miss.max(axis=0)
        need = (miss / scale).max(axis=1, keepdims=True) * (1 + 2.0**-40)
        more = need * UP + 4 * LOST
        for digits in (1.0, 2.0**-90):  # one step often suffices
            bound, residual, rounding = self._refined(factor, wide(more), digits)
            if (residual + rounding <= (more - need) * (1 - 2.0**-40)).all() and (bound.high >= 0).all():
                error: Floats = UP * scale * bound.size + LOST
                return error
        return np.full(miss.shape, np.inf)

    def _residual(self, x: Wide, right: Wide) -> tuple[Floats, Floats]:
        """The residual b + A x − x, and a bound on its rounding error; [n, columns]."""
        differences = subtract(x[self._column], x[self._row])
        moves = self._by_row.add_up(multiply(self._weight[:, None], differences))
        whole = add(subtract(right, multiply(self._leak[:, None], x)), moves).high
        # A bound on the sizes of all terms: leak |x(i)| + Σ A(i,j) (|x(i)| + |x(j)|).
        size = right.size + self._diagonal.high[:, None] * x.size + self._matrix @ x.size
        return whole, self._rounds * TINY * size + EPS * np.abs(whole) + LOST

    # ------------------------------------------------------------------ visits

    def visits(self, mass: Floats) -> Visits:
        """Solve n = m + Aᵀ n; rounding the result to floats does not count as lost."""
        if self._factor is None:
            return mass, np.inf
        count, last, (lost, rounding) = wide(np.zeros(self.size)), np.inf, (mass, mass)
        for _ in range(STEPS):
            step = self._factor.solve(lost, transposed=True)
            size = float(np.abs(step).sum())
            if not size < last / 2:
                break
            count, last = add(count, wide(step)), size
            count = Wide(*(np.where(count.high < 0, 0.0, part) for part in count))
            lost, rounding = self._lost(count, mass)
            if (np.abs(lost) + rounding).sum() <= CLOSE * mass.sum():
                break
        return count.high, float((np.abs(lost) + rounding).sum())

    def _lost(self, count: Wide, mass: Floats) -> tuple[Floats, Floats]:
        """The residual m + Aᵀ n − n, and a bound on its rounding error."""
        arriving = self._by_column.add_up(multiply(self._weight, count[self._row]))
        leaving = multiply(self._diagonal, count)
        lost = add(wide(mass), subtract(arriving, leaving)).high
        return lost, self._rounds * TINY * (mass + arriving.size + leaving.size) + EPS * np.abs(lost) + LOST


class SuperLU:
    """SciPy's sparse factorisation of a matrix.  Raises RuntimeError if it is singular to working precision.

    It reorders the matrix to keep its factors sparse, unless ``is_ordered``.
    """

    def __init__(self, matrix: Any, *, is_ordered: bool = False) -> None:
        from scipy.sparse.linalg import splu

        # SciPy's stubs miss solve's second argument
        factor: Any = splu(matrix, permc_spec="NATURAL" if is_ordered else "COLAMD")
        self._matrix, self._factor = matrix, factor

    def solve(self, right: Floats, *, transposed: bool = False) -> Floats:
        """Solve M x = right, or Mᵀ x = right."""
        result: Floats = self._factor.solve(right, trans="T" if transposed else "N")
        return result

    def refined(self, right: Floats, *, transposed: bool = False) -> Floats:
        """The same with one step of refinement, which reduces the rounding errors of the factorisation."""
        x = self.solve(right, transposed=transposed)
        rest: Floats = right - (self._matrix.T if transposed else self._matrix) @ x
        return x + self.solve(rest, transposed=transposed)
