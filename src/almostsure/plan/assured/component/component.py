"""A component that is not settled by sweeping it where it stands: its equations, their solution, and proved bounds.

What can be stayed in for nothing is collapsed (:mod:`.places`), who cannot surely leave is worth −∞ (:mod:`.parts`),
and the rest is solved directly or, if it is large, by ordered sweeps (:mod:`.sweeps`).  Bounds are proved by one step
(:mod:`almostsure.plan.assured.steps`).  Where reward can be collected for ever the return is +∞ (:mod:`.gains`), and
where gains and losses cancel out on a cycle :mod:`.cancelling` helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from almostsure.memory import side_by_side
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.assured import steps
from almostsure.plan.assured.component import approach, parts, places, plains
from almostsure.plan.assured.component.estimate import estimate, room_to_estimate
from almostsure.plan.assured.component.parts import LOST, NO_STAY, STAY, SURE
from almostsure.plan.assured.component.summit import settle_summit
from almostsure.plan.assured.component.sweeps import Sweeper, choice_owner, choice_worth, solve_directly
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.steps import NOWHERE, Part

if TYPE_CHECKING:
    from almostsure.plan.assured.engine import Engine

DIRECT = 2_000  # positions of a component that is solved by policy iteration with LU
THIN = 12_000  # the same where sweeps take too long
GAINFUL = 20_000  # pairs of a component in which it can be told whether gains go on for ever
CHEAP = 1e9  # multiplications of LU of a component without costs that is solved directly
THICK = 60_000  # positions of one for which it is found out whether LU is cheap
FIRST_ROUNDS = 8  # of sweeps before the first policy is evaluated by LU
FEW = 8  # members of which one is not known to leave surely, or fewer, so that these are looked at one by one
HINTED = 0.9  # share of a component's states whose worth with less left is known, for it to be a hint
WORTHS = 3  # times the square root of the members: the worths by which they are sorted, roughly
FAR, MISLED = 10, 0.005  # how many of these worths a hint may be off, and by how many members, before it misleads
DENSE = 4  # numbers of which one is a member's, or more, so that members are sorted by marking them
SAMPLED = 10_000  # choices of a component that are looked at to learn what a step is worth
SUMMITS = 8  # rounds of parting with those who surely get the most
ATTEMPTS = 4  # at a residual that is small enough for the tolerance
Array = TypeVar("Array", Floats, Ints)


def make_part(positions: int, choices: int, entries: int) -> Part:
    """Room for a component."""
    choices += positions  # one to rest for each
    ptr, entry_ptr, column, origin, pred_ptr, pred = side_by_side(
        np.uint32, positions + 1, choices + 1, entries, choices, positions + 1, entries
    )
    factor, constant, leak = side_by_side(np.float64, entries, choices, choices)
    return Part(ptr, entry_ptr, column, factor, constant, origin, leak, pred_ptr, pred)


def rising(members: Ints) -> Ints:
    """The members in the order in which they are in memory."""
    first, last = int(members.min(initial=NOWHERE)), int(members.max(initial=0))
    if last - first > DENSE * members.size or not members.size:
        return np.sort(members)
    is_member = np.zeros(last - first + 1, np.bool_)
    is_member[members - first] = True
    return (np.flatnonzero(is_member) + first).astype(members.dtype)


class Component:
    """A component that is not settled by sweeping it where it stands."""

    def __init__(self, engine: Engine, members: Ints) -> None:
        self.engine, self.members, self.sorted = engine, members, rising(members)
        self.everybody = self.sorted  # also the lost, when these were parted with
        self.game, self.bounds, self.graph = engine.game, engine.bounds, engine.graph
        self.can_stay = NO_STAY
        self.all_sure = False  # whether it is known that all surely leave
        self.fate = np.zeros(0, np.uint8)  # of the members, where there is a hint
        self.inside: Graph | None = None  # of the choices inside the places where one can rest
        self.hint: Floats | None = None
        if members.size > DIRECT:
            self._hint()
        self.bounds.place[self.members] = np.arange(members.size, dtype=np.uint32)

    def _hint(self) -> None:
        """Find what the members' states were worth with less left, and sort members by it; none if few are known."""
        self.members = self.sorted
        hint, fate = np.empty(self.members.size), np.empty(self.members.size, np.uint8)
        self.call(parts.hints, self.game, self.members, self.engine.known, hint, fate)
        if np.count_nonzero(hint > -np.inf) < HINTED * hint.size:
            return
        sort = parts.by_worth, self.members, hint, fate, int(WORTHS * hint.size**0.5)
        self.members, self.hint, self.fate = self.call(*sort)

    def call(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, compiled or not."""
        return self.engine.call(kernel, *arguments)

    def settle(self, half: float) -> None:
        """Find values, choices and bounds of all members."""
        if self.hint is not None and self.engine.is_monotone and self.engine.discount == 1:
            self._strand(self.hint)
        members = self.members
        self.cut()
        if self.top == np.inf:
            return self._endless(members[:0])
        if np.isnan(self.top):
            return self._unknown()
        if self.engine.discount == 1 and self.most > 0 and self._gains():
            return None
        if self.engine.discount == 1 and self.most >= 0:
            self.hint, self.all_sure = None, False  # where staying is free, choices that look as good may never leave
            if self._collapse():
                self.cut()
            for _ in range(SUMMITS):
                if not settle_summit(self):
                    break
        if self.members.size == 0:
            self.bounds.place[members] = NOWHERE
            return None
        if members.size > DIRECT and self.inside is None:
            if self.hint is None:
                self._sort()
            else:
                self._sort_again(self.hint)
        self._arrange()
        if self.part.ptr.size == 1:
            self.lose(self.members)
        else:
            self._solve(half)
        self.bounds.place[members] = NOWHERE
        return None

    def _strand(self, hint: Floats) -> None:
        """Part with members that are worth −∞, so that nothing leads to them, if it is clear who they are."""
        members, others = self.members, np.flatnonzero(self.fate != SURE)
        if FEW * others.size > members.size:
            return
        self.all_sure = bool(self.call(parts.strand, self.game, self.bounds, members, others, self.fate))
        lost = others[self.fate[others] == LOST]
        if not self.all_sure or not lost.size:
            return
        self._part_with(members[lost])
        self._keep(np.delete(members, lost), np.delete(hint, lost))

    def _part_with(self, lost: Ints) -> None:
        self.lose(lost)
        self.bounds.place[lost] = NOWHERE

    def _keep(self, members: Ints, hint: Floats) -> None:
        """Go on with some members, in the given order and with first values; the others were parted with."""
        place = self.bounds.place
        self.members, self.hint, self.sorted = members, hint, self.sorted[place[self.sorted] != NOWHERE]
        place[members] = np.arange(members.size, dtype=np.uint32)

    # ------------------------------------------------------------------ the equations

    def _collapse(self) -> bool:
        """Make one position of each end component without reward; False if there is none."""
        members, can_stay, inside, local = self.call(places.collapse, self.game, self.bounds, self.members)
        if not can_stay.any():
            return False
        self.members, self.can_stay, self.inside, self.local = members, can_stay, inside, local
        return True

    def cut(self) -> None:
        """The equations of the positions, and what is to be known of exits and rewards."""
        members = self.members
        room = self.engine.room("members", members.size, *self.call(parts.spread, self.graph, members))
        sizes, known = self.call(parts.cut, self.game, self.bounds, members, self.can_stay, room)
        self.most, self.top, self.exit_error, self.exit_relative, self.all_leave = known
        self.raw = self.call(parts.fitted, room, sizes)

    def _sort(self) -> None:
        """Cut the equations again, in an order of those that surely leave in which sweeps are quick, if they are many.

        Memory that was written to before is taken: that is quicker than to copy them.
        """
        usable, queue = self._usable()
        if queue.size <= DIRECT:
            return
        order, guess = self._estimated(self.raw, usable, queue)
        if self.engine.discount == 1:
            self._part_with(np.delete(self.members, order))
            self.all_sure = True
        self._keep(self.members[order], guess[order])
        self.cut()

    def _sort_again(self, hint: Floats) -> None:
        """Cut the equations again, in the order of what members are worth after one step, where hints often mislead."""
        everybody, usable = np.arange(hint.size, dtype=np.uint32), np.ones(self.raw.origin.size, np.bool_)
        worths, sample = int(WORTHS * hint.size**0.5), everybody[:: 1 + hint.size // SAMPLED]
        worth, known = hint.copy(), hint[hint > -np.inf]
        self.call(parts.guess, self.raw, usable, sample, worth)
        far = FAR * float(np.ptp(known)) / worths
        with np.errstate(invalid="ignore"):  # −∞ that stays −∞
            if np.count_nonzero(worth[sample] - hint[sample] > far) < MISLED * sample.size:
                return
        self.call(parts.guess, self.raw, usable, everybody, worth)
        members, worth, _ = self.call(parts.by_worth, self.members, worth, self.fate, worths)
        self._keep(members, worth)
        self.cut()

    def _usable(self) -> tuple[Bools, Ints]:
        """The choices by which somebody may surely leave, and who does."""
        size, usable = self.raw.ptr.size - 1, np.ones(self.raw.origin.size, np.bool_)
        queue: Ints = np.arange(size, dtype=np.uint32)
        if self.engine.discount == 1 and not self.all_sure and not (self.all_leave and size > THIN):
            queue = queue[: self.call(parts.leave_surely, self.raw, size, usable, queue)]
        return usable, queue

    def _arrange(self) -> None:
        """Put the positions that can surely leave into a good order, and find first values."""
        raw, size, choices = self.raw, self.raw.ptr.size - 1, self.raw.origin.size
        usable, queue = self._usable()
        guess, self.size, room = np.full(size, -np.inf), size, raw
        if self.hint is not None and size == self.hint.size:
            found = np.zeros(size, np.bool_)
            found[queue] = True
            guess = np.where(found, self.hint, -np.inf)
            more, rest = size + 1, np.flatnonzero(found & (guess == -np.inf)).astype(np.uint32)
            while rest.size < more:  # some follow others that come after them
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
        """A good order of the positions in the queue, and first values."""
        discount = self.engine.discount
        self.call(parts.list_predecessors, raw, raw.ptr.size - 1)
        room = room_to_estimate(raw.ptr.size - 1, raw.origin.size, raw.column.size)
        rewards = self.graph.origin, self.game.gain
        order, guess, lowest = self.call(estimate, raw, usable, rewards, self._width(), discount, room)
        if order.size < queue.size:  # rewards beyond single precision, in which estimates are made
            guess[np.setdiff1d(queue, order)] = guess[order].min(initial=0.0)
            order = np.concatenate([order, np.setdiff1d(queue, order)])
        return order, np.full(guess.size, lowest) if discount < 1 else guess

    def _width(self) -> float:
        """A quarter of what a step usually gains or costs: values that differ by less are about the same."""
        sample = self.raw.origin[:: 1 + self.raw.origin.size // SAMPLED]
        gain = self.game.gain[self.graph.origin[sample[sample != STAY]]]
        gain = gain if gain.any() else self.game.gain
        return float(np.median(np.abs(gain[gain != 0]))) / 4 if gain.any() else 1.0

    # ------------------------------------------------------------------ values and bounds

    def _solve(self, half: float) -> None:
        """Solve the equations to a residual that gives close bounds, and prove these."""
        discount, size = self.engine.discount, self.order.size
        threshold = 0.9 * half * -self.most if -np.inf < self.most < 0 else half / 100  # −∞: nobody stays
        threshold = half * (1 - discount) / 2 if discount < 1 else threshold
        excess = np.inf
        if size > DIRECT:
            excess = self._attempt(Sweeper(self.part, discounted=discount < 1), half, threshold)
        if excess > 1 and size <= max(DIRECT, THIN):
            excess = self._attempt(None, half, 0.0)
        if excess == np.inf:
            self._give_up()

    def _attempt(self, sweeper: Sweeper | None, half: float, threshold: float) -> float:
        """Solve the equations by sweeps or else directly, and prove bounds; returns how wide these are.

        In shares of what is asked for; ∞ if nothing was proved, or took too long.
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
        """Whether a component that is not small may be solved directly, again and again."""
        return self.order.size <= THICK and sweeper.cost < CHEAP

    def excess(self, half: float) -> float:
        """How wide the bounds are, in shares of what is asked for."""
        return float(self.call(steps.width, self.bounds, self.sorted)) / half

    def first_policy(self) -> Ints:
        """A policy that surely leaves, and is good already after a few sweeps."""
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
        """By how much an error of 1 in every step blurs each value, at most, on choices that may be best."""
        discount, part = self.engine.discount, self.part
        if discount < 1:
            return np.full(value.size, 1 / (1 - discount))
        if self.most < 0 and self.top > -np.inf:
            height: Floats = 1 + (max(self.top, float(value.max())) - value) / -self.most
            return height
        if not self.call(parts.leaves, part, np.arange(value.size, dtype=np.uint32), policy):
            return None
        near = choice_worth(part, value) >= (value - 4 * half * np.maximum(1.0, np.abs(value)))[choice_owner(part)]
        near[policy] = True
        if sweeper is None:
            return solve_directly(part, policy, np.where(near, 1.0, -np.inf))[1]
        height = np.zeros(value.size)
        done = sweeper.run(np.where(near, 1.5, -np.inf), height, policy.copy(), 0.4)
        return height if done else None

    def _prove(self, value: Floats, policy: Ints, height: Floats, residual: float) -> bool:
        """Write the policy and prove bounds around the values.

        That resting is worth no more than the bounds is no step of the proof: values are at least 0 where one can.
        """
        value, full = self.fill(value, policy)
        tall = self.by_position(height, 0.0)
        first = max(residual, float(np.finfo(np.float64).eps) / 2 * float(np.abs(value).max(initial=0.0)))
        first = first if value.any() else 0.0
        exits = (self.exit_error, self.exit_relative, -self.most, first)
        merged = self.inside is not None
        return bool(self.call(steps.prove, self.game, self.bounds, self.sorted, full, tall, exits, merged))

    def fill(self, value: Floats, policy: Ints) -> tuple[Floats, Floats]:
        """Write the policy; returns the values, at least 0 where one can rest, and the same for all positions."""
        if self.can_stay.size:
            worse = self.can_stay[self.order] & (value < 0)
            value, policy = np.where(worse, 0.0, value), np.where(worse, self.part.ptr[:-1], policy)
        full = self.by_position(value, -np.inf)
        self.write(policy, full)
        return value, full

    def by_position(self, given: Array, otherwise: Any) -> Array:
        """What is given in the order of the equations, by position."""
        if self.in_place:
            return given
        result = np.full(self.size, otherwise, given.dtype)
        result[self.order] = given
        return result

    def write(self, policy: Ints, value: Floats) -> None:
        """The choices of the members: at positions of several, those elsewhere go to where it is left, or rest.

        Remembers what their states are worth, by position, as a hint for larger budgets.
        """
        graph, bounds = self.graph, self.bounds
        chosen = self.by_position(self.part.origin[policy], NOWHERE)  # NOWHERE: rest, or lost
        self.call(parts.write, graph, bounds, self.sorted, chosen, value, self.engine.known)
        if self.inside is not None:
            self.call(places.lead_out, graph, bounds, self.members, chosen, self.inside, self.local)

    # ------------------------------------------------------------------ what has no finite value

    def lose(self, members: Ints) -> None:
        """Members from which nobody surely leaves: −∞."""
        self.bounds.low[members] = self.bounds.high[members] = -np.inf
        self.bounds.policy[members] = self.graph.ptr[members]

    def _give_up(self) -> None:
        """What could not be settled has no bounds, or those of the exits where no step before them has a reward.

        Let c be the most and d the least that a choice is worth on average when it leaves.  Nobody gets more than c, or
        than 0 where one can rest, and whoever surely leaves gets at least d, whatever is played and however long.
        """
        part, leaves = self.part, self.part.leak > 0
        finite = np.zeros(self.size, np.bool_)
        finite[self.order] = True
        lost = ~finite[self.bounds.place[self.members]]
        self.lose(self.members[lost])
        if self.engine.discount == 1 and not part.constant[~leaves].any() and leaves.any():
            worth = part.constant[leaves] / part.leak[leaves]
            low, high, flat = np.full(self.size, -np.inf), np.full(self.size, -np.inf), np.ones(self.size)
            low[self.order], high[self.order] = worth.min(), worth.max()
            self.write(self.first_policy(), np.full(self.size, np.nan))
            if plains.widen(self, (low, flat), (high, flat), float(np.finfo(np.float64).eps) * np.abs(worth).max()):
                return
        members = self.members[~lost]
        self.write(self.part.ptr[:-1], np.full(self.size, np.nan))
        self.bounds.low[members], self.bounds.high[members] = -np.inf, np.inf

    def _unknown(self) -> None:
        """Some exits have no bounds, and so nobody here has any."""
        self.bounds.low[self.everybody], self.bounds.high[self.everybody] = -np.inf, np.inf
        self.bounds.policy[self.everybody] = self.graph.ptr[self.everybody]
        self.bounds.place[self.everybody] = NOWHERE

    def _endless(self, cycle: Ints) -> None:
        """Reward can be collected for ever, and everybody here can get to where it is: +∞."""
        self.bounds.low[self.everybody] = self.bounds.high[self.everybody] = np.inf
        self.bounds.policy[self.everybody] = self.graph.ptr[self.everybody]
        if cycle.size:
            self.engine.cycles.append(cycle)
        self.bounds.place[self.everybody] = NOWHERE

    def _gains(self) -> bool:
        """Whether gains on a way that never leaves may go on for ever, or cancel out; if so, it is settled here."""
        inner = self.call(places.inner_graph, self.game, self.bounds, self.members, False)
        _, inside = self.call(places.end_components, inner)
        gains = self.game.gain[self.graph.origin[inside.origin]]
        if not (gains > 0).any():
            return False
        from almostsure.plan.assured.component.gains import only_loses, settle_gains

        if self.members.size > DIRECT and only_loses(self.game, self.bounds, self.members):
            return False
        if self.members.size > GAINFUL and (gains < 0).any():
            self._unknown()
            return True
        found = settle_gains(self.game, self.bounds, self.members, self.engine.mdp.reward)
        self.engine.proved &= found.exact
        if found.forever.any():
            self._endless(self.members[found.forever])
            return True
        bounds, members = self.bounds, self.members
        bounds.low[members], bounds.high[members] = found.value - found.error, found.value + found.error
        self.engine.undefined.append(members[found.undefined])
        bounds.policy[members] = found.choice
        bounds.place[members] = NOWHERE
        return True
