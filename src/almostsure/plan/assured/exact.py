"""Exact values, in fractions, of models with a few pairs for which 64-bit bounds stay too far apart or unproved.

Floating-point values are off by half a unit in the last place.  If leaving takes a million steps, or the discount is
correspondingly close to 1, a proof by one backup cannot exclude an error a million times as large; and where gains and
losses nearly cancel out, rounding decides between a finite value and ±∞.  So models with few pairs are solved again in
fractions:

1. A pair can *rest* if it is in an end component without reward.  A pair that can reach such a component almost surely
   is *proper*.
2. Policy iteration on the proper pairs starts from a policy that rests almost surely, and evaluates each policy by
   elimination.  If an improvement creates a recurrent class that does not rest, the class has a positive mean reward:
   on it g + P V ≥ V for the old values V, with > somewhere.  Its pairs have the value +∞, and so does every pair that
   may reach them.
3. All other pairs never rest.  Let each of them also stop, for 0.  If policy iteration from there finds a positive mean
   reward, these pairs have the value +∞.  Otherwise, with V the values found, a recurrent class has the mean reward 0
   if g + P V = V for all its choices, and else a negative one.  If a class has the mean 0, returns are undefined, and
   the pairs are left as they were; if none has, all have the value −∞.

**Proof** of 2.  In the end V ≥ g + P V for every choice.  If another policy were worth more, by D, then D ≤ P D, so D
is constant on each of its recurrent classes, and there V = g + P V.  If it rests there, it is worth 0, and V ≥ 0, as
the first policy rests and values only rise; so D ≤ 0.  If it does not rest, its mean reward is 0, and its return
undefined.  With a discount below 1, D is 0 on recurrent classes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from almostsure.model.arrays import owners
from almostsure.plan import graph
from almostsure.plan.assured.engine import NO_PAIRS, Engine, Pairs

FEW = 40  # the most pairs that are solved in fractions
ROUNDS = 100  # of policy iteration
LARGEST = Fraction(np.finfo(np.float64).max)

Values = dict[int, Fraction]
Policy = dict[int, int]  # the choice of each pair


class _Gains(Exception):
    """A policy has a recurrent class, these pairs, that does not rest: its mean reward is positive."""

    def __init__(self, pairs: set[int]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def in_fractions(engine: Engine, pairs: Pairs) -> Pairs:
    """The same pairs with bounds to the last float, if they are few and can be solved exactly; otherwise unchanged."""
    if pairs.lower.size > FEW:
        return pairs
    choices = _Choices(engine)
    start, lost = choices.start()
    gaining = [] if choices.discount < 1 else choices.gains_without_rest(lost)
    if gaining is None:
        return pairs
    values: Values | None = {}
    while values is not None:
        endless = choices.may_reach(set().union(*gaining))
        policy = {x: k for x, k in start.items() if x not in endless}
        try:
            values = choices.improve(policy)
            break
        except _Gains as found:
            gaining.append(found.pairs)
    if values is None or max(map(abs, values.values()), default=0) > LARGEST:
        return pairs
    _write(engine, policy, values, endless)
    cycles = [np.array(sorted(members)) for members in gaining]
    return replace(engine.answer(), cycles=cycles, undefined=NO_PAIRS, proved=True, doubts=())


def _write(engine: Engine, policy: Policy, values: Values, endless: set[int]) -> None:
    """Write this policy, and the nearest floats below and above the values as bounds."""
    lower, upper, play, _, rival = engine.bounds
    lower.fill(-np.inf)
    upper.fill(-np.inf)
    rival.fill(0.0)
    lower[list(endless)] = upper[list(endless)] = np.inf
    for x, value in values.items():
        near, play[x] = float(value), policy[x]
        lower[x] = near if Fraction(near) <= value else math.nextafter(near, -math.inf)
        upper[x] = near if Fraction(near) >= value else math.nextafter(near, math.inf)


class _Choices:
    """The choices of the pairs, with rewards and transition probabilities in fractions."""

    def __init__(self, engine: Engine) -> None:
        game, self.discount = engine.game, Fraction(engine.discount)
        entry_ptr, target = game.graph.entry_ptr.astype(np.int64), game.graph.target.astype(np.int64)
        self.owner = owners(game.graph.ptr).astype(np.int64)
        self.gain: list[Fraction] = []
        self.moves: list[Values] = []
        for k in range(self.owner.size):
            ahead, begin = target[entry_ptr[k] : entry_ptr[k + 1]], int(game.outcome_ptr[game.graph.origin[k]])
            outcomes = slice(begin, begin + ahead.size)
            shares = [Fraction(p) for p in game.probability[outcomes].tolist()]
            rewards = [Fraction(r) for r in engine.mdp.reward[outcomes].tolist()]
            self.gain.append(sum((p * r for p, r in zip(shares, rewards, strict=True)), Fraction(0)) / sum(shares))
            self.moves.append({})
            for y, p in zip(ahead.tolist(), shares, strict=True):
                self.moves[k][y] = self.moves[k].get(y, Fraction(0)) + self.discount * p / sum(shares)
        self.graph = graph.ChoiceGraph(
            num_states=game.graph.ptr.size - 1,
            owner=self.owner,
            entry_choice=owners(entry_ptr).astype(np.int64),
            entry_state=target,
        )

    def start(self) -> tuple[Policy, set[int]]:
        """A policy of the proper pairs that rests almost surely, and the other pairs; with a discount, any policy."""
        every = range(self.graph.num_states)
        if self.discount < 1:
            return {int(x): k for k, x in reversed(list(enumerate(self.owner)))}, set()
        _, resting = graph.end_components(self.graph, np.array([gain == 0 for gain in self.gain]))
        proper, _, policy = graph.surely_leave(self.graph, resting)
        return {x: int(policy[x]) for x in every if proper[x]}, {x for x in every if not proper[x]}

    def may_reach(self, goals: set[int]) -> set[int]:
        """The goals, and all pairs with a path to them."""
        found = set(goals)
        while more := {int(x) for x, moves in zip(self.owner, self.moves, strict=True) if moves.keys() & found} - found:
            found |= more
        return found

    def gains_without_rest(self, lost: set[int]) -> list[set[int]] | None:
        """The recurrent classes with a positive mean reward among pairs that never rest; None if one has the mean 0."""
        gaining: list[set[int]] = []
        while left := lost - self.may_reach(set().union(*gaining)):
            inside = [moves.keys() <= left for moves in self.moves]
            try:
                values = self._with_stops(left, inside)
            except _Gains as found:
                gaining.append(found.pairs)
                continue
            tight = [
                inside[k] and self._worth(k, values) == values[int(x)] if x in left else False
                for k, x in enumerate(self.owner)
            ]
            if values and graph.end_components(self.graph, np.array(tight))[1].any():
                return None
            break
        return gaining

    def _with_stops(self, left: set[int], inside: list[bool]) -> Values:
        """The best values of these pairs, with choices ``inside`` and stopping, for 0, as a choice of each."""
        values, policy = dict.fromkeys(left, Fraction(0)), dict[int, int]()
        while better := self._better(values, inside):
            policy |= better
            values |= dict.fromkeys(left, Fraction(0)) | self._values(policy)
        return values

    def improve(self, policy: Policy) -> Values | None:
        """Improve a policy until it is optimal; its values, or None after ``ROUNDS``."""
        inside = [moves.keys() <= policy.keys() for moves in self.moves]
        for _ in range(ROUNDS):
            values = self._values(policy)
            better = self._better(values, inside)
            if not better:
                return values
            policy |= better
        return None

    def _worth(self, k: int, values: Values) -> Fraction:
        return self.gain[k] + sum((p * values[y] for y, p in self.moves[k].items()), Fraction(0))

    def _better(self, values: Values, inside: list[bool]) -> Policy:
        """The best choice of each pair that it improves, among those ``inside``."""
        best, found = dict(values), dict[int, int]()
        for k, x in enumerate(self.owner.tolist()):
            if inside[k] and x in values and (worth := self._worth(k, values)) > best[x]:
                best[x], found[x] = worth, k
        return found

    def _values(self, policy: Policy) -> Values:
        """The values of a policy, by elimination; other pairs are worth 0."""
        resting = {x for x, k in policy.items() if self.gain[k] == 0}
        while moving := {x for x in resting if not self.moves[policy[x]].keys() <= resting}:
            resting -= moving
        rows = {x: (self.gain[k], dict(self.moves[k])) for x, k in policy.items() if x not in resting}
        order, values = list(rows), dict.fromkeys(resting, Fraction(0))
        for i, x in enumerate(order):
            gain, ahead = rows[x]
            for y in order[:i]:
                if share := ahead.pop(y, Fraction(0)):
                    gain += share * rows[y][0]
                    for z, p in rows[y][1].items():
                        ahead[z] = ahead.get(z, Fraction(0)) + share * p
            leaves = 1 - ahead.pop(x, Fraction(0))
            if leaves == 0:
                raise _Gains(self._reached(x, policy))
            rows[x] = gain / leaves, {z: p / leaves for z, p in ahead.items()}
        for x in reversed(order):
            values[x] = rows[x][0] + sum((p * values.get(y, 0) for y, p in rows[x][1].items()), Fraction(0))
        return values

    def _reached(self, x: int, policy: Policy) -> set[int]:
        """The pairs that a policy reaches from a pair, that one included."""
        found, queue = {x}, [x]
        for here in queue:
            fresh = self.moves[policy[here]].keys() - found
            found |= fresh
            queue.extend(fresh)
        return found
