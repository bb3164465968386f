"""Relay states, for programs that allow one outcome per choice and successor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings

from almostsure import MDP
from almostsure.model.files import load, save
from almostsure.model.umb.relay import with_relays

from .members import (
    example,
    models,
    read_members,
)


def budgets(mdp: MDP, sweeps: int = 60) -> np.ndarray[Any, Any]:
    """k* of the states by value iteration, up to a bound that no finite value reaches."""
    bound = 256 * mdp.num_states
    of_state = np.zeros(mdp.num_states, np.int64)
    for _ in range(sweeps * bound):
        worth = mdp.damage + of_state[mdp.successor]
        of_choice = np.maximum.reduceat(worth, mdp.outcome_ptr[:-1])
        new = np.minimum(np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]), bound)
        if (new == of_state).all():
            break
        of_state = new
    return of_state


@settings(max_examples=60, deadline=None)
@given(mdp=models())
def test_relays_separate_equal_successors_and_keep_the_budgets(mdp: MDP) -> None:
    split = with_relays(mdp)
    choices = split.outcome_choices().tolist()
    pairs = list(zip(choices, split.successor.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    n = mdp.num_states
    for relay in range(n, split.num_states):
        ((successor, p, r, d),) = split.outcomes(relay, split.num_actions - 1)
        assert (successor < n, p, r, d) == (True, 1, 0, 0)
    old = budgets(mdp)
    new = np.minimum(budgets(split)[:n], 256 * n)
    np.testing.assert_array_equal(new, old)
    if split.num_states == n:
        assert split is mdp


def test_relays_have_a_label_in_files(path: Path) -> None:
    save(example(), path, relay=True)
    bits = read_members(path)["annotations/aps/relay/states/values.bin"]
    assert bits[0] == 0b1000
    mdp = load(path)
    assert mdp.num_states == 4
    assert mdp.state_names is not None
    assert mdp.state_names[3] == "relay to "
    assert mdp.action_names == ("stay", "go", "ünused", "leap", "relay")
    assert mdp.outcomes("start", "go") == [(1, 0.25, 2.0, 0), (3, 0.75, -3.0, 3)]
    assert mdp.outcomes(3, "relay") == [(1, 1.0, 0.0, 0)]
    assert mdp.layout is not None
    assert mdp.layout.place(3) is None
