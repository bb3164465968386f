"""Policies as schedulers of Storm, in its JSON form.

A scheduler lists, for each state ``s`` (its variables, or its number), the choices ``c``: each with its number in the
model, the name of its action and its probability.  A policy that depends on the remaining budget needs memory: ``m`` is
the remaining budget, and ``memory-updates`` has the remaining budget after each outcome.  A run begins with the whole
budget of the policy, the largest ``m`` of the file; the format cannot express that.  Numbers of states and choices are
those of :func:`almostsure.model.storm.write.to_storm`, including relay states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from os import PathLike
from typing import Any

import numpy as np

from almostsure.errors import PolicyError
from almostsure.files import atomic_write
from almostsure.model.mdp import MDP
from almostsure.model.umb.relay import with_relays
from almostsure.policy.policy import Policy


def save_scheduler(policy: Policy, path: str | PathLike[str]) -> None:
    """Write a policy as a scheduler of Storm, atomically.

    Raises
    ------
    PolicyError
        If the policy comes to rest at random, or has a horizon, which a scheduler cannot express.
    """
    if policy.rest is not None:
        raise PolicyError("a policy that comes to rest at random cannot be written as a scheduler of Storm.")
    if policy.horizon is not None:
        raise PolicyError(
            "a scheduler of Storm does not count steps. Solve product(mdp, Steps(T)), and save the scheduler of that."
        )
    with atomic_write(path) as file:
        for at, entry in enumerate(_entries(policy, with_relays(policy.mdp))):
            file.write(b"[\n" if at == 0 else b",\n")
            file.write(json.dumps(entry, ensure_ascii=False).encode())
        file.write(b"\n]\n")


def _entries(policy: Policy, model: MDP) -> Iterator[dict[str, Any]]:
    """The entries of all states and remaining budgets; none where the policy is undefined."""
    shown = [_state(model, state) for state in range(model.num_states)]
    budgets: list[int | None] = [None] if policy.budget is None else list(range(policy.budget + 1))
    relays = np.ones(model.num_choices - policy.mdp.num_choices)
    states = model.choice_states()
    for remaining in budgets:
        memory = {} if remaining is None else {"m": remaining}
        weights = np.append(policy.weights(policy.layer(remaining)), relays)
        played = np.flatnonzero(weights > 0)
        for state, choices in groupby(played.tolist(), key=lambda choice: int(states[choice])):
            listed = [_choice(model, choice, float(weights[choice]), remaining, shown) for choice in choices]
            yield {"s": shown[state], **memory, "c": listed}


def _choice(model: MDP, choice: int, probability: float, remaining: int | None, shown: list[Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "index": choice,
        "labels": [model.action_name(int(model.choice_action[choice]))],
        "prob": probability,
    }
    if remaining is not None:
        outcomes = range(int(model.outcome_ptr[choice]), int(model.outcome_ptr[choice + 1]))
        entry["memory-updates"] = [
            {"s'": shown[int(model.successor[at])], "m'": max(remaining - int(model.damage[at]), 0)} for at in outcomes
        ]
    return entry


def _state(model: MDP, state: int) -> Any:
    """A state in the form of Storm: the values of its variables, or its number."""
    return {name: values[state].item() for name, values in model.origin.variables.items()} or state
