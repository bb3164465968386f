"""The least probability of overspending, enclosed by value iteration from both sides.

Let p*(s, K) be the least probability, over all policies, of taking more than K damage from s on.  It is 0 exactly
where k*(s) ≤ K.  Elsewhere it is the unique fixed point of

    p(s, K) = min over a of q(s, K, a),   q(s, K, a) = Σ p(s', d | s, a) · p(s', K − d),   p(s', K) = 1 for K < 0.

It is unique since a policy that stayed for ever among states with k*(s) > K, without damage, would show that k*(s) = 0
there.  So iterations from 1 downwards and from 0 upwards both converge to p*, and enclose it at every step.

*Upper bounds hold in floating point.*  Sums are scaled up by more than their rounding error, so every stored value is
at least the q̄ of some action, computed from the values stored with it.  Floating-point sums are monotone in their
terms, so this stays true when other values fall later.  A table p̄ with p̄ ≥ min q̄ and p̄ = 1 once overspent is at least
p*, whenever the iteration stops.

*Self-loops.*  If an outcome stays at (s, K), q is a convex combination of p̄(s, K) and of A/B, the sum over the other
outcomes divided by their probability.  So max(p̄(s, K), A/B) is an upper bound of q as well, and iterating A/B converges
however rarely the self-loop is left.

*Horizons.*  With t steps left, p_t(s, K) = min over a of Σ p · p_{t−1}(s', K − d), and p_0 = 0 unless overspent (or
forbidden): a recursion, one row for each (t, K), with the same rounding up.

*Certain loss.*  p* = 1 exactly where no pair with p* = 0 is reachable by any outcomes: otherwise a policy that follows
these outcomes and then plays safe avoids overspending with positive probability.  These pairs are found by a backward
search on the graph and need no sweeps; the others are swept in the order in which the search finds them.

*Layers.*  Damage only lowers K, so K = 0, 1, 2, … are solved in turn.  p̄(·, K − 1) is a valid start for K, since a
larger budget never makes overspending more likely.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from almostsure.budget.horizon import first_values
from almostsure.model.arrays import grouped, spans
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.plan.risk.sums import Sums, both_sums, part_of, sums_of
from almostsure.progress import Bar

PLAIN_WORK = 20_000  # open choices over all layers below which compiling does not pay …
PLAIN_SWEEPS = 400  # … unless the bounds converge slowly
PLAIN_STEPS = 2_000_000  # the same for a horizon: outcomes · budgets · steps
MOST_SWEEPS = 200_000  # per layer
SWEEPS_AT_ONCE = 20  # sweeps between two checks for Ctrl-C


class LeastRisk(NamedTuple):
    """Bounds of p*, one row for each remaining budget 0 … budget."""

    upper: Floats  # [budget + 1, num_states]
    lower: Floats  # [budget + 1, num_states]


def least_risk(mdp: MDP, needed: Ints, budget: int, tolerance: float, sweeps: int = MOST_SWEEPS) -> LeastRisk:
    """Bounds of p* for every state and every remaining budget, within ``tolerance`` where floats allow it.

    They may stay further apart in a layer that takes more than ``sweeps`` sweeps.

    Parameters
    ----------
    needed
        k* of every state, exact up to ``budget`` at least.
    """
    sums = sums_of(mdp, times=2)
    upper, lower = (np.zeros((budget + 1, mdp.num_states)) for _ in range(2))
    is_open = [np.flatnonzero(needed > level) for level in range(budget + 1)]
    work = sum(int((mdp.choice_ptr[o + 1] - mdp.choice_ptr[o]).sum()) for o in is_open)
    small = work < PLAIN_WORK
    before = search_plain if small else _compiled().search_layer
    edges = _free_edges(sums, is_open[0])
    with Bar("least risks", budget + 1) as bar:
        for level, needy in enumerate(is_open):
            lower[level, needy] = upper[level, needy] = 1.0
            states = before(sums, edges, upper, level, needy)
            upper[level, states], lower[level, states] = upper[level - 1, states] if level else 1.0, 0.0
            if states.size:
                _settle((sums, upper, lower), level, states, tolerance, PLAIN_SWEEPS if small else 0, sweeps)
            bar.update(level + 1)
    return LeastRisk(upper, lower)


class Edges(NamedTuple):
    """The predecessors of each state by damage-free outcomes."""

    ptr: Ints  # [num_states + 1]
    source: Ints


def _free_edges(sums: Sums, states: Ints) -> Edges:
    """The damage-free edges from some states, grouped by target."""
    choice, place = spans(sums.choice_ptr, states)
    outcome, of = spans(sums.outcome_ptr, choice)
    free = sums.damage[outcome] == 0
    target, source = sums.successor[outcome[free]], states[place[of[free]]]
    ptr, order = grouped(target, sums.choice_ptr.size - 1)
    return Edges(ptr, source[order])


def search_plain(sums: Sums, edges: Edges, upper: Floats, level: int, needy: Ints) -> Ints:
    """The states of a layer with p* < 1, breadth first from those that lead to safe pairs or lower layers."""
    waits = np.zeros(upper.shape[1], np.bool_)
    waits[needy] = True
    choice, place = spans(sums.choice_ptr, needy)
    outcome, of = spans(sums.outcome_ptr, choice)
    left = level - sums.damage[outcome].astype(np.int64)
    good = (left >= 0) & (upper[np.maximum(left, 0), sums.successor[outcome]] < 1.0)
    frontier: Ints = needy[np.unique(place[of[good]])]
    found = [frontier]
    while frontier.size:
        waits[frontier] = False
        items, _ = spans(edges.ptr, frontier)
        ahead = edges.source[items]
        frontier = np.unique(ahead[waits[ahead]])
        found.append(frontier)
    return np.concatenate(found)


def _settle(
    tables: tuple[Sums, Floats, Floats], level: int, states: Ints, tolerance: float, plain_sweeps: int, most: int
) -> None:
    """Sweep one layer until its bounds are within the tolerance or no longer change."""
    for done in range(0, most, SWEEPS_AT_ONCE):
        sweep = sweep_plain if done < plain_sweeps else _compiled().sweep_layer
        gap, moves = sweep(*tables, level, states, SWEEPS_AT_ONCE, tolerance)
        if gap <= tolerance or not moves:
            return


def sweep_plain(
    sums: Sums, upper: Floats, lower: Floats, level: int, states: Ints, sweeps: int, tolerance: float
) -> tuple[float, bool]:
    """The plain twin of the compiled sweeps, with Jacobi updates.

    Returns the largest distance between the bounds, and whether the last sweep changed any.
    """
    choices, owner = spans(sums.choice_ptr, states)
    first = np.searchsorted(owner, np.arange(states.size))
    part, gap, moves = part_of(sums, np.full(choices.size, level), choices), math.inf, True
    for _ in range(sweeps):
        before = upper[level, states], lower[level, states]
        high, through = both_sums(sums, upper, part, up=True)
        low, low_through = both_sums(sums, lower, part, up=False)
        high, low = np.minimum(high, through), np.maximum(low, low_through)
        upper[level, states] = np.minimum(np.minimum.reduceat(high, first), upper[level, states])
        lower[level, states] = np.maximum(np.minimum.reduceat(low, first), lower[level, states])
        after = upper[level, states], lower[level, states]
        gap = float((after[0] - after[1]).max())
        moves = any((old != new).any() for old, new in zip(before, after, strict=True))
        if gap <= tolerance or not moves:
            break
    return gap, moves


def least_within(mdp: MDP, budget: int, horizon: int) -> Floats:
    """Upper bounds of p_t for every state, [(horizon + 1) · (budget + 1), num_states]: row t · (budget + 1) + K."""
    sums, rows = sums_of(mdp, times=2), budget + 1
    table = np.zeros(((horizon + 1) * rows, mdp.num_states))
    table[:rows, first_values(mdp) > 0] = 1.0
    large = mdp.num_outcomes * rows * horizon > PLAIN_STEPS
    step = _compiled().sweep_step if large else step_plain
    with Bar("least risks", horizon) as bar:
        for t in range(1, horizon + 1):
            step(sums, table[(t - 1) * rows : t * rows], table[t * rows : (t + 1) * rows])
            bar.update(t)
    return table


def step_plain(sums: Sums, before: Floats, after: Floats) -> None:
    """The plain twin of the compiled step."""
    choices = np.arange(sums.owner.size)
    for level in range(len(before)):
        risks, _ = both_sums(sums, before, part_of(sums, np.full(choices.size, level), choices), up=True)
        after[level] = np.minimum.reduceat(risks, sums.choice_ptr[:-1].astype(np.int64))


def _compiled() -> Any:
    """The module of the compiled twins."""
    from almostsure.plan.risk import least_kernel

    return least_kernel
