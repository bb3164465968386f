"""``Play``: one run of a policy, with the memory that the policy needs; and its most likely run."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from almostsure.arguments import check_budget
from almostsure.errors import ArgumentError, NoSafeAction, PolicyError
from almostsure.model.mdp import Floats

if TYPE_CHECKING:
    from almostsure.policy.policy import Policy

LONGEST = 2_000  # steps of the most likely run


@final
class Play:
    """One run of a policy: acts, observes damage, and tracks the remaining budget and whether it has come to rest."""

    __slots__ = ("_resting", "policy", "remaining", "rng", "steps_left")

    def __init__(self, policy: Policy, remaining: int | None, rng: np.random.Generator | None) -> None:
        if policy.budget is not None and remaining is None:
            raise ArgumentError("this policy depends on the remaining budget: pass budget=")
        self.policy, self.remaining, self.rng = policy, remaining, rng
        self.steps_left, self._resting = policy.horizon, False

    def act(self, state: int | str) -> int:
        """The action to take now.  Call it once per step: each call may draw a random number."""
        policy, s = self.policy, self.policy.mdp.state(state)
        layer = policy.layer(self.remaining, self.steps_left)
        if policy.rest is not None and not self._resting and policy.rest.probability[layer, s] > 0:
            chance = float(policy.rest.probability[layer, s])
            self._resting = draw(np.array([1 - chance, chance]), self.rng) == 1
        if self._resting:
            assert policy.rest is not None
            return int(policy.mdp.choice_action[policy.rest.choice[s]])
        return draw(policy.spread(s, layer, self.remaining), self.rng)

    def observe(self, damage: int) -> None:
        """Report the damage of the last action."""
        if self.remaining is not None:
            self.remaining -= check_budget(damage, "damage")
        if self.steps_left is not None:
            self.steps_left -= 1


def likeliest_run(policy: Policy, state: int, remaining: int | None) -> list[tuple[int, int, int]]:
    """The steps (state, action, damage) of the most likely actions and outcomes; the last state has action −1.

    The run is over in terminal states, and where the policy rests, is undefined or repeats itself.  Self-loops without
    damage are skipped if there are other outcomes, so a policy that waits for a slip follows the slip.
    """
    mdp, seen, steps = policy.mdp, set[tuple[int, int | None]](), list[tuple[int, int, int]]()
    is_terminal = mdp.is_terminal()
    while not is_terminal[state] and (state, remaining) not in seen and len(steps) < LONGEST:
        left = None if policy.block is None else policy.block.size - len(steps)  # steps of its horizon
        if left is None:
            seen.add((state, remaining))
        elif left == 0:
            break
        try:
            where = state, None if policy.is_stationary else remaining
            action = int(np.argmax(policy.probabilities(*where, steps_left=left)))
        except (NoSafeAction, PolicyError):  # it is undefined here, or may come to rest
            break
        outcomes = mdp.outcomes(state, action)
        moves = [outcome for outcome in outcomes if outcome.next_state != state or outcome.damage]
        likely = max(moves or outcomes, key=lambda outcome: outcome.probability)
        steps.append((state, action, likely.damage))
        state, remaining = likely.next_state, None if remaining is None else remaining - likely.damage
    return [*steps, (state, -1, 0)]


def draw(probabilities: Floats, rng: np.random.Generator | None) -> int:
    """An action drawn from a distribution; without a random number if there is only one."""
    possible = np.flatnonzero(probabilities)
    if possible.size == 1:
        return int(possible[0])
    if rng is None:
        raise ArgumentError("this policy is randomised: pass rng=numpy.random.default_rng(seed)")
    at = np.searchsorted(np.cumsum(probabilities[possible]), rng.random(), side="right")
    return int(possible[min(int(at), possible.size - 1)])
