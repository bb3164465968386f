"""Ties: of the policies that keep the proved return, one that ends soon and, second, takes little damage.

Where several choices are equally good, any of them is optimal, and a policy might wander between them for ever.  Let ℓ
be the proved lower bounds and η ≥ 0 small.  A choice is *tied* if ℓ(x) − η ≤ g + Σ p ℓ(y), the inequality that the
policy's own choices satisfy with η = 0.  Of all policies of tied choices:

1. where some end almost surely, one of least expected length is taken; a unit of damage counts as ``DAMAGE`` steps, so
   it decides between lengths that are practically equal;
2. elsewhere, one that ends with the greatest probability is taken, and of these the one that soonest ends or reaches
   states from which no end is reachable; there the old choices are kept.

**Proof** that the value is kept.  Let h(x) be a proved upper bound of what is counted in 1 and 2, so that
h(x) ≥ 1 + Σ p h(y) on the choices taken.  Then ℓ' = ℓ − η h satisfies ℓ'(x) ≤ g + Σ p ℓ'(y) on them.  As the policy
almost surely ends or reaches pairs with the old choices, it returns at least ℓ'.  This inequality is checked
numerically, with all rounding errors, and η is widened until it holds; it is also checked where an old choice leads to
a pair with h > 0.  If η h exceeds what the tolerance leaves at the start, fewer choices are tied; after the last
attempt the old policy is kept.

**Equal costs.**  Where every step costs the same, c > 0, values determine the lengths, and only damage is left to
decide.  Then every policy of tied choices ends almost surely, and h = −ℓ / c will do: ℓ' = (1 + η/c) ℓ keeps the
inequality by a margin of η where choices are unchanged.  That outweighs the rounding of ℓ' while |ℓ| is less than
2⁵⁰ c, so only changed choices are checked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from almostsure.memory import side_by_side
from almostsure.model.arrays import spans
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.assured import explore
from almostsure.plan.assured import tie_kernels as kernels
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.steps import Bounds
from almostsure.plan.assured.sums import EPSILON

if TYPE_CHECKING:
    from almostsure.plan.assured.engine import Engine, Pairs

DAMAGE = 1e-6  # steps that a unit of damage counts as
CLOSE = 1e-8  # tolerance of lengths and of probabilities to end
AS_LIKELY = 1e-12  # by how much a choice may lower the probability of ending
USUAL_LENGTH = 100_000  # the assumed length of an episode, for a first guess of η
ROUNDINGS = 64  # η is at least this many roundings of the largest value
LONGEST = 2.0**50  # |ℓ| / c up to which the margin outweighs rounding
ATTEMPTS = 3  # with smaller and smaller η
ROUNDS = 4  # of widening until the inequality is proved


def break_ties(engine: Engine, found: Pairs, starts: Ints | None, aims: Ints, tolerance: float) -> Pairs:
    """The same upper bounds with a policy that ends soon and takes little damage, and its lower bounds.

    The policy is changed on the pairs that are reachable from ``starts``, or everywhere (None).  The bounds stay within
    the tolerance at ``aims``; otherwise the pairs are returned unchanged.
    """
    lost = found.upper == -np.inf
    all_end = not lost[aims].any()
    starts = np.arange(lost.size, dtype=np.uint32) if starts is None else starts.astype(np.uint32)
    if all_end:
        starts = starts[~lost[starts]]  # pairs with a finite return never reach lost ones
    aims = aims[~lost[aims]]
    low, high = found.lower[aims], found.upper[aims]
    if not (np.isfinite(low) & np.isfinite(high)).all():
        return found
    left = tolerance * np.maximum(1.0, np.abs(low)) - (high - low)
    if (left < 0).any():
        return found
    rounding = ROUNDINGS * EPSILON * float(np.abs(low).max(initial=0.0))
    slack = max(float(left.min() if left.size else tolerance) / USUAL_LENGTH, rounding)
    if not (engine.bounds.rival <= slack).any():
        return found
    over = engine.mdp.is_terminal()
    cost = _cost_of_steps(engine, over) if all_end and engine.discount == 1 else 0.0
    for _ in range(ATTEMPTS):
        ties = _Ties(engine, found, starts, slack, over, cost)
        if not ties.exist:
            return found
        lower = ties.decide()
        missing = low - lower[aims]
        if (missing <= left).all():
            return replace(found, lower=lower, play=ties.play)
        slack *= 0.5 * float((left / np.maximum(missing, 1e-300)).min())
    return found


def _cost_of_steps(engine: Engine, over: Bools) -> float:
    """The cost of every step, if all cost the same; otherwise 0."""
    ptr, gain, graph = engine.choice_ptr, engine.game.gain, engine.graph
    if engine.is_rare(graph):
        ptr, gain, over = graph.ptr, gain[graph.origin], over[graph.state]
    return float(engine.call(kernels.cost_of_steps, ptr, gain, over))


class _Ties:
    """The tied choices that are reachable by tied choices, and the best policy of them."""

    def __init__(self, engine: Engine, found: Pairs, starts: Ints, slack: float, over: Bools, cost: float) -> None:
        self.engine, self.found, self.over, self.cost = engine, found, over, cost
        self.play = found.play.copy()
        grows = np.ones(found.play.size, np.bool_)
        if cost > 0:  # with nothing remaining, no damage is left to avoid
            grows = engine.graph.remaining > 0
        self.graph, self.pairs, self.via = _tied_graph(engine, slack, starts, grows)
        self.exist = self.graph.origin.size > np.count_nonzero(grows[self.pairs])

    def decide(self) -> Floats:
        """Find the policy; returns proved lower bounds of its return, −∞ everywhere if none are proved."""
        if self.cost > 0:
            self._minimise_damage(self._charges(0.0, 1.0))
            return self._prove_equal_costs()
        self.height = np.zeros(self.pairs.size)  # bounds on the length; 0 where the old choices are kept
        self._minimise_length(self._charges(-1.0, -DAMAGE))
        return self._prove()

    def _charges(self, per_step: float, per_damage: float) -> Floats:
        engine, charges = self.engine, self.engine.zeros(self.graph)
        per = (per_step, per_damage)
        engine.call(kernels.charges, engine.game, self.graph, engine.mdp.damage, self.over, per, charges)
        return charges

    def _minimise_damage(self, damage: Floats) -> None:
        """Where every step costs the same: the policy of least expected damage."""
        engine, size, play = self.engine, self.pairs.size, self.graph.ptr[:-1].copy()
        span, room = engine.call(explore.span, self.graph), explore.room_for(size)
        order = engine.call(explore.components, self.graph, room, span, explore.NO_LAYERS)
        game = engine.game._replace(graph=self.graph, gain=damage)
        ahead = np.zeros(size)
        bounds = engine.bounds._replace(low=ahead, high=ahead)
        engine.call(kernels.spend_little, game, bounds, order, play)
        engine.call(kernels.take, self.graph, self.pairs, self.via, play, self.play)

    def _prove_equal_costs(self) -> Floats:
        """Proved lower bounds where every step costs the same."""
        lower, slack = self.found.lower, 0.0
        changed = np.flatnonzero(self.play != self.found.play).astype(self.pairs.dtype)
        most = -float(lower.min(initial=0.0, where=lower > -np.inf))
        for _ in range(ROUNDS if most < LONGEST * self.cost else 0):
            short = self.engine.call(kernels.shortfall, self.engine.game, lower, self.play, changed)
            if short <= 0.0:
                return lower
            slack = max(2 * slack + 1.5 * short, 4 * EPSILON * most)
            lower = self.found.lower * (1.0 + slack / self.cost)
        return np.full_like(lower, -np.inf)

    def _minimise_length(self, costs: Floats) -> None:
        """Where some policy ends almost surely: the least expected length, and then damage."""
        self.costs = costs
        lengths = self.engine.other(self.graph, costs)
        lengths.solve(CLOSE)
        ends = lengths.bounds.low > -np.inf
        at = np.flatnonzero(ends)
        self._take(lengths.bounds, self.via, at, at)
        if not ends.all():
            self._maximise_end(~ends)

    def _maximise_end(self, unsure: Bools) -> None:
        """Where no policy ends almost surely: the greatest probability to end, and then the least expected length."""
        chance = self.engine.other(self.graph, self.engine.zeros(self.graph))
        chance.order = _within(chance.order, unsure)
        chance.bounds.low[~unsure] = chance.bounds.high[~unsure] = 1.0
        chance.bounds.policy[~unsure], chance.bounds.rival[~unsure] = self.graph.ptr[:-1][~unsure], np.inf
        chance.solve(CLOSE)
        hopeful = unsure & (chance.bounds.low > 0.0)
        if (chance.bounds.high[unsure & ~hopeful] > 0.0).any():  # old choices might lead back to new ones
            return
        starts = np.flatnonzero(hopeful).astype(np.uint32)
        graph, pairs, via = _tied_graph(chance, AS_LIKELY, starts, hopeful)
        lengths = self.engine.other(graph, self.costs)
        lengths.order = _within(lengths.order, hopeful[pairs])
        lengths.bounds.low[:] = lengths.bounds.high[:] = -self.height[pairs]
        lengths.solve(CLOSE)
        at = np.flatnonzero(hopeful[pairs] & (lengths.bounds.low > -np.inf))
        self._take(lengths.bounds, self.via[via], at, pairs[at])

    def _take(self, bounds: Bounds, via: Ints, at: Ints, pairs: Ints) -> None:
        """Adopt the choices of some pairs, and their lengths."""
        self.play[self.pairs[pairs]] = via[bounds.policy[at]]
        self.height[pairs] = -bounds.low[at]

    def _prove(self) -> Floats:
        """Proved lower bounds of the policy's return."""
        engine, pairs, slack = self.engine, self.pairs, 0.0
        lower = self.found.lower.copy()
        changed = np.flatnonzero(self.play != self.found.play)
        checked = changed.astype(pairs.dtype)  # the others have been proved before
        for _ in range(ROUNDS):
            short = engine.call(kernels.shortfall, engine.game, lower, self.play, checked)
            if short <= 0.0:
                return lower
            slack = 2 * slack + 1.5 * short
            lower[pairs] = self.found.lower[pairs] - slack * self.height
            checked = pairs[self._is_affected()]
        return np.full_like(lower, -np.inf)

    def _is_affected(self) -> Bools:
        """The pairs that are given a length, and those without that lead to one (where lengths could not be found)."""
        graph, affected = self.engine.graph, self.height > 0
        has_length = np.zeros(graph.state.size, np.bool_)
        has_length[self.pairs[affected]] = True
        others = np.flatnonzero(~affected)
        entries, row = spans(graph.entry_ptr, self.play[self.pairs[others]])
        affected[others[row[has_length[graph.target[entries]]]]] = True
        return affected


def _tied_graph(engine: Engine, slack: float, starts: Ints, grows: Bools) -> tuple[Graph, Ints, Ints]:
    """The graph of the tied choices that are reachable from ``starts``; see :func:`.tie_kernels.tied`.

    Also the indices of its pairs and of its choices in the engine's graph.
    """
    graph, size = engine.graph, engine.graph.state.size
    found = kernels.Tied(np.zeros(graph.origin.size, np.bool_), np.empty(size, np.uint32), np.zeros(size, np.uint32))
    pairs, choices, entries = engine.call(kernels.tied, engine.game, engine.bounds, slack, starts, grows, found)
    *arrays, via = side_by_side(np.uint32, pairs, pairs, pairs + 1, choices, choices + 1, entries, choices)
    tied = Graph(*arrays)
    engine.call(kernels.fill_graph, graph, found, grows, tied, via)
    return tied, found.pair[:pairs], via


def _within(order: tuple[Ints, Ints], where: Bools) -> tuple[Ints, Ints]:
    """The components restricted to some pairs (a mask), in the same order, without empty ones."""
    start, member = order
    kept = where[member]
    count = np.add.reduceat(kept, start[:-1].astype(np.int64), dtype=np.int64)
    ends = np.cumsum(count[count > 0])
    return np.concatenate([[0], ends]).astype(np.uint32), member[kept]
