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

from typing import Any, NamedTuple

import numpy as np

from almostsure.budget.horizon import first_values
from almostsure.kernels import plain
from almostsure.model.arrays import grouped, spans
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.plan.risk.least_kernel import search_layer, sweep_layer, sweep_step
from almostsure.plan.risk.sums import Sums, part_of, risks_of, sums_of
from almostsure.progress import Bar

PLAIN_WORK = 1_000  # open choices over all layers below which compiling does not pay …
PLAIN_SWEEPS = 40  # … unless the bounds converge slowly
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
    search: Any = plain(search_layer) if small else search_layer
    edges = _free_edges(sums, is_open[0])
    with Bar("least risks", budget + 1) as bar:
        for level, needy in enumerate(is_open):
            lower[level, needy] = upper[level, needy] = 1.0
            states = search(sums, edges, upper, level, needy)
            upper[level, states], lower[level, states] = upper[level - 1, states] if level else 1.0, 0.0
            if states.size:
                _settle((sums, upper, lower), level, states, tolerance, PLAIN_SWEEPS if small else 0, sweeps)
            bar.update(level + 1)
    return LeastRisk(upper, lower)


class Predecessors(NamedTuple):
    """The predecessors of each state by damage-free outcomes."""

    ptr: Ints  # [num_states + 1]
    source: Ints


def _free_edges(sums: Sums, states: Ints) -> Predecessors:
    """The damage-free edges from some states, grouped by target."""
    choice, place = spans(sums.choice_ptr, states)
    outcome, of = spans(sums.outcome_ptr, choice)
    free = sums.damage[outcome] == 0
    target, source = sums.successor[outcome[free]], states[place[of[free]]]
    ptr, order = grouped(target, sums.choice_ptr.size - 1)
    return Predecessors(ptr, source[order])


def _settle(
    tables: tuple[Sums, Floats, Floats], level: int, states: Ints, tolerance: float, plain_sweeps: int, most: int
) -> None:
    """Sweep one layer until its bounds are within the tolerance or no longer change."""
    for done in range(0, most, SWEEPS_AT_ONCE):
        sweep: Any = plain(sweep_layer) if done < plain_sweeps else sweep_layer
        gap, moves = sweep(*tables, level, states, SWEEPS_AT_ONCE, tolerance)
        if gap <= tolerance or not moves:
            return


def least_within(mdp: MDP, budget: int, horizon: int) -> Floats:
    """Upper bounds of p_t for every state, [(horizon + 1) · (budget + 1), num_states]: row t · (budget + 1) + K."""
    sums, rows = sums_of(mdp, times=2), budget + 1
    table = np.zeros(((horizon + 1) * rows, mdp.num_states))
    table[:rows, first_values(mdp) > 0] = 1.0
    large = mdp.num_outcomes * rows * horizon > PLAIN_STEPS
    step: Any = sweep_step if large else step_plain
    with Bar("least risks", horizon) as bar:
        for t in range(1, horizon + 1):
            step(sums, table[(t - 1) * rows : t * rows], table[t * rows : (t + 1) * rows])
            bar.update(t)
    return table


def step_plain(sums: Sums, before: Floats, after: Floats) -> None:
    """The plain twin of the compiled step."""
    choices = np.arange(sums.owner.size)
    for level in range(len(before)):
        part = part_of(sums, np.full(choices.size, level), choices, np.zeros_like(choices))
        after[level] = np.minimum.reduceat(risks_of(sums, before, part), sums.choice_ptr[:-1].astype(np.int64))
