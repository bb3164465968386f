"""Cycles on which gains and losses cancel out exactly, as rewards shaped by a potential make them.

A policy that goes round such a cycle for ever has no return, and does not compete.  But it may go round and then leave,
and so the Bellman equation does not see that going round is worth nothing: V(s) = r + P V holds all along the cycle.

There are numbers h with r = h(s) − P h on such choices.  With rewards r + P h − h in place of r, every value falls by
h(s), the best policies stay the best, and the choices on the cycle have reward 0: what can be said of choices without
reward holds for them too, save that nobody may rest there.

Whether gains and losses cancel out is decided on the stored numbers: .1 + .2 − .3 is 2⁻⁵⁵, and not 0.  Where h follows
from choices with one outcome each, it is computed in fractions; elsewhere what is left must be within rounding.  Who
loses less than rounding on a cycle of such choices loses at most that much in each of the n − 1 steps to where it is
left: these choices count as free, and the *slack*, n times the largest loss, is added to what blurs their exits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.programme.flow import Flow, end_components
from almostsure.plan.programme.occupation import FEASIBLE, loses, mean_gain
from almostsure.policy.evaluation.linear import SuperLU

NEARLY = 1e-6  # by how much a choice may seem to lose, times the rewards' size, to be tried
TINY = 5e-324
ROUNDING = 2e-15  # what is left of a reward that cancels out, times the size of what it was computed from


def free_choices(flow: Flow) -> tuple[Bools, Floats, Floats, Bools]:
    """The choices that are worth nothing in the long run: no cost, and r = h − P h; the potential h, and the slack.

    Where no rewards cancel out, these are the choices without cost and reward, and h is 0.  End components with a
    clearly positive mean reward must have been taken out before; those where it is so small that only h shows it are
    returned, [states].
    """
    free: Bools = (flow.reward == 0) & (flow.cost == 0)
    potential, slack = np.zeros(flow.num_states), np.zeros(flow.num_states)
    forever = np.zeros(flow.num_states, np.bool_)
    if not (flow.reward > 0).any():
        return free, potential, slack, forever
    label, inner = end_components(flow, flow.cost == 0)
    for number in np.unique(label[flow.owner[inner & (flow.reward > 0)]]).tolist():
        part = inner & (label[flow.owner] == number)
        scale = float(np.abs(flow.reward[part]).max())
        if loses(flow, part, FEASIBLE * scale):
            continue  # nothing cancels out where every way round loses
        gain, guess = mean_gain(flow, part)
        if gain > -FEASIBLE * scale:
            loss = guess[flow.owner] - flow.reward - flow.moves @ guess
            tight = part & (loss < NEARLY * scale)
            free = (free & ~part) | _settle(flow, tight, potential, slack, forever)
    return free, potential, slack, forever


def _settle(flow: Flow, tight: Bools, potential: Floats, slack: Floats, forever: Bools) -> Bools:
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
    exact = _exactly(flow, inner, policy, members) if np.abs(left).max() <= rounding else None
    if exact is not None:
        left, rounding = exact, 0.0
    if left.max() > rounding and left.min() >= -rounding:  # nobody loses, somebody gains
        forever[label == label[flow.owner[inner][np.argmax(left)]]] = True
    elif exact is not None and left.max() <= 0 and (np.diff(rows.indptr) == 1).all():
        slack[members] = -2 * members.size * left.min()
    elif np.abs(left).max() > rounding:
        raise LimitReached(
            f"gains and losses cancel out so nearly, in a cycle of {members.size} states, that 64-bit numbers cannot "
            "tell whether the return has a bound. Give the cycle a clear cost, or pass discount below 1."
        )
    return inner


def _exactly(flow: Flow, inner: Bools, policy: Ints, members: Ints) -> Floats | None:
    """What is left of the rewards of ``inner`` choices, 0 only where nothing is, with h in fractions along the policy.

    None where the policy has several outcomes.  Where it has no choice, h is 0.
    """
    start, target = flow.moves.indptr.tolist(), flow.moves.indices.tolist()
    height: dict[int, Fraction] = {state: Fraction(0) for state in members.tolist() if policy[state] < 0}
    for state in members.tolist():
        path, at = [], state
        while at not in height:
            row = int(policy[at])
            if start[row + 1] - start[row] != 1:
                return None
            path.append((at, Fraction(float(flow.reward[row]))))
            at = target[start[row]]
        for before, reward in reversed(path):
            height[before] = reward + height[at]
            at = before
    result = []
    for row in np.flatnonzero(inner).tolist():
        entries = range(start[row], start[row + 1])
        weights = [Fraction(float(flow.moves.data[e])) for e in entries]
        after = sum(weight * height[target[e]] for weight, e in zip(weights, entries, strict=True)) / sum(weights)
        left = Fraction(float(flow.reward[row])) + after - height[int(flow.owner[row])]
        result.append(float(left) or TINY * ((left > 0) - (left < 0)))
    return np.array(result)


def _solve(matrix: Any, right: Floats) -> Floats:
    """The solution of x = right + matrix x, with one step of refinement."""
    from scipy.sparse import csc_array, eye_array

    return SuperLU(csc_array(eye_array(right.size) - matrix)).refined(right) if right.size else right


def lead_to(flow: Flow, inner: Bools, goals: Ints) -> Ints:
    """For each state that can get to a goal by ``inner`` choices, one that comes nearer; −1 elsewhere and at goals."""
    policy = np.full(flow.num_states, -1)
    is_done = np.zeros(flow.num_states, np.bool_)
    is_done[goals] = True
    back = flow.moves.tocsc()
    frontier = goals
    while frontier.size:
        rows = np.unique(back[:, frontier].indices)
        rows = rows[inner[rows] & ~is_done[flow.owner[rows]]]
        policy[flow.owner[rows][::-1]] = rows[::-1]
        frontier = np.unique(flow.owner[rows])
        is_done[frontier] = True
    return policy
