"""The augmented model: the remaining budget becomes part of the state (Definition 3 of the paper).

Its states are the pairs (s, K) with K = 0 … budget, pair (s, K) at index ``K * num_states + s``.  The last state, named
and labelled *overspent*, is terminal, and is entered when a step overspends.  The damage of a step is 1 if it
overspends, and 0 otherwise; rewards are unchanged.  So "never more damage than the budget" in the model means "no
damage" in the augmented model, which is an ordinary model.

It has ``budget + 1`` times the outcomes of the model.  The solvers do not need it, since they work layer by layer; it
is meant for inspection, for testing the solvers, and for other tools.
"""

from __future__ import annotations

import numpy as np

from almostsure.arguments import check_budget
from almostsure.memory import require
from almostsure.model.build.transitions import BYTES_PER_OUTCOME, from_transitions
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model

OVERSPENT = "overspent"  # the name and the label of the last state


def augment(mdp: Model, budget: int) -> MDP:
    """The augmented model of ``mdp``; it starts with the whole ``budget``.

    Parameters
    ----------
    mdp, budget
        The model, and Δ.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> augment(mdp, 2)
    <MDP: 7 states, 10 choices, 10 outcomes, starts in 0 @2>
    """
    mdp, budget = as_model(mdp), check_budget(budget)
    mdp.require_probabilities("augment")
    outcomes = mdp.num_outcomes * (budget + 1)
    require(
        outcomes * BYTES_PER_OUTCOME, f"the augmented model ({outcomes:,} outcomes)", "solve_policy does without it."
    )
    layers, count = budget + 1, mdp.num_states
    overspent = layers * count
    remaining = np.repeat(np.arange(layers), mdp.num_outcomes)
    state, action, after, probability, reward, damage = (np.tile(column, layers) for column in mdp.columns())
    left = remaining - damage
    return from_transitions(
        remaining * count + state,
        action,
        np.where(left >= 0, left * count + after, overspent),
        probability,
        reward,
        left < 0,
        num_states=overspent + 1,
        terminal=[overspent],
        initial={budget * count + s: p for s, p in mdp.starts.items()},
        state_names=[f"{mdp.state_name(s)} @{k}" for k in range(layers) for s in range(count)] + [OVERSPENT],
        action_names=mdp.action_names,
        labels={OVERSPENT: [overspent]}
        | {name: np.append(np.tile(holds, layers), name == OVERSPENT) for name, holds in mdp.labels.items()},
    )
