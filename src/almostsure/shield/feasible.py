"""Whether a policy keeps a budget: it does if it never plays a refused choice at a pair (state, remaining) it reaches.

This is Theorem 1.  A policy that only plays allowed choices never overspends.  One that plays a refused choice at a
reachable pair overspends with positive probability, whatever it plays afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from almostsure.arguments import count
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.errors import ArgumentError
from almostsure.model.mdp import MDP
from almostsure.policy.evaluation.chain import rule_of
from almostsure.policy.explore import explore
from almostsure.policy.policy import Policy, as_policy, unwrapped
from almostsure.policy.read import rule_of_function


class Violation(NamedTuple):
    """The first refused choice that a policy may play.

    Examples
    --------
    >>> import almostsure as asure
    >>> shield = asure.Shield(asure.minimal_budget("paper"))
    >>> shield.first_violation(lambda state, left: 0, 1).remaining
    0
    """

    state: int
    remaining: int
    action: int
    needed: int  # k* of the choice; INFINITE if no budget suffices
    message: str

    def __str__(self) -> str:
        return self.message


def first_violation(mdp: MDP, minimal: MinimalBudget, policy: Any, budget: int | None) -> Violation | None:
    """The first refused choice that the policy may play, largest remaining budget first; None if there is none."""
    start = None if budget is None else count("budget", budget, least=0)
    policy = unwrapped(policy)
    if not callable(policy):
        policy = as_policy(mdp, policy, budget=start)
        start = policy.budget if start is None else start
    if start is None:
        raise ArgumentError("budget, the one at the start, must be given with a policy that does not carry one")
    rule = rule_of(policy, start) if isinstance(policy, Policy) else rule_of_function(mdp, policy, start)
    for step in explore(mdp, rule, start):
        bad = step.choice[minimal.of_choice[step.choice] > min(step.remaining, INFINITE - 1)]
        if bad.size:
            return _violation(mdp, minimal, int(bad.min()), step.remaining)
    return None


def _violation(mdp: MDP, minimal: MinimalBudget, choice: int, remaining: int) -> Violation:
    state = mdp.choice_state(choice)
    needed, action = int(minimal.of_choice[choice]), int(mdp.choice_action[choice])
    if needed == INFINITE and minimal.cap is not None and remaining > minimal.cap:
        raise ArgumentError(
            f"minimal budgets must be known up to {remaining} to judge this policy; this shield knows them up to its "
            f"cap {minimal.cap} only, and {mdp.describe_choice(choice)} needs more. Solve again with a larger cap."
        )
    message = f"with {remaining} left the policy may play {mdp.describe_choice(choice)}, which "
    message += minimal.need_in_words(needed)
    return Violation(state, remaining, action, needed, message)
