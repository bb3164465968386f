"""Relay states, for programs that allow only one outcome per choice and successor (Storm)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from almostsure.model.build.transitions import build
from almostsure.model.labels import with_more_states
from almostsure.model.mdp import MDP, Ints
from almostsure.model.naming import distinct, ranks
from almostsure.model.origin import Origin


def with_relays(mdp: MDP) -> MDP:
    """The model without choices that have several outcomes with the same successor; itself if it has none.

    All but the first such outcome lead to a relay state, with their reward and damage, and from there to the successor,
    without either.  Relays are appended after the model's states and shared by all choices.
    """
    count = mdp.num_states
    rank = ranks(mdp.outcome_choices().astype(np.int64) * count + mdp.successor)
    extra = np.flatnonzero(rank)
    if not extra.size:
        return mdp
    keys, place = np.unique(rank[extra] * count + mdp.successor[extra], return_inverse=True)
    successor = mdp.successor.astype(np.int64)
    successor[extra] = count + place
    relays, onward, zeros = count + np.arange(keys.size), keys % count, np.zeros(keys.size, np.uint8)
    added = relays, zeros + np.int64(mdp.num_actions), onward, zeros + 1.0, zeros, zeros
    columns, names = mdp.columns()._replace(next_state=successor), mdp.state_names
    return build(
        [np.append(column, more) for column, more in zip(columns, added, strict=True)],
        num_states=count + keys.size,
        initial=mdp.starts,
        state_names=names and distinct([*names, *(f"relay to {names[state]}" for state in onward)]),
        action_names=None if mdp.action_names is None else distinct([*mdp.action_names, "relay"]),
        labels=with_more_states(mdp.labels, keys.size),
        layout=mdp.layout and mdp.layout.with_more_states(keys.size),
        origin=_origin(mdp.origin, keys.size, onward),
    )


def _origin(origin: Origin, count: int, onward: Ints) -> Origin:
    """The origin with relays: their rewards are 0, and they have the variables of their successor."""
    rewards = {name: np.append(values, np.zeros(count)) for name, values in origin.rewards.items()}
    variables = {name: np.append(values, values[onward]) for name, values in origin.variables.items()}
    return replace(origin, rewards=rewards, variables=variables)
