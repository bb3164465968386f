"""Lagrangian relaxation: optimal values for a price of the cost, upper bounds from them, and the search for the price.

With a price λ of the cost, the problem has no constraint: maximise reward − λ cost.  It is solved by policy iteration
with sparse LU.  All policies, from the first on, are proper: they end almost surely.

*Upper bound.*  Any V and λ ≥ 0 with V(s) ≥ reward − λ cost + discount Σ p V for all choices bound every feasible
return by Σ initial V + λ limit.  V is raised by a multiple of an expected length, and checked in one pass that includes
rounding errors (except on cycles on which positive and negative rewards cancel out exactly).

*Search.*  The points (cost, reward) of all policies have a concave upper hull, and the optimum lies where the limit
cuts it.  Take a policy on either side of the limit, let λ be the slope of the line through their points, and solve for
λ.  Either no policy lies above the line, and a mixture of the two flows is optimal, or the policy found replaces one of
the two.  (This is Dantzig–Wolfe decomposition for a single constraint.)  Finally the two policies are made to differ in
one state only, so that the mixture is randomised in that state alone.

End components without reward and cost are collapsed: their states have the same value.
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

TIGHT = 1e-7  # slack below this, relative to the values, counts as none in the search for ways to a stop
ROUNDS = 1_000
TANGLED = 1_000  # states of a strongly connected component up to which LU needs no fill-reducing order in it
EPSILON = float(np.finfo(np.float64).eps)
BLURS = (1e-9, 1e-11, 1e-13)  # the least improvements, relative to values, of successive policy iterations
MANY = 64  # roundings by which a value may be off
RAISES = (1e-11, 1e-10, 1e-9)  # by how much a price is raised for a proof; relative for prices above 1


class Improper(Exception):
    """A policy that does not end almost surely came up: the price is too low, or rewards cancel out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedFlow:
    """An optimal flow and its dual."""

    flow: Floats  # [choices]
    value: float
    price: float  # λ, the value of one more unit of the limit
    potential: Floats  # [states], V


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point:
    """A policy of the collapsed problem, with its expected cost and reward."""

    choice: Ints  # [states]
    cost: float
    reward: float


class Priced:
    """A flow problem with its free end components collapsed, to be solved for prices."""

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
        """The value of each choice's state minus the value of the choice, [choices]."""
        later: Floats = self.discount * (self.flow.moves @ values)
        return values[self.flow.owner] - gain - later

    def rounding(self, gain: Floats, values: Floats) -> Floats:
        """An upper bound of the rounding error of each slack, [choices]."""
        later: Floats = self.flow.moves @ np.abs(values)
        return 8 * EPSILON * (np.abs(gain) + np.abs(values[self.flow.owner]) + later)

    def start(self, gain: Floats, potential: Floats | None = None) -> Ints:
        """A proper policy; near-optimal if the potential is."""
        guess = np.zeros(self.flow.num_states)
        if potential is not None:
            guess.fill(-np.inf)
            np.maximum.at(guess, self.place, potential)
        return choices_to_stop(self.flow, self.slack(gain, guess), TIGHT * (1 + float(np.abs(guess).max(initial=0.0))))

    def iterate(self, gain: Floats, choice: Ints, blurs: tuple[float, ...] = BLURS) -> tuple[Floats, Ints]:
        """Policy iteration from a proper policy: the best values and a policy that attains them.

        Improvements below the blur may be rounding errors, and could lead to an improper policy.  So the iteration is
        repeated with smaller and smaller blurs, and a repetition that meets an improper policy is discarded.
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
            if turn > 50:  # further changes are rounding
                blur *= 2
        raise LimitReached(f"policy iteration did not settle in {ROUNDS} rounds. Please report this model.")

    def values(self, choice: Ints, constant: Floats) -> Floats:
        """The expected total of ``constant`` (per choice of the policy) from each state on."""
        return _solve(self.flow.moves[choice], self.discount, constant, transposed=False)

    def point(self, choice: Ints) -> Point:
        """The expected cost and reward of a policy."""
        visits = _solve(self.flow.moves[choice], self.discount, self.flow.initial, transposed=True)
        return Point(
            choice=choice,
            cost=float(visits @ self.flow.cost[choice]),
            reward=float(visits @ self.flow.reward[choice]),
        )

    def flow_of(self, choice: Ints) -> Floats:
        """The flow of a policy in the original problem, before end components were collapsed, [choices]."""
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
    """Values and a price, checked to bound every feasible return."""

    def __init__(self, priced: Priced, price: float, potential: Floats) -> None:
        self.priced = priced
        self._values = self._prove(price, potential)

    def upper(self, limit: float) -> float:
        """A bound on every feasible return."""
        return float(self.priced.flow.initial @ self._values + self.price * limit)

    def potential(self) -> Floats:
        """The values of the states of the original problem, [states]."""
        return self._values[self.priced.place]

    def _prove(self, price: float, potential: Floats) -> Floats:
        # A price that is slightly too high hardly weakens the bound, and keeps costly cycles from looking gainful.
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
        """Raised values for rewards that cancel out on a cycle, where no raise covers rounding: it is not counted."""
        priced = self.priced
        try:
            values, choice = priced.iterate(self.gain, priced.start(self.gain, potential))
            length = priced.values(choice, np.ones(priced.flow.num_states))
        except Improper:
            raise LimitReached("no policy that ends attains the best return here. Use a discount below 1.") from None
        rounding = priced.rounding(self.gain, values)
        if (priced.slack(self.gain, values) < -MANY * rounding).any():
            raise LimitReached("the upper bound could not be proved. Use a discount below 1, or report this model.")
        return values + MANY * float(rounding.max(initial=0.0)) * length


# ---------------------------------------------------------------------- the search for the price


class PriceSearch:
    """The best flow for any limit.  Points found for one limit are reused for the next.  May raise Improper."""

    def __init__(self, priced: Priced) -> None:
        self.priced = priced
        gain = -priced.flow.cost
        self.points = [self._best(np.inf, priced.iterate(gain, priced.start(gain))[1])]
        self.least = self.points[0].cost

    def _best(self, price: float, choice: Ints) -> Point:
        """The point of the best policy for a price; ∞: of the policy with the least cost."""
        flow = self.priced.flow
        gain = -flow.cost if price == np.inf else flow.reward - price * flow.cost
        return self.priced.point(self.priced.iterate(gain, choice)[1])

    def solve(self, limit: float | None) -> PricedFlow | None:
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
        """Two policies between these that differ in one state only; these themselves if an improper one comes up."""
        gain = self.priced.flow.reward - price * self.priced.flow.cost
        # The choices in states that a policy never reaches are arbitrary so far; in between they matter.
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

    def _answer(self, cheap: Point, dear: Point | None, price: float, share: float) -> PricedFlow:
        priced = self.priced
        flow = priced.flow_of(cheap.choice)
        if dear is not None and share > 0:
            flow = (1 - share) * flow + share * priced.flow_of(dear.choice)
        gain = priced.flow.reward - price * priced.flow.cost
        values = priced.values(cheap.choice, gain[cheap.choice])
        return PricedFlow(
            flow=flow, value=float(flow @ priced.whole.reward), price=price, potential=values[priced.place]
        )


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
    """A topological order of the strongly connected components, and whether all of these are small.

    Damage leads to lower layers and never back, so with many layers there are many small components, and LU in this
    order fills up only within them.
    """
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(moves, connection="strong")
    order = np.argsort(-label, kind="stable")
    return order, bool(np.bincount(label).max(initial=0) <= TANGLED)


def _collapse(whole: Flow, place: Ints, origin: Ints) -> Flow:
    from scipy.sparse import csr_array

    count = int(place.max(initial=-1)) + 1
    merge = csr_array((np.ones(place.size), (np.arange(place.size), place)), shape=(place.size, count))
    return Flow(
        owner=place[whole.owner[origin]],
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


def choices_to_stop(flow: Flow, slack: Floats, tight: float) -> Ints:
    """A proper policy: choices that lead to a stop, with a slack of at most ``tight`` wherever possible."""
    choice = np.full(flow.num_states, -1)
    for allowed in (slack <= tight, np.ones(flow.num_choices, np.bool_)):
        give(choice, flow.owner, np.flatnonzero(allowed & flow.is_stop))
        spread(flow, choice, allowed)
    # With a discount, a state may have no way to a stop; then it takes the best choice.
    best = np.minimum.reduceat(slack, flow.choice_ptr[:-1])
    return np.where(choice >= 0, choice, _first_at(slack, best, flow))
