"""A strongly connected component that :mod:`.small` does not settle: its equations, their solution, and proved bounds.

1. End components without reward are collapsed into one *position* each (:mod:`.places`).
2. Positions that cannot leave the component almost surely have value −∞ (:mod:`.parts`).
3. The equations of the others are solved directly or, if there are many, by ordered sweeps (:mod:`.sweeps`).
4. Bounds are proved by one Bellman backup (:mod:`almostsure.plan.assured.steps`).

Where reward can be collected for ever, the value is +∞ (:mod:`.gains`).  Cycles on which gains and losses cancel out
are treated by :mod:`.cancelling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from almostsure.errors import LimitReached
from almostsure.memory import side_by_side
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.assured import steps
from almostsure.plan.assured.component import approach, parts, places, plains
from almostsure.plan.assured.component.estimate import estimate, room_to_estimate
from almostsure.plan.assured.component.parts import NO_STAY, STAY
from almostsure.plan.assured.component.summit import settle_best_exits
from almostsure.plan.assured.component.sweeps import Sweeper, choice_owner, choice_worth, solve_directly
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.steps import NOWHERE, Part
from almostsure.plan.assured.sums import EPSILON

if TYPE_CHECKING:
    from almostsure.plan.assured.engine import Engine

DIRECT = 2_000  # the most positions of a component that is solved by policy iteration with LU
THIN = 12_000  # the same where sweeps have failed
CHEAP = 1e9  # multiplications up to which LU is cheap enough for a component without costs
THICK = 60_000  # the most positions of such a component for which the cost of LU is estimated
FIRST_ROUNDS = 8  # sweeps before the first policy is evaluated by LU
FEW = 8  # members not known to leave almost surely are examined one by one if they are at most 1 in FEW
HINTED = 0.9  # the share of members whose value with a smaller budget must be known to serve as a hint
WORTHS = 3  # members are sorted by value into this many buckets, times the square root of their number
DENSE = 4  # members are sorted by marking them if at least 1 in DENSE of the numbers in their range is a member
SAMPLED = 10_000  # the size of a sample of choices
SUMMITS = 8  # rounds of settling the positions that attain the best exit
ATTEMPTS = 4  # at solving with a residual so small that the bounds are within the tolerance
Array = TypeVar("Array", Floats, Ints)


def make_part(positions: int, choices: int, entries: int) -> Part:
    """Uninitialised arrays for a component of at most this size."""
    choices += positions  # one more per position: to stay there
    ptr, entry_ptr, column, origin, pred_ptr, pred = side_by_side(
        np.uint32, positions + 1, choices + 1, entries, choices, positions + 1, entries
    )
    factor, constant, leak = side_by_side(np.float64, entries, choices, choices)
    return Part(ptr, entry_ptr, column, factor, constant, origin, leak, pred_ptr, pred)


def ascending(members: Ints) -> Ints:
    """The members in ascending order, which is their order in memory."""
    first, last = int(members.min(initial=NOWHERE)), int(members.max(initial=0))
    if last - first > DENSE * members.size or not members.size:
        return np.sort(members)
    is_member = np.zeros(last - first + 1, np.bool_)
    is_member[members - first] = True
    return (np.flatnonzero(is_member) + first).astype(members.dtype)


class Component:
    """A strongly connected component that :mod:`.small` does not settle."""

    def __init__(self, engine: Engine, members: Ints) -> None:
        self.engine, self.members, self.sorted = engine, members, ascending(members)
        self.all_members = self.sorted  # also those that are removed later
        self.game, self.bounds, self.graph = engine.game, engine.bounds, engine.graph
        self.can_stay = NO_STAY
        self.all_sure = False  # whether all members are known to leave almost surely
        self.sure = np.zeros(0, np.bool_)  # [members], which are known to leave almost surely, where there is a hint
        self.inside: Graph | None = None  # the choices inside collapsed end components
        self.hint: Floats | None = None
        if members.size > DIRECT:
            self._set_hint()

    def _set_hint(self) -> None:
        """Sort the members by the values of their states with a smaller budget; no hint if too few are known."""
        self.members = self.sorted
        hint, sure = np.empty(self.members.size), np.empty(self.members.size, np.bool_)
        self.call(parts.hints, self.game, self.members, self.engine.known, hint, sure)
        if np.count_nonzero(hint > -np.inf) < HINTED * hint.size:
            return
        sort = parts.by_worth, self.members, hint, sure, int(WORTHS * hint.size**0.5)
        self.members, self.hint, self.sure = self.call(*sort)

    def call(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, compiled or not."""
        return self.engine.call(kernel, *arguments)

    def settle(self, half: float) -> None:
        """Find values, choices and bounds of all members."""
        if self.hint is not None and self.engine.is_monotone and self.engine.discount == 1:
            self._remove_lost(self.hint)
        members = self.members
        self.bounds.place[members] = np.arange(members.size, dtype=np.uint32)
        self.build_equations()
        if self.top == np.inf:
            return self._set_unbounded(members[:0])
        if np.isnan(self.top):
            return self._set_unknown()
        if self.engine.discount == 1 and self.most > 0 and self._settle_gains():
            return None
        if self.engine.discount == 1 and self.most >= 0:
            self.hint, self.all_sure = None, False  # where staying is free, an equally good choice may never leave
            settle_best_exits(self, 0.0)  # often settles all, and takes less time than to collapse end components
            if self._collapse():
                self.build_equations()
            for _ in range(SUMMITS):
                if not settle_best_exits(self):
                    break
        if self.members.size == 0:
            self.bounds.place[members] = NOWHERE
            return None
        if members.size > DIRECT and self.inside is None and self.hint is None:
            self._sort_by_estimate()
        self._order_equations()
        if self.part.ptr.size == 1:
            self.set_lost(self.members)
        else:
            self._solve(half)
        self.bounds.place[members] = NOWHERE
        return None

    def _remove_lost(self, hint: Floats) -> None:
        """Remove the members with value −∞ before the equations are built, if those not known to leave are few.

        The others count as exits.  Members that cannot leave are lost if staying costs, and no exit is worth +∞.
        """
        members, bounds, others = self.members, self.bounds, np.flatnonzero(~self.sure)
        if FEW * others.size > members.size:
            return
        bounds.low[self.sorted] = bounds.high[self.sorted] = 0.0
        self.members = members[others]
        bounds.place[self.members] = np.arange(others.size, dtype=np.uint32)
        self.build_equations()
        lost = np.delete(others, self._leaving()[1])
        self.members = members
        self.all_sure = lost.size == 0 or bool(self.most < 0 and self.top < np.inf)
        if self.all_sure and lost.size:
            self._remove(members[lost])
            self._keep(np.delete(members, lost), np.delete(hint, lost))

    def _remove(self, lost: Ints) -> None:
        """Set members to −∞ and take them out of the component."""
        self.set_lost(lost)
        self.bounds.place[lost] = NOWHERE

    def _keep(self, members: Ints, hint: Floats) -> None:
        """Continue with some members, in the given order and with first values; the others have been removed."""
        place = self.bounds.place
        self.members, self.hint = members, hint
        place[members] = np.arange(members.size, dtype=np.uint32)
        self.sorted = self.sorted[place[self.sorted] != NOWHERE]

    # ------------------------------------------------------------------ the equations

    def _collapse(self) -> bool:
        """Collapse each end component without reward into one position; False if there is none."""
        members, can_stay, inside, local = self.call(places.collapse, self.game, self.bounds, self.members)
        if not can_stay.any():
            return False
        self.members, self.can_stay, self.inside, self.local = members, can_stay, inside, local
        return True

    def build_equations(self) -> None:
        """Fill in the equations of the positions, and what :func:`.parts.cut` finds out about exits and rewards."""
        members = self.members
        room = self.engine.room("members", members.size, *self.call(parts.spread, self.graph, members))
        sizes, known = self.call(parts.cut, self.game, self.bounds, members, self.can_stay, room)
        self.most, self.top, self.exit_error, self.exit_relative, self.all_leave = known
        self.raw = self.call(parts.fitted, room, sizes)

    def _sort_by_estimate(self) -> None:
        """Build the equations again, sorted by estimated value, so that sweeps converge fast; no-op for few positions.

        Building them again in memory that is already mapped is faster than copying them.
        """
        usable, queue = self._leaving()
        if queue.size <= DIRECT:
            return
        order, guess = self._estimated(self.raw, usable, queue)
        if self.engine.discount == 1:
            self._remove(np.delete(self.members, order))
            self.all_sure = True
        self._keep(self.members[order], guess[order])
        self.build_equations()

    def _leaving(self) -> tuple[Bools, Ints]:
        """The choices with which positions can leave almost surely (a mask), and these positions."""
        size, usable = self.raw.ptr.size - 1, np.ones(self.raw.origin.size, np.bool_)
        queue: Ints = np.arange(size, dtype=np.uint32)
        if self.engine.discount == 1 and not self.all_sure and not (self.all_leave and size > THIN):
            queue = queue[: self.call(parts.leave_surely, self.raw, size, usable, queue)]
        return usable, queue

    def _order_equations(self) -> None:
        """Restrict the equations to positions that can leave almost surely, in a good order, and find first values."""
        raw, size, choices = self.raw, self.raw.ptr.size - 1, self.raw.origin.size
        usable, queue = self._leaving()
        guess, self.size, room = np.full(size, -np.inf), size, raw
        if self.hint is not None and size == self.hint.size:
            found = np.zeros(size, np.bool_)
            found[queue] = True
            guess = np.where(found, self.hint, -np.inf)
            more, rest = size + 1, np.flatnonzero(found & (guess == -np.inf)).astype(np.uint32)
            while rest.size < more:  # the value of some depends on positions further back
                self.call(parts.guess, raw, usable, rest, guess)
                more, rest = rest.size, rest[guess[rest] == -np.inf]
            queue = np.flatnonzero(found).astype(np.uint32)
        else:
            room = self.engine.room("in order", size, choices, raw.column.size)
            if queue.size > DIRECT:
                queue, guess = self._estimated(raw, usable, queue)
            else:
                self.call(parts.guess, raw, usable, queue, guess)
        self.in_place = room is raw and queue.size == size
        self.order, self.guess, self.part = queue, guess if self.in_place else guess[queue], raw
        if room is not raw or queue.size < size or not usable.all():
            left = self.call(parts.reorder, raw, queue, usable, room)
            self.part = self.call(parts.fitted, room, (queue.size, *left))

    def _estimated(self, raw: Part, usable: Bools, queue: Ints) -> tuple[Ints, Floats]:
        """The positions in the queue, sorted by estimated value, and first values of all positions."""
        discount = self.engine.discount
        self.call(parts.list_predecessors, raw, raw.ptr.size - 1)
        room = room_to_estimate(raw.ptr.size - 1, raw.origin.size, raw.column.size)
        rewards = self.graph.origin, self.game.gain
        order, guess, lowest = self.call(estimate, raw, usable, rewards, self._bucket_width(), discount, room)
        if order.size < queue.size:  # estimates are in single precision, which the rewards exceed
            guess[np.setdiff1d(queue, order)] = guess[order].min(initial=0.0)
            order = np.concatenate([order, np.setdiff1d(queue, order)])
        return order, np.full(guess.size, lowest) if discount < 1 else guess

    def _bucket_width(self) -> float:
        """The difference below which estimated values count as equal: a quarter of the median |reward| of a step."""
        sample = self.raw.origin[:: 1 + self.raw.origin.size // SAMPLED]
        gain = self.game.gain[self.graph.origin[sample[sample != STAY]]]
        gain = gain if gain.any() else self.game.gain
        return float(np.median(np.abs(gain[gain != 0]))) / 4 if gain.any() else 1.0

    # ------------------------------------------------------------------ values and bounds

    def _solve(self, half: float) -> None:
        """Solve the equations to a residual that gives close bounds, and prove these bounds."""
        discount, size = self.engine.discount, self.order.size
        threshold = 0.9 * half * -self.most if -np.inf < self.most < 0 else half / 100  # −∞: no choice stays
        threshold = half * (1 - discount) / 2 if discount < 1 else threshold
        excess = np.inf
        if size > DIRECT:
            excess = self._attempt(Sweeper(self.part, discounted=discount < 1), half, threshold)
        if excess > 1 and size <= max(DIRECT, THIN):
            excess = self._attempt(None, half, 0.0)
        if excess == np.inf:
            self._bound_by_exits()

    def _attempt(self, sweeper: Sweeper | None, half: float, threshold: float) -> float:
        """Solve the equations by sweeps (directly if there is no sweeper) and prove bounds.

        Returns the width of the bounds relative to ``half``; ∞ if nothing was proved or sweeps took too long.
        """
        if self.engine.discount == 1 and self.most >= 0 and (sweeper is None or self._is_cheap(sweeper)):
            return plains.attempt(self, sweeper, half, threshold)
        part, value, policy = self.part, self.guess.copy(), self.part.ptr[:-1].copy()
        for _ in range(ATTEMPTS):
            if sweeper is None:
                policy, value = solve_directly(part, self.first_policy(), part.constant)
            elif not sweeper.run(part.constant, value, policy, threshold):
                return np.inf
            height = self._height(sweeper, value, policy, half)
            proved = height is not None and self._prove(value, policy, height, threshold)
            excess = self.excess(half) if proved else np.inf
            if sweeper is None or not 1 < excess < np.inf:
                break
            threshold /= 2 * excess
        return excess

    def _is_cheap(self, sweeper: Sweeper) -> bool:
        """Whether LU of the component costs little enough to be repeated."""
        return self.order.size <= THICK and sweeper.cost < CHEAP

    def excess(self, half: float) -> float:
        """The half-width of the bounds relative to ``half``: at most 1 if they are close enough."""
        return float(self.call(steps.width, self.bounds, self.sorted)) / half

    def first_policy(self) -> Ints:
        """A policy that leaves almost surely: the greedy one after a few sweeps, if it does."""
        usable, order = np.ones(self.part.origin.size, np.bool_), np.arange(self.order.size, dtype=np.uint32)
        policy: Ints = self.part.ptr[:-1].copy()
        if not self.engine.plainly:
            value = self.guess.copy()
            rows = approach.room_for_rows(self.part, order)
            for _ in range(FIRST_ROUNDS):
                approach.relax(self.part, usable, order, value, policy)
                approach.follow(self.part, order, value, policy, rows, approach.POLICY_SWEEPS)
            if self.engine.discount < 1 or parts.leaves(self.part, order, policy):
                return policy
        self.call(parts.first_policy, self.part, usable, order, policy)
        return policy

    def _height(self, sweeper: Sweeper | None, value: Floats, policy: Ints, half: float) -> Floats | None:
        """At most the effect on each value of an error of 1 per step, over choices that may be optimal; None: unknown.

        That is a bound on the expected number of steps until the component is left.
        """
        discount, part = self.engine.discount, self.part
        if discount < 1:
            return np.full(value.size, 1 / (1 - discount))
        if self.most < 0 and self.top > -np.inf:
            height: Floats = 1 + (max(self.top, float(value.max())) - value) / -self.most
            return height
        if sweeper is None or not self.call(parts.leaves, part, np.arange(value.size, dtype=np.uint32), policy):
            return None
        near = choice_worth(part, value) >= (value - 4 * half * np.maximum(1.0, np.abs(value)))[choice_owner(part)]
        near[policy] = True
        height = np.zeros(value.size)
        done = sweeper.run(np.where(near, 1.5, -np.inf), height, policy.copy(), 0.4)
        return height if done else None

    def _prove(self, value: Floats, policy: Ints, height: Floats, residual: float) -> bool:
        """Write the policy and prove bounds around the values.

        The proof does not check the choice to stay: where there is one, values are at least 0, which it is worth.
        """
        value, full = self.fill(value, policy)
        tall = self.by_position(height, 0.0)
        first = max(residual, EPSILON * float(np.abs(value).max(initial=0.0)))
        first = first if value.any() else 0.0
        exits = (self.exit_error, self.exit_relative, -self.most, first)
        merged = self.inside is not None
        return bool(self.call(steps.prove, self.game, self.bounds, self.sorted, full, tall, exits, merged))

    def fill(self, value: Floats, policy: Ints) -> tuple[Floats, Floats]:
        """Write the policy; returns the values, at least 0 where the run can stay, by equation and by position."""
        if self.can_stay.size:
            worse = self.can_stay[self.order] & (value < 0)
            value, policy = np.where(worse, 0.0, value), np.where(worse, self.part.ptr[:-1], policy)
        full = self.by_position(value, -np.inf)
        self.write(policy, full)
        return value, full

    def by_position(self, given: Array, otherwise: Any) -> Array:
        """Values in the order of the equations, reordered by position."""
        if self.in_place:
            return given
        result = np.full(self.size, otherwise, given.dtype)
        result[self.order] = given
        return result

    def write(self, policy: Ints, value: Floats) -> None:
        """Write the members' choices; those of a collapsed position go to where it is left, or stay.

        Also stores the values of their states (``value`` is by position) as hints for larger budgets.
        """
        graph, bounds = self.graph, self.bounds
        chosen = self.by_position(self.part.origin[policy], NOWHERE)  # NOWHERE: stay, or lost
        self.call(parts.write, graph, bounds, self.sorted, chosen, value, self.engine.known)
        if self.inside is not None:
            self.call(places.lead_out, graph, bounds, self.members, chosen, self.inside, self.local)

    # ------------------------------------------------------------------ without a finite value

    def set_lost(self, members: Ints) -> None:
        """Set the value of members that cannot leave almost surely: −∞."""
        self.bounds.low[members] = self.bounds.high[members] = -np.inf
        self.bounds.policy[members] = self.graph.ptr[members]

    def _bound_by_exits(self) -> None:
        """After a failure: bounds from the exits alone if all other steps have reward 0, or else none (−∞ and ∞).

        Let c be the largest and d the smallest mean value of a choice given that it leaves.  Then no policy returns
        more than c (or 0, where the run can stay), and every policy that leaves almost surely returns at least d.
        """
        part, leaves = self.part, self.part.leak > 0
        finite = np.zeros(self.size, np.bool_)
        finite[self.order] = True
        lost = ~finite[self.bounds.place[self.members]]
        self.set_lost(self.members[lost])
        if self.engine.discount == 1 and not part.constant[~leaves].any() and leaves.any():
            worth = part.constant[leaves] / part.leak[leaves]
            low, high, flat = np.full(self.size, -np.inf), np.full(self.size, -np.inf), np.ones(self.size)
            low[self.order], high[self.order] = worth.min(), worth.max()
            self.write(self.first_policy(), np.full(self.size, np.nan))
            if plains.widen_until_proved(self, (low, flat), (high, flat), 2 * EPSILON * np.abs(worth).max()):
                return
        members = self.members[~lost]
        self.write(self.part.ptr[:-1], np.full(self.size, np.nan))
        self.bounds.low[members], self.bounds.high[members] = -np.inf, np.inf

    def _set_unknown(self) -> None:
        """An exit has no bounds, so no member has any."""
        self._set_all(-np.inf, np.inf)

    def _set_unbounded(self, cycle: Ints) -> None:
        """All members can reach a cycle on which reward is collected for ever: +∞."""
        self._set_all(np.inf, np.inf)
        if cycle.size:
            self.engine.cycles.append(cycle)

    def _set_all(self, low: float, high: float) -> None:
        members = self.all_members
        self.bounds.low[members], self.bounds.high[members] = low, high
        self.bounds.policy[members] = self.graph.ptr[members]
        self.bounds.place[members] = NOWHERE

    def _settle_gains(self) -> bool:
        """Settle the component if gains inside it may go on for ever, or cancel out; False if they do neither."""
        inner = self.call(places.inner_graph, self.game, self.bounds, self.members, False)
        gains = self.game.gain[self.graph.origin[inner.origin]]
        if (gains > 0).any():
            _, inside = self.call(places.end_components, inner)
            gains = self.game.gain[self.graph.origin[inside.origin]]
        if not (gains > 0).any():
            return False
        from almostsure.plan.assured.component.gains import settle_gains

        try:
            found = settle_gains(self.game, self.bounds, self.members, self.engine.mdp.reward)
        except LimitReached as error:
            self.engine.doubts.append(str(error))
            self._set_unknown()
            return True
        if found is None:
            return False
        self.engine.proved &= found.exact
        if found.forever.any():
            self._set_unbounded(self.members[found.forever])
            return True
        bounds, members = self.bounds, self.members
        bounds.low[members], bounds.high[members] = found.value - found.error, found.value + found.error
        self.engine.undefined.append(members[found.undefined])
        bounds.policy[members] = found.choice
        bounds.place[members] = NOWHERE
        return True
