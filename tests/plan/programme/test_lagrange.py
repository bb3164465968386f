"""The search for a price: the order in which its equations are factorised."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from almostsure import example
from almostsure.plan.programme import lagrange
from almostsure.plan.programme.flow import flow_of
from almostsure.plan.programme.lagrange import _onward, _solve


def test_equations_are_factorised_layer_by_layer(monkeypatch):
    """With thousands of layers any other order makes the factors fill up, and takes minutes."""
    flow = flow_of(example("hazard-map"), 8)
    moves = flow.moves[flow.choice_ptr[:-1]]
    order, is_good = _onward(moves)
    place = np.argsort(order)
    row, column = np.repeat(np.arange(flow.num_states), np.diff(moves.indptr)), moves.indices
    layer = flow.state // example("hazard-map").num_states
    assert is_good
    assert (place[row] < place[column])[layer[row] != layer[column]].all()
    right = np.random.default_rng(0).random(flow.num_states)
    matrix = np.eye(flow.num_states) - 0.9 * moves.toarray()
    for tangled in (1, lagrange.TANGLED):
        monkeypatch.setattr(lagrange, "TANGLED", tangled)
        for transposed in (False, True):
            found = _solve(moves, 0.9, right, transposed=transposed)
            assert found == pytest.approx(np.linalg.solve(matrix.T if transposed else matrix, right))


def test_where_many_states_lead_to_each_other_the_order_is_left_to_the_factorisation(monkeypatch):
    ring = csr_array(np.roll(np.eye(5), 1, axis=1))
    for tangled, is_good in ((5, True), (4, False)):
        monkeypatch.setattr(lagrange, "TANGLED", tangled)
        assert _onward(ring)[1] == is_good
