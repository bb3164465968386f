"""Policies as functions of the whole history: the bijection of Lemma 1.

A *history* of the model is ``(s0, a0, r1, d1, s1, a1, r2, d2, s2, …, st)``.  Together with a budget Δ it determines the
remaining budget at every step, so it is equivalent to a history of the augmented model,
``(s0, k0, a0, r1, e1, s1, k1, …, st, kt)``, where k is the remaining budget, and e = 1 if the step overspends
(:func:`augment_history`; its inverse is :func:`forget_budget`).  So a policy on (state, remaining) is a history policy
that only depends on the last state and on the sum of the damages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from almostsure.arguments import check_budget
from almostsure.errors import ArgumentError, PolicyError
from almostsure.model.mdp import MDP, Floats
from almostsure.policy.policy import Policy

History = Sequence[Any]  # s0, a0, r1, d1, s1, …
HistoryPolicy = Callable[[History], Floats]  # the probability of each action id, [num_actions]


def augment_history(history: History, budget: int) -> tuple[Any, ...]:
    """The history of the augmented model for a history of the model (the map g of Lemma 1).

    Parameters
    ----------
    history, budget
        ``(s0, a0, r1, d1, s1, …)``, and Δ.

    Examples
    --------
    >>> augment_history((0, 0, 1, 1, 0), 3)  # the remaining budget in each state, and whether a step overspends
    (0, 3, 0, 1, 0, 0, 2)
    """
    remaining = check_budget(budget)
    result: list[Any] = [history[0], remaining]
    for action, reward, damage, state in _steps(history):
        overspends = int(remaining >= 0 > remaining - damage)
        remaining -= damage
        result += [action, reward, overspends, state, remaining]
    return tuple(result)


def forget_budget(history: History) -> tuple[Any, ...]:
    """The history of the model for a history of the augmented model (the inverse of g).

    Parameters
    ----------
    history
        ``(s0, k0, a0, r1, e1, s1, k1, …)``.

    Examples
    --------
    >>> forget_budget(augment_history((0, 0, 1, 1, 0), 3))
    (0, 0, 1, 1, 0)
    """
    if len(history) % 5 != 2:
        raise ArgumentError(f"a history of the augmented model must have 2, 7, 12, … entries; got {len(history)}")
    remaining = history[1]
    result: list[Any] = [history[0]]
    for at in range(2, len(history), 5):
        action, reward, _, state, left = history[at : at + 5]
        result += [action, reward, remaining - left, state]
        remaining = left
    return tuple(result)


def to_history_policy(policy: Policy, budget: int | None = None) -> HistoryPolicy:
    """``policy`` as a function from histories to the probability of each action.

    Parameters
    ----------
    policy, budget
        The policy; and Δ, by default its own.

    Examples
    --------
    >>> import almostsure as asure
    >>> policy = asure.solve_policy("paper", asure.AlmostSure(1)).policy
    >>> of_history = to_history_policy(policy)
    >>> of_history((0,)).tolist(), of_history((0, 0, 1, 1, 0)).tolist()  # left at first, then right
    ([1.0, 0.0], [0.0, 1.0])
    """
    if policy.rest is not None:
        raise PolicyError(
            "a policy that comes to rest at random has more memory than the history. Play it with start()."
        )
    start = policy.budget if budget is None else check_budget(budget)

    def of_history(history: History) -> Floats:
        spent = sum(int(damage) for _, _, damage, _ in _steps(history))
        return policy.probabilities(history[-1], None if start is None else start - spent)

    return of_history


def from_history_policy(mdp: MDP, history_policy: HistoryPolicy, budget: int) -> Policy:
    """Convert ``history_policy`` to a policy on (state, remaining), if it only depends on these.

    The function is called with a shortest history to every (state, remaining) that it reaches, and with those one step
    longer.  Two histories that end in the same pair must give the same answer, or PolicyError names them.  This is a
    check, not a proof: other histories are not tried.

    Parameters
    ----------
    mdp, history_policy, budget
        The model; a function from histories to the probability of each action; and Δ.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("paper")
    >>> policy = asure.solve_policy(mdp, asure.AlmostSure(1)).policy
    >>> again = from_history_policy(mdp, to_history_policy(policy), 1)
    >>> again.act(0, 1), again.act(0, 0)
    (0, 1)
    """
    budget, is_terminal = check_budget(budget), mdp.is_terminal()
    answers: dict[tuple[int, int], Floats] = {}
    witness: dict[tuple[int, int], History] = {}
    queue = deque[tuple[History, int]](((int(s),), budget) for s in mdp.initial_states)
    while queue:
        history, remaining = queue.popleft()
        state, remaining = key = (int(history[-1]), remaining)
        answer = np.asarray(history_policy(history), np.float64)
        if answer.shape != (mdp.num_actions,):
            raise PolicyError(
                f"a history policy must give one probability per action ({mdp.num_actions}); got {answer.shape}"
            )
        if key in answers:
            if not is_terminal[state] and not np.array_equal(answers[key], answer):
                raise PolicyError(
                    f"to become a Policy, a history policy must depend on the state and the remaining budget only; at "
                    f"{mdp.describe_state(state)} with {remaining} left it answers differently after {witness[key]} "
                    f"and {history}.",
                    state=state,
                )
            continue
        answers[key], witness[key] = answer, history
        for action in np.flatnonzero(answer).tolist():
            for o in mdp.outcomes(state, action):
                if o.damage <= remaining:
                    after = (*history, action, o.reward, o.damage, o.next_state)
                    queue.append((after, remaining - o.damage))
    return Policy.from_table(
        mdp, {key: dict(enumerate(answer.tolist())) for key, answer in answers.items()}, budget=budget
    )


def _steps(history: History) -> list[History]:
    """The steps of a history: (action, reward, damage, next state)."""
    if len(history) % 4 != 1:
        raise ArgumentError(f"a history must have 1, 5, 9, … entries (s0, a0, r1, d1, s1, …); got {len(history)}")
    return [history[at : at + 4] for at in range(1, len(history), 4)]
