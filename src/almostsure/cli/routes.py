"""The way that a policy takes if things go as they most likely do."""

from __future__ import annotations

import numpy as np

from almostsure.errors import NoSafeAction, PolicyError
from almostsure.model.mdp import MDP
from almostsure.policy.policy import Policy

LONGEST = 400  # steps


def likely_route(mdp: MDP, policy: Policy, budget: int | None) -> list[tuple[int, str, int]]:
    """The steps (state, action, damage) of the likeliest actions and outcomes, until it ends, stops or repeats."""
    state, remaining = int(mdp.initial_states[np.argmax(mdp.initial_probabilities)]), budget
    is_terminal, seen, steps = mdp.is_terminal(), set[tuple[int, int | None]](), list[tuple[int, str, int]]()
    while not is_terminal[state] and (state, remaining) not in seen and len(steps) < LONGEST:
        seen.add((state, remaining))
        try:
            action = int(np.argmax(policy.probabilities(state, None if policy.is_stationary else remaining)))
        except (NoSafeAction, PolicyError):  # it says nothing here, or may come to rest
            break
        likely = max(mdp.outcomes(state, action), key=lambda outcome: outcome.probability)
        steps.append((state, mdp.action_name(action), likely.damage))
        state, remaining = likely.next_state, None if remaining is None else remaining - likely.damage
    steps.append((state, "", 0))
    return steps


def visited(mdp: MDP, policy: Policy, budget: int | None) -> set[int]:
    """The states of that route."""
    return {state for state, _, _ in likely_route(mdp, policy, budget)}
