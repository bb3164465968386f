"""Reads a policy from an array, a mapping, a matrix of probabilities or a function; the error where it is undefined.

The result is one of two arrays with one row per layer (see :mod:`almostsure.policy.policy`): the choice of each state,
−1 where the policy is undefined, or the probability of each choice, all 0 where it is undefined.  A function may also
be called at reachable pairs only (:func:`rule_of_function`).

Entries of terminal states are ignored, whether they fit the actions there or not: every policy that is read here plays
the first choice in terminal states.  So are those of a learned model's ``unknown``, which has one choice: functions are
not called there, and an array may have any actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, check_budget
from almostsure.errors import ArgumentError, Blame, NoSafeAction, PolicyError, UnknownName
from almostsure.memory import require
from almostsure.model.build.validate import SUM_TOLERANCE
from almostsure.model.mdp import MDP, Floats, Ints, index_dtype
from almostsure.policy.explore import Played, Rule

Decision = Any  # an action (id or name), a distribution over actions, or None or −1: undefined
Function = Callable[..., Decision]


def from_array(mdp: MDP, values: npt.ArrayLike) -> tuple[npt.NDArray[Any], bool]:
    """Choices (integers) or probabilities (floats) from an array, and whether that has one row per layer.

    Integers and strings are actions, [num_states] or [budgets, num_states]; floats are probabilities,
    [num_states, num_actions] or [budgets, num_states, num_actions].
    """
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise PolicyError(f"a policy's table must be an array; {error}") from None
    if array.ndim == 0:
        raise PolicyError(f"a policy must be a Policy, a function, a mapping or an array; got {values!r}")
    if array.dtype.kind == "f":
        rows = _as_rows(array.astype(np.float64), (mdp.num_states, mdp.num_actions), "one probability per action")
        return _probabilities_of_matrix(mdp, rows), array.ndim == 3
    if array.dtype.kind not in "iuUSO":
        raise PolicyError(
            f"a policy's table must hold actions (integers or names) or probabilities (floats); got {array.dtype}"
        )
    rows = _as_rows(array, (mdp.num_states,), "one action per state")
    return choices_of_actions(mdp, rows if array.dtype.kind in "iu" else _ids(mdp, rows)), array.ndim == 2


def from_mapping(mdp: MDP, mapping: Mapping[Any, Decision], layers: int | None) -> npt.NDArray[Any]:
    """Choices or probabilities from a mapping from states, or from (state, remaining), to decisions.

    Where an entry is missing, the policy is undefined.
    """
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


def from_function(mdp: MDP, function: Function, layers: int | None) -> npt.NDArray[Any]:
    """Call a function for all states that are not terminal, or for all of their pairs with remaining budgets.

    If it raises NoSafeAction, as a shield does, the policy is undefined there.
    """

    def ask(*pair: int) -> Decision:
        try:
            return _call(mdp, function, *pair)
        except NoSafeAction:
            return None

    living = np.flatnonzero(~mdp.is_terminal()).tolist()
    if layers is None:
        return _collect(mdp, {(0, state): ask(state) for state in living}, 1)
    return _collect(mdp, {(row, state): ask(state, row) for row in range(layers) for state in living}, layers)


def rule_of_function(mdp: MDP, function: Function, budget: int | None) -> Rule:
    """The rule of a function, which is only called at reachable pairs."""
    is_terminal, takes_both = mdp.is_terminal(), takes_remaining(function, budget)

    def rule(states: Ints, remaining: int) -> Played:
        choices, owners = [], []
        for at in np.flatnonzero(~is_terminal[states]).tolist():
            state = int(states[at])
            arguments = (state, remaining) if takes_both else (state,)
            played = _played(mdp, state, _call(mdp, function, *arguments))
            if not played:
                raise undefined(mdp, state, remaining)
            choices += sorted(played)
            owners += [at] * len(played)
        return Played(np.array(choices, np.int64), np.array(owners, np.int64))

    return rule


def takes_remaining(function: Function, budget: int | None) -> bool:
    """Whether a function is called with the state and the remaining budget, or with the state alone.

    A second parameter is the remaining budget if it has no default, is named ``remaining``, or has a whole number as
    its default; with any other default (a table, a generator) it is not passed.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return budget is not None and any(p.kind is p.VAR_POSITIONAL for p in parameters)
    second = positional[1]
    if budget is None:
        if second.default is second.empty:
            raise ArgumentError("this policy depends on the remaining budget: pass budget=")
        return False
    is_number = isinstance(second.default, int) and not isinstance(second.default, bool)
    return second.default is second.empty or second.name == "remaining" or is_number


def undefined(mdp: MDP, state: int, remaining: int | None, remedy: str = "") -> NoSafeAction:
    """The error of a policy that reaches a pair at which it is undefined."""
    left = "" if remaining is None else f" with {remaining} left" if remaining >= 0 else " once overspent"
    return NoSafeAction(
        f"the policy reaches {mdp.describe_state(state)}{left}, where it is undefined{remedy}",
        state=state,
        remaining=remaining,
    )


def overspends(mdp: MDP, state: int) -> NoSafeAction:
    """The error of a policy that overspends on the way to a state, and is undefined once overspent."""
    return NoSafeAction(
        f"the policy overspends at {mdp.describe_state(state)}, and is undefined once overspent", state=state
    )


def other_budget(own: int | None, played: int | None) -> str:
    """The end of a message: what to do about a policy that is played with a budget other than its own."""
    if own is None or played is None or own == played:
        return ""
    return f". It was made for a budget of {own}: leave out the budget, or solve with everywhere=True"


def choices_of_actions(mdp: MDP, actions: Ints) -> npt.NDArray[Any]:
    """The choice of each action id, [layers, num_states]; −1 stays −1, and terminal states get their first choice."""
    every, is_terminal = np.arange(mdp.num_states), mdp.is_terminal()
    found = np.stack([mdp.find_choices(every, row) for row in actions])
    ignored = is_terminal | ((every == mdp.unknown) & (actions != -1))
    bad = ~ignored & (actions != -1) & (found < 0)
    if bad.any():
        row, state = (int(x[0]) for x in np.nonzero(bad))
        _refuse_action(mdp, state, int(actions[row, state]), int(np.count_nonzero(bad.any(axis=0))) - 1)
    choice = np.where(ignored, mdp.choice_ptr[:-1], found)
    return choice.astype(index_dtype(mdp.num_choices))


def check_probabilities(mdp: MDP, probability: Floats) -> None:
    """Raise PolicyError unless the probabilities of each state are a distribution, or all 0 (undefined)."""
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


# ---------------------------------------------------------------------- single decisions


def _call(mdp: MDP, function: Function, state: int, *remaining: int) -> Decision:
    """The decision of a function; if it fails, the error names the state that it was called with."""
    if state == mdp.unknown:
        return int(mdp.choice_action[mdp.choice_ptr[state]])
    with Blame(lambda: f"the policy failed at {mdp.describe_state(state)}{_number_of(mdp, state)}", state=state):
        return function(state, *remaining)


def _number_of(mdp: MDP, state: int) -> str:
    named = f"; the name is mdp.state_name({state})" if mdp.state_names is not None else ""
    return f", where it is called with the state's number, {state}{named}"


def _as_rows(array: npt.NDArray[Any], shape: tuple[int, ...], meaning: str) -> npt.NDArray[Any]:
    flat = len(shape)
    if array.ndim not in (flat, flat + 1) or array.shape[-flat:] != shape or 0 in array.shape:
        wanted = ", ".join(map(str, shape))
        raise PolicyError(
            f"a policy's table must have shape [{wanted}] or [budgets, {wanted}] ({meaning}); got {list(array.shape)}"
        )
    return array[None] if array.ndim == flat else array


def _ids(mdp: MDP, names: npt.NDArray[Any]) -> Ints:
    """The action ids of names, state by state."""
    rows = [
        [-1 if _is_undefined(name) else _action(mdp, state, name) for state, name in enumerate(row)]
        for row in names.tolist()
    ]
    return np.array(rows, np.int64)


def _probabilities_of_matrix(mdp: MDP, matrix: Floats) -> Floats:
    state, action = mdp.choice_states(), mdp.choice_action.astype(np.int64)
    absent = np.repeat(~mdp.is_terminal()[:, None], matrix.shape[2], axis=1)
    absent[state, action] = False
    if mdp.unknown is not None:
        absent[mdp.unknown] = False
    is_nan = np.isnan(matrix).any(axis=(0, 2)) & ~mdp.is_terminal()
    if is_nan.any():
        at = int(np.argmax(is_nan))
        more = and_more(int(np.count_nonzero(is_nan)) - 1, "state")
        raise PolicyError(
            f"a policy's probabilities must lie in 0 … 1; got nan at {mdp.describe_state(at)}{more}.", state=at
        )
    bad = absent & (matrix != 0)
    if bad.any():
        _, at_state, at_action = (int(x[0]) for x in np.nonzero(bad))
        _refuse_action(mdp, at_state, at_action, int(np.count_nonzero(bad.any(axis=(0, 2)))) - 1)
    probability = np.ascontiguousarray(matrix[:, state, action])
    if mdp.unknown is not None:
        probability[:, mdp.choice_ptr[mdp.unknown]] = (matrix[:, mdp.unknown] != 0).any(axis=1)
    return _first_in_terminal_states(mdp, probability)


def _first_in_terminal_states(mdp: MDP, probability: Floats) -> Floats:
    """The probabilities, in place, with the first choice in all terminal states."""
    is_terminal = mdp.is_terminal()
    probability[:, is_terminal[mdp.choice_states()]] = 0.0
    probability[:, mdp.choice_ptr[:-1][is_terminal]] = 1.0
    return probability


def _collect(mdp: MDP, decisions: Mapping[tuple[int, int], Decision], layers: int) -> npt.NDArray[Any]:
    """Choices (integers) of decisions, by layer and state; or probabilities (floats), if a decision is randomised."""
    is_terminal = mdp.is_terminal()
    played = {pair: _played(mdp, pair[1], one) for pair, one in decisions.items() if not is_terminal[pair[1]]}
    if all(share == 1 for shares in played.values() for share in shares.values()):
        first = np.where(is_terminal, mdp.choice_ptr[:-1], -1).astype(index_dtype(mdp.num_choices))
        _require(layers, 3 * first.nbytes)
        choice: npt.NDArray[Any] = first[None].repeat(layers, axis=0)
        for pair, shares in played.items():
            choice[pair] = max(shares, default=-1)
        return choice
    _require(layers, 5 * 8 * mdp.num_choices)
    probability = np.zeros((layers, mdp.num_choices))
    for (row, _), shares in played.items():
        probability[row, list(shares)] = list(shares.values())
    return _first_in_terminal_states(mdp, probability)


def _require(layers: int, size: int) -> None:
    """Refuse policies that would not fit; ``size`` is that of a layer, with the copies that are made to check it."""
    require(layers * size, f"a policy for budgets up to {layers - 1:,}", "Use a smaller one.")


def _played(mdp: MDP, state: int, decision: Decision) -> dict[int, float]:
    """The choices that a decision plays, and their probabilities; none if it is undefined."""
    if _is_undefined(decision):
        return {}
    if isinstance(decision, Mapping):
        return _distribution(mdp, state, list(decision.items()))
    if isinstance(decision, (list, tuple)) or (isinstance(decision, np.ndarray) and decision.ndim == 1):
        if len(decision) != mdp.num_actions:
            raise PolicyError(
                f"a distribution must have one probability for each of the {mdp.num_actions} actions; "
                f"got {len(decision)} at {mdp.describe_state(state)}",
                state=state,
            )
        return _distribution(mdp, state, list(enumerate(decision)))
    return {_choice(mdp, state, _action(mdp, state, decision)): 1.0}


def _distribution(mdp: MDP, state: int, shares: list[tuple[Any, Any]]) -> dict[int, float]:
    try:
        values = [float(share) for _, share in shares]
    except (TypeError, ValueError):
        values = [float("nan")]
    if not (all(share >= 0 for share in values) and abs(sum(values) - 1) <= SUM_TOLERANCE):
        raise PolicyError(
            f"a policy's probabilities at {mdp.describe_state(state)} must be 0 or more and sum to 1; "
            f"got {[share for _, share in shares]}",
            state=state,
        )
    actions = [_action(mdp, state, action) for action, _ in shares]
    return {_choice(mdp, state, a): share for a, share in zip(actions, values, strict=True) if share > 0}


def _is_undefined(decision: Decision) -> bool:
    return decision is None or (isinstance(decision, (int, np.integer)) and decision == -1)


def _action(mdp: MDP, state: int, decision: Decision) -> int:
    if isinstance(decision, np.ndarray) and decision.ndim == 0:
        decision = decision.item()
    if not isinstance(decision, (int, float, np.number, str)) or isinstance(decision, bool):
        raise PolicyError(
            f"a policy's decision must be an action or a distribution; got {decision!r} at {mdp.describe_state(state)}",
            state=state,
        )
    try:
        return mdp.action(decision)  # type: ignore[arg-type]
    except UnknownName as error:
        raise PolicyError(f"the policy's action at {mdp.describe_state(state)}: {error}", state=state) from None


def _choice(mdp: MDP, state: int, action: int) -> int:
    actions = mdp.actions(state)
    at = int(np.searchsorted(actions, action))
    if at == actions.size or actions[at] != action:
        _refuse_action(mdp, state, action, 0)
    return int(mdp.choice_ptr[state]) + at


def _refuse_action(mdp: MDP, state: int, action: int, more: int) -> None:
    known = ", ".join(mdp.action_name(int(a)) for a in mdp.actions(state))
    name = mdp.action_name(action) if 0 <= action < mdp.num_actions else str(action)
    raise PolicyError(
        f"a policy must play only actions that the state has; got {name} at {mdp.describe_state(state)}"
        f"{and_more(more, 'state')}, which has: {known}.",
        state=state,
        action=action,
    )
