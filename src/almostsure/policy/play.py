"""``Play``: one run of a policy, which remembers what the policy must remember."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from almostsure.arguments import check_budget
from almostsure.errors import ArgumentError
from almostsure.model.mdp import Floats

if TYPE_CHECKING:
    from almostsure.policy.policy import Policy


@final
class Play:
    """One run of a policy: it acts, is told the damage, and remembers what remains and whether it has come to rest."""

    __slots__ = ("_resting", "policy", "remaining", "rng", "steps_left")

    def __init__(self, policy: Policy, remaining: int | None, rng: np.random.Generator | None) -> None:
        if policy.budget is not None and remaining is None:
            raise ArgumentError("this policy looks at the remaining budget: say the budget")
        self.policy, self.remaining, self.rng = policy, remaining, rng
        self.steps_left, self._resting = policy.horizon, False

    def act(self, state: int | str) -> int:
        """The action to take now.  Ask once per step: each call may draw a random number."""
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
        """Say what the last action cost."""
        if self.remaining is not None:
            self.remaining -= check_budget(damage, "damage")
        if self.steps_left is not None:
            self.steps_left -= 1


def draw(probabilities: Floats, rng: np.random.Generator | None) -> int:
    """One of these actions, by chance where there are several."""
    possible = np.flatnonzero(probabilities)
    if possible.size == 1:
        return int(possible[0])
    if rng is None:
        raise ArgumentError("this policy is randomised: pass rng=numpy.random.default_rng(seed)")
    at = np.searchsorted(np.cumsum(probabilities[possible]), rng.random(), side="right")
    return int(possible[min(int(at), possible.size - 1)])
