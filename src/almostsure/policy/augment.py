"""The augmented model: the remaining budget becomes part of the state (Definition 3 of the paper).

Its states are the pairs (s, K) with K = 0 … total, pair (s, K) at index ``K * num_states + s``, and one more, the
last, that is entered when a step overspends: *overspent*, where nothing happens any more.  A step's damage is 1
exactly when it overspends, and 0 otherwise; rewards stay as they are.  So "never more than total damage" in the
model is "no damage at all" in the augmented one, and everything that works on models works on it.

It has ``total + 1`` times the outcomes of the model.  The solvers do not need it (they work layer by layer); it is
here to look at, to check them with, and to hand to other tools.
"""

from __future__ import annotations

import numpy as np

from almostsure.budget.memory import require
from almostsure.errors import ArgumentError
from almostsure.model.build import from_transitions
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.policy.constraints import check_total

BYTES_AN_OUTCOME = 150  # while it is built: six columns, their sorted copies, and the model itself


def augment(mdp: Model, total: int) -> MDP:
    """The augmented model of ``mdp`` with the budget ``total``; it starts with all of it.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> augment(mdp, 2)
    <MDP: 7 states, 10 choices, 10 outcomes, starts in 0 @2>
    """
    mdp, total = as_model(mdp), check_total(total)
    outcomes = mdp.num_outcomes * (total + 1)
    require(
        outcomes * BYTES_AN_OUTCOME, f"the augmented model ({outcomes:,} outcomes)", "solve_policy does without it."
    )
    layers, count = total + 1, mdp.num_states
    overspent = layers * count
    remaining = np.repeat(np.arange(layers), mdp.num_outcomes)
    choice = mdp.outcome_choices()
    left = remaining - np.tile(mdp.damage, layers)
    return from_transitions(
        remaining * count + np.tile(mdp.choice_states()[choice], layers),
        np.tile(mdp.choice_action[choice], layers),
        np.where(left >= 0, left * count + np.tile(mdp.successor, layers), overspent),
        np.tile(mdp.probability, layers),
        np.tile(mdp.reward, layers),
        left < 0,
        num_states=overspent + 1,
        terminal=[overspent],
        initial={
            int(total * count + s): float(p) for s, p in zip(mdp.initial_states, mdp.initial_probabilities, strict=True)
        },
        state_names=[f"{mdp.state_name(s)} @{k}" for k in range(layers) for s in range(count)] + ["overspent"],
        action_names=mdp.action_names,
    )


def augmented_state(mdp: MDP, total: int, state: int | str, remaining: int) -> int:
    """The index of (state, remaining) in the augmented model; a negative ``remaining`` is the overspent state."""
    total = check_total(total)
    if remaining > total:
        raise ArgumentError(f"remaining must be at most the total, {total}; got {remaining}")
    if remaining < 0:
        return (total + 1) * mdp.num_states
    return check_total(remaining, "remaining") * mdp.num_states + mdp.state(state)


def split_state(mdp: MDP, total: int, index: int) -> tuple[int, int] | None:
    """The pair (state, remaining) of an index of the augmented model, or None for the overspent state."""
    total = check_total(total)
    if not 0 <= index <= (total + 1) * mdp.num_states:
        raise ArgumentError(f"index must lie in 0 … {(total + 1) * mdp.num_states}; got {index}")
    remaining, state = divmod(int(index), mdp.num_states)
    return None if remaining > total else (state, remaining)
