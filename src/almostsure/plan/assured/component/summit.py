"""Where steps cost nothing: positions that attain the best exit almost surely are settled without counting steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from almostsure.model.mdp import Bools
from almostsure.plan.assured.component import parts, plains
from almostsure.plan.assured.steps import NOWHERE

if TYPE_CHECKING:
    from almostsure.plan.assured.component.component import Component

MANY = 16  # a round must settle at least 1 in this many positions
LEVEL = 4e-16  # the relative difference up to which the values of choices count as equal; more if exits are uncertain


def settle_best_exits(component: Component, least: float = -np.inf) -> bool:
    """Settle and remove the positions that attain the best exit almost surely; False if too few do.

    Where free end components have not been collapsed, a run may stay for ever for 0, so the best exit must be worth at
    least that much: ``least``.

    Let no choice that cannot leave have a reward above 0, and let c be the largest mean value of a choice given that
    it leaves.  Then u = c is an upper bound for all positions.  A position that can leave almost surely using only
    choices with value c has exactly that value, and l = c is a lower bound however long leaving takes (or the least
    value of these choices, where the values of exits have errors).  Other proofs widen the bounds with the time that
    equally good choices may take, and here all choices may be equally good.
    """
    raw, size, leaves = component.raw, component.raw.ptr.size - 1, component.raw.leak > 0
    if size == 0 or not leaves.any() or (raw.constant[~leaves] > 0).any():
        return False
    worth = np.where(raw.constant == 0, np.inf, -np.inf)
    worth[leaves] = raw.constant[leaves] / raw.leak[leaves]
    top = float(worth[leaves].max())
    if top < least:
        return False
    level = max(LEVEL * abs(top), min(component.exit_error, plains.GRAIN * abs(top)))
    usable, queue = worth >= top - level, np.arange(size, dtype=np.uint32)
    queue = queue[: component.call(parts.leave_surely, raw, size, usable, queue)]
    if MANY * queue.size < size:
        return False
    policy, value, there = raw.ptr[:-1].copy(), np.full(size, -np.inf), np.zeros(size, np.bool_)
    component.call(parts.first_policy, raw, usable, queue, policy)
    value[queue], there[queue] = top, True
    component.order, component.part, component.size, component.in_place = queue, raw, size, False
    component.write(policy[queue], value)
    others = component.sorted[~there[component.bounds.place[component.sorted]]]
    component.bounds.policy[others] = NOWHERE  # for them only the upper bound is proved
    low, flat = float(worth[policy[queue]].min()), np.ones(size)  # of a choice that leaves: there is one
    if not plains.widen_until_proved(component, (low * flat, flat), (top * flat, flat), 0.0):
        return False
    _remove_positions(component, there)
    return True


def _remove_positions(component: Component, gone: Bools) -> None:
    """Remove settled positions from the component, and build its equations again."""
    place = component.bounds.place
    kept = ~gone[place[component.members]]
    position = (np.cumsum(~gone) - 1)[place[component.members[kept]]]
    place[component.members] = NOWHERE
    component.members = component.members[kept]
    place[component.members] = position
    component.sorted = component.sorted[place[component.sorted] != NOWHERE]
    if component.inside is not None:
        component.can_stay, component.local = component.can_stay[~gone], component.local[kept]
    component.build_equations()
