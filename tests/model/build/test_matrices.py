"""Dense arrays and sparse matrices: the same content gives the same model as from_transitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from almostsure.errors import ModelError
from almostsure.model.build.matrices import from_matrices
from almostsure.model.build.transitions import from_transitions


@st.composite
def dense_content(draw):
    """P, R and D of shape (A, S, S), with choices that are not available and terminal states."""
    states, actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    count = actions * states**2
    P = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), float)
    P = P.reshape(actions, states, states)
    sums = P.sum(axis=2, keepdims=True)
    P = np.divide(P, sums, out=np.zeros_like(P), where=sums > 0)
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    R, D = rng.integers(-3, 4, P.shape).astype(float), rng.integers(0, 4, P.shape)
    terminal = np.flatnonzero(P.sum(axis=(0, 2)) == 0).tolist()
    return P, R, D, terminal


@given(dense_content())
def test_dense_and_sparse_and_transitions_agree(content):
    P, R, D, terminal = content
    actions, states, next_states = np.nonzero(P)
    columns = (P[P > 0], R[P > 0], D[P > 0])
    expected = from_transitions(states, actions, next_states, *columns, num_states=P.shape[1], terminal=terminal)
    assert from_matrices(P, R, D, terminal=terminal) == expected
    assert from_matrices(list(P), list(R), list(D), terminal=terminal) == expected
    for kind in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix, sparse.lil_array):
        as_sparse = [[kind(matrix) for matrix in matrices] for matrices in (P, R, D)]
        assert from_matrices(*as_sparse, terminal=terminal) == expected
        assert from_matrices(as_sparse[0], R, as_sparse[2], terminal=terminal) == expected


@given(dense_content())
def test_rewards_and_damages_in_every_shape(content):
    P, R, D, terminal = content
    available = P.any(axis=2).T  # (S, A); what never counts must be 0
    by_state = [X[0, :, 0] * available.any(axis=1) for X in (R, D)]
    by_choice = [X[:, :, 0].T * available for X in (R, D)]
    for reward, damage in ((2.5, 1), by_state, by_choice):
        by_outcome = [np.broadcast_to(_spread(x, P.shape), P.shape) for x in (reward, damage)]
        expected = from_matrices(P, *by_outcome, terminal=terminal)
        assert from_matrices(P, reward, damage, terminal=terminal) == expected
        matrices = [sparse.csr_array(matrix) for matrix in P]
        assert from_matrices(matrices, reward, damage, terminal=terminal) == expected
        if np.ndim(reward) == 2:
            by_choice = sparse.coo_array(reward), sparse.csr_matrix(damage)
            assert from_matrices(matrices, *by_choice, terminal=terminal) == expected


def _spread(quantity, shape):
    quantity = np.asarray(quantity)
    if quantity.ndim == 1:
        return quantity[None, :, None]
    return quantity.T[:, :, None] if quantity.ndim == 2 else quantity


def test_damage_of_a_state_counts_on_leaving_and_broadcast_on_entering():
    P = np.zeros((2, 3, 3))
    P[0, 0], P[1, 1] = [0, 0.5, 0.5], [0, 0, 1]
    D = np.array([0, 5, 0])
    out = from_matrices(P, 0, D, terminal=[2])
    assert [out.outcomes(0, 0), out.outcomes(1, 1)] == [[(1, 0.5, 0, 0), (2, 0.5, 0, 0)], [(2, 1, 0, 5)]]
    for into in (
        from_matrices(P, 0, np.broadcast_to(D, P.shape), terminal=[2]),
        from_matrices([sparse.csr_array(matrix) for matrix in P], 0, np.broadcast_to(D, P.shape), terminal=[2]),
    ):
        assert [into.outcomes(0, 0), into.outcomes(1, 1)] == [[(1, 0.5, 0, 5), (2, 0.5, 0, 0)], [(2, 1, 0, 0)]]


def test_values_that_would_never_count_are_refused():
    P = np.zeros((1, 3, 3))
    P[0, 0] = [0, 0.5, 0.5]
    matrices = [sparse.csr_array(P[0])]
    by_state = r"{} of shape \(S,\) count on every step out of a state, .*got {} at state 1 \(and 1 more state\)\. .*{}"
    by_choice = r"{} of shape \(S, A\) count .*got {} at state 2, action 0\. .*\(A, S, S\) = \(1, 3, 3\)"
    for probabilities in (P, matrices):
        into = r"pass np\.broadcast_to\(damages, \(1, 3, 3\)\)"
        with pytest.raises(ModelError, match=by_state.format("damages", 5, into)) as caught:
            from_matrices(probabilities, 0, [0, 5, 1], terminal=[1, 2])
        assert caught.value.state == 1
        with pytest.raises(ModelError, match=by_state.format("rewards", "-1.5", "broadcast_to")):
            from_matrices(probabilities, [0, -1.5, 1], terminal=[1, 2])
        with pytest.raises(ModelError, match=by_choice.format("damages", 7)) as caught:
            from_matrices(probabilities, 0, [[3], [0], [7]], terminal=[1, 2])
        assert (caught.value.state, caught.value.action) == (2, 0)
        with pytest.raises(ModelError, match=by_choice.format("rewards", "nan")):
            from_matrices(probabilities, [[3], [0], [np.nan]], terminal=[1, 2])
    with pytest.raises(ModelError, match=by_choice.format("damages", 7)):
        from_matrices(matrices, 0, sparse.coo_array(np.array([[3], [0], [7]])), terminal=[1, 2])
    assert from_matrices(P, -1, 2, terminal=[1, 2]).outcomes(0, 0) == [(1, 0.5, -1, 2), (2, 0.5, -1, 2)]
    P[0, 1, 1] = 1  # a terminal state that has its self-loop
    with pytest.raises(
        ModelError,
        match=r"terminal state 1 must only have .*got reward 0 and damage 5 at state 1, action 0, next state 1\. Take",
    ):
        from_matrices(P, 0, [0, 5, 0], terminal=[1, 2])


def test_sparse_entries_that_are_stored_twice_add_up():
    twice = sparse.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 1])), shape=(2, 2))
    mdp = from_matrices([twice], [sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))])
    assert mdp.outcomes(0, 0) == [(1, 1.0, 3.0, 0)]
    assert twice.nnz == 3  # the caller's matrix is unchanged
    rows = sparse.csr_array((np.array([0.5, 0.5, 1.0]), np.array([1, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert from_matrices([rows]).outcomes(0, 0) == [(1, 1.0, 0.0, 0)]
    assert rows.nnz == 3


def test_an_action_with_a_row_of_zeros_is_not_available():
    P = np.array([[[0, 1], [0, 1]], [[1, 0], [0, 0]]])
    mdp = from_matrices(P)
    assert mdp.actions(0).tolist() == [0, 1]
    assert mdp.actions(1).tolist() == [0]


BAD_DENSE = [
    ((np.zeros((2, 2, 3)),), r"probabilities must have shape \(actions, states, states\); got \(2, 2, 3\)"),
    ((np.eye(2),), r"probabilities must have shape .*got \(2, 2\)"),
    ((np.zeros((0, 2, 2)),), r"probabilities must have shape"),
    ((np.array([[["a"]]]),), r"probabilities must be an array of numbers; got <U1"),
    (([[[1.0]], [[1.0, 0.0]]],), r"probabilities must be an array of numbers; "),
    (([[[0.5, 0.5], [0, 0.9]]],), r"choice 1 \(state 1, action 0\) must sum to 1"),
    (([[[0.5, 0.5], [-1, 2]]],),
     r"probabilities must lie in 0 … 1; got -1.0 at state 1, action 0, next state 0 \(and 1 more outcome\)\."),
    (([[[np.nan, 0.5], [0, 1]]],), r"probabilities must lie in 0 … 1; got nan"),
    (([[[1, 0], [0, 0]]],), r"every state must have a choice; state 1 has none"),
    (([np.eye(2)], [1.0, 2.0, 3.0]),
     r"must be a number or \(2,\) or \(2, 1\) or \(1, 2, 2\) for 1 actions and 2 states; got shape \(3,\)"),
    (([np.eye(2)], np.inf), r"rewards must be finite"),
    (([np.eye(2)], 0, 0.5),
     r"damages must be integers 0 … 255; got 0.5 at state 0, action 0, next state 0 \(and 1 more outcome\)\. Scale"),
    (([np.eye(2)], 0, [-1, 0]), r"damages must be integers 0 … 255; got -1"),
    (([np.eye(2)], 0, "much"), r"damages must be an array of numbers; got <U4"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), BAD_DENSE)
def test_bad_dense_input_is_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        from_matrices(*arguments)


def test_bad_sparse_input_is_refused():
    eye = sparse.eye_array(2, format="csr")
    with pytest.raises(ModelError, match="one sparse matrix per action; got csr_array"):
        from_matrices(eye)
    with pytest.raises(ModelError, match=r"must have shape \(actions, states, states\); got \(0,\)"):
        from_matrices([])
    with pytest.raises(ModelError, match=r"probabilities\[1\] must have shape \(2, 2\); got \(3, 3\)"):
        from_matrices([eye, sparse.eye_array(3)])
    for bad, message in (
        ("abc", r"probabilities\[1\] must be an array of numbers; got <U3"),
        ([[1, 0], [1]], r"probabilities\[1\] must be an array of numbers; "),
        (1.0, r"probabilities\[1\] must have shape \(2, 2\); got \(\)"),
        (np.zeros((2, 2, 2)), r"probabilities\[1\] must have shape \(2, 2\); got \(2, 2, 2\)"),
    ):
        with pytest.raises(ModelError, match=message):
            from_matrices([eye, bad])
    with pytest.raises(ModelError, match=r"rewards\[0\] must have shape \(1, 1\); got \(\)"):
        from_matrices([eye, eye], [1.0, eye])
    with pytest.raises(ModelError, match=r"rewards must be \(1, 2, 2\) .*got shape \(2, 2, 2\)"):
        from_matrices([eye], [eye, eye])
    with pytest.raises(ModelError, match=r"damages must be \(2, 1\) .*got shape \(2, 2\)"):
        from_matrices([eye], 0, eye)
    with pytest.raises(ModelError, match=r"choice 0 \(state 0, action 0\) must sum to 1"):
        from_matrices([eye * 0.5])
