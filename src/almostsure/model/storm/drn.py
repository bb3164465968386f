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

from almostsure.model.arrays import Floats
from almostsure.model.mdp import MDP
from almostsure.model.umb.relay import with_uniform_choices

NO_LABEL = "__NOLABEL__"  # written by Storm for a choice without an action
RELAY = "relay"


def write_drn(mdp: MDP, file: BinaryIO) -> None:
    """Write a model with its damage, reward, labels and the reward structures of its origin."""
    words = [*(_word(mdp.action_name(action)) for action in range(mdp.num_actions)), RELAY]
    carried, before_relays, mdp = _labels_by_state(mdp), mdp.num_states, with_uniform_choices(mdp)
    carried |= dict.fromkeys(range(before_relays, mdp.num_states), f" {RELAY}")
    first = mdp.outcome_ptr[:-1]
    rewards = {"damage": mdp.damage[first].astype(np.float64), "reward": mdp.reward[first], **mdp.origin.rewards}
    header = (
        f"@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\n{' '.join(map(_word, rewards))}\n"
        f"@nr_states\n{mdp.num_states}\n@nr_choices\n{mdp.num_choices}\n@model\n"
    )
    file.write(header.encode())
    table = np.stack(list(rewards.values()), axis=1)
    file.writelines(line.encode() for line in _states(mdp, carried, words, table))


def _states(mdp: MDP, carried: dict[int, str], words: list[str], rewards: Floats) -> Iterator[str]:
    zeros = _numbers([0.0] * rewards.shape[1])
    actions, outcomes = mdp.choice_action.tolist(), mdp.outcome_ptr.tolist()
    targets, shares = mdp.successor.tolist(), mdp.probability.tolist()
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
