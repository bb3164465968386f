"""Reading a policy from what a user has: an array, a mapping, a matrix of probabilities, a function.

Everything ends as one of two arrays with one row a layer (see :mod:`almostsure.policy.policy`): the choice of
each state, −1 where the policy says nothing, or the probability of each choice, all zero where it says nothing.

In terminal states nothing happens any more, so what is said about them is ignored, whether it fits their actions or
not: every policy that is read here plays the first choice there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, check_budget
from almostsure.errors import NoSafeAction, PolicyError, UnknownName
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.model.validate import SUM_TOLERANCE

Decision = Any  # an action (id or name), a mapping from actions to probabilities, or None: says nothing
Function = Callable[..., Decision]


class Table(NamedTuple):
    """One of the two arrays, with one row a layer."""

    choice: npt.NDArray[np.int32] | npt.NDArray[np.int64] | None  # [layers, num_states]
    probability: Floats | None  # [layers, num_choices]

    @property
    def num_layers(self) -> int:
        """How many rows there are."""
        return sum(len(array) for array in self if array is not None)


def from_array(mdp: MDP, values: npt.ArrayLike) -> tuple[Table, bool]:
    """Read an array of actions or of probabilities; the flag says whether it has one row a layer.

    Integers and strings are actions, [num_states] or [layers, num_states]; floats are probabilities,
    [num_states, num_actions] or [layers, num_states, num_actions].
    """
    array = np.asarray(values)
    if array.dtype.kind in "US" or array.dtype.kind == "O":
        array = _ids(mdp, array)
    if array.dtype.kind in "iu":
        rows = _as_rows(array, 1, (mdp.num_states,), "one action a state")
        return Table(choices_of_actions(mdp, rows), None), array.ndim == 2
    if array.dtype.kind == "f":
        shape = (mdp.num_states, mdp.num_actions)
        rows = _as_rows(array.astype(np.float64), 2, shape, "one row a state and one probability an action")
        return Table(None, _probabilities_of_matrix(mdp, rows)), array.ndim == 3
    raise PolicyError(f"a policy's table must hold integers (actions) or floats (probabilities); got {array.dtype}")


def from_mapping(mdp: MDP, mapping: Mapping[Any, Decision], layers: int | None) -> Table:
    """Read a mapping from states, or from (state, remaining), to decisions; what is missing says nothing."""
    decisions: dict[tuple[int, int], Decision] = {}
    for key, decision in mapping.items():
        if layers is None:
            decisions[0, mdp.state(key)] = decision
            continue
        if not (isinstance(key, tuple) and len(key) == 2):
            raise PolicyError(f"with a budget, a mapping's keys must be (state, remaining); got {key!r}")
        if check_budget(key[1], "remaining") >= layers:
            raise PolicyError(f"remaining must lie in 0 … {layers - 1}; got {key[1]!r}")
        decisions[int(key[1]), mdp.state(key[0])] = decision
    return _collect(mdp, decisions, layers or 1)


def from_function(mdp: MDP, function: Function, layers: int | None) -> Table:
    """Ask a function for every state, or for every state and remaining budget; not where nothing happens any more.

    A NoSafeAction, such as a shield raises, says nothing there: that matters only if the policy gets there.
    """

    def ask(*pair: int) -> Decision:
        try:
            return function(*pair)
        except NoSafeAction:
            return None

    living = np.flatnonzero(~mdp.is_terminal()).tolist()
    if layers is None:
        return _collect(mdp, {(0, state): ask(state) for state in living}, 1)
    return _collect(mdp, {(row, state): ask(state, row) for row in range(layers) for state in living}, layers)


def choices_of_actions(mdp: MDP, actions: Ints) -> npt.NDArray[Any]:
    """The choice of each action id, [layers, num_states]; −1 stays −1, and a terminal state's is its first."""
    width, is_terminal = mdp.num_actions, mdp.is_terminal()
    keys = mdp.choice_states().astype(np.int64) * width + mdp.choice_action
    wanted = np.arange(mdp.num_states, dtype=np.int64) * width + actions
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    bad = ~is_terminal & (actions != -1) & ((actions < 0) | (actions >= width) | (keys[at] != wanted))
    if bad.any():
        row, state = (int(x[0]) for x in np.nonzero(bad))
        _refuse_action(mdp, state, int(actions[row, state]), int(np.count_nonzero(bad)) - 1)
    dtype = np.int32 if mdp.num_choices < 2**31 else np.int64
    return np.where(is_terminal, mdp.choice_ptr[:-1], np.where(actions == -1, -1, at)).astype(dtype)


def check_probabilities(mdp: MDP, probability: Floats) -> None:
    """Every state's probabilities must be a distribution, or all zero where the policy says nothing."""
    bad = ~((probability >= 0) & (probability <= 1 + SUM_TOLERANCE))
    if bad.any():
        row, choice = (int(x[0]) for x in np.nonzero(bad))
        raise PolicyError(
            f"a policy's probabilities must lie in 0 … 1; got {probability[row, choice]:g} at "
            f"{mdp.describe_choice(choice)}{and_more(int(bad.sum()) - 1, 'choice')}.",
            choice=choice,
        )
    sums = np.add.reduceat(probability, mdp.choice_ptr[:-1].astype(np.int64), axis=1)
    wrong = (sums != 0) & (np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.any():
        row, state = (int(x[0]) for x in np.nonzero(wrong))
        raise PolicyError(
            f"a policy's probabilities at {mdp.describe_state(state)} must sum to 1 within {SUM_TOLERANCE:g}; "
            f"got {sums[row, state]:.12g}{and_more(int(wrong.sum()) - 1, 'state')}.",
            state=state,
        )


# ---------------------------------------------------------------------- pieces


def _as_rows(array: npt.NDArray[Any], flat: int, shape: tuple[int, ...], meaning: str) -> npt.NDArray[Any]:
    if array.ndim not in (flat, flat + 1) or array.shape[-flat:] != shape or 0 in array.shape:
        wanted = ", ".join(map(str, shape))
        raise PolicyError(
            f"a policy's table must have shape [{wanted}] or [layers, {wanted}] ({meaning}); got {list(array.shape)}"
        )
    return array[None] if array.ndim == flat else array


def _ids(mdp: MDP, names: npt.NDArray[Any]) -> Ints:
    flat = [-1 if name is None else mdp.action(name) for name in names.ravel().tolist()]
    return np.array(flat, np.int64).reshape(names.shape)


def _probabilities_of_matrix(mdp: MDP, matrix: Floats) -> Floats:
    state, action = mdp.choice_states(), mdp.choice_action.astype(np.int64)
    absent = np.repeat(~mdp.is_terminal()[:, None], matrix.shape[2], axis=1)
    absent[state, action] = False
    bad = absent & (matrix != 0)
    if bad.any():
        _, at_state, at_action = (int(x[0]) for x in np.nonzero(bad))
        _refuse_action(mdp, at_state, at_action, int(np.count_nonzero(bad)) - 1)
    return _rest_at_the_end(mdp, np.ascontiguousarray(matrix[:, state, action]))


def _rest_at_the_end(mdp: MDP, probability: Floats) -> Floats:
    """The same, with the first choice in every terminal state, whatever it was."""
    is_terminal = mdp.is_terminal()
    probability[:, is_terminal[mdp.choice_states()]] = 0.0
    probability[:, mdp.choice_ptr[:-1][is_terminal]] = 1.0
    return probability


def _collect(mdp: MDP, decisions: Mapping[tuple[int, int], Decision], layers: int) -> Table:
    is_terminal = mdp.is_terminal()
    decisions = {pair: decision for pair, decision in decisions.items() if not is_terminal[pair[1]]}
    if any(_is_distribution(d) for d in decisions.values()):
        return Table(None, _collect_probabilities(mdp, decisions, layers))
    actions = np.full((layers, mdp.num_states), -1, np.int64)
    for (row, state), decision in decisions.items():
        if decision is not None:
            actions[row, state] = _action(mdp, state, decision)
    return Table(choices_of_actions(mdp, actions), None)


def _collect_probabilities(mdp: MDP, decisions: Mapping[tuple[int, int], Decision], layers: int) -> Floats:
    probability = np.zeros((layers, mdp.num_choices))
    for (row, state), decision in decisions.items():
        if decision is None:
            continue
        shares = _shares(mdp, decision) if _is_distribution(decision) else {_action(mdp, state, decision): 1.0}
        for action, share in shares.items():
            if share == 0:
                continue
            if action not in mdp.actions(state):
                _refuse_action(mdp, state, action, 0)
            probability[row, mdp.choice(state, action)] = share
        if not any(shares.values()):
            raise PolicyError(
                f"a policy's probabilities at {mdp.describe_state(state)} must sum to 1; got 0", state=state
            )
    return _rest_at_the_end(mdp, probability)


def _is_distribution(decision: Decision) -> bool:
    return isinstance(decision, (Mapping, list, tuple)) or (isinstance(decision, np.ndarray) and decision.ndim == 1)


def _shares(mdp: MDP, decision: Decision) -> dict[int, float]:
    if isinstance(decision, Mapping):
        return {mdp.action(action): float(share) for action, share in decision.items()}
    if len(decision) != mdp.num_actions:
        raise PolicyError(
            f"a distribution must have one probability an action ({mdp.num_actions}); got {len(decision)}"
        )
    return {action: float(share) for action, share in enumerate(decision)}


def _action(mdp: MDP, state: int, decision: Decision) -> int:
    try:
        return mdp.action(decision)
    except UnknownName as error:
        raise PolicyError(f"the policy's action at {mdp.describe_state(state)}: {error}", state=state) from None


def _refuse_action(mdp: MDP, state: int, action: int, more: int) -> None:
    known = ", ".join(mdp.action_name(int(a)) for a in mdp.actions(state))
    name = mdp.action_name(action) if 0 <= action < mdp.num_actions else str(action)
    raise PolicyError(
        f"a policy must play only actions that the state has; got {name} at {mdp.describe_state(state)}"
        f"{and_more(more, 'state')}, which has: {known}.",
        state=state,
        action=action,
    )
