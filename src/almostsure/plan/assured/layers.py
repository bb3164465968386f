"""The assured policy: the best return inside the shield, layer by layer, with proved bounds.

With remaining budget K the shield allows the choices with k*(s,a) ≤ K.  Their damage-free outcomes stay in layer K,
those with damage d go to layer K − d.  So the layers are solved for K = 0, 1, …, budget, each with the lower ones as
known exits: the reward of a choice and what its exits are worth are folded into one constant, and what is left is
the maximal total reward of the layer.

Undiscounted, each layer is brought into a form whose Bellman equation has one solution, by looking at its *end
components*: sets of states in which a policy can stay for ever.

- Where a mean reward above 0 can be kept up, the return is +∞, and so it is wherever this can be reached.
- Where all rewards are 0, the states are collapsed into one, which may stop there for 0 or leave by any exit.
- Where gains and losses cancel out exactly, staying for ever has no return and does not compete, but going round and
  then leaving does: such states are collapsed too, by a potential (:mod:`almostsure.plan.assured.cancelling`).
- Everywhere else staying for ever costs −∞.  States from which no policy surely leaves or stops have the return −∞.

On what remains, policy iteration from a proper policy (one that surely stops) goes on until no choice is better.

**Bounds.**  Let V be what was computed, δ(c) an upper bound of |b + A V − V| on the policy's choices and of
b + A V − V on all others, rounding included, and ε(c) what the errors of the lower layers are worth at the exits.  With
e ≥ 2 δ + ε + A e on all choices that are within reach of being best, V − e and V + e satisfy b − ε + A (V − e) ≥ V − e
on the policy's choices and b + ε + A (V + e) ≤ V + e on all choices, which makes them a lower and an upper bound.  Both
inequalities are verified on the numbers, with a margin for rounding, before anything is returned.

This engine is plain NumPy and SciPy: small models never wait for a compiler.  Large ones are solved by
:mod:`almostsure.plan.assured.sweep`, in compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import Interrupted, LimitReached, UnboundedReturn
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan.assured.cancelling import free_choices, lead_to
from almostsure.plan.graph import surely_leave
from almostsure.plan.programme.flow import Flow, choice_graph, end_components, mean_reward, touches
from almostsure.plan.programme.occupation import gainful
from almostsure.policy.chain import add_up

PLAIN_STATES = 2000  # larger models are worth waiting for the compiler, once
UNPROVED = "the bounds could not be proved in 64-bit numbers. Pass a larger tolerance."
STUBBORN = 200_000  # pairs (state, remaining) up to which exact solves are tried where sweeps do not settle
MAX_ITERATIONS = 1000
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """Bounds of the best return and a policy, for every state and remaining budget."""

    lower: Floats  # [budget + 1, num_states], NaN where infeasible
    upper: Floats  # [budget + 1, num_states]
    choice: npt.NDArray[np.int32]  # [budget + 1, num_states], −1 where infeasible


def solve_layers(
    mdp: MDP,
    of_choice: Ints,
    budget: int,
    *,
    discount: float = 1.0,
    tolerance: float = 1e-8,
    report: Callable[[int], None] | None = None,
) -> Layers:
    """The best return inside the shield for every state and every remaining budget up to ``budget``.

    Parameters
    ----------
    mdp
        The model.
    of_choice
        What each choice needs: k*.
    budget
        The largest remaining budget.
    discount, tolerance
        See :func:`almostsure.solve_policy`; the tolerance holds at the initial states.
    report
        Called with each layer that is done.

    Raises
    ------
    Interrupted
        Ctrl-C; ``kept`` holds the Layers that were done, or None.
    """
    if mdp.num_states > PLAIN_STATES:
        large = _solve_large(mdp, of_choice, budget, discount, tolerance, report)
        if large is not None:
            return large
    return _solve_small(mdp, of_choice, budget, discount, tolerance, report)


def _solve_small(
    mdp: MDP, of_choice: Ints, budget: int, discount: float, tolerance: float, report: Callable[[int], None] | None
) -> Layers:
    shape = (budget + 1, mdp.num_states)
    value, error = np.full(shape, np.nan), np.zeros(shape)
    choice = np.full(shape, -1, np.int32)
    moves = _Moves(mdp)
    cycles: dict[tuple[int, int], Ints] = {}
    done = 0
    try:
        for remaining in range(budget + 1):
            layer = _Layer(moves, of_choice <= remaining, remaining, value, error, discount)
            cycles |= {(remaining, int(s)): cycle for cycle in layer.cycles for s in cycle}
            layer.solve()
            value[remaining, layer.states] = layer.value
            error[remaining, layer.states] = layer.error
            choice[remaining, layer.states] = layer.choice
            done = remaining + 1
            if report is not None:
                report(remaining)
    except KeyboardInterrupt:
        kept = _checked(mdp, value[:done], error[:done], choice[:done], cycles, tolerance) if done else None
        raise Interrupted("the search for the best policy was stopped", kept=kept) from None
    return _checked(mdp, value, error, choice, cycles, tolerance)


def _checked(
    mdp: MDP,
    value: Floats,
    error: Floats,
    choice: npt.NDArray[np.int32],
    cycles: dict[tuple[int, int], Ints],
    tolerance: float,
) -> Layers:
    """The bounds, after a look at whether they are finite and close enough."""
    _check_bounded(mdp, value, choice, cycles)
    _check_gap(mdp, value[-1], error[-1], tolerance)
    return Layers(lower=value - error, upper=value + error, choice=choice)


def _solve_large(
    mdp: MDP, of_choice: Ints, budget: int, discount: float, tolerance: float, report: Callable[[int], None] | None
) -> Layers | None:
    """The same by the compiled engine; None where the plain one is needed.

    It does not know returns without bound, nor cycles on which gains and losses cancel out: both are for the plain one.
    """
    from almostsure.plan.assured.sweep import solve_sweeping
    from almostsure.plan.assured.sweep_ground import Ground, may_gain

    ground = Ground.read(mdp, of_choice, budget, discount)
    try:
        lower, upper, choice = solve_sweeping(ground, tolerance, report)
    except LimitReached:
        if mdp.num_states * (budget + 1) > STUBBORN and not may_gain(ground):
            raise
        return None  # ill-conditioned, and small enough for exact solves; or without bound, perhaps
    except Interrupted as stop:
        kept = None if stop.kept is None else Layers(lower=stop.kept[0], upper=stop.kept[1], choice=stop.kept[2])
        raise Interrupted(str(stop), kept=kept) from None
    return Layers(lower=lower, upper=upper, choice=choice)


def _check_bounded(mdp: MDP, value: Floats, choice: Ints, cycles: dict[tuple[int, int], Ints]) -> None:
    """Refuse a start that is worth +∞, naming the cycle that the policy gets to; cycles are by remaining and state."""
    budget = value.shape[0] - 1
    queue = [(budget, int(s)) for s in mdp.initial_states if np.isposinf(value[budget, s])]
    seen = set(queue)
    for pair in queue:
        if pair in cycles:
            cycle = cycles[pair]
            names = ", ".join(mdp.state_name(int(s)) for s in cycle[:8]) + (", …" if cycle.size > 8 else "")
            raise UnboundedReturn(
                f"the return has no bound: reward can be collected for ever, without damage, among: {names}. "
                "Give the cycle a cost, or pass discount below 1.",
                cycle=tuple(cycle.tolist()),
            )
        outcomes = slice(*mdp.outcome_ptr[choice[pair] :][:2])
        ahead = zip(
            (pair[0] - mdp.damage[outcomes].astype(int)).tolist(), mdp.successor[outcomes].tolist(), strict=True
        )
        fresh = [further for further in ahead if further not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    if queue:  # never a quiet infinity
        raise UnboundedReturn("the return has no bound: reward can be collected for ever. Pass discount below 1.")


def _check_gap(mdp: MDP, value: Floats, error: Floats, tolerance: float) -> None:
    start = mdp.initial_states
    finite = np.isfinite(value[start])
    gap = 2 * error[start][finite] / np.maximum(1.0, np.abs(value[start][finite]))
    if gap.size and gap.max() > tolerance:
        raise LimitReached(
            f"the bounds must be within {tolerance:g} of each other; {gap.max():.2g} is the best that 64-bit numbers "
            "give here. Pass a larger tolerance."
        )


class _Moves:
    """What every layer reads of the model."""

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.choice = mdp.outcome_choices()
        self.owner = mdp.choice_states().astype(np.int64)
        self.reward = mean_reward(mdp)


class _Layer:
    """One layer: its states, the allowed choices with their constants, and the solution."""

    def __init__(
        self, moves: _Moves, allowed: Bools, remaining: int, value: Floats, error: Floats, discount: float
    ) -> None:
        mdp = moves.mdp
        self.discount = discount
        self.states = np.unique(moves.owner[allowed])
        position = np.full(mdp.num_states, -1)
        position[self.states] = np.arange(self.states.size)
        choices = np.flatnonzero(allowed)
        outcomes = np.flatnonzero(allowed[moves.choice])
        row = (np.cumsum(allowed) - 1)[moves.choice[outcomes]]
        target, damage = mdp.successor[outcomes], mdp.damage[outcomes].astype(np.int64)
        weight = discount * mdp.probability[outcomes]
        leaves = damage > 0
        exits = remaining - damage[leaves], target[leaves]
        worth, blur = np.zeros(outcomes.size), np.zeros(outcomes.size)
        worth[leaves] = weight[leaves] * value[exits]
        blur[leaves] = weight[leaves] * error[exits]
        stays = ~leaves
        from scipy.sparse import csr_array

        inside = csr_array(
            (weight[stays], (row[stays], position[target[stays]])), shape=(choices.size, self.states.size)
        )
        owner = position[moves.owner[choices]]
        self.constant = moves.reward[choices] + add_up(row, worth, choices.size)
        self.size = np.abs(moves.reward[choices]) + add_up(row, np.abs(worth), choices.size)
        self.blur = add_up(row, blur, choices.size)
        self.flow = Flow(
            choice_ptr=np.searchsorted(owner, np.arange(self.states.size + 1)),
            owner=owner,
            moves=inside,
            reward=moves.reward[choices],
            cost=add_up(row[leaves], weight[leaves], choices.size),  # who leaves pays, here
            initial=np.zeros(self.states.size),
            state=self.states,
            choice=choices,
        )
        self.value = np.full(self.states.size, -np.inf)
        self.error = np.zeros(self.states.size)
        self.choice = self.flow.choice[self.flow.choice_ptr[:-1]]
        self.cycles: list[Ints] = []  # of states of the model, among which reward can be collected for ever
        self._mark_infinite()

    def _mark_infinite(self) -> None:
        """Find where the return is +∞."""
        flow = self.flow
        forever = np.zeros(flow.num_states, np.bool_)
        if self.discount == 1 and (flow.reward > 0).any():
            forever = gainful(flow)
        if forever.any():
            label, _ = end_components(flow, flow.cost == 0)
            self.cycles = [self.states[label == number] for number in np.unique(label[forever])]
        to_gain = np.isposinf(self.constant)
        self.infinite = forever.copy()
        while True:
            good = to_gain | touches(flow.moves, self.infinite)
            more = self.infinite.copy()
            more[flow.owner[good]] = True
            fresh = np.flatnonzero(good & ~self.infinite[flow.owner])
            self.choice[flow.owner[fresh]] = flow.choice[fresh]
            if (more == self.infinite).all():
                return
            self.infinite = more

    # ------------------------------------------------------------------ solving

    def solve(self) -> None:
        """Find values, choices and errors."""
        self.value[self.infinite] = np.inf
        usable = np.isfinite(self.constant)
        keep = ~self.infinite
        position = np.flatnonzero(keep)
        part = self.flow.keep(keep, usable)
        kept = np.flatnonzero(usable & keep[self.flow.owner] & ~touches(self.flow.moves, ~keep))
        game = _Game(part, self.constant[kept], self.size[kept], self.blur[kept], self.discount)
        game.solve()
        self.value[position], self.error[position] = game.value, game.error
        chosen = game.choice >= 0
        self.choice[position[chosen]] = part.choice[game.choice[chosen]]


class _Game:
    """Maximal total reward with constants and exits folded in: collapse, iterate, prove."""

    def __init__(self, flow: Flow, constant: Floats, size: Floats, blur: Floats, discount: float) -> None:
        self.flow, self.discount = flow, discount
        free, self.potential = np.zeros(flow.num_choices, np.bool_), np.zeros(flow.num_states)
        if discount == 1:
            free, self.potential = free_choices(flow)
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
        self.origin = np.concatenate([kept, -1 - number])[order]  # below 0: rest
        self.count = count

    def solve(self) -> None:
        """Values, errors and choices of the game's states (−1: none that is better than another)."""
        if self.discount == 1:
            live, usable, policy = surely_leave(choice_graph(self.owner, self.moves), self.leaks)
        else:
            live, usable = np.ones(self.count, np.bool_), np.ones(self.owner.size, np.bool_)
            policy = np.searchsorted(self.owner, np.arange(self.count))
        value, error = np.full(self.count, -np.inf), np.zeros(self.count)
        chosen = np.full(self.count, -1)
        if live.any():
            solver = _Iteration(self, live, usable, policy)
            value[live], error[live] = solver.run()
            chosen[live] = solver.rows[solver.policy]
        self.value = value[self.place] + self.potential
        self.error = error[self.place] + 2 * EPSILON * np.abs(self.potential)
        self.choice = self._unfold(chosen)

    def _unfold(self, chosen: Ints) -> Ints:
        """The choice of each state from those of the places: inside a place, everybody goes to where it is left."""
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
    """Policy iteration with exact sparse solves, and the proof of what it found."""

    def __init__(self, game: _Game, live: Bools, usable: Bools, policy: Ints) -> None:
        self.rows = np.flatnonzero(usable & live[game.owner])
        at = np.cumsum(live) - 1
        self.matrix = game.moves[self.rows][:, live]
        self.owner = at[game.owner[self.rows]]
        self.constant, self.size, self.blur = game.constant[self.rows], game.size[self.rows], game.blur[self.rows]
        self.count = int(live.sum())
        self.policy: Ints = np.searchsorted(self.rows, policy[live])
        self.starts = np.searchsorted(self.owner, np.arange(self.count))
        self.discount = game.discount

    def run(self) -> tuple[Floats, Floats]:
        """Values and their errors."""
        self.policy, value = self._improve(self.policy, self.constant, np.ones(self.owner.size, np.bool_))
        return value, self._prove(value)

    def _factor(self, policy: Ints) -> Any:
        from scipy.sparse import csc_array, eye_array
        from scipy.sparse.linalg import splu

        try:
            return splu(csc_array(eye_array(self.count) - self.matrix[policy]))
        except RuntimeError:  # exactly singular: a cycle that costs less than rounding looks like one worth staying in
            raise LimitReached(UNPROVED) from None

    def _improve(self, policy: Ints, constant: Floats, among: Bools) -> tuple[Ints, Floats]:
        """The best policy among some choices, and its values."""
        for _ in range(MAX_ITERATIONS):
            factor = self._factor(policy)
            value = factor.solve(constant[policy])
            value += factor.solve(constant[policy] - (value - self.matrix[policy] @ value))  # one step of refinement
            gain = np.where(among, constant + self.matrix @ value - value[self.owner], -np.inf)
            best = np.maximum.reduceat(gain, self.starts)
            better = best > 64 * EPSILON * (1 + np.abs(value) + np.abs(constant[policy]))
            if not better.any():
                return policy, value
            hits = np.flatnonzero(gain == best[self.owner])
            first = policy.copy()
            first[self.owner[hits][::-1]] = hits[::-1]
            policy = np.where(better, first, policy)
        raise LimitReached(f"policy iteration did not settle within {MAX_ITERATIONS} rounds. Pass a larger tolerance.")

    def _prove(self, value: Floats) -> Floats:
        """An error bound that was verified on the numbers (see the module's docstring)."""
        margin = self._rounding(value)
        gain = self.constant + self.matrix @ value - value[self.owner]
        step = np.maximum(gain, 0.0) + 2 * margin
        step[self.policy] = np.abs(gain[self.policy]) + 2 * margin[self.policy]
        near = gain > -1e-6 * (1 + np.abs(value[self.owner]))
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
        """The least e ≥ step + A e on all choices that may be best, and a little more."""
        among = near.copy()
        among[self.policy] = True
        _, error = self._improve(self.policy, step, among)
        return 1.001 * np.maximum(error, 0.0)

    def _rounding(self, value: Floats) -> Floats:
        """How far b + A V − V may be off because numbers have 64 bits."""
        terms = np.diff(self.matrix.indptr) + 3
        bound: Floats = 2 * EPSILON * terms * (self.size + self.matrix @ np.abs(value) + np.abs(value[self.owner]))
        return bound
