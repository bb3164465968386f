"""Cycles on which gains and losses cancel out exactly, as rewards shaped by a potential make them.

A policy that goes round such a cycle for ever has no return, and does not compete.  But it may go round and then leave,
and so the Bellman equation does not see that going round is worth nothing: V(s) = r + P V holds all along the cycle.

There are numbers h with r = h(s) − P h on such choices.  With rewards r + P h − h in place of r, every value falls by
h(s), the best policies stay the best, and the choices on the cycle have reward 0: what can be said of choices without
reward holds for them too, save that nobody may rest there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.programme.flow import Flow, end_components, spread
from almostsure.plan.programme.highs import FEASIBLE
from almostsure.plan.programme.means import mean_gain, surely_gains
from almostsure.policy.evaluation.linear import SuperLU
from almostsure.wording import counted

NEARLY = 1e-6  # by how much a choice may seem to lose, times the rewards' size, to be tried
SIMPLE = 10**6  # the largest denominator of a simple fraction
ROUNDING = 2e-15  # what is left of a reward that cancels out, times the size of what it was computed from


def free_choices(flow: Flow, unknown: list[Bools], terms: int) -> tuple[Bools, Floats, Bools]:
    """The choices that are worth nothing in the long run, and the potential h: no cost, and r = h − P h.

    Where no rewards cancel out, these are the choices without cost and reward, and h is 0.  Others are looked for in
    the end components of which it is ``unknown`` whether they gain or lose (the choices of each).  Those that gain so
    little that only h shows it are returned, [states].
    """
    free: Bools = (flow.reward == 0) & (flow.cost == 0)
    potential, forever = np.zeros(flow.num_states), np.zeros(flow.num_states, np.bool_)
    for part in unknown:
        scale = float(np.abs(flow.reward[part]).max())
        gain, guess = mean_gain(flow, part)
        if not gain <= -FEASIBLE * scale:
            loss = guess[flow.owner] - flow.reward - flow.moves @ guess
            free = (free & ~part) | _settle(flow, part & (loss < NEARLY * scale), terms, potential, forever)
    return free, potential, forever


def _settle(flow: Flow, tight: Bools, terms: int, potential: Floats, forever: Bools) -> Bools:
    """Fill in the potential of the end components of some choices; returns the choices in them."""
    label, inner = end_components(flow, tight)
    if not inner.any():
        return inner
    members, roots = np.flatnonzero(label >= 0), np.unique(label, return_index=True)[1]
    roots = roots[label[roots] >= 0]
    policy = lead_to(flow, inner, roots)
    others = np.setdiff1d(members, roots)
    potential[members] = 0.0
    potential[others] = _solve(flow.moves[policy[others]][:, others], flow.reward[policy[others]])
    rows = flow.moves[inner]
    left = flow.reward[inner] + rows @ potential - potential[flow.owner[inner]]
    size = np.abs(flow.reward[inner]) + rows @ np.abs(potential) + np.abs(potential[flow.owner[inner]])
    rounding = ROUNDING * members.size * size.max()
    if np.abs(left).max() > rounding:
        somebody = label == label[flow.owner[inner][np.argmax(left)]]
        if left.min() >= -rounding and surely_gains(flow, inner & somebody[flow.owner], terms, potential):
            forever[somebody] = True
            return inner
        raise LimitReached(
            f"gains and losses cancel out so nearly, in a cycle of {counted(members.size, 'state')}, that 64-bit "
            "numbers cannot tell whether the return has a bound. Give the cycle a clear cost, or use a discount below "
            "1."
        )
    return inner


def cancels_exactly(choices: list[tuple[int, Fraction, dict[int, Fraction]]], potential: Floats) -> bool:
    """Whether r = h(s) − P h holds for exact choices (owner, r, P), with fractions close to ``potential`` as h.

    These are simple multiples of the smallest reward, which is what they are where rewards cancel out by design.
    """
    unit = min((abs(reward) for _, reward, _ in choices if reward), default=Fraction(1))
    states = {owner for owner, _, _ in choices}.union(*(ahead for _, _, ahead in choices))
    h = {s: unit * (Fraction(float(potential[s])) / unit).limit_denominator(SIMPLE) for s in states}
    return all(reward + sum(p * h[t] for t, p in ahead.items()) == h[s] for s, reward, ahead in choices)


def _solve(matrix: Any, right: Floats) -> Floats:
    """The solution of x = right + matrix x, with one step of refinement."""
    from scipy.sparse import csc_array, eye_array

    return SuperLU(csc_array(eye_array(right.size) - matrix)).refined(right) if right.size else right


def lead_to(flow: Flow, inner: Bools, goals: Ints) -> Ints:
    """For each state that can get to a goal by ``inner`` choices, one that comes nearer; −1 elsewhere and at goals."""
    policy = np.full(flow.num_states, -1)
    policy[goals] = 0
    spread(flow, policy, inner)
    policy[goals] = -1
    return policy
