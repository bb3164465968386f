"""Linear equations of chains: elimination and factorisation enclose the exact solution."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array

from almostsure.policy.evaluation import linear
from almostsure.policy.evaluation.linear import Eliminated, Leaking, Refining, SuperLU
from almostsure.policy.evaluation.wide import UP, Wide, total, wide


def system(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moves between states, leaks down to 2⁻³⁰, and right-hand sides of very different sizes."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    moves = rng.random((size, size)) * (rng.random((size, size)) < 0.5)
    np.fill_diagonal(moves, 0.0)
    leak = 2.0 ** -rng.integers(1, 30, size).astype(float)
    right = rng.choice([-1.0, 1.0], size) * 10.0 ** rng.integers(-9, 13, size)
    return moves, leak, right


def exactly(moves: np.ndarray, leak: np.ndarray, right: np.ndarray) -> list[Fraction]:
    """Gauss–Jordan elimination in fractions."""
    size = leak.size
    rows = [[-Fraction(float(x)) for x in row] + [Fraction(float(b))] for row, b in zip(moves, right, strict=True)]
    for i in range(size):
        rows[i][i] = sum((Fraction(float(x)) for x in moves[i]), Fraction(float(leak[i])))
    for i in range(size):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(size):
            if j != i:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("kind", [Eliminated, Refining])
def test_solutions_and_visits_are_enclosed(kind: type[Eliminated] | type[Refining]) -> None:
    for seed in range(150):
        moves, leak, right = system(seed)
        row, column = np.nonzero(moves)
        found = kind(row, column, wide(moves[row, column]), wide(leak))
        value, error = found.solve(wide(right[:, None]), np.zeros((leak.size, 1)))
        for x, low, bound, exact in zip(
            value.high[:, 0], value.low[:, 0], error[:, 0], exactly(moves, leak, right), strict=True
        ):
            assert abs(Fraction(float(x)) + Fraction(float(low)) - exact) <= Fraction(float(bound))
        assert (error[:, 0] <= 1e-12 * np.abs(value.high[:, 0]).max()).all()
        often, lost = found.visits(np.abs(right))
        escaped = float(often @ leak)  # all mass that enters leaves eventually
        assert escaped == pytest.approx(np.abs(right).sum(), abs=lost + 1e-14 * np.abs(right).sum())


def test_visits_lose_almost_no_mass() -> None:
    """Nearly all mass returns in each step; floats would lose too much of it, so twice the digits are used."""
    for seed in range(30):
        moves, leak, right = system(seed)
        row, column = np.nonzero(moves)
        found = Refining(row, column, wide(moves[row, column]), wide(leak))
        mass = np.abs(right)
        often, lost = found.visits(mass)
        assert lost <= 1e-14 * mass.sum()
        exact = exactly(moves.T, moves.sum(1) + leak - moves.sum(0), mass)
        assert often == pytest.approx([float(x) for x in exact], rel=1e-6)


def test_tiny_masses_need_no_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    """With budgets in the thousands nearly all layers are entered by a tiny mass."""
    monkeypatch.delattr(linear, "Eliminated")
    row = np.arange(39)
    system = Leaking(row, row + 1, wide(np.full(39, 0.75)), wide(np.append(np.full(39, 0.25), 1.0)))
    for mass in (1.0, 1e-270, 0.0):
        assert system.visits(np.append(mass, np.zeros(39)))[0][-1] == pytest.approx(mass * 0.75**39, rel=1e-9)


def test_large_systems_are_factorised_and_small_ones_eliminated() -> None:
    size = 40
    row = np.arange(size - 1)
    weight, leak = wide(np.full(size - 1, 0.75)), wide(np.append(np.full(size - 1, 0.25), 1.0))
    found = Leaking(row, row + 1, weight, leak).solve(wide(np.ones((size, 1))), np.zeros((size, 1)))
    assert found.value.high[:, 0] == pytest.approx([4 - 3 * 0.75 ** (size - 1 - i) for i in range(size)], rel=1e-15)
    assert (found.error < 1e-27).all()


def test_one_proof_serves_all_columns() -> None:
    """Right-hand sides of very different sizes, one of them zero, have errors relative to their own size."""
    moves, leak, right = system(3)
    row, column = np.nonzero(moves)
    together = np.stack([right, 1e-200 * right, 0 * right, np.ones(right.size)], axis=1)
    for found in (Leaking, Refining):
        value, error = found(row, column, wide(moves[row, column]), wide(leak)).solve(
            wide(together), np.zeros(together.shape)
        )
        for at in range(4):
            exact = exactly(moves, leak, together[:, at])
            for x, low, bound, y in zip(value.high[:, at], value.low[:, at], error[:, at], exact, strict=True):
                assert abs(Fraction(float(x)) + Fraction(float(low)) - y) <= Fraction(float(bound))
            assert (error[:, at] <= 1e-14 * np.abs(value.high[:, at]).max() + 1e-250).all()


def test_sums_of_a_row_keep_their_digits() -> None:
    parts = Wide(np.array([1.0, 2.0**-60]), np.array([2.0**-70, 0.0]))
    assert [float(x) for x in total(parts)] == [1.0, 2.0**-60 + 2.0**-70]
    assert np.isnan(total(Wide(np.array([np.inf, 1.0]), np.zeros(2))).high)


def test_a_given_order_is_kept() -> None:
    size = 6
    arrow = np.eye(size) + np.eye(size)[::-1] / 4
    arrow[-1], arrow[:, -1] = 1 / 8, 1 / 8
    solution = np.arange(1.0, size + 1)
    for is_ordered in (False, True):
        factor = SuperLU(csc_array(arrow), is_ordered=is_ordered)
        assert factor.refined(arrow @ solution) == pytest.approx(solution)
        assert is_ordered <= (factor._factor.perm_c.tolist() == list(range(size)))


def test_a_factorisation_refines_what_it_solves() -> None:
    from scipy.sparse import csc_array

    matrix = csc_array(np.array([[2.0, -1.0], [0.0, 4.0]]))
    factor = SuperLU(matrix)
    assert factor.refined(np.array([1.0, 4.0])).tolist() == [1.0, 1.0]
    assert factor.refined(np.array([2.0, 3.0]), transposed=True).tolist() == [1.0, 1.0]


def test_errors_are_as_large_as_the_proof_says() -> None:
    """Two states, of which the first leads to the second with 1/2: the inverse is (1, 1/2; 0, 1)."""
    row, column, weight, leak = np.array([0]), np.array([1]), wide(np.array([0.5])), wide(np.array([0.5, 1.0]))
    right, slack = np.array([[4.0], [8.0]]), np.array([[1e-3], [2e-3]])
    eliminated = Eliminated(row, column, weight, leak)
    value, error = eliminated.solve(wide(right), 0 * slack)
    assert value.high[:, 0].tolist() == [8, 8]
    lost = ((2 + 4) ** 3 + 64 * 2 + 1 + 16) * 2.0**-102  # of the inverse, and of sums of pairs
    assert error[:, 0] == pytest.approx([UP * lost * 8, UP * lost * 8], rel=1e-9)
    assert eliminated.solve(wide(right), slack).error[:, 0] == pytest.approx([UP * 2e-3, UP * 2e-3], rel=1e-9)
    often, gone = eliminated.visits(np.array([1.0, 3.0]))
    assert often.tolist() == [1, 3.5]
    assert gone == pytest.approx(4 * 6 * 2.0**-52, rel=1e-9)
    refining = Refining(row, column, weight, leak)
    proved = UP * 2e-3 * UP
    # one bound serves all rows: that of the largest residual, here of both
    found = refining.solve(wide(right), np.full((2, 1), 2e-3))
    assert (found.value.high[:, 0].tolist(), refining.visits(np.array([1.0, 3.0]))[0].tolist()) == ([8, 8], [1, 3.5])
    assert found.error[:, 0] == pytest.approx([1.5 * proved, proved], rel=1e-6)
    assert (refining.solve(wide(right), 0 * slack).error < 1e-28).all()
    assert refining.visits(np.array([1.0, 3.0]))[1] < 1e-28


def test_the_choice_between_elimination_and_refinement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elimination up to a size, refinement above it, and elimination again if refinement is not accurate enough."""
    leak, nothing = wide(np.ones(3)), np.zeros(0, int)
    right, slack, mass = wide(np.ones((3, 1))), np.zeros((3, 1)), np.ones(3)
    for most, last, good, kinds in ((3, 9, 1, "E"), (2, 9, 1, "R"), (2, 3, -1, "RE"), (2, 2, -1, "R")):
        used: list[str] = []
        monkeypatch.setattr(linear, "ELIMINATED", most)
        monkeypatch.setattr(linear, "ELIMINATED_LAST", last)
        for name in ("GOOD", "CLOSE", "NOTHING"):
            monkeypatch.setattr(linear, name, good)
        for kind in (Eliminated, Refining):

            def made(*given: Any, kind: Any = kind, used: list[str] = used) -> Any:
                used.append(kind.__name__[0])
                return kind(*given)

            monkeypatch.setattr(linear, kind.__name__, made)
        for solve in (lambda found: found.solve(right, slack), lambda found: found.visits(mass)):
            used.clear()
            solve(Leaking(nothing, nothing, wide(np.zeros(0)), leak))
            assert "".join(used) == kinds


@pytest.mark.parametrize(("size", "parts"), [(2, [(0, 3)]), (4, [(0, 1), (1, 2), (2, 3)])])
def test_small_columns_are_processed_together(
    monkeypatch: pytest.MonkeyPatch, size: int, parts: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(linear, "TOGETHER", 6)
    assert [(part.start, part.stop) for part in linear.together(size, 3)] == parts
