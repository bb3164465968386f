"""Thousands of random models, and slow reference solutions for comparison.

Testing one small model is mostly overhead, so thousands of them are combined into a *crowd*: one model with
disconnected parts.  Engines solve it in one run; ``Crowd.model`` extracts a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from almostsure import INFINITE, MDP, MinimalBudget
from almostsure.budget.minimal import NO_CAP
from almostsure.budget.reference import budget_operator
from almostsure.testing import random_union
from almostsure.testing.unions import Union


@dataclass(frozen=True, eq=False)
class Crowd:
    union: Union

    @cached_property
    def mdp(self) -> MDP:
        return self.union.build()

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.union.first)

    @cached_property
    def choice_states(self) -> np.ndarray:
        return self.union.choice_states

    def model(self, number: int) -> MDP:
        return self.union.model(number).build()

    def part(self, number: int, values: np.ndarray) -> np.ndarray:
        """The part of an array of the crowd's states or choices that belongs to one of its models."""
        begin, end = self.union.first[number : number + 2]
        if values.size == self.mdp.num_choices:
            begin, end = self.union.choice_ptr[[begin, end]]
        return values[begin:end]


def random_crowd(
    count: int, seed: int, *, max_damage: int = 1, max_states: int = 7, max_choices: int = 3, max_outcomes: int = 3
) -> Crowd:
    rng, damages = np.random.default_rng([seed, count, max_damage]), range(1, max_damage + 1)
    return Crowd(
        random_union(rng, count, states=max_states, actions=max_choices, outcomes=max_outcomes, damages=damages)
    )


def by_algorithm_1(crowd: Crowd):
    """Algorithm 1 on all models at once: values above |S| · max d, with the S *of the own model*, are ∞."""
    most = crowd.sizes * max(int(crowd.mdp.damage.max()), 1)
    bound = np.repeat(most, crowd.sizes)[crowd.choice_states]
    k = np.zeros(crowd.mdp.num_choices, np.int64)
    while True:
        following = budget_operator(crowd.mdp, k)
        following[following > bound] = INFINITE
        if np.array_equal(following, k):
            return k
        k = following


def budget_of(mdp: MDP, answer) -> MinimalBudget:
    """The answer of an engine as a MinimalBudget."""
    cap = None if answer.cap == NO_CAP else answer.cap
    return MinimalBudget(mdp=mdp, of_state=answer.of_state, of_choice=answer.of_choice, rank=answer.rank, cap=cap)


@pytest.fixture(scope="session")
def crowds():
    """``crowds(count, seed, max_damage=…)``: a crowd of random models."""
    return random_crowd


@pytest.fixture(scope="session")
def algorithm_1_of_crowd():
    """The least fixed point of T, by iterating it, on all models of a crowd."""
    return by_algorithm_1


@pytest.fixture(scope="session")
def as_budget():
    """Converts an engine's answer to a MinimalBudget."""
    return budget_of
