"""``write_drn``: models as DRN files, the text format of Storm.

A DRN file has rewards of states and choices, but not of outcomes.  If damage or reward depends on the outcome of a
choice, the outcomes that have some pass through relay states, whose only choice has the damage and reward.  This adds
a step and changes nothing else.  Relays come after the model's states and have the label ``relay``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from almostsure.model.arrays import Bools, Floats, Ints
from almostsure.model.mdp import MDP

NO_LABEL = "__NOLABEL__"  # written by Storm for a choice without an action
RELAY = "relay"


def write_drn(mdp: MDP, file: BinaryIO) -> None:
    """Write a model with its damage, reward, labels and the reward structures of its origin."""
    moved = _moved(mdp)
    target, rows = _relays(mdp, moved)
    rewards = _choice_rewards(mdp, moved)
    names = " ".join(map(_word, rewards))
    num_states, num_choices = mdp.num_states + len(rows), mdp.num_choices + len(rows)
    header = (
        f"@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\n{names}\n"
        f"@nr_states\n{num_states}\n@nr_choices\n{num_choices}\n@model\n"
    )
    file.write(header.encode())
    file.writelines(line.encode() for line in _states(mdp, target, np.stack(list(rewards.values()), axis=1)))
    zeros = [0.0] * len(rewards)
    for state, (successor, *values) in enumerate(rows, mdp.num_states):
        taken = _numbers(values + zeros[2:])
        lines = f"state {state} {_numbers(zeros)} {RELAY}\n\taction {RELAY} {taken}\n\t\t{successor} : 1\n"
        file.write(lines.encode())


def _moved(mdp: MDP) -> Bools:
    """A mask of the outcomes that need a relay: those with damage or reward, if outcomes of their choice differ."""
    first, choice = mdp.outcome_ptr[:-1], mdp.outcome_choices()
    differs = np.zeros(mdp.num_choices, np.bool_)
    for values in (mdp.damage, mdp.reward):
        differs |= np.logical_or.reduceat(values != values[first][choice], first)
    some: Bools = (mdp.damage != 0) | (mdp.reward != 0)
    return differs[choice] & some


def _relays(mdp: MDP, moved: Bools) -> tuple[Ints, list[tuple[int, float, float]]]:
    """The target of each outcome; the successor, damage and reward of each relay."""
    target = mdp.successor.astype(np.int64)
    if not moved.any():
        return target, []
    content = np.stack([mdp.successor[moved], mdp.damage[moved], mdp.reward[moved]], axis=1).astype(np.float64)
    unique, place = np.unique(content, axis=0, return_inverse=True)
    target[moved] = mdp.num_states + place.ravel()
    return target, [(int(successor), damage, reward) for successor, damage, reward in unique.tolist()]


def _choice_rewards(mdp: MDP, moved: Bools) -> dict[str, Floats]:
    """The rewards of choices, including damage; 0 if these are taken in relays."""
    first = mdp.outcome_ptr[:-1]
    via_relays = np.logical_or.reduceat(moved, first)
    own = {name: np.where(via_relays, 0.0, getattr(mdp, name)[first]) for name in ("damage", "reward")}
    return own | dict(mdp.origin.rewards)


def _states(mdp: MDP, target: Ints, rewards: Floats) -> Iterator[str]:
    carried = _labels_by_state(mdp)
    zeros = _numbers([0.0] * rewards.shape[1])
    words = [_word(mdp.action_name(action)) for action in range(mdp.num_actions)]
    actions, outcomes = mdp.choice_action.tolist(), mdp.outcome_ptr.tolist()
    targets, shares = target.tolist(), mdp.probability.tolist()
    for state, (begin, end) in enumerate(pairwise(mdp.choice_ptr.tolist())):
        lines = [f"state {state} {zeros}{carried.get(state, '')}\n"]
        for choice in range(begin, end):
            lines.append(f"\taction {words[actions[choice]]} {_numbers(rewards[choice].tolist())}\n")
            lines += [f"\t\t{targets[at]} : {shares[at]!r}\n" for at in range(outcomes[choice], outcomes[choice + 1])]
        yield "".join(lines)


def _labels_by_state(mdp: MDP) -> dict[int, str]:
    carried: dict[int, str] = dict.fromkeys(mdp.initial_states.tolist(), " init")
    labels = {"terminal": mdp.is_terminal()} | dict(mdp.labels)
    for name, states in labels.items():
        word = name if re.fullmatch(r"\w+", name) else '"' + name.replace('"', "'") + '"'
        for state in np.flatnonzero(states).tolist():
            carried[state] = f"{carried.get(state, '')} {word}"
    return carried


def _numbers(values: list[float]) -> str:
    return f"[{', '.join(map(repr, values))}]"


def _word(name: str) -> str:
    """A name without spaces, which DRN does not allow; choices without an action are written as by Storm."""
    return NO_LABEL if re.fullmatch(r"choice \d+", name) else re.sub(r"\s", "_", name)
