"""The values of a component by elimination and by sweeps, compared with dense and sparse direct solves."""

import numpy as np
import pytest

from almostsure.plan.assured.component import approach, sweeps
from almostsure.plan.assured.engine import call
from almostsure.plan.assured.steps import Part


def chain(rng, size, share):
    """One choice per position, most of them with a single entry; every position may leave."""
    lengths = np.where(rng.random(size) < share, 1, rng.integers(0, 4, size))
    entry_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    row = np.repeat(np.arange(size), lengths)
    factor = rng.random(row.size)
    factor *= 0.9 / np.maximum(np.bincount(row, factor, size), 0.9)[row]
    column = rng.integers(0, size, row.size).astype(np.uint32)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (row, column), factor)
    room, each = (np.empty(size + 1, np.uint32), np.empty(row.size, np.uint32)), np.arange(size, dtype=np.uint32)
    ptr = np.arange(size + 1, dtype=np.uint32)
    return Part(ptr, entry_ptr, column, factor, rng.normal(size=size), each, 1 - matrix.sum(1), *room), matrix


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_a_policy_is_evaluated_as_by_a_dense_solve(share):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        part, matrix = chain(rng, int(rng.integers(1, 30)), share)
        order = rng.permutation(part.constant.size).astype(np.uint32)
        value, policy = np.zeros(order.size), part.ptr[:-1].copy()
        rows = call(approach.room_for_rows, part, order, plainly=True)
        call(approach.follow, part, order, value, policy, rows, 400, plainly=True)
        assert value == pytest.approx(np.linalg.solve(np.eye(order.size) - matrix, part.constant), abs=1e-9)


def test_policy_iteration_by_elimination_finds_what_lu_finds():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 20))
        part, _ = chain(rng, 2 * size, 0.3)
        ptr = np.arange(0, 2 * size + 1, 2, dtype=np.uint32)
        part = part._replace(ptr=ptr, column=part.column % np.uint32(size))
        usable, order = np.ones(2 * size, np.bool_), rng.permutation(size).astype(np.uint32)
        usable[1::2][rng.random(size) < 0.2] = False
        policy, value = ptr[:-1].copy(), np.empty(size)
        assert call(approach.iterate, part, usable, order, policy, value, plainly=True)
        expected_policy, expected = sweeps.solve_directly(
            part, ptr[:-1].copy(), np.where(usable, part.constant, -np.inf)
        )
        assert value == pytest.approx(expected, abs=1e-12)
        assert (policy == expected_policy).all()


@pytest.mark.parametrize("plainly", [True, False])
def test_elimination_in_a_narrow_order_is_a_dense_solve(plainly):
    """The positions of a ladder, numbered at random: breadth first, each leads only to a few before and behind it."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        size, label = int(rng.integers(5, 80)), rng.permutation(80)
        label = np.argsort(np.argsort(label[:size]))
        chance, matrix = rng.random((size, 3)), np.zeros((size, size))
        column = label[np.clip(np.arange(size)[:, None] + [-2, 1, 2], 0, size - 1)]
        factor = chance * (1 - 2.0**-20 * (rng.random(size) < 0.5))[:, None] / chance.sum(1, keepdims=True)
        factor[0] /= 2  # the end of the ladder, where it is left
        at = np.argsort(label)
        column, factor = column[at], factor[at]
        np.add.at(matrix, (np.arange(size)[:, None], column), factor)
        each, ends = np.arange(size + 1, dtype=np.uint32), np.arange(0, 3 * size + 1, 3, dtype=np.uint32)
        pred = np.empty(size + 1, np.uint32), np.empty(3 * size, np.uint32)
        part = Part(
            each, ends, column.astype(np.uint32).ravel(), factor.ravel(), rng.normal(size=size), each[:-1],
            1 - matrix.sum(1), *pred,
        )  # fmt: skip
        order, reach = call(approach.narrow, part, rng.permutation(size).astype(np.uint32), plainly=plainly)
        assert sorted(order) == list(range(size))
        assert reach <= 8
        value = np.full(size, np.nan)
        assert call(approach.eliminate, part, order, each[:-1].copy(), value, plainly=plainly)
        assert value == pytest.approx(np.linalg.solve(np.eye(size) - matrix, part.constant), rel=1e-6, abs=1e-6)


def test_elimination_refuses_a_policy_that_leads_out_of_the_order():
    part, _ = chain(np.random.default_rng(0), 6, 0.0)
    part = part._replace(column=np.full_like(part.column, 5))
    value = np.zeros(6)
    assert not call(approach.eliminate, part, np.arange(5, dtype=np.uint32), part.ptr[:-1].copy(), value, plainly=True)


def test_policy_iteration_says_that_a_policy_never_leaves():
    ends = np.array([0, 1, 2], np.uint32)
    part = Part(ends, ends, ends[1::-1].copy(), np.ones(2), np.full(2, -1.0), ends[:2], np.zeros(2), ends[:0], ends[:0])
    usable, order, value = np.ones(2, np.bool_), ends[:2].copy(), np.empty(2)
    assert not call(approach.iterate, part, usable, order, ends[:2].copy(), value, plainly=True)


def test_a_policy_that_hardly_ever_leaves_is_worth_what_it_leaves_for():
    """A chain in which one step in 100 leads on and all others back: 10²⁰ steps, and then -1."""
    size, on = 10, 0.01
    ptr, column = np.arange(size + 1, dtype=np.uint32), np.zeros((size, 2), np.uint32)
    column[:-1, 0], leak = np.arange(1, size), np.append(np.zeros(size - 1), on)
    entry_ptr = np.append(2 * ptr[:-1], 2 * size - 1).astype(np.uint32)
    factor = np.delete(np.tile([on, 1 - on], size), -2)
    columns = np.delete(column.ravel(), -2)
    part = Part(ptr, entry_ptr, columns, factor, -leak, ptr[:-1], leak, ptr[:0], ptr[:0])
    _, value = sweeps.solve_directly(part, ptr[:-1].copy(), part.constant)
    assert value == pytest.approx(np.full(size, -1.0), rel=1e-12)


def test_a_cycle_that_is_never_left_ends_no_sweep():
    """Two positions lead to each other, for 1 per step: nothing is learned from going round."""
    ends = np.array([0, 1, 2], np.uint32)
    part = Part(ends, ends, ends[1::-1].copy(), np.ones(2), np.full(2, -1.0), ends[:2], np.zeros(2), ends[:0], ends[:0])
    order, value = np.array([0, 1], np.uint32), np.array([-3.0, -5.0])
    rows = call(approach.room_for_rows, part, order, plainly=True)
    call(approach.follow, part, order, value, part.ptr[:-1].copy(), rows, 10, plainly=True)
    assert sorted(value) in ([-4, -3], [-6, -5])


@pytest.mark.parametrize("mixes_first", [False, True])
@pytest.mark.parametrize("guess", [-2.0, -np.inf, np.inf, np.nan])
def test_values_that_are_not_finite_are_no_solution(monkeypatch, guess, mixes_first):
    """Where nothing changes any more because a guess went astray, −∞ must not be taken for a proof that all is lost."""
    part, _ = chain(np.random.default_rng(0), 5, 0.5)
    sweeper = sweeps.Sweeper(part, discounted=False)
    sweeper.mixes_first = mixes_first
    monkeypatch.setattr(sweeps, "approach", lambda *arguments: 0.0)
    monkeypatch.setattr(sweeps.kernels, "sweep", lambda *arguments: -1)
    value = np.array([0.0, -1.0, guess, -3.0, -4.0])
    assert sweeper.run(part.constant, value, part.ptr[:-1].copy(), 1e-9) == np.isfinite(guess)
