"""Components with positive rewards inside an end component: these go on for ever, cancel out, or are lost again.

- If a policy that stays has a positive mean reward, the value is +∞.
- If gains and losses cancel out exactly, a run that stays for ever has no return, and such policies do not compete; but
  those that go round and then leave do.  Such end components are collapsed by means of a potential
  (:mod:`almostsure.plan.assured.component.cancelling`).  Pairs from which no run leaves have no return at all.
- Otherwise staying for ever has the return −∞.

What remains is solved by policy iteration, from a policy that leaves almost surely until no choice is better.

**Bounds.**  Let V be the values computed, δ(c) an upper bound of |b + A V − V| on the policy's choices and of
b + A V − V on all others, rounding included, and ε(c) the effect of the errors of the exits.  With e ≥ 2 δ + ε + A e
on all choices that may be optimal, V − e and V + e satisfy b − ε + A (V − e) ≥ V − e on the policy's choices and
b + ε + A (V + e) ≤ V + e on all choices, so they are a lower and an upper bound.  Both inequalities are verified
numerically, with a margin for rounding, before anything is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.arrays import spans
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.assured.component.cancelling import cancels_exactly, free_choices, lead_to
from almostsure.plan.assured.steps import NOWHERE, Bounds, Game
from almostsure.plan.graph import surely_leave
from almostsure.plan.programme.flow import Flow, choice_graph, end_components
from almostsure.plan.programme.means import gain_sign, gaining_components
from almostsure.policy.evaluation.chain import add_up
from almostsure.policy.evaluation.linear import SuperLU
from almostsure.wording import counted

UNPROVED = "the bounds could not be proved in 64-bit numbers. Pass a horizon, or a discount below 1."
FEW = 2_000  # members up to which the policy iteration below is used where all cycles lose, too: it is more accurate
GAINFUL = 20_000  # the most pairs of a component for which it is decided whether gains and losses cancel out
MAX_ITERATIONS = 200  # of policy iteration, which may alternate between policies that are equal up to rounding
NEAR = (64, 8, 1)  # choices that are worse by less than this many rounding errors may be optimal
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GainSolution:
    """Values, errors and choices of a component's members."""

    value: Floats
    error: Floats
    choice: Ints  # of the graph of pairs
    forever: Bools  # the pairs of a cycle on which reward can be collected for ever
    undefined: Bools  # the pairs from which no run leaves, and gains and losses may cancel out
    exact: bool = True  # whether gains and losses that seem to cancel out do so exactly, and not only up to rounding


def settle_gains(game: Game, bounds: Bounds, members: Ints, rewards: Floats) -> GainSolution | None:
    """Values, errors and choices of a component with positive rewards inside an end component.

    None if there are many members, and every policy that stays has a negative mean reward: then the component needs no
    special care.  ``rewards`` are those of the model's outcomes.
    """
    flow, exits = _flow(game, bounds, members)
    count, terms = members.size, _most_outcomes(game, flow)
    forever, unknown = np.zeros(count, np.bool_), []
    for choices in gaining_components(flow):
        sign = gain_sign(flow, choices, terms)
        if sign > 0:
            forever[flow.owner[choices]] = True
            break
        if sign == 0:
            unknown.append(choices)
    if not forever.any():
        if not unknown and count > FEW:
            return None
        if count > GAINFUL:
            raise LimitReached(
                f"whether gains and losses cancel out is only decided among at most {GAINFUL:,} pairs of a state and a "
                f"remaining budget; got {count:,}. Give cycles a clear cost, or use a discount below 1."
            )
        free, potential, forever = free_choices(flow, unknown, terms)
    if forever.any():
        none, choice = np.zeros(count), np.zeros(count, np.uint32)
        return GainSolution(value=none, error=none, choice=choice, forever=forever, undefined=np.zeros(count, np.bool_))
    part = _Game(flow, exits, free, potential, terms)
    part.solve(bool(unknown))
    first_choice = game.graph.ptr[members]
    chosen = np.where(part.choice >= 0, flow.choice[np.maximum(part.choice, 0)], first_choice)
    doubtful = (
        np.flatnonzero(np.logical_or.reduce([free & some for some in unknown])) if unknown else np.zeros(0, np.int64)
    )
    exact = cancels_exactly([_exactly(game, bounds, rewards, flow.choice[c]) for c in doubtful.tolist()], potential)
    return GainSolution(
        value=part.value, error=part.error, choice=chosen, forever=forever, undefined=part.undefined, exact=exact
    )


def _exactly(game: Game, bounds: Bounds, rewards: Floats, choice: int) -> tuple[int, Fraction, dict[int, Fraction]]:
    """The owner of a choice (its position), its exact mean reward, and exact probabilities by successor position."""
    graph, first = game.graph, int(game.outcome_ptr[game.graph.origin[choice]])
    targets = graph.target[graph.entry_ptr[choice] : graph.entry_ptr[choice + 1]]
    weights = [Fraction(float(p)) for p in game.probability[first : first + targets.size]]
    total, reward = sum(weights), Fraction(0)
    for p, r in zip(weights, rewards[first : first + targets.size].tolist(), strict=True):
        reward += p * Fraction(r)
    ahead: dict[int, Fraction] = {}
    for place, p in zip(bounds.place[targets].tolist(), weights, strict=True):
        ahead[place] = ahead.get(place, Fraction(0)) + p / total
    owner = int(np.searchsorted(graph.ptr, choice, side="right")) - 1
    return int(bounds.place[owner]), reward / total, ahead


def _most_outcomes(game: Game, flow: Flow) -> int:
    """The most outcomes of a choice: the number of terms in its sums, for bounds on rounding."""
    ptr = game.graph.entry_ptr.astype(np.int64)
    return int((ptr[flow.choice.astype(np.int64) + 1] - ptr[flow.choice]).max(initial=0))


def _flow(game: Game, bounds: Bounds, members: Ints) -> tuple[Flow, tuple[Floats, Floats, Floats]]:
    """The choices of a component as a flow problem, and three arrays per choice of it.

    These are its constant (reward plus value of the exits), the sum of absolute terms in it, and the error in it.
    """
    from scipy.sparse import csr_array

    graph = game.graph
    choices, owner = spans(graph.ptr, members)
    entries, row = spans(graph.entry_ptr, choices)
    origin = graph.origin[choices]
    outcome, _ = spans(game.outcome_ptr, origin)
    target = graph.target[entries]
    sums = add_up(row, game.probability[outcome], choices.size)
    weight = game.probability[outcome] / sums[row]
    place = bounds.place[target]
    leaves = place == NOWHERE
    low, high = bounds.low[target[leaves]], bounds.high[target[leaves]]
    usable = np.ones(choices.size, np.bool_)
    usable[row[leaves][np.isneginf(high)]] = False
    with np.errstate(invalid="ignore"):
        middle, blur = np.where(low == high, low, low / 2 + high / 2), np.where(low == high, 0.0, high / 2 - low / 2)
    reward = game.gain[origin] / sums
    constant = reward + add_up(row[leaves], weight[leaves] * middle, choices.size)
    size = np.abs(reward) + add_up(row[leaves], weight[leaves] * np.abs(middle), choices.size)
    blurred = add_up(row[leaves], weight[leaves] * blur, choices.size)
    stays = ~leaves
    shape = (choices.size, members.size)
    flow = Flow(
        owner=owner,
        moves=csr_array((weight[stays], (row[stays], place[stays].astype(np.int64))), shape=shape), reward=reward,
        cost=add_up(row[leaves], weight[leaves], choices.size), initial=np.zeros(members.size),
        state=np.arange(members.size), choice=choices,
    )  # fmt: skip
    kept = np.flatnonzero(usable)
    return flow.keep(np.ones(members.size, np.bool_), usable), (constant[kept], size[kept], blurred[kept])


class _Game:
    """The total-reward problem of a component after collapsing, with exits folded into constants."""

    def __init__(
        self, flow: Flow, exits: tuple[Floats, Floats, Floats], free: Bools, potential: Floats, terms: int
    ) -> None:
        self.flow, self.potential, self.terms = flow, potential, terms
        constant, size, blur = exits
        label, self.inner = end_components(flow, free)
        single = label < 0
        label = np.where(single, label.max(initial=0) + 1 + np.arange(label.size), label)
        _, self.place = np.unique(label, return_inverse=True)
        count = int(self.place.max(initial=-1)) + 1
        self.rest, self.resting = end_components(flow, free & (flow.reward == 0))
        number, spot = np.unique(self.rest, return_index=True)
        number, spot = number[number >= 0], spot[number >= 0]
        kept = np.flatnonzero(~self.inner)
        owner = np.concatenate([self.place[flow.owner[kept]], self.place[spot]])
        order = np.argsort(owner, kind="stable")
        from scipy.sparse import csr_array, vstack

        merge = csr_array((np.ones(single.size), (np.arange(single.size), self.place)), shape=(single.size, count))
        moves = csr_array(vstack([flow.moves[kept] @ merge, csr_array((spot.size, count))]))[order]
        height, none = np.abs(self.potential), np.zeros(spot.size)
        constant = constant + flow.moves @ self.potential - self.potential[flow.owner]
        size = size + flow.moves @ height + height[flow.owner]
        self.owner = owner[order]
        self.moves = csr_array(moves)
        self.constant = np.concatenate([constant[kept], -self.potential[spot]])[order]
        self.size = np.concatenate([size[kept], height[spot]])[order]
        self.blur = np.concatenate([blur[kept], none])[order]
        self.leaks = np.concatenate([flow.cost[kept] > 0, none == 0])[order]
        self.origin = np.concatenate([kept, -1 - number])[order]  # below 0: stay
        self.count = count

    def solve(self, unknown: bool) -> None:
        """Find values, errors and choices of the component's members (choice −1: all are equally bad).

        A state that cannot leave almost surely has value −∞, since staying for ever loses; that is proved here if it
        is ``unknown``.  If some such state is in an end component where gains and losses cancel out, all of them are
        ``undefined``.
        """
        live, usable, policy = surely_leave(choice_graph(self.owner, self.moves), self.leaks)
        if unknown:
            self._check_losses(~live)
        value, error = np.full(self.count, -np.inf), np.zeros(self.count)
        chosen = np.full(self.count, -1)
        if live.any():
            solver = _Iteration(self, live, usable, policy)
            value[live], error[live] = solver.run()
            chosen[live] = solver.rows[solver.policy]
        round_and_round = np.zeros(self.count, np.bool_)
        round_and_round[self.place[self.flow.owner[self.inner]]] = True
        self.undefined: Bools = (~live & (round_and_round & ~live).any())[self.place]
        self.value = value[self.place] + self.potential
        self.error = error[self.place] + 2 * EPSILON * np.abs(self.potential)
        self.choice = self._unfold(chosen)

    def _check_losses(self, lost: Bools) -> None:
        flow = Flow(
            owner=self.owner, moves=self.moves,
            reward=self.constant, cost=(self.leaks | ~lost[self.owner]).astype(np.float64),
            initial=np.zeros(self.count), state=np.arange(self.count), choice=np.arange(self.owner.size),
        )  # fmt: skip
        for choices in gaining_components(flow):
            if gain_sign(flow, choices, self.terms, self.size) >= 0:
                raise LimitReached(
                    f"gains and losses in a cycle of {counted(np.unique(self.owner[choices]).size, 'state')}, which is "
                    "never left, differ so much in size that 64-bit numbers cannot tell which prevail. Pass a discount "
                    "below 1, or a larger budget with which the cycle can be left."
                )

    def _unfold(self, chosen: Ints) -> Ints:
        """The choice of each state from those of the collapsed states: inside one, choices lead to where it is left."""
        flow = self.flow
        option = self.origin[chosen[chosen >= 0]]
        exits, rests = option[option >= 0], np.isin(self.rest, -1 - option[option < 0])
        result = np.full(flow.num_states, -1)
        result[flow.owner[exits]] = exits
        staying = np.flatnonzero(self.resting & rests[flow.owner])
        result[flow.owner[staying][::-1]] = staying[::-1]
        way = lead_to(flow, self.inner, np.flatnonzero(result >= 0))
        return np.where(result >= 0, result, way)


class _Iteration:
    """Policy iteration with sparse LU, and the proof of an error bound."""

    def __init__(self, game: _Game, live: Bools, usable: Bools, policy: Ints) -> None:
        self.rows = np.flatnonzero(usable & live[game.owner])
        at = np.cumsum(live) - 1
        self.matrix = game.moves[self.rows][:, live]
        self.owner = at[game.owner[self.rows]]
        self.constant, self.size, self.blur = game.constant[self.rows], game.size[self.rows], game.blur[self.rows]
        self.count, self.terms = int(live.sum()), game.terms
        self.policy: Ints = np.searchsorted(self.rows, policy[live])
        self.starts = np.searchsorted(self.owner, np.arange(self.count))

    def run(self) -> tuple[Floats, Floats]:
        """The values of the live states and their errors."""
        self.policy, value = self._improve(self.policy, self.constant, np.ones(self.owner.size, np.bool_))
        for roundings in NEAR:
            try:
                return value, self._prove(value, roundings)
            except LimitReached:  # perhaps a choice counted as near that is clearly worse, and never leaves
                continue
        raise LimitReached(UNPROVED)

    def _factor(self, policy: Ints) -> SuperLU:
        from scipy.sparse import csc_array, eye_array

        try:
            return SuperLU(csc_array(eye_array(self.count) - self.matrix[policy]))
        except RuntimeError:  # singular: a cycle whose cost is below rounding looks as if it were free
            raise LimitReached(UNPROVED) from None

    def _improve(self, policy: Ints, constant: Floats, among: Bools) -> tuple[Ints, Floats]:
        """The best policy among some choices (a mask) for the given constants, and its values."""
        for _ in range(MAX_ITERATIONS):
            evaluated, value = policy, self._factor(policy).refined(constant[policy])
            gain = np.where(among, constant + self.matrix @ value - value[self.owner], -np.inf)
            best = np.maximum.reduceat(gain, self.starts)
            better = best > 64 * EPSILON * (1 + np.abs(value) + np.abs(constant[policy]))
            if not better.any():
                break
            hits = np.flatnonzero(gain == best[self.owner])
            first = policy.copy()
            first[self.owner[hits][::-1]] = hits[::-1]
            policy = np.where(better, first, policy)
        return evaluated, value

    def _prove(self, value: Floats, roundings: int) -> Floats:
        """An error bound, verified numerically (see the module's docstring).

        At first, choices that are worse by less than this many ``roundings`` may be optimal.
        """
        margin = self._rounding(value)
        gain = self.constant + self.matrix @ value - value[self.owner]
        step = np.maximum(gain, 0.0) + 2 * margin
        step[self.policy] = np.abs(gain[self.policy]) + 2 * margin[self.policy]
        near = gain > -roundings * margin
        for _ in range(60):
            error = self._spread(2 * step + (1 + 32 * EPSILON) * self.blur, near)
            change = self.blur + self.matrix @ error - error[self.owner]
            slack = margin + 8 * EPSILON * (error[self.owner] + self.blur)
            too_high = gain + change + slack > 0
            too_low = -gain[self.policy] + change[self.policy] + slack[self.policy] > 0
            if not too_high.any() and not too_low.any():
                return error
            near |= too_high
            step = 2 * step + 32 * EPSILON * error[self.owner]
        raise LimitReached(UNPROVED)

    def _spread(self, step: Floats, near: Bools) -> Floats:
        """The least e ≥ step + A e on all choices that may be optimal, and a little more."""
        among = near.copy()
        among[self.policy] = True
        _, error = self._improve(self.policy, step, among)
        return 1.001 * np.maximum(error, 0.0)

    def _rounding(self, value: Floats) -> Floats:
        """An upper bound of the rounding error in b + A V − V."""
        size: Floats = self.size + self.matrix @ np.abs(value) + np.abs(value[self.owner])
        return EPSILON * (4 * self.terms + 8) * size
