"""``from_matrices``: models from one matrix per action, dense or sparse, in the layout of pymdptoolbox.

``P[a, s, t]`` is the probability of a step from state ``s`` to ``t`` under action ``a``.  If a row is zero, the
action is not available in that state.  The shape of rewards and damages determines when they count:

==============  ==========================================================================
a number        on every step
``(S,)``        ``D[s]`` on every step *out of* ``s``
``(S, A)``      ``D[s, a]`` on every step out of ``s`` by action ``a``
``(A, S, S)``   ``D[a, s, t]`` on every step from ``s`` to ``t`` by action ``a``
==============  ==========================================================================

Damage on *entering* a state needs the last shape: ``np.broadcast_to(D, (A, S, S))``, with ``D`` of shape ``(S,)``,
counts ``D[t]`` on every step into ``t``, and needs no memory.  Damages and rewards of states without actions, and of
actions that are not available, would never count, so they are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, names_right_word
from almostsure.errors import ModelError
from almostsure.model.build.transitions import build
from almostsure.model.labels import Labels
from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Initial, Ints


@names_right_word
def from_matrices(
    probabilities: Any,
    rewards: Any = 0.0,
    damages: Any = 0,
    *,
    terminal: Iterable[int] = (),
    initial: Initial = 0,
    action_names: Sequence[str] | None = None,
    state_names: Sequence[str] | None = None,
    labels: Labels | None = None,
    layout: Layout | None = None,
    normalise: bool = False,
) -> MDP:
    """Build a model from one matrix per action, dense or sparse.

    Parameters
    ----------
    probabilities
        An array of shape (A, S, S), or a sequence of A matrices of shape (S, S); they may be sparse, in any of SciPy's
        formats.  Entries stored twice add up.
    rewards, damages
        Each a number (counted on every step), or an array of shape (S,) (``D[s]`` on every step *out of* s), (S, A)
        (``D[s, a]`` on every step out of s by a) or (A, S, S) (``D[a, s, t]`` on every step from s to t by a).  For
        damage on *entering* a state, pass ``np.broadcast_to(D, (A, S, S))`` instead of ``D`` of shape (S,).  Those of
        shape (S, A) may be a sparse matrix, those of shape (A, S, S) a sequence of A sparse or dense ones.
    terminal, initial, action_names, state_names, labels, layout, normalise
        As in :func:`almostsure.from_transitions`.

    Examples
    --------
    >>> import numpy as np
    >>> from almostsure.model import from_matrices
    >>> P = np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]])
    >>> from_matrices(P, [[1, 0], [0, 0]], [[1, 0], [0, 0]], terminal=[1])
    <MDP: 2 states, 3 choices, 3 outcomes, starts in 0>
    """
    place, shares = _entries(probabilities)
    return build(
        (
            place.states,
            place.actions,
            place.next_states,
            shares,
            place.values("rewards", rewards),
            place.values("damages", damages),
        ),
        num_states=place.num_states,
        terminal=terminal,
        initial=initial,
        action_names=action_names,
        state_names=state_names,
        labels=labels,
        layout=layout,
        normalise=normalise,
    )


def _entries(probabilities: Any) -> tuple[_Places, npt.NDArray[Any]]:
    """The positions and values of the nonzero probabilities; NaN is kept, and refused later."""
    if _is_sparse(probabilities) or _holds_sparse(probabilities):
        parts = [matrix.tocoo() for matrix in _square("probabilities", probabilities)]
        a = np.repeat(np.arange(len(parts)), [part.data.size for part in parts])
        s, t, p = (np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "col", "data"))
        shape = len(parts), parts[0].shape[0]
    else:
        dense = _numbers("probabilities", probabilities)
        if dense.ndim != 3 or dense.shape[1] != dense.shape[2] or not dense.size:
            raise ModelError(f"probabilities must have shape (actions, states, states); got {dense.shape}")
        a, s, t = np.nonzero(dense)
        p, shape = dense[a, s, t], dense.shape[:2]
    stored = p != 0  # sparse matrices may store zeros
    return _Places(actions=a[stored], states=s[stored], next_states=t[stored], shape=shape), p[stored]


class _Places:
    """The positions of the outcomes; reads rewards and damages of any shape there."""

    def __init__(self, *, actions: Ints, states: Ints, next_states: Ints, shape: tuple[int, int]) -> None:
        self.actions, self.states, self.next_states = actions, states, next_states
        self.num_actions, self.num_states = shape

    def values(self, name: str, quantity: Any) -> npt.NDArray[Any]:
        if _is_sparse(quantity):
            self._check_shape(name, quantity.shape, [(self.num_states, self.num_actions)])
            self._check_choices(name, quantity.tocsr())
            return _read(quantity, self.states, self.actions)
        if _holds_sparse(quantity):
            return self._by_action(name, quantity)
        return self._from_array(name, _numbers(name, quantity))

    def _from_array(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        states, actions = self.num_states, self.num_actions
        self._check_shape(name, array.shape, [(), (states,), (states, actions), (actions, states, states)])
        if array.ndim == 0:
            return np.full(self.states.size, array[()])
        if array.ndim == 1:
            self._check_states(name, array)
            return array[self.states]
        if array.ndim == 2:
            self._check_choices(name, array)
            return array[self.states, self.actions]
        return array[self.actions, self.states, self.next_states]

    def _by_action(self, name: str, matrices: Sequence[Any]) -> npt.NDArray[Any]:
        square = _square(name, matrices)
        self._check_shape(name, (len(square), *square[0].shape), [self._full])
        result = np.zeros(self.states.size, np.result_type(*(matrix.dtype for matrix in square)))
        for action, matrix in enumerate(square):
            mine = np.flatnonzero(self.actions == action)
            result[mine] = _read(matrix, self.states[mine], self.next_states[mine])
        return result

    def _check_states(self, name: str, by_state: npt.NDArray[Any]) -> None:
        unused = by_state != 0
        unused[self.states] = False
        if unused.any():
            s = int(np.argmax(unused))
            raise ModelError(
                f"{name} of shape (S,) count on every step out of a state, so they must be 0 for states without an "
                f"available action; got {by_state[s]} at state {s}{and_more(int(unused.sum()) - 1, 'state')}. "
                f"To count them on every step into a state, pass np.broadcast_to({name}, {self._full}).",
                state=s,
            )

    def _check_choices(self, name: str, by_choice: Any) -> None:
        """``by_choice`` is an array or CSR matrix of shape (S, A)."""
        s, a = (index.astype(np.int64) for index in by_choice.nonzero())
        available = self.states.astype(np.int64) * self.num_actions + self.actions
        unused = ~np.isin(s * self.num_actions + a, available)
        if unused.any():
            at = int(np.argmax(unused))
            raise ModelError(
                f"{name} of shape (S, A) count on every step out of a state by an action, so they must be 0 if the "
                f"action is not available; got {by_choice[s[at], a[at]]} at state {s[at]}, action {a[at]}"
                f"{and_more(int(unused.sum()) - 1, 'choice')}. Set them to 0 there; to count them on every step into a "
                f"state, use the shape (A, S, S) = {self._full}.",
                state=int(s[at]), action=int(a[at]),
            )  # fmt: skip

    @property
    def _full(self) -> tuple[int, int, int]:
        return self.num_actions, self.num_states, self.num_states

    def _check_shape(self, name: str, found: tuple[int, ...], allowed: Sequence[tuple[int, ...]]) -> None:
        if found not in allowed:
            listed = " or ".join(str(shape) if shape else "a number" for shape in allowed)
            sizes = f"{self.num_actions} actions and {self.num_states} states"
            raise ModelError(f"{name} must be {listed} for {sizes}; got shape {found}")


def _numbers(name: str, values: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ModelError(f"{name} must be an array of numbers; {error}") from None
    if array.dtype.kind not in "iufb":
        raise ModelError(f"{name} must be an array of numbers; got {array.dtype}")
    return array


def _holds_sparse(matrices: Any) -> bool:
    """Whether this is a sequence of matrices (a list, a tuple or an object array), some of them sparse."""
    is_sequence = isinstance(matrices, (list, tuple)) or (isinstance(matrices, np.ndarray) and matrices.dtype == object)
    return is_sequence and any(_is_sparse(matrix) for matrix in matrices)


def _is_sparse(matrix: Any) -> bool:
    return hasattr(matrix, "tocsr") and hasattr(matrix, "nnz")


def _square(name: str, matrices: Sequence[Any]) -> list[Any]:
    """The matrices in CSR format, with duplicate entries added up; all must be square and of the same size."""
    from scipy.sparse import csr_array

    if _is_sparse(matrices) or not len(matrices):
        raise ModelError(f"{name} must be a sequence with one sparse matrix per action; got {type(matrices).__name__}")
    given = [m if _is_sparse(m) else _numbers(f"{name}[{action}]", m) for action, m in enumerate(matrices)]
    size = max(given[0].shape[:1], default=0) or 1
    result = []
    for action, matrix in enumerate(given):
        if matrix.shape != (size, size):
            raise ModelError(f"{name}[{action}] must have shape {(size, size)}; got {matrix.shape}", action=action)
        csr = csr_array(matrix)  # may share the caller's arrays
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        result.append(csr)
    return result


def _read(matrix: Any, rows: Ints, columns: Ints) -> npt.NDArray[Any]:
    if not rows.size:
        return np.zeros(0, matrix.dtype)
    return np.asarray(matrix.tocsr()[rows, columns]).ravel()
