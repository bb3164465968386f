"""The paper's definitions: the operator T, Algorithm 1, the barrier, the Δ-unsafe states.

This is reference code: short, in NumPy, close to the paper, and independent of the engines that are compared with it.
Section and equation numbers refer to Castellano, Min, Bazerque and Mallada, *Reinforcement Learning with Almost Sure
Constraints* (L4DC 2022); here damages may be larger than 1.

The budget operator (their eq. 14), on budgets k of choices with values in {0, 1, 2, …, ∞}::

    (T k)(s,a) = max over outcomes (s', d) of (s,a) of [ d + v(s') ],      v(s) = min over a of k(s,a)

Algorithm 1 iterates T from k = 0.  It converges to the least fixed point k* from below, but as printed it does not
stop: where k* = ∞ the iterates grow indefinitely.  It may stop at the first repetition, and any value above |S| · max d
is ∞: along a play that is optimal for agent and nature, v falls strictly with every damage, so each state is left with
damage at most once, and if any of the |S| values is finite, one of them is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from almostsure.arguments import count, names_right_word
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ModelError
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.source import Model, as_model

Budgets = npt.NDArray[np.int64]


def state_budgets(mdp: MDP, of_choice: Ints) -> Budgets:
    """v(s) = min over a of k(s,a), [num_states]."""
    return np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]).astype(np.int64)


def budget_operator(mdp: Model, of_choice: Ints) -> Budgets:
    """(T k)(s,a), the budget operator (eq. 14), for every choice; INFINITE stands for ∞.

    Parameters
    ----------
    mdp, of_choice
        The model; and k, one entry per choice.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> budget_operator(mdp, [0, 0, 0])
    array([1, 0, 0])
    """
    mdp = as_model(mdp)
    k = np.asarray(of_choice)
    if k.shape != (mdp.num_choices,) or k.dtype.kind not in "iu":
        raise ModelError(
            f"budgets must be one integer for each of the {mdp.num_choices} choices; got {k.dtype} of shape {k.shape}"
        )
    v = state_budgets(mdp, k.astype(np.int64))[mdp.successor]
    cost = np.where(v >= INFINITE, INFINITE, v + mdp.damage)
    return np.maximum.reduceat(cost, mdp.outcome_ptr[:-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedPoint:
    """The result of Algorithm 1."""

    of_choice: Budgets  # [num_choices]
    of_state: Budgets  # [num_states]
    iterations: int
    trace: tuple[Budgets, ...]  # k_0, k_1, …, if requested


@names_right_word
def algorithm_1(mdp: Model, *, trace: bool = False) -> FixedPoint:
    """Algorithm 1: iterate T from 0 to its least fixed point, k*.

    It stops at the first repetition; values above |S| · max d become ∞ (see the module's docstring).  The number of
    sweeps is the length of the longest dependency, so it is for small models and for teaching; ``minimal_budget`` is
    for all others.

    Parameters
    ----------
    mdp
        The model, or the name of an example or file.
    trace
        Keep every iterate.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> algorithm_1(mdp).of_choice
    array([1, 0, 0])
    """
    mdp = as_model(mdp)
    largest_finite = mdp.num_states * mdp.max_damage
    k = np.zeros(mdp.num_choices, dtype=np.int64)
    iterates = [k]
    iterations = 0
    while True:
        following = budget_operator(mdp, k)
        following[following > largest_finite] = INFINITE
        iterations += 1
        if trace:
            iterates.append(following)
        if np.array_equal(following, k):
            break
        k = following
    kept = tuple(iterates) if trace else ()
    return FixedPoint(of_choice=k, of_state=state_budgets(mdp, k), iterations=iterations, trace=kept)


def barrier(mdp: Model, budget: int) -> Floats:
    """The optimal barrier B*(s,k,a) for k = 0 … budget: 0 where safety is possible, −∞ elsewhere.

    It is the greatest solution of its Bellman equation (eq. 8): a choice is lost if it may overspend at once, or lead
    to a state all of whose choices are lost with the remaining budget.  It is computed on (s, k) directly, without k*,
    so that the two can be compared.  Shape [budget + 1, num_choices].

    Parameters
    ----------
    mdp, budget
        The model, and the largest k.

    Examples
    --------
    >>> barrier("paper", 1).tolist()
    [[-inf, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    mdp, budget = as_model(mdp), count("budget", budget, least=0)
    safe = np.ones((budget + 1, mdp.num_choices), np.bool_)
    remaining = np.arange(budget + 1)[:, None] - mdp.damage  # after each outcome
    affordable = remaining >= 0
    while True:
        state_safe = np.logical_or.reduceat(safe, mdp.choice_ptr[:-1], axis=1)
        outcome_safe = affordable & state_safe[np.maximum(remaining, 0), mdp.successor]
        following = np.logical_and.reduceat(outcome_safe, mdp.outcome_ptr[:-1], axis=1)
        if np.array_equal(following, safe):
            return np.where(safe, 0.0, -np.inf)
        safe = following


def unsafe_states(mdp: MDP, of_choice: Ints, budget: int) -> Bools:
    """The Δ-unsafe states (Remark 2): all of their choices need more than ``budget``, [num_states]."""
    return state_budgets(mdp, of_choice) > min(budget, INFINITE - 1)  # ∞ is unsafe with any budget
