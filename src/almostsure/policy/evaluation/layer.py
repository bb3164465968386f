"""One layer of an evaluation: its equations and values, the flow of mass, and the drift of returns."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from almostsure.model.arrays import ascending
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.policy.evaluation.chain import PolicyMoves, TransientBlock, add_up
from almostsure.policy.evaluation.linear import EPS, Leaking, Values, together
from almostsure.policy.evaluation.wide import LOST, TINY, UP, Groups, Wide, add, multiply, put, wide

# The columns of the values of states; those with a discount are only solved if there is one.
RETURN, DAMAGE, STEPS, ENDS, ENDLESS, DISCOUNTED_RETURN, DISCOUNTED_DAMAGE, COLUMNS = range(8)
EXACT = 40  # the drift of classes with up to this many states is computed in fractions, if floats cannot decide it


class Number(NamedTuple):
    """A number, and a bound on its error."""

    value: float
    error: float


class Layer:
    """A layer with its equations and its values."""

    def __init__(self, mdp: MDP, moves: PolicyMoves, stays: Bools, discount: float) -> None:
        self.moves, self.stays = moves, stays
        self.block = TransientBlock(moves, stays)
        self.systems = [(self.block, slice(0, DISCOUNTED_RETURN), 1.0)]  # with the columns that they are for
        if discount < 1:
            self.systems.append(
                (TransientBlock(moves, stays, discount=discount), slice(DISCOUNTED_RETURN, COLUMNS), discount)
            )
        closed, label = ~self.block.transient, self.block.label
        damaging = np.zeros(label.max() + 1, np.bool_)
        damaging[label[moves.row[stays & (moves.damage > 0)]]] = True
        self.damaging = closed & damaging[label]  # recurrent, with damage
        self.has_endless_damage = bool(self.damaging.any())
        self.goes_on = bool((closed & ~moves.is_terminal).any() or (moves.rests > 0).any())
        self.overspends = bool((moves.damage[~stays] > moves.remaining).any())
        self.drifts = set() if discount < 1 else _drifts(mdp, moves, self.block)
        _, arrivals = np.unique(moves.successor[~stays], return_counts=True)
        self._most = 16 + int(arrivals.max(initial=0)) + math.log2(moves.row.size + 2)  # bound on roundings per mass

    def solve(self, after: Values) -> None:
        """Compute the values of all states, given those of the states in other layers that each move leads to."""
        moves, size = self.moves, self.moves.states.size
        known, gains = np.zeros((size, COLUMNS)), np.zeros((moves.row.size, COLUMNS))
        known[:, ENDS], known[:, ENDLESS] = ~self.block.transient & moves.is_terminal, self.damaging
        gains[:, [RETURN, DISCOUNTED_RETURN]], gains[:, STEPS] = moves.reward[:, None], 1.0
        gains[:, [DAMAGE, DISCOUNTED_DAMAGE]] = moves.damage[:, None]
        self.values = Values.zeros(size, COLUMNS)
        for solved, columns, discount in self.systems:
            some = slice(None), columns
            self.values.put(some, self._solved(solved, gains[some], known[some], after.at(some), discount))

    def _solved(self, solved: TransientBlock, gains: Floats, known: Floats, after: Values, discount: float) -> Values:
        """The values of all columns; ``known`` are those of the states that are not transient."""
        moves, t = self.moves, solved.transient
        mine, stays = np.flatnonzero(t[moves.row]), self.stays & solved.leaving
        row, count, columns = solved.place[moves.row[mine]], int(np.count_nonzero(t)), gains.shape[1]
        weight, groups = moves.weight[mine][:, None], Groups(row, count)
        right, slack = Wide(*np.zeros((2, count, columns))), np.zeros((count, columns))
        for some in together(mine.size, columns):
            onward, error = after.value[mine, some], after.error[mine, some]
            there = np.flatnonzero(stays[mine])
            onward.high[there] = known[moves.position(moves.successor[mine[there]]), some]
            if discount < 1:
                onward = multiply(onward, wide(np.array(discount)))
            gain = gains[mine, some]
            put(right, (slice(None), some), groups.add_up(multiply(weight, add(wide(gain), onward))))
            size = (onward.size + np.abs(gain)) * (groups.rounds + 16) * TINY
            shares = UP * weight.high * (size + error)
            slack[:, some] = np.stack([add_up(row, share, count) for share in shares.T], axis=1)
        result = Values.zeros(moves.states.size, columns)
        result.put(np.flatnonzero(t), solved.system.solve(right, slack))
        result.value.high[~t] = known[~t]
        return result

    def flow(self, mass: Floats) -> tuple[float, list[tuple[int, Ints, Floats]], float]:
        """Where the mass that enters the layer goes.

        Returns the mass that never leaves it; damages, the states reached with each, and their masses; and a bound on
        the mass that is missing or too much.
        """
        moves, solved, t = self.moves, self.block, self.block.transient
        visits = mass.copy()
        visits[t], lost = solved.system.visits(mass[t])
        out = solved.leaving
        leaving = visits[moves.row[out]] * moves.weight.high[out]
        closed = self.stays[out]  # leads to a recurrent state of the layer
        ended = float(mass[~t].sum() + leaving[closed].sum() + visits[t] @ moves.rests[t])
        damage, reached, gone = moves.damage[out][~closed], moves.successor[out][~closed], leaving[~closed]
        left = [(d, reached[damage == d], gone[damage == d]) for d in ascending(damage).tolist()]
        return ended, left, lost + self._most * EPS * float(mass.sum())


def _drifts(mdp: MDP, moves: PolicyMoves, solved: TransientBlock) -> set[int]:
    """For the recurrent classes with rewards: 1 or −1 if the return drifts to ±∞, 0 if it has no limit."""
    closed = ~solved.transient
    rewarding = np.zeros(moves.states.size, np.bool_)
    rewarding[moves.row[moves.reward != 0]] = True
    result = set()
    for label in np.unique(solved.label[closed & rewarding]).tolist():
        chain = _Class(mdp, moves, np.flatnonzero(solved.label == label))
        if chain.has_rewards():
            result.add(chain.drift())
    return result


class _Class:
    """A recurrent class: its states, and the expected reward of a step in each."""

    def __init__(self, mdp: MDP, moves: PolicyMoves, members: Ints) -> None:
        self.mdp, self.moves, self.members = mdp, moves, members
        at = np.flatnonzero(np.isin(moves.row, members))
        self._at, self._row = at, np.searchsorted(members, moves.row[at])
        self._column = np.searchsorted(members, moves.position(moves.successor[at]))
        self._weight = moves.weight[at]
        groups = Groups(self._row, members.size)
        self.mean = groups.add_up(multiply(self._weight, wide(moves.reward[at])))
        size = add_up(self._row, self._weight.high * np.abs(moves.reward[at]), members.size)
        self.slack: Floats = (groups.rounds + 16) * TINY * size + LOST

    def has_rewards(self) -> bool:
        """Whether the expected reward of any state is not 0."""
        if (np.abs(self.mean.high) > self.slack).any():
            return True
        rewarding = np.unique(self._row[self.moves.reward[self._at] != 0])
        return any(self._exact(row)[0] != 0 for row in rewarding.tolist())

    def drift(self) -> int:
        """The sign of the expected reward from one visit of the first member to the next."""
        size = self.members.size - 1
        others = (self._row > 0) & (self._column > 0)
        home = (self._row > 0) & (self._column == 0)
        leak = Groups(self._row[home] - 1, size).add_up(self._weight[home])
        system = Leaking(self._row[others] - 1, self._column[others] - 1, self._weight[others], leak)
        value, error = system.solve(self.mean[1:, None], self.slack[1:, None])
        first = (self._row == 0) & (self._column > 0)
        ahead = Values(value[self._column[first] - 1, 0], error[self._column[first] - 1, 0])
        step = mean_of(self._weight[first], ahead) if first.any() else Number(0.0, 0.0)
        total = math.fsum([float(self.mean.high[0]), float(self.mean.low[0]), step.value])
        if abs(total) > 2 * (step.error + float(self.slack[0]) + EPS * abs(total)):
            return 1 if total > 0 else -1
        return self._exact_drift() if size < EXACT else 0

    def _exact(self, row: int) -> tuple[Fraction, dict[int, Fraction]]:
        """The expected reward of a state, and the probabilities of its successors, in fractions."""
        at = self._at[self._row == row]
        mdp, outcome = self.mdp, self.moves.outcome[at]
        choice = np.searchsorted(mdp.outcome_ptr, outcome, side="right") - 1
        shares = dict(zip(choice.tolist(), map(Fraction, self.moves.share[at].tolist()), strict=True))
        totals = {c: sum(map(Fraction, mdp.probability[slice(*mdp.outcome_ptr[c : c + 2])].tolist())) for c in shares}
        played, mean = sum(shares.values()), Fraction(0)
        leads: dict[int, Fraction] = {}
        for i, c, column in zip(
            outcome.tolist(), choice.tolist(), self._column[self._row == row].tolist(), strict=True
        ):
            weight = shares[c] * Fraction(float(mdp.probability[i])) / (played * totals[c])
            mean += weight * Fraction(float(mdp.reward[i]))
            leads[column] = leads.get(column, Fraction(0)) + weight
        return mean, leads

    def _exact_drift(self) -> int:
        """The same in fractions: eliminates states one by one, adding their rewards to those of their predecessors."""
        rows = [self._exact(row) for row in range(self.members.size)]
        means, leads = [mean for mean, _ in rows], [dict(lead) for _, lead in rows]
        for k in range(self.members.size - 1, 0, -1):
            back = leads[k].pop(k, Fraction(0))
            for i in range(k):
                share = leads[i].pop(k, Fraction(0)) / (1 - back)
                if share:
                    means[i] += share * means[k]
                    for j, weight in leads[k].items():
                        leads[i][j] = leads[i].get(j, Fraction(0)) + share * weight
        return (means[0] > 0) - (means[0] < 0)


def mean_of(weight: Wide, values: Values) -> Number:
    """The weighted sum of values."""
    groups = Groups(np.zeros(weight.high.size, np.int64), 1)
    total = groups.add_up(multiply(weight, values.value))
    size = float(weight.high @ values.value.size)
    error = UP * float(weight.high @ values.error) + (groups.rounds + 16) * TINY * size
    return Number(float(total.high[0]), error + abs(float(total.low[0])))
