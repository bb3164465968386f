"""``random_union``: thousands of small random models as one.

A *union* is a disjoint union of models, so one call solves them all.  It is drawn with NumPy, without the model classes
of this package, so that plain twins can use its raw columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.arguments import names_right_word
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DAMAGE_RATES = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0)  # the share of outcomes with damage, per model
TERMINAL_RATES = (0.0, 0.1, 0.3)
ONWARD = (0.0, 0.5, 0.95)  # the share of outcomes to the next state instead of a random one: graphs … chains
REWARDS = tuple(half / 2 for half in range(-4, 5))


class Union(NamedTuple):
    """The outcomes of many models, sorted by choice; terminal states have a self-loop without damage."""

    state: Numbers  # [outcomes]
    action: Numbers
    target: Numbers
    probability: Floats
    reward: Floats
    damage: Numbers
    outcome_ptr: Numbers  # [choices + 1]
    choice_ptr: Numbers  # [states + 1]
    is_terminal: npt.NDArray[np.bool_]  # [states]
    first: Numbers  # [models + 1], offsets of the models' states

    @property
    def num_states(self) -> int:
        """The number of states of all models together."""
        return int(self.first[-1])

    @property
    def columns(self) -> tuple[Any, ...]:
        """The arguments of ``from_transitions``, without the loops of terminal states."""
        kept = ~self.is_terminal[self.state]
        return tuple(column[kept] for column in self[:6])

    @property
    def terminal(self) -> list[int]:
        """The terminal states."""
        return np.flatnonzero(self.is_terminal).tolist()

    @property
    def choice_states(self) -> Numbers:
        """The state of each choice, [choices]."""
        return np.repeat(np.arange(self.num_states), np.diff(self.choice_ptr))

    def build(self, **more: Any) -> MDP:
        """The union as one model; ``more`` is passed to ``from_transitions``."""
        return from_transitions(*self.columns, num_states=self.num_states, terminal=self.terminal, **more)

    def model(self, number: int) -> Union:
        """One of the models, as a union of its own."""
        low, high = int(self.first[number]), int(self.first[number + 1])
        choices = self.choice_ptr[low : high + 1]
        outcomes = self.outcome_ptr[choices[0] : choices[-1] + 1]
        part = slice(int(outcomes[0]), int(outcomes[-1]))
        return Union(
            self.state[part] - low, self.action[part], self.target[part] - low, self.probability[part],
            self.reward[part], self.damage[part], outcomes - outcomes[0], choices - choices[0],
            self.is_terminal[low:high], np.array([0, high - low]),
        )  # fmt: skip


@names_right_word
def random_union(
    rng: np.random.Generator,
    models: int = 1,
    *,
    states: int = 7,
    actions: int = 3,
    outcomes: int = 3,
    damages: Sequence[int] = (1,),
    rewards: Sequence[float] = REWARDS,
) -> Union:
    """``models`` models of 1 … ``states`` states each, whose states have different sets of ``actions``.

    Each model has its own shares of terminal states, of damaging outcomes, and of outcomes that lead to the next state:
    from chains to random graphs.

    Parameters
    ----------
    rng, models
        The random number generator; and the number of models.
    states, actions, outcomes
        The largest numbers of states per model, of actions per state, and of outcomes per choice.
    damages, rewards
        The values to draw from.

    Examples
    --------
    >>> union = random_union(np.random.default_rng(0), 3)
    >>> union.num_states, union.first.size - 1
    (15, 3)
    """
    sizes = rng.integers(1, states + 1, models)
    first = np.append(0, np.cumsum(sizes))
    of_state = np.repeat(np.arange(models), sizes)
    is_terminal = rng.random(first[-1]) < rng.choice(TERMINAL_RATES, models)[of_state]
    offered = rng.random((first[-1], actions)) < 0.6
    offered[~offered.any(axis=1), 0] = True
    offered[is_terminal] = np.arange(actions) == 0
    state, action = np.nonzero(offered)
    number = np.where(is_terminal[state], 1, rng.integers(1, outcomes + 1, state.size))
    choice = np.repeat(np.arange(state.size), number)
    owner = state[choice]
    model = of_state[owner]
    onward = rng.random(choice.size) < rng.choice(ONWARD, models)[model]
    last = first[model + 1] - 1
    target = np.where(onward, np.minimum(owner + 1, last), rng.integers(first[model], last + 1))
    damaging = rng.random(choice.size) < rng.choice(DAMAGE_RATES, models)[model]
    damage = np.where(damaging, rng.choice(damages, choice.size), 0)
    reward = rng.choice(rewards, choice.size)
    ended = is_terminal[owner]
    target[ended], damage[ended], reward[ended] = owner[ended], 0, 0.0
    weight = rng.integers(1, 5, choice.size).astype(np.float64)
    outcome_ptr = np.append(0, np.cumsum(number))
    weight /= np.repeat(np.add.reduceat(weight, outcome_ptr[:-1]), number)
    choice_ptr = np.append(0, np.cumsum(offered.sum(axis=1)))
    parts = owner, action[choice], target, weight, reward, damage, outcome_ptr, choice_ptr, is_terminal, first
    return Union(*parts)
