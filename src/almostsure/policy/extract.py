"""From an optimal flow to a policy, and to bounds that do not trust the programme.

*Policy.*  Where there is flow, a state's choices are played in proportion to it; where there is none (a state that
rounding or a rare event reaches all the same) a choice is taken that is optimal for the dual and leads to an end.
A stop becomes a rest: if the policy never leaves the states in which it stops, it simply plays a harmless choice
there; otherwise it must remember, see :mod:`almostsure.policy.policy`.

*Upper bound.*  Any V and λ ≥ 0 with V(s) ≥ reward − λ cost + discount Σ p V for all choices bound every feasible return
by Σ initial V + λ limit.  V is found anew by policy iteration with sparse solves (the programme's own is only as good as
its tolerance), raised by a multiple of an expected length, and checked in one pass that counts in rounding errors (not
on cycles on which positive and negative rewards cancel out exactly).  States that can follow each other
for ever without reward and cost have one value, and are one state here.
"""

from __future__ import annotations

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.policy.flow import Flow, end_components, plain_flow
from almostsure.policy.occupation import Answer
from almostsure.policy.policy import Policy, Rest

TINY = 1e-12  # flow below this is none
TIGHT = 1e-7  # slack below this share of the values' size counts as none when a state without flow needs a choice
ROUNDS = 1_000
EPSILON = float(np.finfo(np.float64).eps)
RAISES = (1e-11, 1e-10, 1e-9)  # by how much the price is raised, times the price if above 1


class _Improper(Exception):
    """A policy without an end came up."""


# ---------------------------------------------------------------------- the upper bound


class Dual:
    """The best values for a given price of the constraint, on the problem with resting places collapsed."""

    def __init__(self, flow: Flow, discount: float, price: float, potential: Floats) -> None:
        self.discount = discount
        place, inner = _resting_places(flow) if discount == 1 else (np.arange(flow.num_states), _none(flow))
        self.flow, self.place = _collapse(flow, place, inner), place
        self._guess = np.full(self.flow.num_states, -np.inf)
        np.maximum.at(self._guess, place, potential)
        self._proved = self._prove(price)

    def upper(self, limit: float) -> float:
        """A bound on every feasible return."""
        return float(self.flow.initial @ self._proved + self.price * limit)

    def potential(self) -> Floats:
        """The values of the states of the original problem, [states]."""
        return self._proved[self.place]

    def _prove(self, price: float) -> Floats:
        # A price a little too high costs next to nothing, and keeps costly cycles from looking gainful.
        for extra in RAISES:
            self.price = price + extra * max(price, 1.0)
            self.gain = self.flow.reward - self.price * self.flow.cost
            try:
                values, choice = self._iterate()
                return self._raised(values, choice)
            except _Improper:
                continue
        return self._raised_roughly()

    def _slack(self, values: Floats) -> Floats:
        """How much more a state is worth than each of its choices, [choices]."""
        return values[self.flow.owner] - self.gain - self.discount * (self.flow.moves @ values)

    def _rounding(self, values: Floats) -> Floats:
        """What rounding may hide of a slack, [choices]."""
        size = np.abs(self.gain) + np.abs(values[self.flow.owner]) + self.flow.moves @ np.abs(values)
        return 8 * EPSILON * size

    def _iterate(self) -> tuple[Floats, Ints]:
        """Policy iteration from a policy that comes to an end."""
        flow = self.flow
        scale = 1 + float(np.abs(self._guess).max(initial=0.0))
        choice = leading_home(flow, self._slack(self._guess), TIGHT * scale)
        blur = 8.0
        for turn in range(ROUNDS):
            values = self._solve(choice, self.gain[choice])
            slack = self._slack(values)
            better = np.flatnonzero(slack < -blur * self._rounding(values))
            if not better.size:
                return values, choice
            worst = np.minimum.reduceat(slack, flow.choice_ptr[:-1])
            switch = np.zeros(flow.num_states, np.bool_)
            switch[flow.owner[better]] = True
            choice = np.where(switch, _first_at(slack, worst, flow), choice)
            if turn > 50:  # what still changes is rounding
                blur *= 2
        raise LimitReached(f"policy iteration did not settle in {ROUNDS} rounds. Please report this model.")

    def _solve(self, choice: Ints, constant: Floats) -> Floats:
        from scipy.sparse import csc_array, eye_array
        from scipy.sparse.linalg import splu

        matrix = csc_array(eye_array(self.flow.num_states) - self.discount * self.flow.moves[choice])
        try:
            factor = splu(matrix)
        except RuntimeError:
            raise _Improper from None
        values = factor.solve(constant)
        result: Floats = values + factor.solve(constant - matrix @ values)
        if not np.isfinite(result).all():
            raise _Improper
        return result

    def _raised_roughly(self) -> Floats:
        """Where rewards cancel out on a cycle no raise makes up for rounding; there, rounding is not counted."""
        try:
            values, choice = self._iterate()
            length = self._solve(choice, np.ones(self.flow.num_states))
        except _Improper:
            raise LimitReached("no policy that comes to an end has a best return here. Use a discount below 1.") from None
        rounding = self._rounding(values)
        if (self._slack(values) < -64 * rounding).any():
            raise LimitReached("the upper bound could not be proved. Use a discount below 1, or report this model.")
        return values + float(rounding.max(initial=0.0)) * length

    def _raised(self, values: Floats, choice: Ints) -> Floats:
        """Values raised until no choice is worth more than its state, rounding included."""
        flow = self.flow
        excess = self._rounding(values) - self._slack(values)
        worst = float(excess.max(initial=0.0))
        if worst <= 0:
            return values
        if self.discount < 1:
            return values + worst / (1 - self.discount)
        step = 4 * worst
        for _ in range(ROUNDS):
            length = self._solve(choice, np.ones(flow.num_states))
            missing = excess + step * (flow.moves @ length - length[flow.owner])
            need = np.maximum.reduceat(missing, flow.choice_ptr[:-1])
            if (need <= 0).all() and (length >= 0).all():
                return values + step * length
            choice = np.where(need > 0, _first_at(missing, need, flow), choice)
        raise _Improper


def _resting_places(flow: Flow) -> tuple[Ints, Bools]:
    """A number for each state, the same for states that can follow each other for free; and the choices inside."""
    label, inner = end_components(flow, (flow.reward == 0) & (flow.cost == 0))
    single = np.arange(flow.num_states) + label.max(initial=0) + 1
    _, place = np.unique(np.where(label >= 0, label, single), return_inverse=True)
    return place, inner


def _none(flow: Flow) -> Bools:
    return np.zeros(flow.num_choices, np.bool_)


def _collapse(flow: Flow, place: Ints, inner: Bools) -> Flow:
    from scipy.sparse import csr_array

    count = int(place.max(initial=-1)) + 1
    kept = np.flatnonzero(~inner)
    kept = kept[np.argsort(place[flow.owner[kept]], kind="stable")]
    owner = place[flow.owner[kept]]
    merge = csr_array((np.ones(place.size), (np.arange(place.size), place)), shape=(place.size, count))
    return Flow(
        choice_ptr=np.searchsorted(owner, np.arange(count + 1)),
        owner=owner,
        moves=csr_array(flow.moves[kept] @ merge),
        reward=flow.reward[kept],
        cost=flow.cost[kept],
        initial=np.bincount(place, flow.initial, minlength=count),
        state=np.arange(count),
        choice=flow.choice[kept],
    )


def _first_at(values: Floats, wanted: Floats, flow: Flow) -> Ints:
    """The first choice of each state that has the wanted value."""
    hits = np.flatnonzero(values == wanted[flow.owner])
    result = np.zeros(flow.num_states, np.int64)
    result[flow.owner[hits][::-1]] = hits[::-1]
    return result


def leading_home(flow: Flow, slack: Floats, tight: float) -> Ints:
    """A choice for each state such that all of them together lead to a stop; tight ones wherever that works."""
    back = flow.moves.tocsc()
    choice = np.full(flow.num_states, -1)
    for allowed in (slack <= tight, np.ones(flow.num_choices, np.bool_)):
        ready = allowed & (flow.is_stop | (np.asarray(flow.moves @ (choice >= 0).astype(np.float64)) > 0))
        frontier = _settle(choice, flow.owner, np.flatnonzero(ready))
        while frontier.size:
            rows = np.unique(back[:, frontier].indices)
            frontier = _settle(choice, flow.owner, rows[allowed[rows]])
    # With a discount there may be no stop to lead to; then the best choice will do.
    best = np.minimum.reduceat(slack, flow.choice_ptr[:-1])
    return np.where(choice >= 0, choice, _first_at(slack, best, flow))


def _settle(choice: Ints, owner: Ints, ready: Ints) -> Ints:
    """Give the states without a choice one of the ready ones; the states that got one."""
    fresh = ready[choice[owner[ready]] < 0]
    choice[owner[fresh][::-1]] = fresh[::-1]
    return np.unique(owner[fresh])


# ---------------------------------------------------------------------- the policy


def extract(mdp: MDP, flow: Flow, answer: Answer, dual: Dual, total: int | None) -> Policy:
    """The policy of an optimal flow: stationary, or with ``total`` on (state, remaining) and once overspent."""
    layers = 1 if total is None else total + 2
    share, stop = _shares(flow, answer, dual), flow.is_stop
    stops = np.bincount(flow.owner[stop], share[stop], minlength=flow.num_states)
    share /= np.where(stops < 1, 1 - stops, 1.0)[flow.owner]
    probability, rests = np.zeros((layers, mdp.num_choices)), np.zeros((layers, mdp.num_states))
    probability.ravel()[flow.choice[~stop]] = share[~stop]
    rests.ravel()[flow.state] = stops
    whole = plain_flow(mdp)
    harmless = _Waiting(whole, (whole.reward == 0) & (whole.cost == 0))
    for layer in range(layers):
        if total is not None and layer == total + 1:
            _Waiting(whole, whole.reward == 0).settle(probability[layer], rests[layer], always=True)
        else:
            harmless.settle(probability[layer], rests[layer], always=False)
    rest = Rest(probability=rests, choice=harmless.choice) if rests.any() else None
    return Policy(mdp, probability=probability, total=total, rest=rest)


def _shares(flow: Flow, answer: Answer, dual: Dual) -> Floats:
    """How a state's visits are spread over its choices; where there are none, one choice that leads home."""
    visits = np.bincount(flow.owner, answer.flow, minlength=flow.num_states)
    values = dual.potential()
    slack = values[flow.owner] - flow.reward + dual.price * flow.cost - dual.discount * (flow.moves @ values)
    home = leading_home(flow, slack, TIGHT * (1 + float(np.abs(values).max(initial=0.0))))
    visited = visits > TINY
    share = np.where(visited[flow.owner], answer.flow / np.where(visited, visits, 1.0)[flow.owner], 0.0)
    share[home[~visited]] = 1.0
    return share


class _Waiting:
    """The places where a policy can wait for ever with choices of one kind, and with which choice."""

    def __init__(self, whole: Flow, kind: Bools) -> None:
        self.whole = whole
        self.label, self.inner = end_components(whole, kind)
        self.choice = self._first(self.inner)

    def _first(self, choices: Bools) -> Ints:
        result = np.full(self.whole.num_states, -1)
        at = np.flatnonzero(choices)
        result[self.whole.owner[at][::-1]] = at[::-1]
        return result

    def settle(self, probability: Floats, rests: Floats, *, always: bool) -> None:
        """Let a layer's states that stop wait instead, where no other state's moves would carry the policy away.

        ``always``: also where they would.  That is right where stopping and moving on are worth the same.
        """
        owner = self.whole.owner
        busy = np.bincount(owner, probability, minlength=self.whole.num_states) > 0
        calm = np.full(busy.size, -1)
        if (~busy & (self.label >= 0)).any():
            _, inside = end_components(self.whole, self.inner & ~busy[owner])
            calm = self._first(inside)
        if always:
            calm = np.where((calm < 0) & (rests > 0), self.choice, calm)
            rests[calm >= 0] = 0.0
        probability[calm[calm >= 0]] = 1.0
        rests[calm >= 0] = 0.0
