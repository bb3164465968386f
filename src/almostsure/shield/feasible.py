"""Whether a policy keeps a budget: whether it ever plays, where it gets to, what the shield refuses.

By Theorem 1 that decides it.  A policy that stays within the shield never overspends; one that plays a refused
choice at a pair (state, remaining) that it reaches overspends with positive probability, whatever it does then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from almostsure.arguments import whole
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.errors import ArgumentError, PolicyError, UnknownName
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.validate import SUM_TOLERANCE
from almostsure.shield.explore import Rule, explore
from almostsure.shield.table import spans

Decide = Callable[[int, int], Any]  # (state, remaining) to an action, a distribution or None


@runtime_checkable
class Layered(Protocol):
    """What is asked of a policy object: a row of choice probabilities for every remaining budget."""

    def layer(self, remaining: int) -> int:
        """The row for a remaining budget."""
        ...

    def weights(self, layer: int) -> Floats:
        """The probability of each choice of the model, [num_choices]; all zero at a state where it is silent."""
        ...

    def check_model(self, mdp: MDP) -> None:
        """Raise ModelMismatch unless it is a policy of ``mdp``."""
        ...


class Violation(NamedTuple):
    """Where a policy first leaves the shield."""

    state: int
    remaining: int
    action: int
    needed: int  # k* of the choice; INFINITE if nothing suffices
    message: str

    def __str__(self) -> str:
        return self.message


def first_violation(mdp: MDP, minimal: MinimalBudget, policy: Any, budget: int | None) -> Violation | None:
    """The first refused choice that the policy may play, most remaining first, or None if there is none."""
    policy = policy.policy if isinstance(getattr(policy, "policy", None), Layered) else policy  # of a Solution
    said, own_budget = read(mdp, policy)
    start = own_budget if budget is None else whole("budget", budget)
    if start is None:
        raise ArgumentError("budget must be given with a policy that does not carry one: the budget at the start")
    if start < 0:
        raise ArgumentError(f"budget must be 0 or more; got {start}")
    is_terminal = mdp.is_terminal()

    def rule(states: Ints, remaining: int) -> Ints:
        living = states[~is_terminal[states]]  # whatever is said about the others, nothing happens there
        return said(living, remaining) if living.size else np.zeros(0, np.int64)

    for remaining, _, choices in explore(mdp, rule, start):
        bad = choices[minimal.of_choice[choices] > min(remaining, INFINITE - 1)]
        if bad.size:
            return _violation(mdp, minimal, int(bad.min()), remaining)
    return None


def _violation(mdp: MDP, minimal: MinimalBudget, choice: int, remaining: int) -> Violation:
    state = int(np.searchsorted(mdp.choice_ptr, choice, side="right")) - 1
    needed, action = int(minimal.of_choice[choice]), int(mdp.choice_action[choice])
    if needed == INFINITE and minimal.cap is not None and remaining > minimal.cap:
        raise ArgumentError(
            f"budgets must be known up to {remaining} to judge this policy; this shield's are up to the cap "
            f"{minimal.cap} only, and {mdp.describe_choice(choice)} needs more. Solve again with a larger cap."
        )
    need = str(needed) if needed < INFINITE else "∞" if minimal.cap is None else f"more than {minimal.cap}"
    message = f"with {remaining} left the policy may play {mdp.describe_choice(choice)}, which needs {need}"
    return Violation(state, remaining, action, needed, message)


# ---------------------------------------------------------------------- reading what users call a policy


def read(mdp: MDP, policy: Any) -> tuple[Rule, int | None]:
    """What a policy plays, and the budget that it carries, if it does."""
    if isinstance(policy, Layered):
        policy.check_model(mdp)
        budget: int | None = getattr(policy, "budget", None)
        return _layered(mdp, policy), budget
    if isinstance(policy, Mapping):
        return _from_mapping(mdp, policy)
    if hasattr(policy, "probabilities"):
        return _from_function(mdp, lambda state, remaining: policy.probabilities(state, remaining)), None
    if callable(policy):
        return _from_function(mdp, _two_arguments(policy)), None
    return _from_array(mdp, policy)


def _layered(mdp: MDP, policy: Layered) -> Rule:
    known: dict[int, Floats] = {}  # of the layer at hand
    rest = getattr(policy, "rest", None)

    def rule(states: Ints, remaining: int) -> Ints:
        layer = policy.layer(remaining)
        if layer not in known:
            known.clear()
            known[layer] = policy.weights(layer)
        if rest is not None:  # where it surely comes to rest it plays nothing else, and resting is harmless
            states = states[rest.probability[layer, states] < 1]
        choice, owner = spans(mdp.choice_ptr, states)
        played = known[layer][choice] > 0
        _refuse_silence(mdp, states, owner[played], remaining)
        return choice[played]

    return rule


def _from_array(mdp: MDP, table: npt.ArrayLike) -> tuple[Rule, int | None]:
    """Integers or names are actions, [num_states]; floats are probabilities, [num_states, num_actions].

    With one more axis in front, there is one such table for each remaining budget 0, 1, …
    """
    try:
        array = np.asarray(table)
    except ValueError as error:  # rows of different lengths
        raise PolicyError(f"a policy's table must be an array; {error}") from None
    if array.dtype.kind not in "iufUO":
        raise PolicyError(f"a policy's table must hold actions or probabilities; got {array.dtype}")
    shape = (mdp.num_states, mdp.num_actions) if array.dtype.kind == "f" else (mdp.num_states,)
    if array.shape not in (shape, (*array.shape[:1], *shape)) or not array.size:
        wanted = ", ".join(map(str, shape))
        raise PolicyError(
            f"a policy's table must have shape [{wanted}] or [budgets, {wanted}]; got {list(array.shape)}"
        )
    layered = array.ndim > len(shape)
    rows = array if layered else array[None]
    top = len(rows) - 1

    def rule(states: Ints, remaining: int) -> Ints:
        part = rows[min(remaining, top)][states]
        if array.dtype.kind in "iu":
            return _choices_of_actions(mdp, states, part.astype(np.int64), remaining)
        return _choices_of_decisions(mdp, states, list(part) if array.dtype.kind == "f" else part.tolist(), remaining)

    return rule, top if layered else None


def _choices_of_actions(mdp: MDP, states: Ints, actions: Ints, remaining: int) -> Ints:
    choice, owner = spans(mdp.choice_ptr, states)
    played: Bools = mdp.choice_action[choice] == actions[owner]
    if np.count_nonzero(played) < states.size:  # a state has an action at most once
        missing = int(np.setdiff1d(np.arange(states.size), owner[played])[0])
        if actions[missing] == -1:
            raise _silent(mdp, int(states[missing]), remaining)
        _choice(mdp, int(states[missing]), int(actions[missing]))  # says what is wrong
    return choice[played]


def _from_function(mdp: MDP, decide: Decide) -> Rule:
    def rule(states: Ints, remaining: int) -> Ints:
        return _choices_of_decisions(mdp, states, [decide(s, remaining) for s in states.tolist()], remaining)

    return rule


def _two_arguments(function: Callable[..., Any]) -> Decide:
    """``function(state)`` or ``function(state, remaining)``, told apart by what it must or wants to be given."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    second = positional[1] if len(positional) > 1 else None
    if second is not None and (second.default is second.empty or second.name == "remaining"):
        return function
    if second is None and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    return lambda state, remaining: function(state)


def _from_mapping(mdp: MDP, mapping: Mapping[Any, Any]) -> tuple[Rule, int | None]:
    """From states, or from (state, remaining), to decisions."""
    if not (mapping and all(isinstance(key, tuple) and len(key) == 2 for key in mapping)):
        of_state = {mdp.state(key): decision for key, decision in mapping.items()}
        return _from_function(mdp, lambda state, remaining: of_state.get(state)), None
    of_pair = {(mdp.state(s), whole("remaining", k)): decision for (s, k), decision in mapping.items()}
    top = max(remaining for _, remaining in of_pair)
    return _from_function(mdp, lambda state, remaining: of_pair.get((state, min(remaining, top)))), top


# ---------------------------------------------------------------------- single decisions


Shares = list[tuple[Any, float]]  # actions and their probabilities


def _choices_of_decisions(mdp: MDP, states: Ints, decisions: list[Any], remaining: int) -> Ints:
    played: list[int] = []
    for state, decision in zip(states.tolist(), decisions, strict=True):
        shares = _shares(mdp, state, decision)
        if not shares:
            raise _silent(mdp, state, remaining)
        played.extend(_choice(mdp, state, action) for action, share in shares if share > 0)
    return np.array(played, np.int64)


def _shares(mdp: MDP, state: int, decision: Any) -> Shares:
    """What a decision plays with which probability; empty if it says nothing."""
    if decision is None or (isinstance(decision, (int, np.integer)) and decision == -1):
        return []
    if isinstance(decision, Mapping):
        return _distribution(mdp, state, list(decision.items()))
    if isinstance(decision, (list, tuple, np.ndarray)) and np.ndim(decision) == 1:
        if len(decision) != mdp.num_actions:
            raise PolicyError(
                f"a distribution must have one probability for each of the {mdp.num_actions} actions; "
                f"got {len(decision)} at {mdp.describe_state(state)}",
                state=state,
            )
        return _distribution(mdp, state, list(enumerate(decision)))
    return [(decision, 1.0)]


def _distribution(mdp: MDP, state: int, shares: list[tuple[Any, Any]]) -> Shares:
    try:
        result = [(action, float(share)) for action, share in shares]
    except (TypeError, ValueError):
        result = [(None, float("nan"))]
    values = [share for _, share in result]
    if not any(values):
        return []
    if not all(share >= 0 for share in values) or abs(sum(values) - 1) > SUM_TOLERANCE:
        raise PolicyError(
            f"a policy's probabilities at {mdp.describe_state(state)} must be 0 or more and sum to 1; "
            f"got {[share for _, share in shares]}",
            state=state,
        )
    return result


def _choice(mdp: MDP, state: int, action: Any) -> int:
    if not isinstance(action, (int, float, np.generic, str)) or isinstance(action, (bool, np.bool_)):
        raise PolicyError(
            f"a policy's decision must be an action or a distribution; got {action!r} at {mdp.describe_state(state)}",
            state=state,
        )
    try:
        return mdp.choice(state, action)  # type: ignore[arg-type]
    except UnknownName as error:
        raise PolicyError(
            f"a policy must play only actions that the state has; at {mdp.describe_state(state)}: {error}", state=state
        ) from None


def _refuse_silence(mdp: MDP, states: Ints, owners: Ints, remaining: int) -> None:
    """Raise if some state is nobody's owner."""
    says = np.zeros(states.size, np.bool_)
    says[owners] = True
    if not says.all():
        raise _silent(mdp, int(states[np.argmin(says)]), remaining)


def _silent(mdp: MDP, state: int, remaining: int) -> PolicyError:
    return PolicyError(
        f"a policy must say what to do wherever it gets to; it reaches {mdp.describe_state(state)} "
        f"with {remaining} left and says nothing there",
        state=state,
    )
