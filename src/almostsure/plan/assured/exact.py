"""Exact values, in fractions, of a few pairs for which rounding leaves the proved bounds too far apart.

Floating-point values are off by half a unit in the last place.  If leaving takes a million steps, or the discount is
correspondingly close to 1, a proof by one backup cannot exclude an error a million times as large.  So models with few
pairs are solved again: by policy iteration from the policy found, each policy evaluated by elimination, all in
fractions.

If V are the values of a policy, and no choice is worth more than its pair, V ≥ g + P V, then V are the optimal values.
Proof: where another policy is worth more, by D, we have D ≤ P D for it, so D is constant on each of its recurrent
classes, and there V = g + P V for its choices.  With a discount below 1, and where runs end, D is 0.  Elsewhere either
all rewards are 0, so the other policy is worth 0, and V ≥ 0 is checked; or rewards cancel out, and its return is
undefined.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from almostsure.model.arrays import owners
from almostsure.model.mdp import Bools
from almostsure.plan import graph
from almostsure.plan.assured.engine import Engine, Pairs

FEW = 40  # the most pairs that are solved in fractions
ROUNDS = 20  # of policy iteration; the first policy is nearly optimal

Values = dict[int, Fraction]


def in_fractions(engine: Engine, pairs: Pairs) -> Pairs:
    """The same pairs with bounds to the last float, if they are few and can be solved exactly; otherwise unchanged."""
    lost, bounded = pairs.upper == -np.inf, np.isfinite(pairs.lower) & np.isfinite(pairs.upper)
    if pairs.lower.size > FEW or not pairs.proved or not (lost | bounded).all():
        return pairs
    choices = _Choices(engine, lost)
    policy = {x: int(pairs.play[x]) for x in np.flatnonzero(bounded).tolist()}
    for _ in range(ROUNDS):
        values = choices.values_of(policy)
        if values is None:
            return pairs
        better = choices.better(values)
        if not better:
            return _enclosed(pairs, policy, values) if choices.are_at_least_free(values) else pairs
        policy |= better
    return pairs


def _enclosed(pairs: Pairs, policy: dict[int, int], values: Values) -> Pairs:
    """The pairs with this policy, and with the nearest floats below and above the values as bounds."""
    lower, upper, play = pairs.lower.copy(), pairs.upper.copy(), pairs.play.copy()
    for x, value in values.items():
        near, play[x] = float(value), policy[x]
        lower[x] = near if Fraction(near) <= value else math.nextafter(near, -math.inf)
        upper[x] = near if Fraction(near) >= value else math.nextafter(near, math.inf)
    return replace(pairs, lower=lower, upper=upper, play=play)


class _Choices:
    """Rewards and transition probabilities in fractions, without choices that may lead to lost pairs (value −∞)."""

    def __init__(self, engine: Engine, lost: Bools) -> None:
        game, self.discount = engine.game, Fraction(engine.discount)
        self.entry_ptr, self.target = game.graph.entry_ptr.astype(np.int64), game.graph.target.astype(np.int64)
        self.owner = owners(game.graph.ptr).astype(np.int64)
        self.gain: Values = {}
        self.moves: dict[int, Values] = {}
        for k in np.flatnonzero(~lost[self.owner]).tolist():
            ahead = self.target[self.entry_ptr[k] : self.entry_ptr[k + 1]]
            if lost[ahead].any():
                continue
            begin = int(game.outcome_ptr[game.graph.origin[k]])
            outcomes = slice(begin, begin + ahead.size)
            shares = [Fraction(p) for p in game.probability[outcomes].tolist()]
            rewards = [Fraction(r) for r in engine.mdp.reward[outcomes].tolist()]
            self.gain[k] = sum((p * r for p, r in zip(shares, rewards, strict=True)), Fraction(0)) / sum(shares)
            self.moves[k] = {}
            for y, p in zip(ahead.tolist(), shares, strict=True):
                self.moves[k][y] = self.moves[k].get(y, Fraction(0)) + self.discount * p / sum(shares)

    def values_of(self, policy: dict[int, int]) -> Values | None:
        """The values of a policy; None if it collects rewards for ever."""
        resting = {x for x, k in policy.items() if self.gain[k] == 0}
        while left := {x for x in resting if not self.moves[policy[x]].keys() <= resting}:
            resting -= left
        values: Values = dict.fromkeys(resting, Fraction(0))
        rows = {x: (self.gain[k], dict(self.moves[k])) for x, k in policy.items() if x not in resting}
        order = list(rows)
        for i, x in enumerate(order):
            gain, ahead = rows[x]
            for y in order[:i]:
                share = ahead.pop(y, 0)
                if share:
                    gain += share * rows[y][0]
                    for z, p in rows[y][1].items():
                        ahead[z] = ahead.get(z, Fraction(0)) + share * p
            leaves = 1 - ahead.pop(x, Fraction(0))
            if leaves == 0:
                return None
            rows[x] = gain / leaves, {z: p / leaves for z, p in ahead.items()}
        for x in reversed(order):
            values[x] = rows[x][0] + sum((p * values[y] for y, p in rows[x][1].items()), Fraction(0))
        return values

    def better(self, values: Values) -> dict[int, int]:
        """The best choice of each pair that it improves."""
        best, found = dict(values), {}
        for k, moves in self.moves.items():
            worth = self.gain[k] + sum((p * values[y] for y, p in moves.items()), Fraction(0))
            if worth > best[int(self.owner[k])]:
                best[int(self.owner[k])], found[int(self.owner[k])] = worth, k
        return found

    def are_at_least_free(self, values: Values) -> bool:
        """Whether no value is below 0 where a run can stay for ever with rewards of 0."""
        if self.discount < 1:
            return True
        free = np.array([k for k, gain in self.gain.items() if gain == 0], np.int64)
        usable = np.zeros(self.owner.size, np.bool_)
        usable[free] = True
        every = graph.Graph(
            num_states=int(self.owner.max()) + 1,
            owner=self.owner,
            entry_choice=owners(self.entry_ptr).astype(np.int64),
            entry_state=self.target,
        )
        label, _ = graph.end_components(every, usable)
        return all(value >= 0 for x, value in values.items() if label[x] >= 0)
