"""The best mean reward per step in an end component, and its sign: whether staying for ever gains or loses.

For any numbers h, the minimum and the maximum over the states of max over choices of [reward + P h] − h enclose the
best mean.  Value iteration finds good numbers h, and so does the dual of a linear programme.

Where self-loops are hardly ever left, the mean per step is close to 0 whatever happens afterwards.  Its sign does not
depend on the length of each visit, so it is also computed in the component *without self-loops*, in which a choice is
repeated until it leads elsewhere.  Signs are proved: the enclosures include all rounding errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.programme.flow import Flow, end_components, without_loops
from almostsure.plan.programme.highs import FEASIBLE, highs, is_optimal

ROUNDS = 300  # of value iteration, before a linear programme is solved instead
EPSILON = float(np.finfo(np.float64).eps)


def gainful(flow: Flow) -> Bools:
    """A mask of the states in end components without cost whose best mean reward is clearly positive, [states]."""
    result = np.zeros(flow.num_states, np.bool_)
    for choices in gaining_components(flow):
        if _gains(flow, choices):
            result[flow.owner[choices]] = True
    return result


def gaining_components(flow: Flow) -> Iterator[Bools]:
    """The choices, as a mask, of each end component without cost in which some reward is above 0."""
    label, inner = end_components(flow, flow.cost == 0)
    for number in np.unique(label[flow.owner[inner & (flow.reward > 0)]]).tolist():
        yield inner & (label[flow.owner] == number)


def _gains(flow: Flow, choices: Bools) -> bool:
    """Whether the best mean reward per step is above the tolerance of HiGHS.

    A few rounds of value iteration usually decide; if not, the linear programme does.
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
    """1 if some policy in an end component has a positive mean reward, −1 if all have a negative one, 0 if unknown.

    ``terms`` is the largest number of terms in the sum of a probability or a reward.  ``size`` is the sum of absolute
    terms in each reward, to which its rounding error is proportional; by default the reward's own size.
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
    return sign if (component.reward + error < 0)[stuck].all() else max(sign, 0)  # some self-loop may not lose


def surely_gains(flow: Flow, choices: Bools, terms: int, potential: Floats) -> bool:
    """Whether value iteration from a potential, [states], proves a positive mean reward in a component."""
    component = _Component.of(flow, choices, np.abs(flow.reward))
    return component.sign(potential[np.unique(flow.owner[choices])], terms) > 0


def _units(terms: int) -> float:
    """The rounding error of a sum over sums of this many terms, relative to its absolute terms."""
    return EPSILON * (4 * terms + 8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Component:
    """An end component of a flow problem, with states numbered from 0."""

    owner: Ints  # [choices], ordered
    moves: Any  # CSR [choices, states]
    reward: Floats  # [choices]
    size: Floats  # [choices], to which the rewards' errors are proportional

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
        """The component in which each choice is repeated until it leads elsewhere, and a mask of those that never do.

        The latter are left out.
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
        """The sign of the best mean, by value iteration from ``h``; 0 if unknown."""
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
            h = h + best / 2  # half a step, so that periodic components converge
            h -= h.min()

    def programme(self) -> tuple[float, Floats]:
        """The best mean by a linear programme over circulations (NaN if HiGHS fails), and the dual h.

        The dual satisfies h ≥ reward − mean + P h.
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
    """The best mean reward per step in an end component (NaN: not found), and the dual h for its states, [states]."""
    component = _Component.of(flow, choices, np.abs(flow.reward))
    potential = np.zeros(flow.num_states)
    mean, potential[np.unique(flow.owner[choices])] = component.programme()
    return mean, potential
