"""Expectation and chance constraints as linear programmes over occupation measures.

With the flow x(c) of a policy (:mod:`almostsure.plan.programme.flow`) the problem is

    maximise  Σ reward(c) x(c)     subject to   out(s) − discount · in(s) = initial(s)   for every state s,
                                                Σ cost(c) x(c) ≤ limit,   x ≥ 0,

and its dual, with a value V(s) for every state and a price λ ≥ 0 of the constraint,

    minimise  Σ initial V + λ · limit   subject to   V(s) ≥ reward(c) − λ cost(c) + discount · Σ p V   for every choice.

A vertex of the programme is a policy that is randomised in at most one state.  The reference is Altman,
*Constrained Markov Decision Processes* (1999), chapters 3 and 9.  HiGHS solves small programmes, and
:mod:`almostsure.plan.programme.lagrange` large ones.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from almostsure.errors import LimitReached
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.plan.programme.flow import Flow, end_components, reachable, surely_stops, without_loops
from almostsure.plan.programme.highs import highs, is_optimal
from almostsure.plan.programme.lagrange import Improper, Priced, PricedFlow, PriceSearch, Proof
from almostsure.plan.programme.means import gainful

SMALL = 500  # choices up to which HiGHS is faster
REACHED = 1e-7  # at the least limit, a smaller flow into an endless gain counts as none
CLOSE = 1e-9  # a limit counts as the least one if it is above that by less than this


class NoEnd(Exception):
    """No policy ends almost surely; ``free`` says whether some policy can go on for ever without a cost."""

    def __init__(self, free: bool) -> None:
        super().__init__(free)
        self.free = free


class Endless(Exception):
    """The constraint allows a policy to reach an end component with a positive mean reward, with these states."""

    def __init__(self, states: Ints) -> None:
        super().__init__(states)
        self.states = states


class Programme:
    """A flow problem prepared to be solved for many limits."""

    def __init__(self, raw: Flow, discount: float) -> None:
        self.discount = discount
        self._leaving = np.ones(raw.num_choices)
        if discount == 1:
            raw = self._without_loops(raw)
        flow = raw.keep(reachable(raw), np.ones(raw.num_choices, np.bool_))
        flow = _with_stops(flow) if discount == 1 else _with_terminal_stops(flow)
        self.gainful = gainful(flow) if discount == 1 else np.zeros(flow.num_states, np.bool_)
        self.everything = flow

    @cached_property
    def flow(self) -> Flow:
        """The problem that is solved: without states that have no end, and without endless gains."""
        # No feasible flow reaches an endless gain (else Endless was raised), so those states can be removed.
        return _trimmed(self.everything, ~self.gainful) if self.discount == 1 else self.everything

    @cached_property
    def solver(self) -> _Solver:
        """Solves the problem, and has it with prices, for proofs."""
        return _Solver(self.flow, self.discount)

    def solve(self, limit: float | None) -> PricedFlow | None:
        """The best flow with at most ``limit`` cost (None: any); None if there is none."""
        self._check_endless(limit)
        return self.solver.solve(limit)

    def visits(self, answer: PricedFlow) -> Floats:
        """The expected number of plays of each choice in an answer's flow, self-loops included."""
        flow = self.flow
        result: Floats = answer.flow / np.where(flow.is_stop, 1.0, self._leaving[flow.choice])
        return result

    @cached_property
    def least_cost(self) -> float:
        """The least cost of any policy that ends almost surely."""
        flow = self._ending
        try:
            return PriceSearch(Priced(flow, self.discount)).least
        except Improper:
            answer = _Highs(replace(flow, reward=-flow.cost), self.discount).solve(None)
            return np.inf if answer is None else -answer.value

    def proved_least(self) -> float:
        """A lower bound on the least cost, proved with all rounding errors; −∞ if none was found."""
        flow = self._ending
        costs = Priced(replace(flow, reward=np.zeros(flow.num_choices)), self.discount)
        try:
            proof = Proof(costs, 1.0, np.zeros(flow.num_states))
        except LimitReached:
            return -np.inf
        return -proof.upper(0.0) / proof.price

    def _without_loops(self, raw: Flow) -> Flow:
        """The same problem with each choice repeated until it leaves its state, however rarely that is."""
        moves, leaving = without_loops(raw.owner, raw.moves)
        self._leaving = np.where(leaving > 0, leaving, 1.0)
        return replace(raw, moves=moves, reward=raw.reward / self._leaving, cost=raw.cost / self._leaving)

    def _check_endless(self, limit: float | None) -> None:
        """Raise Endless if some flow within the limit reaches an endless gain: then the return has no bound.

        Above the least limit it is enough that one is reachable, however rarely.
        """
        if not self.gainful.any():
            return
        flow = self._ending
        ends = flow.is_stop & (flow.reward > 0)
        entered = np.flatnonzero(ends & reachable(flow)[flow.owner])
        if entered.size and limit is not None and limit <= self.least_cost + CLOSE * max(1.0, limit):
            answer = _Solver(replace(flow, reward=ends.astype(np.float64)), 1.0).solve(limit)
            gained = np.zeros(flow.num_choices) if answer is None else np.where(ends, answer.flow, 0.0)
            entered = np.flatnonzero(gained > REACHED)
        if entered.size:
            raise Endless(self._component(flow.state[flow.owner[entered[0]]]))

    @cached_property
    def _ending(self) -> Flow:
        """The problem in which runs may stop in endless gains, if there are any; these stops have a reward of 1."""
        if not self.gainful.any():
            return self.flow
        return _trimmed(self.everything.with_stops(np.flatnonzero(self.gainful), 1.0), np.ones_like(self.gainful))

    def _component(self, state: int) -> Ints:
        label, _ = end_components(self.everything, self.everything.cost == 0)
        at = int(np.flatnonzero(self.everything.state == state)[0])
        members: Ints = self.everything.state[label == label[at]]
        return members


# ---------------------------------------------------------------------- preparing a flow problem


def _loops(flow: Flow) -> Bools:
    """A mask of the choices that are self-loops, [choices]."""
    alone: Bools = np.diff(flow.moves.indptr) == 1
    alone[alone] = flow.moves.indices[flow.moves.indptr[:-1][alone]] == flow.owner[alone]
    return alone


def _with_stops(flow: Flow) -> Flow:
    """Add a stop to each state of an end component without reward and cost, and drop the self-loops there."""
    label, inner = end_components(flow, (flow.reward == 0) & (flow.cost == 0))
    waits = inner & _loops(flow)
    return flow.keep(np.ones(flow.num_states, np.bool_), ~waits).with_stops(np.flatnonzero(label >= 0))


def _with_terminal_stops(flow: Flow) -> Flow:
    """Replace the self-loops of terminal states by stops; with a discount, all other flows are finite."""
    still = _loops(flow) & (flow.reward == 0) & (flow.cost == 0)
    ends = np.logical_and.reduceat(still, flow.choice_ptr[:-1])
    return flow.keep(np.ones(flow.num_states, np.bool_), ~ends[flow.owner]).with_stops(np.flatnonzero(ends))


def _trimmed(flow: Flow, states: Bools) -> Flow:
    """The problem on ``states`` from which some policy stops almost surely; raises NoEnd if an initial state is not."""
    kept = flow.keep(states, np.ones(flow.num_choices, np.bool_))
    ends, choices = surely_stops(kept)
    if not ends[kept.initial > 0].all() or (flow.initial > 0).sum() > (kept.initial > 0).sum():
        free = flow.with_stops(np.flatnonzero(end_components(flow, flow.cost == 0)[0] >= 0))
        raise NoEnd(bool(surely_stops(free)[0][free.initial > 0].all()))
    return kept.keep(ends, choices)


# ---------------------------------------------------------------------- solving


class _Solver:
    """Solves one programme for any limit.

    HiGHS solves small programmes, and those in which a costly cycle collects reward for ever (so values are infinite
    for prices below some bound).  On other large ones the search for the price is faster by orders of magnitude.
    """

    def __init__(self, flow: Flow, discount: float) -> None:
        self.flow, self.discount = flow, discount
        self.priced = Priced(flow, discount)
        self._highs: _Highs | None = None

    @cached_property
    def _search(self) -> PriceSearch:
        return PriceSearch(self.priced)

    def solve(self, limit: float | None) -> PricedFlow | None:
        """The optimum within the given limit; None if infeasible."""
        if self.flow.num_choices > SMALL and self._highs is None:
            with suppress(Improper):
                return self._search.solve(limit)
        self._highs, failed = self._highs or _Highs(self.flow, self.discount), None
        try:
            if (answer := self._highs.solve(limit)) is not None:
                return answer
        except LimitReached as error:
            failed = error
        try:  # HiGHS drops probabilities below 1e-12
            return self._search.solve(limit)
        except Improper:
            if failed is not None:
                raise failed from None
            return None


class _Highs:
    """A programme in HiGHS; each solve starts from the basis of the last one."""

    def __init__(self, flow: Flow, discount: float) -> None:
        self.states = flow.num_states
        lower, upper = np.append(flow.initial, -np.inf), np.append(flow.initial, np.inf)
        self.highs = highs(flow.owner, discount * flow.moves, flow.cost, flow.reward, lower, upper)

    def solve(self, limit: float | None) -> PricedFlow | None:
        """The optimum within the given limit; None if infeasible."""
        import highspy

        self.highs.changeRowBounds(self.states, -np.inf, np.inf if limit is None else limit)
        self.highs.run()
        status = self.highs.getModelStatus()
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return None
        if not is_optimal(self.highs):
            raise LimitReached(
                f"HiGHS stopped with {self.highs.modelStatusToString(status)!r} instead of an optimum. "
                "Rewards or probabilities that differ by many orders of magnitude can cause this."
            )
        solution = self.highs.getSolution()
        duals = np.array(solution.row_dual)
        return PricedFlow(
            flow=np.maximum(np.array(solution.col_value), 0.0),
            value=float(self.highs.getInfo().objective_function_value),
            price=max(float(duals[-1]), 0.0),
            potential=duals[:-1],
        )
