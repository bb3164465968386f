"""What a policy achieves in an episode that is cut after some steps: exact, by one sparse product a step.

Undiscounted, a policy that may stay for ever where every step costs something has a return of minus infinity, however
unlikely that is.  That is true and says little; learners cut their episodes, and so does this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from almostsure.model.mdp import MDP, Floats
from almostsure.policy.policy import Policy

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def cut_totals(mdp: MDP, policy: Policy, budget: int, horizon: int) -> tuple[float, float]:
    """Expected return and damage of an episode of at most ``horizon`` steps that starts with ``budget``."""
    matrix, gains = _chain(mdp, policy)
    values = np.zeros_like(gains)
    for _ in range(horizon):
        values = gains + matrix @ values
    top = 0 if policy.budget is None else min(budget, policy.budget)
    start = top * mdp.num_states + mdp.initial_states.astype(np.int64)
    reward, damage = mdp.initial_probabilities @ values[start]
    return float(reward), float(damage)


def _chain(mdp: MDP, policy: Policy) -> tuple[csr_array[Any], Floats]:
    """The moves between pairs (layer, state), and the expected reward and damage of a step in each of them."""
    from scipy.sparse import csr_array

    size = policy.num_layers * mdp.num_states
    rows, columns, weights = [], [], []
    gains = np.zeros((size, 2))
    choice = mdp.outcome_choices()
    state = mdp.choice_states()[choice].astype(np.int64)
    damage = mdp.damage.astype(np.int64)
    for layer in range(policy.num_layers):
        share = policy.weights(layer)[choice] * mdp.probability
        if policy.rest is not None:
            share = share * (1.0 - policy.rest.probability[layer, state])
        row, column = layer * mdp.num_states + state, _below(policy, layer, damage) * mdp.num_states + mdp.successor
        for number, values in enumerate((mdp.reward, damage)):
            gains[:, number] += np.bincount(row, weights=share * values, minlength=size)
        goes_on = (share > 0) & (column >= 0)
        rows.append(row[goes_on])
        columns.append(column[goes_on])
        weights.append(share[goes_on])
    entries = np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))
    return csr_array(entries, shape=(size, size)), gains


def _below(policy: Policy, layer: int, damage: Any) -> Any:
    """The layer after each damage; −1 where the policy says nothing any more."""
    if policy.budget is None:
        return np.zeros_like(damage)
    overspent = policy.budget + 1 if policy.knows_overspent else -1
    if layer == policy.budget + 1:
        return np.full_like(damage, layer)
    return np.where(layer >= damage, layer - damage, overspent)
