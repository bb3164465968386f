"""Whether staying for ever gains or loses, compared with exact fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from almostsure.plan.programme.flow import Flow
from almostsure.plan.programme.means import gain_sign, gainful, gaining_components


def flow_of(owner, moves, reward):
    owner, moves = np.array(owner), np.array(moves)
    return Flow(
        owner=owner, moves=csr_array(moves),
        reward=np.array(reward, float), cost=np.zeros(owner.size), initial=np.ones(moves.shape[1]),
        state=np.arange(moves.shape[1]), choice=np.arange(owner.size),
    )  # fmt: skip


def chosen_gain(moves, reward):
    """The gain between two visits of the first state of a chain: it has the sign of the mean."""
    moves = [[Fraction(float(p)) for p in row] for row in moves]
    moves = [[p / sum(row) for p in row] for row in moves]
    reward = [Fraction(float(r)) for r in reward]
    for last in range(len(moves) - 1, 0, -1):
        stay = sum(moves[last][:last])  # what is not the loop
        for s in range(last):
            share = moves[s][last] / stay
            reward[s] += share * reward[last]
            moves[s] = [p + share * q for p, q in zip(moves[s][:last], moves[last][:last], strict=True)]
    return reward[0]


def component(rng):
    """Two to four states, each with up to two choices, all of which may lead anywhere; some hardly ever move."""
    count = int(rng.integers(2, 5))
    owner = np.repeat(np.arange(count), rng.integers(1, 3, count))
    moves = rng.dirichlet(np.ones(count), owner.size)
    for row, state in enumerate(owner):
        if rng.random() < 0.5:
            moves[row] *= 2.0 ** -int(rng.integers(1, 51))
            moves[row, state] += 1 - moves[row].sum()
    reward = rng.normal(size=owner.size) * 10.0 ** rng.integers(-9, 13, owner.size)
    return owner, moves, reward - (rng.random() < 0.5) * np.abs(reward).max() * 2.0 ** -rng.integers(0, 60)


@pytest.mark.parametrize("block", range(4))
def test_a_sign_is_the_exact_one(block):
    known = 0
    for seed in range(100 * block, 100 * (block + 1)):
        owner, moves, reward = component(np.random.default_rng(seed))
        rows = [np.flatnonzero(owner == s) for s in range(moves.shape[1])]
        best = max(chosen_gain(moves[list(each)], reward[list(each)]) for each in itertools.product(*rows))
        sign = gain_sign(flow_of(owner, moves, reward), np.ones(owner.size, bool), 4)
        assert sign == 0 or sign == (best > 0) - (best < 0), (seed, sign, float(best))
        known += sign != 0
    assert known >= 90


def test_loops_gain_lose_or_do_neither():
    everything = np.ones(2, bool)
    assert gain_sign(flow_of([0, 0], [[1.0], [1.0]], [-1, -2]), everything, 1) == -1
    assert gain_sign(flow_of([0, 0], [[1.0], [1.0]], [0, -2]), everything, 1) == 0
    assert gain_sign(flow_of([0, 0], [[1.0], [1.0]], [1e-300, -2]), everything, 1) == 1
    there_and_back = [[1.0, 0], [0, 1.0], [1.0, 0]]
    assert gain_sign(flow_of([0, 0, 1], [[1.0, 0], [0, 1.0], [1.0, 0]], [0, 1, -3]), np.ones(3, bool), 2) == 0
    assert gain_sign(flow_of([0, 0, 1], there_and_back, [-1, 1, -3]), np.ones(3, bool), 2) == -1
    assert gain_sign(flow_of([0, 0, 1], there_and_back, [-1, 4, -3]), np.ones(3, bool), 2) == 1


def test_components_that_gain():
    flow = flow_of([0, 1, 2], [[0, 1.0, 0], [1.0, 0, 0], [0, 0, 1.0]], [2, -1, -1])
    assert [choices.tolist() for choices in gaining_components(flow)] == [[True, True, False]]
    assert gainful(flow).tolist() == [True, True, False]
    flow.reward[1] = -3
    assert not gainful(flow).any()
