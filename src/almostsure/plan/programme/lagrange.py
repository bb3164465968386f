"""The constraint as a price: best values for a price, bounds from them, and the search for the right price.

With a price λ of the cost, the problem falls apart into one without a constraint: maximise reward − λ cost.  It is
solved by policy iteration with sparse factorisations, from a policy that comes to an end, and such a policy it stays.

*Upper bound.*  Any V and λ ≥ 0 with V(s) ≥ reward − λ cost + discount Σ p V for all choices bound every feasible
return by Σ initial V + λ limit.  V is raised by a multiple of an expected length, and checked in one pass that counts
in rounding errors (not on cycles on which positive and negative rewards cancel out exactly).

*Search.*  The points (cost, reward) of all policies have a concave upper edge, and the optimum lies where the limit
cuts it.  Take a policy on either side of the limit, let λ be the slope of the line through their points, and solve for
λ: either no policy lies above the line, and a mixture of the two flows is optimal, or the one found replaces one of
the two.  (This is the decomposition of Dantzig and Wolfe for a single constraint.)  In the end the two policies are
made to differ in one state only, so that the mixture plays at random in that state alone.

States that can follow each other for ever without reward and cost have one value, and are one state here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.mdp import Floats, Ints
from almostsure.plan.graph import give
from almostsure.plan.programme.flow import Flow, end_components, spread
from almostsure.policy.evaluation.chain import add_up
from almostsure.policy.evaluation.linear import SuperLU
from almostsure.progress import Bar

TIGHT = 1e-7  # slack below this share of the values' size counts as none where a way to a stop is looked for
ROUNDS = 1_000
TANGLED = 1_000  # states that lead to each other, up to which factors need no order for them
EPSILON = float(np.finfo(np.float64).eps)
BLURS = (1e-9, 1e-11, 1e-13)
MANY = 64  # roundings that a value may be off by
RAISES = (1e-11, 1e-10, 1e-9)  # by how much a price is raised for a proof, times the price if above 1


class Improper(Exception):
    """A policy without an end came up: the price is too low, or rewards cancel out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """An optimal flow and its dual."""

    flow: Floats  # [choices]
    value: float
    price: float  # λ: what one more unit of the limit would be worth
    potential: Floats  # [states], V


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point:
    """A policy of the collapsed problem: what it costs and what it brings."""

    choice: Ints  # [states]
    cost: float
    reward: float


class Priced:
    """A flow problem with its resting places collapsed, to be solved for prices."""

    def __init__(self, whole: Flow, discount: float) -> None:
        self.whole, self.discount = whole, discount
        if discount == 1:
            label, self.inner = end_components(whole, (whole.reward == 0) & (whole.cost == 0))
        else:
            label, self.inner = np.full(whole.num_states, -1), np.zeros(whole.num_choices, np.bool_)
        single = np.arange(whole.num_states) + label.max(initial=0) + 1
        _, self.place = np.unique(np.where(label >= 0, label, single), return_inverse=True)
        kept = np.flatnonzero(~self.inner)
        self.origin = kept[np.argsort(self.place[whole.owner[kept]], kind="stable")]
        self.flow = _collapse(whole, self.place, self.origin)

    # ------------------------------------------------------------------ best values for a gain

    def slack(self, gain: Floats, values: Floats) -> Floats:
        """How much more a state is worth than each of its choices, [choices]."""
        later: Floats = self.discount * (self.flow.moves @ values)
        return values[self.flow.owner] - gain - later

    def rounding(self, gain: Floats, values: Floats) -> Floats:
        """What rounding may hide of a slack, [choices]."""
        later: Floats = self.flow.moves @ np.abs(values)
        return 8 * EPSILON * (np.abs(gain) + np.abs(values[self.flow.owner]) + later)

    def start(self, gain: Floats, potential: Floats | None = None) -> Ints:
        """A policy that comes to an end; near-optimal where the potential is."""
        guess = np.zeros(self.flow.num_states)
        if potential is not None:
            guess.fill(-np.inf)
            np.maximum.at(guess, self.place, potential)
        return leading_home(self.flow, self.slack(gain, guess), TIGHT * (1 + float(np.abs(guess).max(initial=0.0))))

    def iterate(self, gain: Floats, choice: Ints, blurs: tuple[float, ...] = BLURS) -> tuple[Floats, Ints]:
        """Policy iteration from a policy that comes to an end: the best values and a policy that has them.

        What is better by less than the blur may be rounding, and could lead to a policy without an end.  So it goes
        from coarse to fine, and a finer step that leads there is not taken.
        """
        values = self.values(choice, gain[choice])
        for blur in blurs:
            try:
                values, choice = self._improve(gain, values, choice, blur)
            except Improper:
                if blur == blurs[0]:
                    raise
                break
        return values, choice

    def _improve(self, gain: Floats, values: Floats, choice: Ints, blur: float) -> tuple[Floats, Ints]:
        flow = self.flow
        for turn in range(ROUNDS):
            slack = self.slack(gain, values)
            worst = np.minimum.reduceat(slack, flow.choice_ptr[:-1])
            switch = worst < -blur * (1 + np.abs(values))
            if not switch.any():
                return values, choice
            choice = np.where(switch, _first_at(slack, worst, flow), choice)
            values = self.values(choice, gain[choice])
            if turn > 50:  # what still changes is rounding
                blur *= 2
        raise LimitReached(f"policy iteration did not settle in {ROUNDS} rounds. Please report this model.")

    def values(self, choice: Ints, constant: Floats) -> Floats:
        """What a policy collects from each state on."""
        return _solve(self.flow.moves[choice], self.discount, constant, transposed=False)

    def point(self, choice: Ints) -> Point:
        """What a policy costs and brings."""
        visits = _solve(self.flow.moves[choice], self.discount, self.flow.initial, transposed=True)
        return Point(
            choice=choice,
            cost=float(visits @ self.flow.cost[choice]),
            reward=float(visits @ self.flow.reward[choice]),
        )

    def flow_of(self, choice: Ints) -> Floats:
        """The flow of a policy through the problem as it was, resting places and all, [choices]."""
        whole, chosen = self.whole, self.origin[choice]
        full = np.full(whole.num_states, -1)
        stop = np.flatnonzero(whole.is_stop)
        stops = whole.is_stop[chosen][self.place[whole.owner[stop]]]
        full[whole.owner[stop[stops]]] = stop[stops]
        leaves = chosen[~whole.is_stop[chosen]]
        full[whole.owner[leaves]] = leaves
        spread(whole, full, self.inner)
        visits = _solve(whole.moves[full], self.discount, whole.initial, transposed=True)
        result = np.zeros(whole.num_choices)
        result[full] = np.maximum(visits, 0.0)
        return result


# ---------------------------------------------------------------------- the upper bound


class Proof:
    """Values and a price that bound every feasible return, checked."""

    def __init__(self, priced: Priced, price: float, potential: Floats) -> None:
        self.priced = priced
        self._values = self._prove(price, potential)

    def upper(self, limit: float) -> float:
        """A bound on every feasible return."""
        return float(self.priced.flow.initial @ self._values + self.price * limit)

    def potential(self) -> Floats:
        """The values of the states of the problem as it was, [states]."""
        return self._values[self.priced.place]

    def _prove(self, price: float, potential: Floats) -> Floats:
        # A price a little too high costs next to nothing, and keeps costly cycles from looking gainful.
        for extra in RAISES:
            self.price = price + extra * max(price, 1.0)
            self.gain = self.priced.flow.reward - self.price * self.priced.flow.cost
            try:
                values, choice = self.priced.iterate(self.gain, self.priced.start(self.gain, potential))
                return self._raised(values, choice)
            except Improper:
                continue
        return self._raised_roughly(potential)

    def _raised(self, values: Floats, choice: Ints) -> Floats:
        """Values raised until no choice is worth more than its state, rounding included."""
        priced, flow = self.priced, self.priced.flow
        excess = priced.rounding(self.gain, values) - priced.slack(self.gain, values)
        worst = float(excess.max(initial=0.0))
        if worst <= 0:
            return values
        if priced.discount < 1:
            return values + worst / (1 - priced.discount)
        step = 4 * worst
        for _ in range(ROUNDS):
            length = priced.values(choice, np.ones(flow.num_states))
            missing = excess + step * (flow.moves @ length - length[flow.owner])
            need = np.maximum.reduceat(missing, flow.choice_ptr[:-1])
            if (need <= 0).all() and (length >= 0).all():
                return values + step * length
            choice = np.where(need > 0, _first_at(missing, need, flow), choice)
        raise Improper

    def _raised_roughly(self, potential: Floats) -> Floats:
        """Where rewards cancel out on a cycle no raise makes up for rounding; there, rounding is not counted."""
        priced = self.priced
        try:
            values, choice = priced.iterate(self.gain, priced.start(self.gain, potential))
            length = priced.values(choice, np.ones(priced.flow.num_states))
        except Improper:
            raise LimitReached(
                "no policy that comes to an end has a best return here. Use a discount below 1."
            ) from None
        rounding = priced.rounding(self.gain, values)
        if (priced.slack(self.gain, values) < -MANY * rounding).any():
            raise LimitReached("the upper bound could not be proved. Use a discount below 1, or report this model.")
        return values + MANY * float(rounding.max(initial=0.0)) * length


# ---------------------------------------------------------------------- the search for the price


class Search:
    """The best flow for any limit.  Points found for one limit serve the next.  May raise Improper."""

    def __init__(self, priced: Priced) -> None:
        self.priced = priced
        gain = -priced.flow.cost
        self.points = [self._best(np.inf, priced.iterate(gain, priced.start(gain))[1])]
        self.least = self.points[0].cost

    def _best(self, price: float, choice: Ints) -> Point:
        """The point of the best policy for a price; an infinite one looks at the cost alone."""
        flow = self.priced.flow
        gain = -flow.cost if price == np.inf else flow.reward - price * flow.cost
        return self.priced.point(self.priced.iterate(gain, choice)[1])

    def solve(self, limit: float | None) -> Answer | None:
        """The optimum with the given limit, or None if nothing is feasible."""
        if limit is None:
            return self._answer(self._best(0.0, self.points[0].choice), None, 0.0, 0.0)
        if self.least > limit + 1e-9 * max(1.0, limit):
            return None
        limit = max(limit, self.least)
        cheap = max((p for p in self.points if p.cost <= limit), key=lambda p: p.reward)
        dear = min((p for p in self.points if p.cost > limit), key=lambda p: p.cost, default=None)
        if dear is None:
            dear = self._best(0.0, cheap.choice)
            self.points.append(dear)
            if dear.cost <= limit:
                return self._answer(dear, None, 0.0, 0.0)
        cheap, dear, price = self._bracket(cheap, dear, limit)
        cheap, dear = self._closer(cheap, dear, price, limit)
        return self._answer(cheap, dear, price, (limit - cheap.cost) / (dear.cost - cheap.cost))

    def _bracket(self, cheap: Point, dear: Point, limit: float) -> tuple[Point, Point, float]:
        """Two optimal policies for one price, on either side of the limit."""
        with Bar("prices of damage", None) as bar:
            for turn in range(ROUNDS):
                bar.update(turn, f"{turn} tried")
                price = max((dear.reward - cheap.reward) / (dear.cost - cheap.cost), 0.0)
                found = self._best(price, dear.choice)
                above = (found.reward - price * found.cost) - (cheap.reward - price * cheap.cost)
                if above <= 1e-12 * (1 + abs(found.reward) + price * found.cost):
                    return cheap, dear, price
                self.points.append(found)
                if found.cost <= limit:
                    cheap = found
                else:
                    dear = found
        raise LimitReached(f"the price did not settle in {ROUNDS} rounds. Please report this model.")

    def _closer(self, cheap: Point, dear: Point, price: float, limit: float) -> tuple[Point, Point]:
        """Two policies between these that differ in one state; if that leads to one without an end, these."""
        gain = self.priced.flow.reward - price * self.priced.flow.cost
        # What a policy does where it never comes is arbitrary so far; on the way to the other one it matters.
        first, last = (self.priced.point(self.priced.iterate(gain, p.choice, BLURS[:1])[1]) for p in (cheap, dear))
        if not first.cost <= limit < last.cost:
            return cheap, dear
        return self._between(first, last, limit) or (cheap, dear)

    def _between(self, cheap: Point, dear: Point, limit: float) -> tuple[Point, Point] | None:
        differ = np.flatnonzero(cheap.choice != dear.choice)
        low, high, near, far = 0, differ.size, cheap, dear
        while high - low > 1:
            middle = (low + high) // 2
            choice = cheap.choice.copy()
            choice[differ[:middle]] = dear.choice[differ[:middle]]
            try:
                between = self.priced.point(choice)
            except Improper:
                return None
            if between.cost <= limit:
                low, near = middle, between
            else:
                high, far = middle, between
        return near, far

    def _answer(self, cheap: Point, dear: Point | None, price: float, share: float) -> Answer:
        priced = self.priced
        flow = priced.flow_of(cheap.choice)
        if dear is not None and share > 0:
            flow = (1 - share) * flow + share * priced.flow_of(dear.choice)
        gain = priced.flow.reward - price * priced.flow.cost
        values = priced.values(cheap.choice, gain[cheap.choice])
        return Answer(flow=flow, value=float(flow @ priced.whole.reward), price=price, potential=values[priced.place])


# ---------------------------------------------------------------------- pieces


def _solve(moves: Any, discount: float, constant: Floats, *, transposed: bool) -> Floats:
    """Solve (I − discount · moves) x = constant, or its transpose, with one step of refinement."""
    from scipy.sparse import csc_array, eye_array

    order, is_good = _onward(moves)
    matrix = csc_array((eye_array(constant.size) - discount * moves)[order][:, order])
    try:
        factor = SuperLU(matrix, is_ordered=is_good)
    except RuntimeError:  # singular
        raise Improper from None
    result = np.empty(constant.size)
    result[order] = factor.refined(constant[order], transposed=transposed)
    if not np.isfinite(result).all():
        raise Improper
    return result


def _onward(moves: Any) -> tuple[Ints, bool]:
    """An order of the states in which moves lead on, but among states that lead to each other; whether it is good.

    Damage leads to lower layers, for good: with many layers there are many small components, and a factorisation in
    this order fills up within them only.
    """
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(moves, connection="strong")
    order = np.argsort(-label, kind="stable")
    return order, bool(np.bincount(label).max(initial=0) <= TANGLED)


def _collapse(whole: Flow, place: Ints, origin: Ints) -> Flow:
    from scipy.sparse import csr_array

    count = int(place.max(initial=-1)) + 1
    owner = place[whole.owner[origin]]
    merge = csr_array((np.ones(place.size), (np.arange(place.size), place)), shape=(place.size, count))
    return Flow(
        choice_ptr=np.searchsorted(owner, np.arange(count + 1)),
        owner=owner,
        moves=csr_array(whole.moves[origin] @ merge),
        reward=whole.reward[origin],
        cost=whole.cost[origin],
        initial=add_up(place, whole.initial, count),
        state=np.arange(count),
        choice=whole.choice[origin],
    )


def _first_at(values: Floats, wanted: Floats, flow: Flow) -> Ints:
    """The first choice of each state that has the wanted value."""
    hits = np.flatnonzero(values == wanted[flow.owner])
    result = np.zeros(flow.num_states, np.int64)
    result[flow.owner[hits][::-1]] = hits[::-1]
    return result


def leading_home(flow: Flow, slack: Floats, tight: float) -> Ints:
    """A choice for each state such that all of them together lead to a stop; tight ones wherever that works."""
    choice = np.full(flow.num_states, -1)
    for allowed in (slack <= tight, np.ones(flow.num_choices, np.bool_)):
        give(choice, flow.owner, np.flatnonzero(allowed & flow.is_stop))
        spread(flow, choice, allowed)
    # With a discount there may be no stop to lead to; then the best choice will do.
    best = np.minimum.reduceat(slack, flow.choice_ptr[:-1])
    return np.where(choice >= 0, choice, _first_at(slack, best, flow))
