"""The data on single states: minimal budgets, choices, outcomes, policy, values and witnesses.

A report of a small model has these details for every state.  For a large model it has them for a sample: initial
states, states of recorded episodes, some states of every minimal budget, and the states on their witnesses, so that
every witness can be followed to its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from almostsure.budget.explain import exchange
from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.errors import CertificateError
from almostsure.model.arrays import ptr_of, spans
from almostsure.model.mdp import MDP, Ints
from almostsure.policy.play import likeliest_run
from almostsure.report.packing import pack
from almostsure.report.study import SAME, Study

ALL_STATES = 4_000  # models with at most this many states have details for all of them
MOST_LAYERS = 33  # remaining budgets with policy and values
PER_LEVEL = 6  # sampled states for each minimal budget
MOST_LEVELS = 60
MOST_CHOICES = 40_000  # of all states with details together
NAME_LENGTH = 200  # longer names are cut


def shown_layers(study: Study) -> list[int]:
    """The remaining budgets on the slider: all, or a selection with the important ones."""
    top, budget = highest(study), study.budget
    if top < MOST_LAYERS:
        return sorted({*range(top + 1), budget})
    important = {budget, min(study.least, top), max(budget - 1, 0)}
    return sorted(important.union(round(x) for x in np.linspace(0, top, MOST_LAYERS - 4)))


def highest(study: Study) -> int:
    """The largest budget on the slider: the largest solved budget, or the largest finite minimal budget."""
    needs = study.minimal.of_state
    finite = needs[needs < INFINITE]
    return max(study.by_budget.curve.size - 1, int(finite.max()) if finite.size else 0)


def described_states(study: Study, visited: Iterable[int]) -> Ints:
    """The states with details, ascending."""
    mdp, policy = study.mdp, study.plans[0].policy
    if mdp.num_states <= ALL_STATES and mdp.num_choices <= MOST_CHOICES:
        return np.arange(mdp.num_states)
    chosen = dict.fromkeys(sum(sampled_levels(study.minimal), mdp.initial_states[:PER_LEVEL].tolist()))
    route = [] if policy is None else likeliest_run(policy, int(mdp.initial_states[0]), study.budget)
    chosen |= dict.fromkeys([*dict.fromkeys(state for state, _, _ in route), *visited][: ALL_STATES // 4])
    waiting = list(chosen)
    while waiting and len(chosen) < ALL_STATES:  # the states on witnesses
        ahead = _step(study.minimal, waiting.pop(), None)[1]
        if ahead not in chosen:
            chosen[ahead] = None
            waiting.append(ahead)
    kept = np.array(list(chosen), np.int64)
    width = np.cumsum(np.diff(mdp.choice_ptr)[kept])
    return np.sort(kept[: max(1, int(np.searchsorted(width, MOST_CHOICES)))])


def sampled_levels(minimal: MinimalBudget) -> list[list[int]]:
    """Some states of each minimal budget, as examples."""
    levels = np.unique(minimal.of_state)
    shown = np.unique(np.linspace(0, levels.size - 1, min(levels.size, MOST_LEVELS)).round().astype(int))
    return [np.flatnonzero(minimal.of_state == level)[:PER_LEVEL].tolist() for level in levels[shown]]


# ---------------------------------------------------------------------- their data


def state_data(study: Study, states: Ints, layers: list[int]) -> dict[str, Any]:
    """The details of ``states``, which the page shows when one of them is selected."""
    mdp, minimal = study.mdp, study.minimal
    choices, owner = spans(mdp.choice_ptr, states)
    outcomes, _ = spans(mdp.outcome_ptr, choices)
    return {
        "ids": None if states.size == mdp.num_states else pack(states),
        "count": int(states.size),
        "names": None if mdp.state_names is None else [cut(mdp.state_name(int(s))) for s in states],
        "need": pack(minimal.of_state[states]),
        "terminal": pack(mdp.is_terminal()[states]),
        "choicePtr": pack(ptr_of(np.diff(mdp.choice_ptr)[states])),
        "action": pack(mdp.choice_action[choices]),
        "choiceNeed": pack(minimal.of_choice[choices]),
        "outcomePtr": pack(ptr_of(np.diff(mdp.outcome_ptr)[choices])),
        "successor": pack(mdp.successor[outcomes]),
        "probability": pack(mdp.probability[outcomes]),
        "reward": pack(mdp.reward[outcomes]),
        "damage": pack(mdp.damage[outcomes]),
        **_witnesses(minimal, states, choices, states[owner]),
        **_policy(study, states, layers),
    }


def cut(name: str) -> str:
    """A name, shortened to ``NAME_LENGTH`` characters."""
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"


def _witnesses(minimal: MinimalBudget, states: Ints, choices: Ints, owners: Ints) -> dict[str, Any]:
    """The next step of the witness of each state and of each choice; the page follows them like ``budget.explain``."""
    of_states = np.array([_step(minimal, int(s), None) for s in states])
    of_choices = np.array([_step(minimal, int(s), int(c)) for s, c in zip(owners, choices, strict=True)])
    return {
        "witness": [pack(column) for column in of_states.T],  # action, next state, damage
        "choiceWitness": [pack(column) for column in of_choices[:, 1:].T],  # next state, damage
    }


def _step(minimal: MinimalBudget, state: int, choice: int | None) -> tuple[int, int, int]:
    if choice is not None or minimal.of_state[state] > 0:  # otherwise no damage can be forced
        with suppress(CertificateError):  # minimal budgets with a broken certificate have no witnesses
            step = exchange(minimal, state, choice)
            return step.action, step.next_state, step.damage
    return int(minimal.mdp.actions(state)[0]), state, 0


def _policy(study: Study, states: Ints, layers: list[int]) -> dict[str, Any]:
    """The assured policy and the values, one row per layer.

    A choice is given by its position among the state's choices, from 1 on; 0 means none.
    """
    solution = study.by_budget.solution
    if solution is None or solution.layers is None:
        return {"play": None, "value": None}
    solved = np.array([layer for layer in layers if layer <= study.by_budget.solved])
    found = solution.layers
    choice = found.choice[np.ix_(solved, states)].astype(np.int64)
    position = np.where(choice < 0, 0, choice - study.mdp.choice_ptr[states] + 1)
    with np.errstate(invalid="ignore"):
        lower, upper = (bound[np.ix_(solved, states)] for bound in (found.lower, found.upper))
        value = np.where(lower == upper, lower, (lower + upper) / 2)
        value[(lower < 0) & (upper > 0) & (upper - lower < SAME)] = 0.0  # within the bounds, without rounding errors
    return {"play": pack(position), "value": pack(value)}


def arrival_damage(mdp: MDP) -> Ints:
    """The largest damage of a step into each state."""
    result = np.zeros(mdp.num_states, np.uint8)
    outcomes = np.flatnonzero(mdp.damage)
    np.maximum.at(result, mdp.successor[outcomes], mdp.damage[outcomes])
    return result
