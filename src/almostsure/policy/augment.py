"""The augmented model: the remaining budget becomes part of the state (Definition 3 of the paper).

Its states are the pairs (s, K) with K = 0 … budget, pair (s, K) at index ``K * num_states + s``, and one more, the
last, that is entered when a step overspends: *overspent*, by name and label, where nothing happens any more.  A step's
damage is 1 exactly when it overspends, and 0 otherwise; rewards stay as they are.  So "never more damage than the
budget" in the model is "no damage at all" in the augmented one, and everything that works on models works on it.

It has ``budget + 1`` times the outcomes of the model.  The solvers do not need it (they work layer by layer); it is
here to look at, to check them with, and to hand to other tools.
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
    """The augmented model of ``mdp`` with the budget ``budget``; it starts with all of it.

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
