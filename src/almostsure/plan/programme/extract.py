"""From an optimal flow to a policy.

A state with flow plays its choices in proportion to it.  A state without flow, which may still be reached through
rounding or a rare event, plays a choice that is optimal for the dual and leads to an end.  A stop becomes a rest: if
the policy never leaves the states in which it stops, it plays a harmless choice there; otherwise it must remember that
it has stopped, see :mod:`almostsure.policy.policy`.
"""

from __future__ import annotations

import numpy as np

from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan.graph import give
from almostsure.plan.programme.flow import Flow, end_components, flow_of
from almostsure.plan.programme.lagrange import TIGHT, Proof, choices_to_stop
from almostsure.policy.policy import Policy
from almostsure.policy.rows import Rest

TINY = 1e-12  # flow below this counts as none


def extract(mdp: MDP, flow: Flow, visits: Floats, proof: Proof, budget: int | None) -> Policy:
    """The policy of an optimal flow, in which each choice is played ``visits`` times on average.

    It is stationary or, with ``budget``, depends on (state, remaining), with one more layer for after overspending.
    """
    layers = 1 if budget is None else budget + 2
    share, stop = _shares(flow, visits, proof), flow.is_stop
    stops = np.bincount(flow.owner[stop], share[stop], minlength=flow.num_states)
    share /= np.where(stops < 1, 1 - stops, 1.0)[flow.owner]
    probability, rests = np.zeros((layers, mdp.num_choices)), np.zeros((layers, mdp.num_states))
    probability.ravel()[flow.choice[~stop]] = share[~stop]
    rests.ravel()[flow.state] = stops
    whole = flow_of(mdp)
    harmless = _Waiting(whole, (whole.reward == 0) & (whole.cost == 0))
    for layer in range(layers):
        if budget is not None and layer == budget + 1:
            _Waiting(whole, whole.reward == 0).settle(probability[layer], rests[layer], always=True)
        else:
            harmless.settle(probability[layer], rests[layer], always=False)
    rest = Rest(probability=rests, choice=harmless.choice) if rests.any() else None
    return Policy(mdp, probability=probability, budget=budget, rest=rest)


def _shares(flow: Flow, visits: Floats, proof: Proof) -> Floats:
    """The probability of each choice in its state: in proportion to visits or, without any, a choice towards a stop."""
    total = np.bincount(flow.owner, visits, minlength=flow.num_states)
    values = proof.potential()
    slack = values[flow.owner] - flow.reward + proof.price * flow.cost - proof.priced.discount * (flow.moves @ values)
    stopping = choices_to_stop(flow, slack, TIGHT * (1 + float(np.abs(values).max(initial=0.0))))
    visited = total > TINY
    share = np.where(visited[flow.owner], visits / np.where(visited, total, 1.0)[flow.owner], 0.0)
    share[stopping[~visited]] = 1.0
    return share


class _Waiting:
    """End components of some choices, in which a policy can wait for ever, and a choice for each of their states."""

    def __init__(self, whole: Flow, kind: Bools) -> None:
        self.whole = whole
        self.label, self.inner = end_components(whole, kind)
        self.choice = self._first(self.inner)
        self._calm: dict[bytes, Ints] = {}  # by the mask of busy states: layers are much alike

    def _first(self, choices: Bools) -> Ints:
        result = np.full(self.whole.num_states, -1)
        give(result, self.whole.owner, np.flatnonzero(choices))
        return result

    def settle(self, probability: Floats, rests: Floats, *, always: bool) -> None:
        """Replace a layer's rests by waiting, in end components from which no other choice of the policy leads away.

        With ``always``, also in the others: correct if stopping and moving on have the same value.
        """
        owner = self.whole.owner
        busy = np.bincount(owner, probability, minlength=self.whole.num_states) > 0
        key = busy[self.label >= 0].tobytes()
        if key not in self._calm:
            self._calm[key] = self._first(end_components(self.whole, self.inner & ~busy[owner])[1])
        calm = self._calm[key]
        if always:
            calm = np.where((calm < 0) & (rests > 0), self.choice, calm)
            rests[calm >= 0] = 0.0
        probability[calm[calm >= 0]] = 1.0
        rests[calm >= 0] = 0.0
