"""Flow problems: the input of the linear programmes of :mod:`almostsure.plan.programme.occupation`.

The flow of a policy is its occupation measure: x(c) is the expected number of times that it plays choice c.  For every
state, outflow = initial mass + inflow.  A *flow problem* has states with an initial mass each, and choices with a
reward and a cost each:

- for E[Σ D] ≤ limit the states are the model's, and the cost of a choice is its expected damage;
- for P(Σ D > budget) ≤ risk they are the pairs (state, remaining), and the cost is the probability of overspending in
  this step.  After overspending the run continues in one more layer, without costs.

Without a discount, three cases need care; all three are read off the graph.

- *Rest.*  A flow that stays for ever among choices without reward and cost would be infinite.  So every state of such
  an end component gets a choice ``stop`` without a successor.
- *No end.*  States from which no policy stops almost surely are removed, with all choices that may lead to them: from
  there, under every policy, the cost is infinite, or the return is −∞ or undefined.
- *Endless gain.*  In an end component without cost whose mean reward can be positive, the return has no bound.  The
  programme decides whether the constraint allows a policy to reach it.

The return of a policy that collects rewards for ever that cancel out in the long run is undefined; such policies do not
compete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from almostsure.model.arrays import Arrays, ascending, index_dtype, owners, ptr_of, spans
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan import graph
from almostsure.policy.evaluation.chain import add_up
from almostsure.policy.evaluation.wide import two_product

STOP = -1
CLOSE = 1e-6  # a mean reward below this share of the rewards' size is summed exactly, and then rounded


@dataclass(frozen=True, kw_only=True, eq=False)
class Flow:
    """A flow problem.  Choices are ordered by state."""

    owner: Ints  # [choices]
    moves: Any  # CSR [choices, states], probabilities; the row of a stop is empty
    reward: Floats  # [choices]
    cost: Floats  # [choices]
    initial: Floats  # [states]
    state: Ints  # [states], the model's state, plus num_states for each layer above 0
    choice: Ints  # [choices], the model's choice, plus num_choices for each layer above 0, or STOP

    @cached_property
    def choice_ptr(self) -> Ints:
        """The first choice of each state, [states + 1]."""
        return np.searchsorted(self.owner, np.arange(self.num_states + 1))

    @property
    def num_states(self) -> int:
        """The number of states."""
        return self.initial.size

    @property
    def num_choices(self) -> int:
        """The number of choices, stops included."""
        return self.reward.size

    @property
    def is_stop(self) -> Bools:
        """A mask of the choices that are stops, [choices]."""
        stops: Bools = self.choice == STOP
        return stops

    def keep(self, states: Bools, choices: Bools) -> Flow:
        """The problem restricted to some states and choices; choices of or into removed states are removed too."""
        choices = choices & states[self.owner] & ~touches(self.moves, ~states)
        return Flow(
            owner=(np.cumsum(states) - 1)[self.owner[choices]],
            moves=self.moves[choices][:, states],
            reward=self.reward[choices],
            cost=self.cost[choices],
            initial=self.initial[states],
            state=self.state[states],
            choice=self.choice[choices],
        )

    def with_stops(self, states: Ints, reward: float = 0.0) -> Flow:
        """The same problem with a stop in each of ``states``."""
        from scipy.sparse import csr_array, vstack

        order = np.argsort(np.concatenate([self.owner, states]), kind="stable")
        none = np.zeros(states.size)
        moves = csr_array(vstack([self.moves, csr_array((states.size, self.num_states))]))
        return replace(
            self,
            owner=np.concatenate([self.owner, states])[order],
            moves=moves[order],
            reward=np.concatenate([self.reward, none + reward])[order],
            cost=np.concatenate([self.cost, none])[order],
            choice=np.concatenate([self.choice, np.full(states.size, STOP)])[order],
        )


def without_loops(owner: Ints, moves: Any) -> tuple[Any, Floats]:
    """Transitions of choices that are repeated until they leave their state, and the probability of leaving per step.

    The latter is a sum of probabilities, so nothing cancels.  A choice that never leaves is unchanged, with a 0.
    """
    from scipy.sparse import csr_array

    rows = np.repeat(np.arange(owner.size), np.diff(moves.indptr))
    is_loop = moves.indices == owner[rows]
    leaving = add_up(rows[~is_loop], moves.data[~is_loop], owner.size)
    kept = ~is_loop | (leaving == 0)[rows]
    weight = moves.data[kept] / np.where(leaving > 0, leaving, 1.0)[rows[kept]]
    return csr_array((weight, (rows[kept], moves.indices[kept])), shape=moves.shape), leaving


def with_layers(mdp: MDP, budget: int | None, limited: Ints | None = None) -> tuple[Arrays, Floats, Ints]:
    """The model on (state, remaining) without damage, the cost of each outcome, and the initial states.

    Layers 0 … budget are for the remaining budget, and the next one is for after overspending, which costs 1.  Without
    a budget there is one layer, and the cost is the damage.  The budget is for the damage ``limited``, [num_outcomes],
    by default that of the model.
    """
    arrays = mdp.arrays
    none = np.zeros(mdp.num_outcomes, arrays.damage.dtype)
    if budget is None:
        return replace(arrays, damage=none), arrays.damage.astype(np.float64), mdp.initial_states
    layers, remaining = budget + 2, np.arange(budget + 2)[:, None]
    left = remaining - (arrays.damage if limited is None else limited).astype(np.int64)
    over = (left < 0) | (remaining > budget)
    successor = np.where(over, budget + 1, left) * mdp.num_states + arrays.successor
    stacked = Arrays(
        choice_ptr=ptr_of(np.tile(np.diff(arrays.choice_ptr), layers)),
        choice_action=np.tile(arrays.choice_action, layers),
        outcome_ptr=ptr_of(np.tile(np.diff(arrays.outcome_ptr), layers)),
        successor=successor.ravel().astype(index_dtype(layers * mdp.num_states)),
        probability=np.tile(arrays.probability, layers),
        reward=np.tile(arrays.reward, layers),
        damage=np.tile(none, layers),
    )
    cost = (over & (remaining <= budget)).ravel().astype(np.float64)
    return stacked, cost, budget * mdp.num_states + mdp.initial_states.astype(np.int64)


def flow_of(mdp: MDP, budget: int | None = None) -> Flow:
    """The flow problem on the model's states or, with a budget, on those of :func:`with_layers`."""
    from scipy.sparse import csr_array

    arrays, cost, starts = with_layers(mdp, budget)
    initial = np.zeros(arrays.num_states)
    initial[starts] = mdp.initial_probabilities
    pointers = arrays.successor.astype(np.int64), arrays.outcome_ptr.astype(np.int64)
    moves = csr_array((arrays.probability.copy(), *pointers), shape=(arrays.num_choices, arrays.num_states))
    moves.sum_duplicates()
    return Flow(
        owner=owners(arrays.choice_ptr).astype(np.int64),
        moves=moves,
        reward=mean_reward(arrays),
        cost=_sum(arrays, arrays.probability * cost),
        initial=initial,
        state=np.arange(arrays.num_states),
        choice=np.arange(arrays.num_choices),
    )


def mean_reward(arrays: Arrays) -> Floats:
    """The expected reward of each choice; 0 only where rewards cancel out exactly, [num_choices]."""
    mean, size = _sum(arrays, arrays.probability * arrays.reward), np.abs(arrays.probability * arrays.reward)
    product = two_product(arrays.probability, arrays.reward)
    for choice in np.flatnonzero(np.abs(mean) < CLOSE * _sum(arrays, size)).tolist():
        outcomes = slice(arrays.outcome_ptr[choice], arrays.outcome_ptr[choice + 1])
        mean[choice] = math.fsum((*product.high[outcomes].tolist(), *product.low[outcomes].tolist()))
    return mean


def _sum(arrays: Arrays, values: Floats) -> Floats:
    return np.add.reduceat(values, arrays.outcome_ptr[:-1].astype(np.int64))


# ---------------------------------------------------------------------- the graph


def touches(moves: Any, states: Bools) -> Bools:
    """A mask of the choices that may lead to one of ``states``, [choices]."""
    return np.asarray(moves @ states.astype(np.float64)) > 0


def reachable(flow: Flow) -> Bools:
    """A mask of the states that are reachable from the start, [states]."""
    seen: Bools = flow.initial > 0
    frontier: Ints = np.flatnonzero(seen)
    while frontier.size:
        choices, _ = spans(flow.choice_ptr, frontier)
        ahead = ascending(flow.moves.indices[spans(flow.moves.indptr, choices)[0]])
        frontier = ahead[~seen[ahead]]
        seen[frontier] = True
    return seen


def spread(flow: Flow, choice: Ints, allowed: Bools) -> None:
    """Give states without a choice an allowed one that may lead to a state with one; see :func:`.graph.spread`."""
    graph.spread(flow.moves.tocsc(), flow.owner, choice, allowed)


def end_components(flow: Flow, allowed: Bools) -> tuple[Ints, Bools]:
    """The maximal end components of the allowed choices: the number of each state's (−1: none), and their choices."""
    return graph.end_components(choice_graph(flow.owner, flow.moves), allowed & ~flow.is_stop)


def surely_stops(flow: Flow) -> tuple[Bools, Bools]:
    """The states from which some policy stops almost surely, and the choices that never leave this set; two masks."""
    states, choices, _ = graph.surely_leave(choice_graph(flow.owner, flow.moves), flow.is_stop)
    return states, choices


def choice_graph(owner: Ints, moves: Any) -> graph.ChoiceGraph:
    """The graph of ``moves`` (CSR, [choices, states]), without probabilities."""
    entry = np.repeat(np.arange(owner.size), np.diff(moves.indptr))
    return graph.ChoiceGraph(num_states=moves.shape[1], owner=owner, entry_choice=entry, entry_state=moves.indices)
