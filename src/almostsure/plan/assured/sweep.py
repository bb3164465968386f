"""The assured policy of large models: compiled, ordered sweeps over one layer after the other.

What is computed is said in :mod:`almostsure.plan.assured.layers`, and the plain engine there is this one's
twin.  Here, for each layer K = 0, 1, …, budget:

1. rewards and the solved lower layers are folded into one constant a choice;
2. states that cannot surely come to rest or leave the layer get −∞, and choices that may lead to them go;
3. the others are put into an order in which most of them look only at earlier ones;
4. sweeps in that order, with direct solves where they are slow, bring all residuals below a threshold.

**Bounds.**  They are V − e and V + e, verified on the model with a margin for rounding: no allowed choice is worth more
than the upper bound, the policy's choice is worth at least the lower one.  With a discount γ < 1, e is half the
tolerance, and a residual of e (1 − γ) suffices.  If every step costs at least m, e is half the tolerance times |V|,
and a residual of m times half the tolerance suffices, since the bounds are V (1 ± half the tolerance).  Otherwise e
solves e ≥ 2 θ + A e, with the lower layers' e at the exits, on all choices that may be best; if it comes out too large
for the tolerance, the threshold θ is lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from almostsure.errors import Interrupted, LimitReached
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.assured import sweep_kernels as kernels
from almostsure.plan.assured import sweep_prepare as prepare
from almostsure.plan.assured.sweep_ground import Ground, Places, Resting, may_gain, ranges
from almostsure.plan.assured.sweep_pockets import Compact, Sweeper
from almostsure.plan.graph import closed, end_components, lead_inside

USED = 0.98  # the share of the tolerance that the bounds are made of; the rest is for rounding
SLACK = 0.9  # the share of the allowed residual at which sweeps stop
CHEAP_STEP = 1e-4  # with a step cheaper than this share of the dearest one, scaling the values proves too little
FIRST_STEPS = 100.0  # how long an episode is thought to be, until it is known
REFINEMENTS = 8
FOR_EVER = (
    "it could not be proved that gains do not go on for ever. Give cycles a clear cost, or pass discount below 1."
)
STAY, NOTHING = -1, -2  # what a place does that is not left, and one without finite value


# ---------------------------------------------------------------------- the layers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scratch:
    """Memory that every layer uses again: fetching it anew from the system takes longer than filling it."""

    judged: npt.NDArray[np.float32]
    ptr: Ints
    entry_ptr: Ints
    column: Ints
    factor: Floats
    constant: Floats
    origin: Ints
    pred: Ints

    @staticmethod
    def make(ground: Ground) -> Scratch:
        """Room for the largest layer."""
        choices = ground.reward.size + ground.num_states  # each state may have one more, to stay
        entries = ground.successor.size
        return Scratch(
            judged=np.empty((ground.reward.size, 4), np.float32),
            ptr=np.empty(ground.num_states + 1, np.uint32),
            entry_ptr=np.empty(choices + 1, np.uint32),
            column=np.empty(entries, np.uint32),
            factor=np.empty(entries),
            constant=np.empty(choices),
            origin=np.empty(choices, np.int32),
            pred=np.empty(entries, np.uint32),
        )


class Sweeps:
    """The run over all layers."""

    def __init__(self, ground: Ground, tolerance: float, *, patient: bool = True) -> None:
        shape = (ground.budget + 1, ground.num_states)
        self.ground = ground
        self.value = np.full(shape, -np.inf)
        self.error = np.zeros(shape)
        self.choice = np.full(shape, -1, np.int32)
        self.half = USED * tolerance / 2
        self.places: list[Places] = []
        self.constant = ground.reward.copy()
        self.exit_chance = np.zeros(ground.reward.size)
        self.usable = np.zeros(ground.reward.size, np.bool_)
        self.hurting = np.flatnonzero(ground.hurts & (ground.of_choice <= ground.budget)).astype(np.uint32)
        self.needs = np.minimum.reduceat(ground.of_choice, ground.choice_ptr[:-1])
        self.resting = Resting(ground)
        self.step = self._cheapest_step()
        size = np.abs(ground.reward[:: max(1, ground.reward.size // 10_000)])
        self.width = float(np.median(size[size > 0])) / 4 if (size > 0).any() else 1.0
        self.lowest = 0.0
        self.scratch = Scratch.make(ground)
        self.patient = patient

    def _cheapest_step(self) -> float:
        """The least that a step costs which does not rest; 0 if some are free, gain, or cost next to nothing."""
        ground = self.ground
        moving = (ground.of_choice <= ground.budget) & ~self.resting.places(ground.budget).inside
        if not moving.any():
            return 0.0
        rewards = ground.reward[moving]
        cheapest = -float(rewards.max())
        return cheapest if cheapest > CHEAP_STEP * -float(rewards.min()) else 0.0

    def solve(self, remaining: int) -> None:
        """Solve one layer; the lower ones are solved."""
        places = self._find_places(remaining)
        finite, order, guess = self._prepare(remaining, places)
        position, value, layer = self._gather(places, finite, order, guess)
        policy = np.zeros(order.size, np.uint32)
        sweeper = Sweeper(layer, discounted=self.ground.discount < 1, patient=self.patient)
        error = self._settle(remaining, sweeper, value, policy)
        chosen = np.full(finite.size, NOTHING, np.int32)
        prepare.store(
            position, value, error, layer.origin, policy, self.ground.owner, places.member_ptr, places.member,
            self.value[remaining], self.error[remaining], self.choice[remaining], chosen,
        )  # fmt: skip
        self._extract(remaining, places, chosen)

    def _find_places(self, remaining: int) -> Places:
        """The places, and who leads to them; both are kept while they stay the same."""
        ground = self.ground
        places = self.resting.places(remaining)
        old = self.places[-1] if self.places else None
        same = old is not None and (old is places or np.array_equal(old.place, places.place))
        if not same:
            self.predecessors = prepare.list_predecessors(
                places.can_stay.size, ground.choice_ptr, ground.outcome_ptr, ground.successor, ground.probability,
                ground.damage, ground.of_choice, ground.budget, places.place, ground.discount,
            )  # fmt: skip
            self.neighbours = prepare.list_neighbours(self.predecessors[0], self.predecessors[2])
            self.place_of_choice = ground.owner if places.graph is None else places.place[ground.owner]
        self.places.append(places)
        return places

    def _prepare(self, remaining: int, places: Places) -> tuple[Bools, Ints, Floats]:
        """Constants, the places with finite values, and these in order, with a first guess of all values."""
        ground = self.ground
        np.less_equal(ground.of_choice, remaining, out=self.usable)
        self._open(remaining, ground.reward, self.value, self.constant)
        finite = self._surely(remaining, places)
        value, order = np.full(finite.size, -np.inf), np.empty(finite.size, np.uint32)
        known = np.zeros(0, np.bool_)
        if remaining > 0:  # start from the layer below: more budget is never worse
            value = places.gather(self.value[remaining - 1])
            known = value > -np.inf
        fresh = finite & ~known if known.size else finite
        count, lowest = prepare.estimate(
            ground.choice_ptr, ground.outcome_ptr, ground.successor, ground.probability, ground.damage,
            places.member_ptr, places.member, places.place, *self.predecessors[:5], places.can_stay, fresh, known,
            self.usable, self.constant, self.exit_chance, ground.reward, ground.discount, self.width,
            self.scratch.judged, value, order,
        )  # fmt: skip
        self.lowest = min(self.lowest, lowest)
        if known.size:
            count = prepare.rank(value, finite, self.width, self.lowest, ground.discount, order)
        if ground.discount < 1:  # estimates give the order, but the least possible values are a better start
            value[fresh] = self.lowest
        return finite, order[:count], value

    def _surely(self, remaining: int, places: Places) -> Bools:
        """The places whose value is finite; makes choices that may lead elsewhere unusable."""
        ground = self.ground
        finite = np.zeros(places.can_stay.size, np.bool_)
        if ground.discount < 1:
            finite[self.place_of_choice[self.usable]] = True
            return finite
        if remaining > 0:  # what is finite with less budget is finite with more
            finite = places.gather(self.value[remaining - 1] > -np.inf)
        pred_ptr, pred_choice, *_ = self.predecessors
        prepare.leave_surely(
            ground.choice_ptr, ground.outcome_ptr, ground.successor, ground.damage, self.place_of_choice, places.place,
            places.member_ptr, places.member, pred_ptr, pred_choice, places.can_stay, self.exit_chance, self.usable,
            finite, np.empty(finite.size, np.uint32),
        )  # fmt: skip
        return finite

    def _open(self, remaining: int, reward: Floats, values: Floats, constant: Floats) -> None:
        """Fold what the lower layers are worth into the constants of choices that may hurt."""
        ground = self.ground
        prepare.open_layer(
            remaining, self.hurting, ground.outcome_ptr, ground.successor, ground.probability, ground.damage,
            ground.of_choice, reward, ground.discount, values, constant, self.exit_chance, self.usable,
        )  # fmt: skip

    def _gather(self, places: Places, finite: Bools, order: Ints, guess: Floats) -> tuple[Ints, Floats, Compact]:
        """The positions that an order gives to places, first values and the layer by these positions."""
        ground, scratch = self.ground, self.scratch
        position = np.full(finite.size, prepare.NOWHERE, np.uint32)
        value, pred_ptr = np.empty(order.size), np.empty(order.size + 1, np.uint32)
        prepare.arrange(order, guess, *self.neighbours, position, value, pred_ptr, scratch.pred)
        by_state = position if places.graph is None else position[places.place]
        size = prepare.gather(
            by_state, finite, self.predecessors[5], ground.choice_ptr, ground.outcome_ptr, ground.successor,
            ground.probability, ground.damage, places.member_ptr, places.member, places.can_stay, self.usable,
            self.constant, self.exit_chance, ground.discount, scratch.ptr, scratch.entry_ptr, scratch.column,
            scratch.factor, scratch.constant, scratch.origin,
        )  # fmt: skip
        choices = int(scratch.ptr[size])
        entries = int(scratch.entry_ptr[choices])
        return position, value, Compact(
            ptr=scratch.ptr[: size + 1], entry_ptr=scratch.entry_ptr[: choices + 1],
            column=scratch.column[:entries], factor=scratch.factor[:entries], constant=scratch.constant[:choices],
            origin=scratch.origin[:choices], pred_ptr=pred_ptr, pred=scratch.pred,
        )  # fmt: skip

    # ------------------------------------------------------------------ errors

    def _settle(self, remaining: int, sweeper: Sweeper, value: Floats, policy: Ints) -> Floats:
        """Solve for the values to the residual that the bounds need; returns their error."""
        constant, discount = sweeper.layer.constant, self.ground.discount
        if self.step > 1 - discount:
            sweeper.run(constant, value, policy, SLACK * self.half * self.step)
            return self.half * np.abs(value)
        if discount < 1:
            sweeper.run(constant, value, policy, self.half * (1 - discount) / 2)  # the other half is for rounding
            return np.full(value.size, self.half)
        allowed = self.half * (remaining + 1) / (self.ground.budget + 1)
        threshold = allowed / FIRST_STEPS
        for _ in range(REFINEMENTS):
            sweeper.run(constant, value, policy, threshold)
            error = self._spread(remaining, sweeper, value, policy, threshold)
            excess = float((error / np.maximum(1.0, np.abs(value))).max(initial=0.0)) / allowed
            if excess <= 1:
                return error
            threshold /= 2 * excess
        raise LimitReached(f"the bounds of layer {remaining} did not come within the tolerance. Pass a larger one.")

    def _spread(self, remaining: int, sweeper: Sweeper, value: Floats, policy: Ints, threshold: float) -> Floats:
        """How far the values may be off when every residual is below the threshold."""
        ground, layer = self.ground, sweeper.layer
        largest = float(np.abs(value).max(initial=0.0) + np.abs(layer.constant).max(initial=0.0))
        rounding = 8 * float(np.finfo(np.float64).eps) * largest
        unit = np.full(ground.reward.size, 2 * threshold + rounding)
        inherited = unit.copy()
        self._open(remaining, unit, self.error, inherited)
        inherited /= 1.0 - self._own_loops(self.places[-1])
        constant = np.where(layer.origin >= 0, inherited[layer.origin], 0.0)
        owner = layer.owner()
        near = layer.worth(value) >= (value - 4 * self.half * np.maximum(1.0, np.abs(value)))[owner]
        near[policy] = True
        error = np.zeros(value.size)
        sweeper.run(np.where(near, constant, -np.inf), error, policy.copy(), threshold / 2)
        return error

    def _own_loops(self, places: Places) -> Floats:
        """The probability with which each choice stays where it is; 0 for those that do nothing else."""
        ground = self.ground
        choice = ground.mdp.outcome_choices()
        stays = (ground.damage == 0) & (places.place[ground.successor] == self.place_of_choice[choice])
        own = np.bincount(choice[stays], ground.probability[stays], minlength=ground.reward.size).astype(np.float64)
        own[(self.predecessors[5] == 0) & ~ground.hurts] = 0.0
        return own

    # ------------------------------------------------------------------ the policy

    def _extract(self, remaining: int, places: Places, chosen: Ints) -> None:
        """Choices of states that do not leave their place: they rest, or go to where it is left; lost ones get any."""
        ground, choice = self.ground, self.choice[remaining]
        (lost,) = np.nonzero(np.isneginf(self.value[remaining]) & (self.needs <= remaining))
        begin, end = ground.choice_ptr[lost].astype(np.int64), ground.choice_ptr[lost + 1].astype(np.int64)
        some = ranges(begin, end)
        some = some[ground.of_choice[some] <= remaining]
        choice[ground.owner[some][::-1]] = some[::-1]  # any will do
        stays = places.inner[chosen[places.place[ground.owner[places.inner]]] == STAY]
        choice[ground.owner[stays][::-1]] = stays[::-1]
        if places.graph is not None:
            exits = chosen[chosen >= 0]
            moving = places.inside.copy()
            moving[stays] = False
            way = lead_inside(places.graph, moving, ground.owner[exits].astype(np.int64))
            choice[way >= 0] = way[way >= 0]
            choice[ground.owner[exits]] = exits

    def answer(self, layers: int) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
        """Proved bounds, and the choices, of the first layers."""
        value, error, choice = self.value[:layers], self.error[:layers], self.choice[:layers]
        lower, upper = value - error, value + error
        self._check(lower, upper)
        infeasible = choice < 0
        lower[infeasible] = np.nan
        upper[infeasible] = np.nan
        return lower, upper, choice

    def _check(self, lower: Floats, upper: Floats) -> None:
        """Verify the bounds of every layer on the model."""
        ground = self.ground
        for remaining, places in enumerate(self.places[: len(lower)]):
            state = kernels.check_bounds(
                remaining, ground.discount, ground.choice_ptr, ground.outcome_ptr, ground.successor, ground.probability,
                ground.damage, ground.of_choice, ground.reward, ground.reward_size, places.place, places.can_stay,
                self.choice, lower, upper, np.zeros(places.can_stay.size, np.bool_),
            )  # fmt: skip
            if state >= 0:
                raise LimitReached(
                    f"the bounds of {ground.mdp.describe_state(state)} with {remaining} remaining could not be proved "
                    "in 64-bit numbers. Pass a larger tolerance."
                )

    def check_ends(self) -> None:
        """Where there are gains on the way round, see that nobody lives on them: the bounds prove nothing else.

        No place where gains can be had for ever may have counted as lost, and the policy must come to rest, or leave
        its layer, surely.
        """
        for remaining in range(len(self.places)):
            if self._lost_gains(remaining) or not self._ends(remaining):
                raise LimitReached(FOR_EVER)

    def _lost_gains(self, remaining: int) -> bool:
        """Whether there are gains in an end component of the states that count as lost in a layer."""
        ground = self.ground
        lost = np.isneginf(self.value[remaining]) & (self.needs <= remaining)
        choices = ground.without_damage(remaining) & lost[ground.owner]
        if not (ground.reward[choices] > 0).any():
            return False
        _, inside = end_components(ground.graph(choices), choices)
        return bool((ground.reward[inside] > 0).any())

    def check_places(self) -> None:
        """See that nothing is gained by going round in a place: sweeps and proofs leave out who does."""
        ground, place = self.ground, self.resting.places(self.ground.budget).place
        stays = (ground.damage == 0) & (place[ground.successor] == place[ground.owner[ground.mdp.outcome_choices()]])
        round_trips = np.logical_and.reduceat(stays, ground.outcome_ptr[:-1].astype(np.int64))
        if (round_trips & (ground.reward > 0) & (ground.of_choice <= ground.budget)).any():
            raise LimitReached(FOR_EVER)

    def _ends(self, remaining: int) -> bool:
        """Whether the policy of a layer stays for ever only where nothing is gained or lost."""
        ground = self.ground
        (states,) = np.nonzero(self.value[remaining] > -np.inf)
        policy = self.choice[remaining, states]
        begin, end = ground.outcome_ptr[policy].astype(np.int64), ground.outcome_ptr[policy + 1].astype(np.int64)
        outcomes, source = ranges(begin, end), np.repeat(states, end - begin)
        below = ground.num_states  # one more state, for all lower layers
        target = np.where(ground.damage[outcomes] > 0, below, ground.successor[outcomes].astype(np.int64))
        busy = np.zeros(below + 1, np.bool_)
        busy[states[ground.reward[policy] != 0]] = True
        return not busy[closed(source, target, below + 1)].any()


def solve_sweeping(
    ground: Ground, tolerance: float, report: Callable[[int], None] | None = None
) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
    """Lower bounds, upper bounds and choices for every remaining budget and state.

    Ctrl-C raises Interrupted, which keeps those of the layers that are done.  Where reward might be collected for ever
    LimitReached is raised soon.
    """
    gains = may_gain(ground)
    run = Sweeps(ground, tolerance, patient=not gains)
    if gains:
        run.check_places()
    done = 0
    try:
        for remaining in range(ground.budget + 1):
            run.solve(remaining)
            done = remaining + 1
            if report is not None:
                report(remaining)
    except KeyboardInterrupt:
        kept = run.answer(done) if done and not gains else None
        raise Interrupted("the sweeps over the layers were stopped", kept=kept) from None
    if gains:
        run.check_ends()
    return run.answer(done)
