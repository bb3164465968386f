"""Random models by the thousand, and the slow truths that engines are compared with.

A test of one small model is mostly overhead, so thousands of them are put side by side into one *crowd*: a single
model whose parts know nothing of each other.  Engines solve it in one go; ``Crowd.model`` takes one out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from almostsure import INFINITE, MDP, MinimalBudget, from_transitions
from almostsure.budget.minimal import NO_CAP
from almostsure.budget.reference import budget_operator

DAMAGE_RATES = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0)  # of whole models: nothing damaging … everything damaging
TERMINAL_RATES = (0.0, 0.1, 0.4)
NEARBY = (0.0, 0.5, 0.95)  # how often an outcome leads to the next state instead of anywhere: random … chains


@dataclass(frozen=True, kw_only=True, eq=False)
class Crowd:
    mdp: MDP
    sizes: np.ndarray  # states of each model
    largest: np.ndarray  # the largest damage that each may have

    @cached_property
    def first(self) -> np.ndarray:
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def choice_states(self) -> np.ndarray:
        return self.mdp.choice_states()

    def model(self, number: int) -> MDP:
        mdp, begin = self.mdp, int(self.first[number])
        end = begin + int(self.sizes[number])
        choices = slice(int(mdp.choice_ptr[begin]), int(mdp.choice_ptr[end]))
        outcomes = slice(int(mdp.outcome_ptr[choices.start]), int(mdp.outcome_ptr[choices.stop]))
        per_choice = np.diff(mdp.outcome_ptr[choices.start : choices.stop + 1])
        return from_transitions(
            np.repeat(self.choice_states[choices] - begin, per_choice),
            np.repeat(mdp.choice_action[choices], per_choice),
            mdp.successor[outcomes] - begin,
            mdp.probability[outcomes],
            mdp.reward[outcomes],
            mdp.damage[outcomes],
            num_states=end - begin,
        )

    def part(self, number: int, values: np.ndarray) -> np.ndarray:
        """What an array of the crowd's states or choices says about one of its models."""
        begin = int(self.first[number])
        end = begin + int(self.sizes[number])
        if values.size == self.mdp.num_choices:
            begin, end = int(self.mdp.choice_ptr[begin]), int(self.mdp.choice_ptr[end])
        return values[begin:end]


def random_crowd(
    count: int, seed: int, *, max_damage: int = 1, max_states: int = 7, max_choices: int = 3, max_outcomes: int = 3
) -> Crowd:
    rng = np.random.default_rng([seed, count, max_damage])
    sizes = rng.integers(1, max_states + 1, count)
    largest = rng.integers(1, max_damage + 1, count)
    of_state = np.repeat(np.arange(count), sizes)
    number = int(sizes.sum())
    first = (np.cumsum(sizes) - sizes)[of_state]

    def per_model(values):
        return rng.choice(values, count)[of_state]

    is_end = rng.random(number) < per_model(TERMINAL_RATES)
    living = np.flatnonzero(~is_end)
    state = np.repeat(living, rng.integers(1, max_choices + 1, living.size))
    action = np.arange(state.size) - np.searchsorted(state, state)
    per_choice = rng.integers(1, max_outcomes + 1, state.size)
    s, a = np.repeat(state, per_choice), np.repeat(action, per_choice)
    t = first[s] + rng.integers(0, sizes[of_state[s]])
    follows = rng.random(s.size) < per_model(NEARBY)[s]
    t = np.where(follows, first[s] + (s - first[s] + 1) % sizes[of_state[s]], t)
    hurts = rng.random(s.size) < per_model(DAMAGE_RATES)[s]
    d = np.where(hurts, rng.integers(1, largest[of_state[s]] + 1), 0)
    mdp = from_transitions(
        s, a, t, np.ones(s.size), rng.integers(0, 2, s.size), d,
        num_states=number, terminal=np.flatnonzero(is_end), normalise=True,
    )  # fmt: skip
    return Crowd(mdp=mdp, sizes=sizes, largest=largest)


def by_algorithm_1(crowd: Crowd):
    """Algorithm 1 on all models at once: what exceeds |S| · max d *of its own model* is ∞."""
    bound = np.repeat(crowd.sizes * crowd.largest, crowd.sizes)[crowd.choice_states]
    k = np.zeros(crowd.mdp.num_choices, np.int64)
    while True:
        following = budget_operator(crowd.mdp, k)
        following[following > bound] = INFINITE
        if np.array_equal(following, k):
            return k
        k = following


def budget_of(mdp: MDP, answer) -> MinimalBudget:
    """The answer of an engine, as users get it."""
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
    """Turns an engine's answer into a Budget."""
    return budget_of
