"""Cycles on which gains and losses cancel out exactly, as with rewards shaped by a potential.

A policy that stays on such a cycle for ever has no return and does not compete.  But a policy may go round and then
leave, so the Bellman equation has no unique solution there: V(s) = r + P V holds all along the cycle.

There is a potential h with r = h(s) − P h on such choices.  With rewards r + P h − h in place of r, every value falls
by h(s), optimal policies stay optimal, and the choices on the cycle have reward 0.  So the cycle can be treated like an
end component without reward, except that a run may not stay in it.
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

NEARLY = 1e-6  # a choice is tried if it seems to lose less than this, relative to the largest reward
SIMPLE = 10**6  # the largest denominator of a simple fraction
ROUNDING = 2e-15  # the rounding error in a reward that cancels out, relative to its terms and per state


def free_choices(flow: Flow, unknown: list[Bools], terms: int) -> tuple[Bools, Floats, Bools]:
    """The choices without cost and with r = h − P h, the potential h, and states that gain for ever.

    Where no rewards cancel out, these are the choices without cost and reward, and h is 0.  Others are searched for in
    the end components (given by their choices) for which it is ``unknown`` whether they gain or lose.  States whose
    gain is so small that only h shows it are returned as a mask, [states].
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
    """Fill in the potential on the end components of the ``tight`` choices; returns the choices in these components."""
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
        gaining = label == label[flow.owner[inner][np.argmax(left)]]
        if left.min() >= -rounding and surely_gains(flow, inner & gaining[flow.owner], terms, potential):
            forever[gaining] = True
            return inner
        raise LimitReached(
            f"gains and losses in a cycle of {counted(members.size, 'state')} cancel out so nearly that 64-bit "
            "numbers cannot tell whether the return has a bound. Give the cycle a clear cost, or use a discount below "
            "1."
        )
    return inner


def cancels_exactly(choices: list[tuple[int, Fraction, dict[int, Fraction]]], potential: Floats) -> bool:
    """Whether r = h(s) − P h holds for exact choices (owner, r, P), with fractions h close to ``potential``.

    The fractions tried are simple multiples of the smallest reward, as where rewards cancel out by design.
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
    """For each state that reaches a goal by ``inner`` choices, one that may come nearer; −1 elsewhere and at goals."""
    policy = np.full(flow.num_states, -1)
    policy[goals] = 0
    spread(flow, policy, inner)
    policy[goals] = -1
    return policy
