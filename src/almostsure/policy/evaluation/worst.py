"""``worst_damage``: the largest damage of a policy, over all trajectories with positive probability.

For a stationary policy (or one whose budget is overspent), take the model in which every state has one choice, with all
outcomes that are possible under the policy: its minimal budget is the largest damage from there on.  In the layers of
remaining budgets, the damage so far is known.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from almostsure.arguments import names_right_word
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP, Ints
from almostsure.model.source import Model, as_model
from almostsure.policy import read
from almostsure.policy.evaluation.chain import rule_of
from almostsure.policy.evaluation.within import worst_within
from almostsure.policy.explore import Waiting, explore
from almostsure.policy.policy import Policy, played_with


@names_right_word
def worst_damage(mdp: Model, policy: Any, *, budget: int | None = None) -> float:
    """The largest damage of a trajectory of the policy from the initial states; infinite if there is no bound.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    policy
        A Policy of it, a Solution, or anything else that :func:`almostsure.evaluate` takes.
    budget
        The starting budget; by default that of the policy.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.policy.evaluation.worst import worst_damage
    >>> worst_damage("paper", asure.solve_policy("paper", asure.AlmostSure(5)))
    5.0
    >>> worst_damage("paper", asure.solve_policy("paper", asure.Expected(5)))
    inf
    """
    mdp = as_model(mdp)
    policy, start = played_with(mdp, policy, budget)
    if policy.horizon is not None:
        return worst_within(policy, start)
    if policy.budget is None or start is None:
        return _stationary(mdp, policy, mdp.initial_states, np.zeros(mdp.initial_states.size, np.int64))
    return _layered(mdp, policy, start)


def _layered(mdp: MDP, policy: Policy, start: int) -> float:
    """From the top layer down; overspent trajectories continue in the policy's layer for that, if it has one."""
    overspent: list[tuple[Ints, Ints]] = []  # states reached beyond the budget, and the damage so far
    worst, cycle = 0, _Cycle(max(_plateau(policy), mdp.max_damage))
    for step in explore(mdp, rule_of(policy, start), start, skip=cycle.skip):
        worst = start - step.remaining
        damage = mdp.damage[step.outcome]
        beyond = damage > step.remaining
        if beyond.any():
            overspent.append(
                (mdp.successor[step.outcome[beyond]].astype(np.int64), worst + damage[beyond].astype(np.int64))
            )
    if not overspent:
        return float(worst)
    states, spent = (np.concatenate(parts) for parts in zip(*overspent, strict=True))
    if not policy.knows_overspent:
        raise read.overspends(mdp, int(states[0]))
    return _stationary(mdp, policy, states, spent)


class _Cycle:
    """Skips layers in which the policy is the same: once the waiting states repeat, they do so down to ``floor``.

    The waiting states are compared with those at the last power of two (Brent's algorithm), so few are stored.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor  # the least layer that is like all above it, and from which no outcome overspends
        self._then: tuple[int, dict[int, bytes]] | None = None
        self._steps, self._power = 0, 1

    def skip(self, waiting: Waiting) -> Waiting:
        """The waiting states, moved down by as many whole periods as fit."""
        remaining = max(waiting)
        if remaining <= self.floor:
            return waiting
        now = {remaining - layer: np.unique(np.concatenate(parts)).tobytes() for layer, parts in waiting.items()}
        if self._then is not None and self._then[1] == now:
            period = self._then[0] - remaining
            down = (remaining - self.floor) // period * period
            return {layer - down: parts for layer, parts in waiting.items()}
        self._steps += 1
        if self._steps == self._power:
            self._then, self._power = (remaining, now), 2 * self._power
        return waiting


def _plateau(policy: Policy) -> int:
    """The least layer from which on all layers are equal."""
    assert policy.budget is not None
    rest = None if policy.rest is None else policy.rest.probability
    tables = [table[: policy.budget + 1] for table in (policy.choice, policy.probability, rest) if table is not None]
    return max(int(np.flatnonzero((table != table[-1]).any(axis=1)).max(initial=-1)) + 1 for table in tables)


def _stationary(mdp: MDP, policy: Policy, sources: Ints, spent: Ints) -> float:
    """The largest sum of the damage so far and the worst damage from there on."""
    steps = list(explore(mdp, rule_of(policy), None, sources=sources))
    states = np.sort(np.concatenate([step.states for step in steps]))
    row = np.searchsorted(states, np.concatenate([step.states[step.owner[step.of]] for step in steps]))
    outcome = np.concatenate([step.outcome for step in steps])
    moving = np.zeros(states.size, np.bool_)
    moving[row] = True
    nothing = np.zeros(row.size)
    chain = from_transitions(
        row, nothing.astype(np.int64), np.searchsorted(states, mdp.successor[outcome]), mdp.probability[outcome],
        nothing, mdp.damage[outcome], num_states=states.size, terminal=np.flatnonzero(~moving), normalise=True,
    )  # fmt: skip
    ahead = minimal_budget(chain).of_state[np.searchsorted(states, sources)].astype(np.int64)
    return math.inf if (ahead == INFINITE).any() else float((spent + ahead).max())
