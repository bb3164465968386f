"""Thousands of small random models as one, and plain answers to what is asked about them.

A *union* is made of models that do not touch each other, so that one call solves them all.  The twins sweep the
definitions over the raw columns, with NumPy and nothing of the package: T from 0 for minimal budgets and horizons,
least probabilities of overspending from below.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NEVER = 1 << 40  # stands for ∞ in twins


class Union(NamedTuple):
    """The outcomes of many models, sorted by choice; terminal states have a harmless loop."""

    state: Ints  # [outcomes]
    action: Ints
    target: Ints
    probability: Floats
    reward: Floats
    damage: Ints
    outcome_ptr: Ints  # [choices + 1]
    choice_ptr: Ints  # [states + 1]
    is_terminal: npt.NDArray[np.bool_]  # [states]
    first: Ints  # [models + 1], offsets of the models' states

    @property
    def num_states(self) -> int:
        return int(self.first[-1])

    @property
    def columns(self) -> tuple[Any, ...]:
        """What ``from_transitions`` takes, without the loops of terminal states."""
        kept = ~self.is_terminal[self.state]
        return tuple(column[kept] for column in self[:6])

    @property
    def terminal(self) -> list[int]:
        return np.flatnonzero(self.is_terminal).tolist()

    @property
    def choice_states(self) -> Ints:
        return np.repeat(np.arange(self.num_states), np.diff(self.choice_ptr))

    def model(self, number: int) -> Union:
        """One of the models, alone."""
        low, high = int(self.first[number]), int(self.first[number + 1])
        choices = self.choice_ptr[low : high + 1]
        outcomes = self.outcome_ptr[choices[0] : choices[-1] + 1]
        part = slice(int(outcomes[0]), int(outcomes[-1]))
        return Union(
            self.state[part] - low, self.action[part], self.target[part] - low, self.probability[part],
            self.reward[part], self.damage[part], outcomes - outcomes[0], choices - choices[0],
            self.is_terminal[low:high], np.array([0, high - low]),
        )  # fmt: skip


def random_union(rng: np.random.Generator, models: int, *, states: int, damages: list[int]) -> Union:
    """``models`` models of 1 … ``states`` states each.

    Each model has its own share of terminal states, of harmful outcomes, and of steps that lead one state on: from
    lines, where every unit of damage is counted, to graphs in which one gets from anywhere to anywhere.
    """
    sizes = rng.integers(1, states + 1, models)
    first = np.append(0, np.cumsum(sizes))
    of_state = np.repeat(np.arange(models), sizes)
    is_terminal = rng.random(first[-1]) < (rng.random(models) * 0.3)[of_state]
    offered = rng.random((first[-1], 3)) < 0.6
    offered[~offered.any(axis=1), 0] = True
    offered[is_terminal] = [True, False, False]
    state, action = np.nonzero(offered)
    number = np.where(is_terminal[state], 1, rng.integers(1, 4, state.size))
    choice = np.repeat(np.arange(state.size), number)
    owner = state[choice]
    model = of_state[owner]
    onward = rng.random(choice.size) < rng.random(models)[model]
    last = first[model + 1] - 1
    target = np.where(onward, np.minimum(owner + 1, last), rng.integers(first[model], last + 1))
    hurts = rng.random(choice.size) < (rng.random(models) ** 2)[model]
    damage = np.where(hurts, rng.choice(damages, choice.size), 0)
    reward = rng.integers(-4, 5, choice.size) / 2
    ended = is_terminal[owner]
    target[ended], damage[ended], reward[ended] = owner[ended], 0, 0.0
    weight = rng.integers(1, 5, choice.size).astype(np.float64)
    outcome_ptr = np.append(0, np.cumsum(number))
    weight /= np.repeat(np.add.reduceat(weight, outcome_ptr[:-1]), number)
    choice_ptr = np.append(0, np.cumsum(offered.sum(axis=1)))
    return Union(
        owner, action[choice], target, weight, reward, damage, outcome_ptr, choice_ptr, is_terminal, first
    )  # fmt: skip


def sweep(union: Union, values: Ints) -> tuple[Ints, Ints]:
    """(T k) of each choice, and the least of them at each state."""
    of_choice = np.maximum.reduceat(union.damage + values[union.target], union.outcome_ptr[:-1])
    return of_choice, np.minimum.reduceat(of_choice, union.choice_ptr[:-1])


def minimal_budgets(union: Union) -> tuple[Ints, Ints]:
    """k* of states and choices: T is swept from 0 until nothing changes.

    Whoever needs a finite budget takes damage at most once at each state of its model, or could be made to take it
    again and again: what exceeds the sum of the states' largest damages is ∞.
    """
    of_choice = np.maximum.reduceat(union.damage, union.outcome_ptr[:-1])
    most = np.maximum.reduceat(of_choice, union.choice_ptr[:-1])
    bound = np.repeat(np.add.reduceat(most, union.first[:-1]), np.diff(union.first))
    values = np.zeros(union.num_states, np.int64)
    while True:
        of_choice, swept = sweep(union, values)
        swept[swept > bound] = NEVER
        if np.array_equal(swept, values):
            return values, np.minimum(of_choice, NEVER)
        values = swept


def forced_within(union: Union, steps: int) -> list[Ints]:
    """The least damage that can be forced within 0, 1, …, ``steps`` steps, for each state."""
    values = [np.zeros(union.num_states, np.int64)]
    for _ in range(steps):
        values.append(sweep(union, values[-1])[1])
    return values


def least_risks(union: Union, budget: int, sweeps: int) -> tuple[Floats, bool]:
    """A lower bound of the least probability of overspending, [budget + 1, states], and whether it is close."""
    risk = np.zeros((budget + 2, union.num_states))
    risk[-1] = 1.0  # the row of whoever has overspent: −1
    left = np.maximum(np.arange(budget + 1)[:, None] - union.damage, -1)
    for _ in range(sweeps):
        of_choice = np.add.reduceat(union.probability * risk[left, union.target], union.outcome_ptr[:-1], axis=1)
        swept = np.minimum.reduceat(of_choice, union.choice_ptr[:-1], axis=1)
        change = float(np.abs(swept - risk[:-1]).max())
        risk[:-1] = swept
        if change < 1e-13:
            return risk[:-1], True
    return risk[:-1], False
