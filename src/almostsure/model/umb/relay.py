"""Relay states, for formats without rewards of single outcomes (DRN), or with one outcome per successor (Storm)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from almostsure.model.build.transitions import build
from almostsure.model.labels import with_more_states
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.naming import distinct, ranks
from almostsure.model.origin import Origin


def with_relays(mdp: MDP) -> MDP:
    """The model without choices that have several outcomes with the same successor; itself if it has none.

    All but the first such outcome lead to a relay state, with their reward and damage, and from there to the successor,
    without either.  Relays are appended after the model's states and shared by all choices.
    """
    rank = ranks(mdp.outcome_choices().astype(np.int64) * mdp.num_states + mdp.successor)
    return _relayed(mdp, rank > 0, rank * mdp.num_states + mdp.successor, on_arrival=True)


def with_uniform_choices(mdp: MDP) -> MDP:
    """The model without choices whose outcomes differ in damage or reward; itself if it has none.

    Such outcomes, if they have damage or reward, lead to a relay state without it; the step from there to the successor
    has it.
    """
    first, choice = mdp.outcome_ptr[:-1], mdp.outcome_choices()
    differs = np.zeros(mdp.num_choices, np.bool_)
    for values in (mdp.damage, mdp.reward):
        differs |= np.logical_or.reduceat(values != values[first][choice], first)
    moved = differs[choice] & ((mdp.damage != 0) | (mdp.reward != 0))
    return _relayed(mdp, moved, np.stack([mdp.successor, mdp.damage, mdp.reward], axis=1), on_arrival=False)


def _relayed(mdp: MDP, moved: Bools, key: Ints, *, on_arrival: bool) -> MDP:
    """The model with the ``moved`` outcomes through relays, one per ``key``.

    Their damage and reward are on the step into the relay (``on_arrival``), or on the step out of it.
    """
    moves = np.flatnonzero(moved)
    if not moves.size:
        return mdp
    _, one, place = np.unique(key[moves], axis=0, return_index=True, return_inverse=True)
    count, one = mdp.num_states, moves[one]  # an outcome of each relay
    successor, onward, zeros = mdp.successor.astype(np.int64), mdp.successor[one], np.zeros(one.size, np.uint8)
    successor[moves] = count + place.ravel()
    columns = mdp.columns()._replace(next_state=successor)
    after = (zeros, zeros) if on_arrival else (mdp.reward[one], mdp.damage[one])
    if not on_arrival:
        columns = columns._replace(reward=np.where(moved, 0, mdp.reward), damage=np.where(moved, 0, mdp.damage))
    added = count + np.arange(one.size), zeros + np.int64(mdp.num_actions), onward, zeros + 1.0, *after
    names = mdp.state_names
    return build(
        [np.append(column, more) for column, more in zip(columns, added, strict=True)],
        num_states=count + one.size,
        initial=mdp.starts,
        state_names=names and distinct([*names, *(f"relay to {names[state]}" for state in onward)]),
        action_names=None if mdp.action_names is None else distinct([*mdp.action_names, "relay"]),
        labels=with_more_states(mdp.labels, one.size),
        layout=mdp.layout and mdp.layout.with_more_states(one.size),
        origin=_origin(mdp.origin, one.size, onward),
    )


def _origin(origin: Origin, count: int, onward: Ints) -> Origin:
    """The origin with relays: their rewards are 0, and they have the variables of their successor."""
    rewards = {name: np.append(values, np.zeros(count)) for name, values in origin.rewards.items()}
    variables = {name: np.append(values, values[onward]) for name, values in origin.variables.items()}
    return replace(origin, rewards=rewards, variables=variables)
