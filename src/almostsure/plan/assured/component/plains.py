"""Where steps cost nothing: bounds that do not widen with the time that equally good choices may take.

Maps with free steps and slips have *plains*: connected positions whose values differ by less than a rounding error, in
which a run can wait for 10²⁰ steps before a slip leads out.  A proof that allows an error for every step fails there.
So the two bounds are computed without counting such steps, from different equations:

**Upper bound.**  Adjacent positions whose values differ by at most a *grain* are merged into a plain with the choices
of all of them: a run in the plain may move to any of them at once.  No policy loses by that, so the values W of the
merged equations are upper bounds, with W(x) ≥ g + Σ p W(y) for every choice, and constant on each plain.  Waiting in
a plain is no longer a choice, so rounding errors δ add up over few steps only: at most h, over the choices whose value
is W or hardly less.  The bound that is checked, by one backup of every choice as in
:mod:`almostsure.plan.assured.steps`, is u = W + δ h; inside a plain the differences are 0 and nothing is rounded.  If
no choice raises u, it is an upper bound for every policy that leaves almost surely, and every policy does after
:mod:`.places` has collapsed the free end components.  Adjacent plains on which W is equal are merged too; otherwise
steps between them could go on for ever.

**Lower bound.**  Any policy that leaves almost surely gives lower bounds.  Among the choices with value at least
V − grain, those are taken that leave soonest, in t steps.  Their values L are at least V − grain · t, and l = L − δ t
is checked.

The first grain is a few hundred times the rounding errors, so that larger differences keep positions apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.assured import steps
from almostsure.plan.assured.component import approach, parts
from almostsure.plan.assured.component.parts import NO_STAY
from almostsure.plan.assured.component.sweeps import Sweeper, choice_owner, choice_worth, solve_directly
from almostsure.plan.assured.steps import NOWHERE, Part
from almostsure.plan.assured.sums import EPSILON

if TYPE_CHECKING:
    from almostsure.plan.assured.component.component import Component

GRAIN = 2.0**-43  # the first grain, relative to the largest value
COARSER = 64  # the factor to the next grain
FINER = 8  # rounding errors are added up over choices with a value of at least W − grain / FINER
SOON = 1e5  # the most steps over which the rounding errors of the policy that was found may add up
SWEEPS = 8  # for a first policy


def plain_of(part: Part, value: Floats, grain: float) -> Ints:
    """The number of each position's plain, which may be the position alone."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    start, size = part.entry_ptr[part.ptr].astype(np.int64), part.ptr.size - 1
    row = np.repeat(np.arange(size), np.diff(start))
    close = np.abs(value[row] - value[part.column]) <= grain
    beside = csr_array((close[close], (row[close], part.column[close].view(np.int32))), shape=(size, size))
    plain: Ints = connected_components(beside, directed=False)[1].astype(np.uint32)
    return plain


def solve_plains(call: Callable[..., Any], merged: Part, guess: Floats) -> tuple[Floats, Ints] | None:
    """The values of plains, close to the guess, and a policy; None if some cannot leave almost surely."""
    worth, owner, order = choice_worth(merged, guess), choice_owner(merged), np.arange(guess.size, dtype=np.uint32)
    best = np.flatnonzero(worth == np.maximum.reduceat(worth, merged.ptr[:-1].astype(np.int64))[owner])
    greedy = merged.ptr[:-1].copy()
    greedy[owner[best]] = best
    surely = call(parts.leaves, merged, order, greedy)
    first = greedy if surely else _first_policy(call, merged, np.ones(merged.origin.size, np.bool_))
    if first is None:
        return None
    policy, value = solve_directly(merged, first, merged.constant)
    return value, policy


def count_roundings(merged: Part, value: Floats, policy: Ints, grain: float) -> Floats:
    """The most expected steps over which rounding errors add up, on choices worth hardly less than the values."""
    near = choice_worth(merged, value) >= (value - grain / FINER)[choice_owner(merged)]
    near[policy] = True
    return solve_directly(merged, policy, np.where(near, 1.0, -np.inf))[1]


def leave_soon(
    call: Callable[..., Any], part: Part, found: tuple[Floats, Ints], grain: float
) -> tuple[Floats, Floats, Ints] | None:
    """The values, the expected time and the choices of a policy that leaves soon and loses hardly any value.

    That is the policy found unless it is slow; then the one that leaves soonest by choices within a grain of the
    values.  None if there is none.
    """
    value, policy = found
    time = _evaluated(part, policy, np.ones(policy.size))
    if time.min() > 0 and time.max() <= SOON:
        return value, time, policy
    usable = choice_worth(part, value) >= (value - grain)[choice_owner(part)]
    first = _first_policy(call, part, usable)
    if first is None:
        return None
    policy, time = solve_directly(part, first, np.where(usable, -1.0, -np.inf))
    return _evaluated(part, policy, part.constant[policy]), -time, policy


def _evaluated(part: Part, policy: Ints, constant: Floats) -> Floats:
    """The values of a policy, with the given constants in place of its choices' own."""
    taken = np.full(part.origin.size, -np.inf)
    taken[policy] = constant
    return solve_directly(part, policy, taken)[1]


def _first_policy(call: Callable[..., Any], part: Part, usable: Bools) -> Ints | None:
    """A policy of usable choices that leaves almost surely, and soon; None if there is none."""
    size = part.ptr.size - 1
    policy, queue = part.ptr[:-1].copy(), np.arange(size, dtype=np.uint32)
    if call(parts.leave_surely, part, size, usable, queue) < size:
        return None
    hurried, time = part._replace(constant=np.full(usable.size, -1.0)), np.full(size, -np.inf)
    call(parts.guess, hurried, usable, queue, time)
    for _ in range(SWEEPS):
        call(approach.relax, hurried, usable, queue, time, policy)
    if not call(parts.leaves, part, queue, policy):
        call(parts.first_policy, part, usable, queue, policy)
    return policy


# ---------------------------------------------------------------------- a component


def attempt(component: Component, sweeper: Sweeper | None, half: float, threshold: float) -> float:
    """Solve the equations directly, after sweeps if there is a sweeper, and prove bounds however long leaving takes.

    Returns the half-width of the bounds relative to ``half``; ∞ if nothing was proved.
    """
    part, value, policy = component.part, component.guess.copy(), component.part.ptr[:-1].copy()
    swept = sweeper is not None and sweeper.run(part.constant, value, policy, threshold)
    if not (swept and component.call(parts.leaves, part, np.arange(value.size, dtype=np.uint32), policy)):
        policy = component.first_policy()
    policy, value = solve_directly(part, policy, part.constant)
    return _prove_plains(component, (value, policy), half) if np.isfinite(value).all() else np.inf


def _prove_plains(component: Component, found: tuple[Floats, Ints], half: float) -> float:
    """Prove bounds with coarser and coarser grains, and keep the closest; returns their half-width by ``half``."""
    bounds, members = component.bounds, component.sorted
    sides = (bounds.low, bounds.high, bounds.policy, bounds.rival)
    size = float(np.abs(found[0]).max(initial=0.0))
    grain, excess = GRAIN * size, np.inf
    while excess == np.inf or (excess > 1 and grain <= half * max(1.0, size)):
        before = [side[members] for side in sides]
        now = component.excess(half) if _prove_with_grain(component, found, grain) else np.inf
        if now < excess:
            excess = now
        else:
            for side, kept in zip(sides, before, strict=True):
                side[members] = kept
        grain *= COARSER
        if not 0 < grain <= size:
            break
    return excess


def _prove_with_grain(component: Component, found: tuple[Floats, Ints], grain: float) -> bool:
    """Write the policy and prove bounds with plains of a given grain."""
    over, under = _upper_values(component, found[0], grain), leave_soon(component.call, component.part, found, grain)
    if over is None or under is None:
        return False
    worth, time, policy = under
    _, low = component.fill(worth, policy)
    high, (tall, short) = (
        component.by_position(over[0], -np.inf),
        (component.by_position(x, 0.0) for x in (over[1], time)),
    )
    if component.can_stay.size:
        high = np.where(component.can_stay, np.maximum(high, 0.0), high)
    return widen_until_proved(component, (low, short), (high, tall), EPSILON * np.abs(worth).max())


def _upper_values(component: Component, value: Floats, grain: float) -> tuple[Floats, Floats] | None:
    """Upper bounds, up to rounding, of the positions that leave almost surely, and the steps rounding adds up over."""
    plain = plain_of(component.part, value, grain)
    while True:
        merged, guess = _merged_equations(component, plain), np.full(int(plain.max()) + 1, -np.inf)
        np.maximum.at(guess, plain, value)
        found = solve_plains(component.call, merged, guess)
        if found is None:
            return None
        more = plain_of(merged, found[0], grain)
        if more.max() + 1 == found[0].size:
            return found[0][plain], count_roundings(merged, *found, grain)[plain]
        plain = more[plain]  # adjacent plains may have the same value now


def _merged_equations(component: Component, plain: Ints) -> Part:
    """The equations of the plains, given the plain of each position that can leave almost surely."""
    place, members, can_stay = component.bounds.place, component.members, NO_STAY
    number = component.by_position(plain, NOWHERE)
    if component.can_stay.size:
        can_stay = np.zeros(int(plain.max()) + 1, np.bool_)
        can_stay[plain[component.can_stay[component.order]]] = True
    before = place[members]
    at = number[before]
    component.set_lost(members[at == NOWHERE])
    together = members[np.argsort(at, kind="stable")[: np.count_nonzero(at != NOWHERE)]]
    place[members] = at
    room = component.engine.room("plains", together.size, *component.call(parts.spread, component.graph, together))
    sizes, _ = component.call(parts.cut, component.game, component.bounds, together, can_stay, room)
    place[members] = before
    merged: Part = component.call(parts.fitted, room, sizes)
    component.call(parts.list_predecessors, merged, sizes[0])
    return merged


def widen_until_proved(
    component: Component, below: tuple[Floats, Floats], above: tuple[Floats, Floats], residual: float
) -> bool:
    """Widen bounds by residual · time until they are proved; False if they never are.

    ``below`` and ``above`` are values and times, by position.
    """
    bounds, members = component.bounds, component.sorted
    at = bounds.place[members]
    (low, time), (high, height) = ((value[at], times[at]) for value, times in (below, above))
    finite = members[low > -np.inf]
    rounding = 2 * EPSILON * float(np.abs(low[low > -np.inf]).max(initial=0.0))
    for _ in range(steps.ROUNDS):
        bounds.low[members] = low - component.exit_error - residual * time
        bounds.high[members] = high + component.exit_error + residual * height
        missing = component.call(steps.lacking, component.game, bounds, members, component.inside is not None)
        if missing == 0:
            bounds.rival[members] -= 2 * float((bounds.high[finite] - bounds.low[finite]).max(initial=0.0))
            return True
        if not missing < np.inf:
            return False
        residual = max(2 * residual + 1.5 * missing, rounding)
    return False
