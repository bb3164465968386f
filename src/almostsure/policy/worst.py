"""The most damage that can happen to a policy: the supremum over all trajectories that have positive probability.

Where the policy is stationary (or once its budget is overspent), let every state have one choice with all outcomes
that the policy makes possible: the minimal budget of that model is what nature can do to it.  In the layers above,
damage is what has been spent on the way down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from almostsure.arguments import check_budget
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import NoSafeAction
from almostsure.model.build import from_transitions
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.source import Model, as_model
from almostsure.policy.chain import explore
from almostsure.policy.policy import Policy, as_policy


def worst_damage(mdp: Model, policy: Any, *, budget: int | None = None) -> float:
    """The most damage that a trajectory of the policy can take, from the initial states; infinity if there is no limit.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    policy
        A Policy of it, a Solution, or anything else that :func:`almostsure.evaluate` takes.
    budget
        The starting budget; by default the policy's.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.policy.worst import worst_damage
    >>> worst_damage("paper", asure.solve_policy("paper", asure.AlmostSure(5)))
    5.0
    >>> worst_damage("paper", asure.solve_policy("paper", asure.Expected(5)))
    inf
    """
    mdp = as_model(mdp)
    budget = None if budget is None else check_budget(budget)
    policy = as_policy(mdp, policy, budget=budget)
    is_terminal = mdp.is_terminal()
    if policy.budget is None:
        return _stationary(mdp, policy, mdp.initial_states, np.zeros(mdp.initial_states.size, np.int64), is_terminal)
    start = policy.budget if budget is None else budget
    return _layered(mdp, policy, start, is_terminal)


def _layered(mdp: MDP, policy: Policy, start: int, is_terminal: Bools) -> float:
    """From the top layer down; what falls through goes on in the policy's last layer, if it has one."""
    waiting: dict[int, list[Ints]] = {start: [mdp.initial_states.astype(np.int64)]}
    fallen: list[tuple[Ints, Ints]] = []  # states reached beyond the budget, and the damage done by then
    worst, cycle = 0, _Cycle(max(_plateau(policy), mdp.max_damage))
    while waiting:
        waiting = cycle.skip(waiting)
        remaining = max(waiting)
        worst = start - remaining
        sources = np.concatenate(waiting.pop(remaining))
        moves = explore(mdp, policy, remaining, sources, inside="harmless", is_terminal=is_terminal)
        for damage in np.unique(moves.damage[moves.damage > 0]).tolist():
            reached = np.unique(moves.successor[moves.damage == damage])
            if damage <= remaining:
                waiting.setdefault(remaining - damage, []).append(reached)
            else:
                fallen.append((reached, np.full(reached.size, worst + damage)))
    if not fallen:
        return float(worst)
    states, spent = (np.concatenate(parts) for parts in zip(*fallen, strict=True))
    if not policy.knows_overspent:
        raise NoSafeAction(
            f"the policy overspends at {mdp.describe_state(int(states[0]))}, and does not say what it does then",
            state=int(states[0]),
        )
    return _stationary(mdp, policy, states, spent, is_terminal)


class _Cycle:
    """Layers in which the policy does the same: once what waits in them repeats, it does so down to the last of them.

    What waits is compared with what waited at the last power of two (Brent's algorithm), so little is remembered.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor  # the least layer that is like all above it, and cannot be left for below 0
        self._then: tuple[int, dict[int, bytes]] | None = None
        self._steps, self._power = 0, 1

    def skip(self, waiting: dict[int, list[Ints]]) -> dict[int, list[Ints]]:
        """What waits, moved down by as many whole periods as there is room for."""
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
    """The least layer from which on all are alike."""
    assert policy.budget is not None
    rest = None if policy.rest is None else policy.rest.probability
    tables = [table for table in (policy.choice, policy.probability, rest) if table is not None]
    for layer in range(policy.budget, 0, -1):
        if any((table[layer - 1] != table[policy.budget]).any() for table in tables):
            return layer
    return 0


def _stationary(mdp: MDP, policy: Policy, sources: Ints, spent: Ints, is_terminal: Bools) -> float:
    """The most that has been spent on arrival and is still to come."""
    remaining = None if policy.budget is None else -1
    moves = explore(mdp, policy, remaining, sources, inside="all", is_terminal=is_terminal)
    moving = np.zeros(moves.states.size, np.bool_)
    moving[moves.row] = True
    chain = from_transitions(
        moves.row, np.zeros(moves.row.size, np.int64), moves.position(moves.successor), moves.weight,
        np.zeros(moves.row.size), moves.damage, num_states=moves.states.size, terminal=np.flatnonzero(~moving),
        normalise=True,
    )  # fmt: skip
    ahead = minimal_budget(chain).of_state[moves.position(sources)].astype(np.int64)
    return math.inf if (ahead == INFINITE).any() else float((spent + ahead).max())
