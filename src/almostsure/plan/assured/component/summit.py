"""Who surely gets the most that a component offers, where steps cost nothing: settled without counting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from almostsure.model.mdp import Bools, Ints
from almostsure.plan.assured import steps
from almostsure.plan.assured.component import parts
from almostsure.plan.assured.steps import NOWHERE

if TYPE_CHECKING:
    from almostsure.plan.assured.component.component import Component

MANY = 16  # positions of which at least one is parted with in a round
LEVEL = 4e-16  # by how much, relatively, choices may differ that are worth the same


def settle_summit(component: Component) -> bool:
    """Settle those who surely get the most that can be got at an exit, and part with them; False if there are none.

    Let no choice that surely stays have a reward above 0, and let c be the most that a choice is worth on average
    when it leaves.  Then u = c is an upper bound of everybody.  Who can surely leave by choices worth c alone is
    worth just that, and l = c a lower bound, no matter how long it takes.  Elsewhere bounds blur with the time that
    choices take that look as good, and here all may do so.
    """
    raw, size, leaves = component.raw, component.raw.ptr.size - 1, component.raw.leak > 0
    if size == 0 or not leaves.any() or (raw.constant[~leaves] > 0).any():
        return False
    worth = np.where(raw.constant == 0, np.inf, -np.inf)
    worth[leaves] = raw.constant[leaves] / raw.leak[leaves]
    top = float(worth[leaves].max())
    usable, queue = worth >= top - LEVEL * abs(top), np.arange(size, dtype=np.uint32)
    queue = queue[: component.call(parts.leave_surely, raw, size, usable, queue)]
    if MANY * queue.size < size:
        return False
    policy, value, there = raw.ptr[:-1].copy(), np.full(size, -np.inf), np.zeros(size, np.bool_)
    component.call(parts.first_policy, raw, usable, queue, policy)
    value[queue], there[queue] = top, True
    component.order, component.part, component.size, component.in_place = queue, raw, size, False
    component.write(policy[queue], value)
    others = component.sorted[~there[component.bounds.place[component.sorted]]]
    least = float(worth[policy[queue]].min())  # of a choice that leaves, as somebody does
    if not _prove_same(component, least - component.exit_error, top + component.exit_error, others):
        return False
    _part_with_positions(component, there)
    return True


def _part_with_positions(component: Component, gone: Bools) -> None:
    """Go on without the members of some positions, which are settled."""
    place = component.bounds.place
    kept = ~gone[place[component.members]]
    position = (np.cumsum(~gone) - 1)[place[component.members[kept]]]
    place[component.members] = NOWHERE
    component.members = component.members[kept]
    place[component.members] = position
    component.sorted = component.sorted[place[component.sorted] != NOWHERE]
    if component.inside is not None:
        component.can_stay, component.local = component.can_stay[~gone], component.local[kept]
    component.cut()


def _prove_same(component: Component, low: float, high: float, others: Ints) -> bool:
    """Widen bounds that are the same for all members until they are proved, the lower ones not for some others."""
    bounds = component.bounds
    bounds.policy[others] = NOWHERE
    for _ in range(steps.ROUNDS):
        bounds.low[component.sorted], bounds.high[component.sorted] = low, high
        missing = component.call(steps.lacking, component.game, bounds, component.sorted, component.inside is not None)
        if missing == 0:
            bounds.rival[component.sorted] -= 2 * (high - low)
            return True
        if not np.isfinite(missing):
            return False
        wider = (1 + LEVEL) * missing + LEVEL * abs(high)
        low, high = low - wider, high + wider
    return False
