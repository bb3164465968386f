"""The best mean reward per step in an end component: whether going on there for ever gains or loses.

For any numbers h, the least and the largest of max over choices of [reward + P h] − h, over the states, enclose the
best mean.  Value iteration makes good numbers h, and so does the dual of a linear programme.

Where a state is hardly ever left, the mean per step is next to nothing, whatever happens after leaving.  Its sign does
not depend on how long each visit takes, so it is also looked for in the component *without loops*, where a choice takes
as many steps as it needs to move on.  What is said of a sign is proved: all rounding is inside the enclosure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.programme.flow import Flow, end_components, without_loops
from almostsure.plan.programme.highs import FEASIBLE, highs, is_optimal

ROUNDS = 300  # of value iteration, before a programme is solved instead
EPSILON = float(np.finfo(np.float64).eps)


def gainful(flow: Flow) -> Bools:
    """The states of the end components without cost whose mean reward can be clearly positive, [states]."""
    result = np.zeros(flow.num_states, np.bool_)
    for choices in gaining_components(flow):
        if _gains(flow, choices):
            result[flow.owner[choices]] = True
    return result


def gaining_components(flow: Flow) -> Iterator[Bools]:
    """The choices of each end component without cost in which some reward is above 0."""
    label, inner = end_components(flow, flow.cost == 0)
    for number in np.unique(label[flow.owner[inner & (flow.reward > 0)]]).tolist():
        yield inner & (label[flow.owner] == number)


def _gains(flow: Flow, choices: Bools) -> bool:
    """Whether the best mean reward per step is above what HiGHS may miss it by.

    A few rounds of value iteration mostly decide; the programme is for those so close that they don't.
    """
    component = _Component.of(flow, choices, np.abs(flow.reward))
    if (component.reward >= 0).all():
        return True
    least = FEASIBLE * float(component.size.max())
    terms = int(np.diff(component.moves.indptr).max())
    for low, high in component.enclosures(np.zeros(component.num_states), terms):
        if low > least or high <= least:
            return low > least
    return component.programme()[0] > least


def gain_sign(flow: Flow, choices: Bools, terms: int, size: Floats | None = None) -> int:
    """1 if some policy gains for ever among choices of one end component, −1 if all lose, 0 if that is not known.

    ``terms`` is the most numbers that a probability or a reward was added up from, and ``size`` what rewards were
    computed from, where that is larger than they are: their error is in proportion.
    """
    component = _Component.of(flow, choices, np.abs(flow.reward) if size is None else size)
    error = _units(terms) * component.size
    if (component.reward + error < 0).all():
        return -1
    moving, stuck = component.without_loops()
    if (component.reward > error)[stuck].any():
        return 1
    if stuck.all():
        return 0
    zero = np.zeros(component.num_states)
    sign = component.sign(zero, terms) or moving.sign(zero, terms) or moving.sign(moving.programme()[1], terms)
    return sign if (component.reward + error < 0)[stuck].all() else max(sign, 0)  # one that only loops does not lose


def surely_gains(flow: Flow, choices: Bools, terms: int, potential: Floats) -> bool:
    """Whether value iteration from a potential, [states], proves that some policy gains for ever in a component."""
    component = _Component.of(flow, choices, np.abs(flow.reward))
    return component.sign(potential[np.unique(flow.owner[choices])], terms) > 0


def _units(terms: int) -> float:
    """What rounding leaves uncertain of a sum over sums, as a share of its size."""
    return EPSILON * (4 * terms + 8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Component:
    """An end component of a flow problem, on its own."""

    owner: Ints  # [choices], ordered
    moves: Any  # CSR [choices, states]
    reward: Floats  # [choices]
    size: Floats  # [choices], what the rewards' errors are in proportion to

    @staticmethod
    def of(flow: Flow, choices: Bools, size: Floats) -> _Component:
        part = np.flatnonzero(choices)
        states, owner = np.unique(flow.owner[part], return_inverse=True)
        moves = flow.moves[part][:, states]
        return _Component(owner=owner, moves=moves, reward=flow.reward[part], size=size[part])

    @property
    def num_states(self) -> int:
        return int(self.moves.shape[1])

    def without_loops(self) -> tuple[_Component, Bools]:
        """The component in which each choice is repeated until it leads elsewhere, and which choices never do.

        Those are left out.
        """
        moves, leaving = without_loops(self.owner, self.moves)
        kept, leaving = leaving > 0, leaving[leaving > 0]
        moving = _Component(
            owner=self.owner[kept],
            moves=moves[kept],
            reward=self.reward[kept] / leaving,
            size=self.size[kept] / leaving,
        )
        return moving, ~kept

    def sign(self, h: Floats, terms: int) -> int:
        """Of the best mean, by value iteration from ``h``; 0 if it is not known."""
        for low, high in self.enclosures(h, terms):
            if low > 0 or high < 0:
                return 1 if low > 0 else -1
        return 0

    def enclosures(self, h: Floats, terms: int) -> Iterator[tuple[float, float]]:
        """Ever closer bounds of the best mean, rounding included."""
        first = np.searchsorted(self.owner, np.arange(self.num_states))
        units = _units(terms)
        for _ in range(ROUNDS):
            change = self.reward + self.moves @ h - h[self.owner]
            error = units * (self.size + self.moves @ np.abs(h) + np.abs(h[self.owner]))
            yield float(np.maximum.reduceat(change - error, first).min()), float((change + error).max())
            best = np.maximum.reduceat(change, first)
            if best.max() - best.min() <= 4 * error.max():
                return
            h = h + best / 2  # half a step, so that it does not go round in circles
            h -= h.min()

    def programme(self) -> tuple[float, Floats]:
        """The best mean, as a programme over circulations; and its dual h, with h ≥ reward − mean + P h.

        The mean is NaN if HiGHS does not find it.
        """
        scale = float(np.abs(self.reward).max()) or 1.0
        right = np.append(np.zeros(self.num_states), 1.0)
        answer = highs(self.owner, self.moves, np.ones(self.owner.size), self.reward / scale, right, right)
        answer.run()
        if not is_optimal(answer):
            return np.nan, np.zeros(self.num_states)
        mean = scale * float(answer.getInfo().objective_function_value)
        return mean, scale * np.array(answer.getSolution().row_dual)[:-1]


def mean_gain(flow: Flow, choices: Bools) -> tuple[float, Floats]:
    """The best mean reward per step among choices of one end component, and numbers h for its states, [states]."""
    component = _Component.of(flow, choices, np.abs(flow.reward))
    potential = np.zeros(flow.num_states)
    mean, potential[np.unique(flow.owner[choices])] = component.programme()
    return mean, potential
