"""Where steps cost nothing: bounds that do not blur with the time that choices take which look as good.

Free maps with slips have *plains*: positions whose values differ by less than a rounding, in which one can wait for
10²⁰ steps before a slip leads out.  A proof that adds an error for every step has no end there.  Bounds are made
without counting such steps, an upper and a lower one from different equations:

**Above.**  Positions beside each other whose values differ by no more than a *grain* are made one, with the choices of
all of them: whoever is there may go to any of them at once.  That is no worse for anybody, so the values W of these
equations are upper bounds, W(x) ≥ g + Σ p W(y) for every choice, and they are level on each plain.  Waiting is not one
of the choices any more, so few steps are left over which roundings δ add up: h of them at most, on choices that are
worth W or hardly less.  What is checked is u = W + δ h, by one step of every choice, as
:mod:`almostsure.plan.assured.steps` says: on a plain the differences are 0, and nothing is rounded.  If no choice
raises u, it is an upper bound of everybody who leaves, and so does everybody after :mod:`.places` has collapsed what
can be stayed in.  Where W is level on plains beside each other they are one as well, or steps between them would
be taken for ever.

**Below.**  Any policy that surely leaves gives lower bounds.  Of the choices that are worth the values V less a grain,
the ones are taken that leave soonest, in t steps; so no less than V − grain · t is got, and l = L − δ t is checked,
with L their values.

A grain a few hundred times the roundings will do: what differs by more is told apart.
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

if TYPE_CHECKING:
    from almostsure.plan.assured.component.component import Component

GRAIN = 2.0**-43  # of the largest value: how much values beside each other on a plain differ, at most
COARSER = 64  # times, the next grain if that is too fine
FINER = 8  # times less than a grain: how much less a choice may be worth for its roundings to be added up
SOON = 1e5  # steps over which roundings may add up
SWEEPS = 8  # for a first policy


def label(part: Part, value: Floats, grain: float) -> Ints:
    """The number of each position's plain, which may be itself alone."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    start, size = part.entry_ptr[part.ptr].astype(np.int64), part.ptr.size - 1
    row = np.repeat(np.arange(size), np.diff(start))
    close = np.abs(value[row] - value[part.column]) <= grain
    beside = csr_array((close[close], (row[close], part.column[close].view(np.int32))), shape=(size, size))
    plain: Ints = connected_components(beside, directed=False)[1].astype(np.uint32)
    return plain


def above(call: Callable[..., Any], flat: Part, guess: Floats) -> tuple[Floats, Ints] | None:
    """The values of plains, which the guess is near, and a policy; None if they do not all surely leave."""
    worth, owner, order = choice_worth(flat, guess), choice_owner(flat), np.arange(guess.size, dtype=np.uint32)
    best = np.flatnonzero(worth == np.maximum.reduceat(worth, flat.ptr[:-1].astype(np.int64))[owner])
    greedy = flat.ptr[:-1].copy()
    greedy[owner[best]] = best
    surely = call(parts.leaves, flat, order, greedy)
    first = greedy if surely else _first_policy(call, flat, np.ones(flat.origin.size, np.bool_))
    if first is None:
        return None
    policy, value = solve_directly(flat, first, flat.constant)
    return value, policy


def roundings(flat: Part, value: Floats, policy: Ints, grain: float) -> Floats:
    """How many steps roundings may add up over, on choices that are worth hardly less than the values."""
    near = choice_worth(flat, value) >= (value - grain / FINER)[choice_owner(flat)]
    near[policy] = True
    return solve_directly(flat, policy, np.where(near, 1.0, -np.inf))[1]


def below(
    call: Callable[..., Any], part: Part, found: tuple[Floats, Ints], grain: float
) -> tuple[Floats, Floats, Ints] | None:
    """The values, the time and the choices of a policy that leaves soon and is worth what was found, or hardly less.

    If the one that was found is slow: that which leaves soonest by choices that are worth the values less a grain.
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
    """What a policy is worth, with a constant for each of its choices."""
    taken = np.full(part.origin.size, -np.inf)
    taken[policy] = constant
    return solve_directly(part, policy, taken)[1]


def _first_policy(call: Callable[..., Any], part: Part, usable: Bools) -> Ints | None:
    """A policy of usable choices that surely leaves, and soon; None if there is none."""
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
    """Solve the equations directly, after sweeps if they are many, and prove bounds however long it takes to leave.

    Returns how wide these are, in shares of what is asked for; ∞ if nothing was proved.
    """
    part, value, policy = component.part, component.guess.copy(), component.part.ptr[:-1].copy()
    swept = sweeper is not None and sweeper.run(part.constant, value, policy, threshold)
    if not (swept and component.call(parts.leaves, part, np.arange(value.size, dtype=np.uint32), policy)):
        policy = component.first_policy()
    policy, value = solve_directly(part, policy, part.constant)
    return _prove_plains(component, (value, policy), half) if np.isfinite(value).all() else np.inf


def _prove_plains(component: Component, found: tuple[Floats, Ints], half: float) -> float:
    """Prove bounds with plains of finer or coarser grain, and keep the closest; returns how wide they are."""
    bounds, members = component.bounds, component.sorted
    sides = (bounds.low, bounds.high, bounds.policy, bounds.rival)
    size = float(np.abs(found[0]).max(initial=0.0))
    grain, excess = GRAIN * size, np.inf
    while excess == np.inf or (excess > 1 and grain <= half * max(1.0, size)):
        before = [side[members] for side in sides]
        now = component.excess(half) if _prove_level(component, found, grain) else np.inf
        if now < excess:
            excess = now
        else:
            for side, kept in zip(sides, before, strict=True):
                side[members] = kept
        grain *= COARSER
        if not 0 < grain <= size:
            break
    return excess


def _prove_level(component: Component, found: tuple[Floats, Ints], grain: float) -> bool:
    """Write the policy and prove bounds with plains of a given grain."""
    over, under = _above(component, found[0], grain), below(component.call, component.part, found, grain)
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
    return widen(component, (low, short), (high, tall), float(np.finfo(np.float64).eps) / 2 * np.abs(worth).max())


def _above(component: Component, value: Floats, grain: float) -> tuple[Floats, Floats] | None:
    """Upper bounds of the positions that surely leave, but for roundings, and over how many steps these add up."""
    plain = label(component.part, value, grain)
    while True:
        flat, guess = _flatten(component, plain), np.full(int(plain.max()) + 1, -np.inf)
        np.maximum.at(guess, plain, value)
        found = above(component.call, flat, guess)
        if found is None:
            return None
        more = label(flat, found[0], grain)
        if more.max() + 1 == found[0].size:
            return found[0][plain], roundings(flat, *found, grain)[plain]
        plain = more[plain]  # what was made one may be on a level with others now


def _flatten(component: Component, plain: Ints) -> Part:
    """The equations of the plains, in which the positions are that can surely leave."""
    place, members, can_stay = component.bounds.place, component.members, NO_STAY
    number = component.by_position(plain, NOWHERE)
    if component.can_stay.size:
        can_stay = np.zeros(int(plain.max()) + 1, np.bool_)
        can_stay[plain[component.can_stay[component.order]]] = True
    before = place[members]
    at = number[before]
    component.lose(members[at == NOWHERE])
    together = members[np.argsort(at, kind="stable")[: np.count_nonzero(at != NOWHERE)]]
    place[members] = at
    room = component.engine.room("plains", together.size, *component.call(parts.spread, component.graph, together))
    sizes, _ = component.call(parts.cut, component.game, component.bounds, together, can_stay, room)
    place[members] = before
    flat: Part = component.call(parts.fitted, room, sizes)
    component.call(parts.list_predecessors, flat, sizes[0])
    return flat


def widen(component: Component, below: tuple[Floats, Floats], above: tuple[Floats, Floats], residual: float) -> bool:
    """Widen bounds by what roundings may add up to, until they are proved; values and times are by position."""
    bounds, members = component.bounds, component.sorted
    at = bounds.place[members]
    (low, time), (high, height) = ((value[at], times[at]) for value, times in (below, above))
    finite = members[low > -np.inf]
    for _ in range(steps.ROUNDS):
        bounds.low[members] = low - component.exit_error - residual * time
        bounds.high[members] = high + component.exit_error + residual * height
        missing = component.call(steps.lacking, component.game, bounds, members, component.inside is not None)
        if missing == 0:
            bounds.rival[members] -= 2 * float((bounds.high[finite] - bounds.low[finite]).max(initial=0.0))
            return True
        if not missing < np.inf:
            return False
        residual = 2 * residual + 1.5 * missing
    return False
