"""The Markov chain of a policy, one layer at a time, and its equations.

A *layer* has the states that a policy reaches with the same remaining budget.  Its moves either stay in the layer or
leave it.  A state is *recurrent* if its strongly connected component is closed: no move leads out of it, neither in the
layer nor out of it, and the policy does not come to rest there.  All others are *transient*.  On these the equations

    values      V = b + A V        the expected sum collected from each state on
    visits      n = m + Aᵀ n       the expected number of visits if the layer is entered with the masses m

have a unique solution (A: the moves inside); :mod:`almostsure.policy.evaluation.linear` computes it, with a proved
error.  Recurrence is determined by the graph, never by numerical values.

The probabilities of a choice are the stored floats divided by their exact sum, and likewise those of a policy in a
state and those of the initial states.  The weight of a move is computed with twice the digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from almostsure.model.arrays import spans
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.policy import read
from almostsure.policy.evaluation.linear import Leaking
from almostsure.policy.evaluation.wide import Groups, Wide, add, divide, multiply, two_sum, wide
from almostsure.policy.explore import OVERSPENT, Played, Reached, Rule, explore
from almostsure.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyMoves:
    """The states reached in one layer, and their moves under the policy."""

    remaining: int  # OVERSPENT for the last layer, in which all moves stay
    states: Ints  # [n], ascending
    is_terminal: Bools  # [n]
    rests: Floats  # [n], the probability of coming to rest on arrival
    row: Ints  # [m], the position in ``states`` of each move, ascending
    outcome: Ints  # [m], the outcome of the model
    share: Floats  # [m], the probability with which the policy plays the choice, as stored
    successor: Ints  # [m], a state of the model
    weight: Wide  # [m], the probability of the move, including rest and action
    reward: Floats  # [m]
    damage: npt.NDArray[np.int64]  # [m]

    @property
    def stays(self) -> Bools:
        """A mask of the moves that remain in the layer, [m]."""
        return np.full(self.row.size, True) if self.remaining == OVERSPENT else self.damage == 0

    def position(self, states: Ints) -> Ints:
        """The positions of ``states``, which must be in the layer."""
        return np.searchsorted(self.states, states)


def layers_of(mdp: MDP, policy: Policy, budget: int | None) -> Iterator[PolicyMoves]:
    """The layers that a policy reaches from the start, largest remaining budget first.

    Outcomes that overspend are followed if the policy is defined for an overspent budget.
    """
    start = None if policy.budget is None else budget
    is_terminal = mdp.is_terminal()
    steps = explore(mdp, rule_of(policy, start), start, overspend=policy.knows_overspent)
    for remaining, group in groupby(steps, key=lambda step: step.remaining):
        yield _moves(mdp, policy, remaining, list(group), is_terminal)


def rule_of(policy: Policy, start: int | None = None) -> Rule:
    """The rule of a policy; it plays no choice in terminal states, or where it comes to rest with probability 1.

    ``start`` is the budget that it is played with; if the policy has another one, the error names both.
    """
    mdp, rest = policy.mdp, policy.rest
    is_terminal = mdp.is_terminal()

    def rule(states: Ints, remaining: int) -> Played:
        layer = policy.layer(remaining)
        goes_on = ~is_terminal[states]
        if rest is not None:
            goes_on &= rest.probability[layer, states] < 1
        at = np.flatnonzero(goes_on)
        choice, owner, _, undefined = played(policy, layer, states[at])
        if undefined.any():
            left = None if policy.budget is None else remaining
            remedy = read.other_budget(policy.budget, start)
            raise read.undefined(mdp, int(states[at[np.argmax(undefined)]]), left, remedy)
        return Played(choice, at[owner])

    return rule


def played(policy: Policy, layer: int | Ints, states: Ints) -> tuple[Ints, Ints, Floats, Bools]:
    """The choices that a policy plays at some states, all in one layer or each in its own.

    Returns the choices, the positions of their states, their probabilities as stored, and for each state whether the
    policy is undefined there.
    """
    choice: Ints
    owner: Ints
    if policy.choice is not None:
        choice, owner = policy.choice[layer, states].astype(np.int64), np.arange(states.size)
        return choice, owner, np.ones(states.size), choice < 0
    assert policy.probability is not None
    choice, owner = spans(policy.mdp.choice_ptr, states)
    share = policy.probability[np.broadcast_to(layer, states.shape)[owner], choice]
    some = share > 0
    choice, owner = choice[some], owner[some]
    return choice, owner, share[some], np.bincount(owner, minlength=states.size) == 0


def _moves(mdp: MDP, policy: Policy, remaining: int, steps: Sequence[Reached], is_terminal: Bools) -> PolicyMoves:
    layer = policy.layer(remaining)
    states = np.sort(np.concatenate([step.states for step in steps]))
    choice = np.concatenate([step.choice for step in steps])
    owner = np.searchsorted(states, np.concatenate([step.states[step.owner] for step in steps]))
    order = np.argsort(owner, kind="stable")
    choice, owner = choice[order], owner[order]
    outcome, of = spans(mdp.outcome_ptr, choice)
    rests = np.zeros(states.size) if policy.rest is None else policy.rest.probability[layer, states]
    rests = np.where(is_terminal[states], 0.0, rests)
    share = np.ones(choice.size) if policy.probability is None else policy.probability[layer, choice]
    return PolicyMoves(
        remaining=remaining,
        states=states,
        is_terminal=is_terminal[states],
        rests=rests,
        row=owner[of],
        outcome=outcome,
        share=share[of],
        successor=mdp.successor[outcome].astype(np.int64),
        weight=_weights(mdp.probability[outcome], of, share, owner, rests),
        reward=mdp.reward[outcome],
        damage=mdp.damage[outcome].astype(np.int64),
    )


def _weights(probability: Floats, of: Ints, share: Floats, owner: Ints, rests: Floats) -> Wide:
    """The probability of each move: that of the outcome times that of its choice times that of not coming to rest."""
    weight = normalised(probability, of, share.size)
    if (share != 1).any():
        played = normalised(share, owner, rests.size)
        weight = multiply(weight, played[of])
    if rests.any():
        goes_on = two_sum(np.ones(rests.size), -rests)
        weight = multiply(weight, goes_on[owner[of]])
    return weight


def normalised(values: Floats, group: Ints, count: int) -> Wide:
    """Floats divided by the exact sum of their group."""
    total = Groups(group, count).add_up(wide(values))
    if ((total.high == 1) & (total.low == 0)).all():
        return wide(values)
    return divide(wide(values), total[group])


# ---------------------------------------------------------------------- solving


class TransientBlock:
    """The equations of the transient part of a layer; ``stays[i]`` says whether move i remains in the layer.

    A discount below 1 makes all states except terminal ones transient.
    """

    def __init__(self, moves: PolicyMoves, stays: Bools, *, discount: float = 1.0) -> None:
        self.label, transient = _classes(moves, stays)  # [n], the strongly connected component
        self.transient = ~moves.is_terminal if discount < 1 else transient  # [n], t of them
        self.place = np.cumsum(self.transient) - 1  # [n], the number of a transient state
        target = np.zeros(moves.row.size, np.int64)
        target[stays] = moves.position(moves.successor[stays])
        inside = stays & self.transient[moves.row] & self.transient[target]
        self.leaving = self.transient[moves.row] & ~inside  # [m], the moves that leave the transient part
        count = int(np.count_nonzero(self.transient))
        exits = Groups(self.place[moves.row[self.leaving]], count).add_up(moves.weight[self.leaving])
        leak = add(exits, wide(moves.rests[self.transient]))
        weight = moves.weight[inside]
        if discount < 1:
            factor = wide(np.array(discount))
            weight = multiply(weight, factor)
            leak = add(multiply(leak, factor), two_sum(np.ones(count), np.full(count, -discount)))
        self.system = Leaking(self.place[moves.row[inside]], self.place[target[inside]], weight, leak)  # of t states


def _classes(moves: PolicyMoves, stays: Bools) -> tuple[Ints, Bools]:
    """The strongly connected component of each state, and a mask of the transient states."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = moves.states.size
    row, column = moves.row[stays], moves.position(moves.successor[stays])
    graph = csr_array((np.ones(row.size), (row, column)), shape=(size, size))
    count, label = connected_components(graph, connection="strong")
    leaves = np.zeros(count, np.bool_)
    leaves[label[moves.row[~stays]]] = True
    leaves[label[moves.rests > 0]] = True
    leaves[label[row[label[row] != label[column]]]] = True
    return label, leaves[label]


def add_up(places: Ints, weights: Floats, count: int) -> Floats:
    """The sum of the weights of each of ``count`` places."""
    return np.bincount(places, weights, minlength=count).astype(np.float64, copy=False)
