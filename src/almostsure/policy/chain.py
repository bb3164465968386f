"""The Markov chain of a policy, one layer at a time, and exact sparse solves on it.

A *layer* holds the states that a policy reaches with the same remaining budget.  Its moves either stay in the
layer or leave it; a state whose moves can neither leave nor reach a state from which something leaves is
*recurrent*, every other one *transient*.  On the transient states I − A is invertible (A: the moves inside), and one
sparse factorisation solves both

    values      V = b + A V        what is collected from each state on
    visits      n = m + Aᵀ n       how often each state is visited when the layer is entered with the masses m

Recurrence is read off the graph, never off the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import NoSafeAction
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """The states reached in one layer, and what happens in them under the policy."""

    states: Ints  # [n], ascending
    is_terminal: Bools  # [n]
    rests: Floats  # [n], the probability of coming to rest on arrival
    row: Ints  # [m], position in ``states`` of each move
    successor: Ints  # [m], a state of the model
    weight: Floats  # [m], probability of the move, rest and action included
    reward: Floats  # [m]
    damage: npt.NDArray[np.int64]  # [m]

    def position(self, states: Ints) -> Ints:
        """Where ``states``, which must be among them, stand in the layer."""
        return np.searchsorted(self.states, states)

    def budgets(self, values: Floats) -> Floats:
        """The sum of ``weight * values`` over the moves of each state, [n]."""
        return add_up(self.row, self.weight * values, self.states.size)


def explore(
    mdp: MDP, policy: Policy, remaining: int | None, sources: Ints, *, inside: str, is_terminal: Bools
) -> Moves:
    """Everything that the policy reaches from ``sources`` without leaving the layer of ``remaining``.

    ``inside`` says which moves stay: ``"harmless"`` ones, or ``"all"``.
    """
    layer = policy.layer(remaining)
    seen = np.zeros(mdp.num_states, np.bool_)
    frontier = np.unique(sources)
    parts = []
    while frontier.size:
        seen[frontier] = True
        part = _moves(mdp, policy, layer, remaining, frontier[~is_terminal[frontier]])
        parts.append(part)
        ahead = part[1] if inside == "all" else part[1][part[4] == 0]
        frontier = np.unique(ahead[~seen[ahead]])
    states = np.flatnonzero(seen)
    state, successor, weight, reward, damage = (np.concatenate(x) for x in zip(*parts, strict=True))
    rests = np.zeros(states.size) if policy.rest is None else policy.rest.probability[layer, states]
    return Moves(
        states=states, is_terminal=is_terminal[states], rests=np.where(is_terminal[states], 0.0, rests),
        row=np.searchsorted(states, state), successor=successor, weight=weight, reward=reward, damage=damage,
    )  # fmt: skip


Columns = tuple[Ints, Ints, Floats, Floats, npt.NDArray[np.int64]]


def _moves(mdp: MDP, policy: Policy, layer: int, remaining: int | None, states: Ints) -> Columns:
    """State, successor, weight, reward and damage of every move out of ``states``."""
    stays = np.ones(states.size) if policy.rest is None else 1 - policy.rest.probability[layer, states]
    states, stays = states[stays > 0], stays[stays > 0]
    if policy.choice is not None:
        choice, owner = policy.choice[layer, states].astype(np.int64), np.arange(states.size)
        share = stays
        silent = choice < 0
    else:
        assert policy.probability is not None
        begin, end = mdp.choice_ptr[states].astype(np.int64), mdp.choice_ptr[states + 1].astype(np.int64)
        choice, owner = spans(begin, end)
        share = policy.probability[layer, choice]
        silent = np.bincount(owner, share, minlength=states.size) == 0
        played = share > 0
        choice, owner, share = choice[played], owner[played], share[played] * stays[owner[played]]
    if silent.any():
        _refuse(mdp, int(states[np.argmax(silent)]), remaining)
    outcome, at = spans(mdp.outcome_ptr[choice].astype(np.int64), mdp.outcome_ptr[choice + 1].astype(np.int64))
    return (
        states[owner[at]], mdp.successor[outcome].astype(np.int64), share[at] * mdp.probability[outcome],
        mdp.reward[outcome], mdp.damage[outcome].astype(np.int64),
    )  # fmt: skip


def spans(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """All indices of the ranges ``begin[i] … end[i] − 1``, and the i of each."""
    lengths = (end - begin).astype(np.int64)
    owner = np.repeat(np.arange(lengths.size), lengths)
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + (begin - starts)[owner], owner


def _refuse(mdp: MDP, state: int, remaining: int | None) -> None:
    left = "" if remaining is None else f" with {remaining} left" if remaining >= 0 else " once overspent"
    raise NoSafeAction(
        f"the policy reaches {mdp.describe_state(state)}{left}, and says nothing about it",
        state=state,
        remaining=remaining,
    )


# ---------------------------------------------------------------------- solving


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """One layer's transient part, factorised.  ``discount`` below 1 makes every state transient."""

    inner: Any  # CSR [n, n], the discounted moves that stay
    core: Any  # CSR [t, t], those among transient states
    edge: Any  # CSR [t, n − t], those from transient to other states
    transient: Bools  # [n], t of them
    label: Ints  # [n], strongly connected component
    factor: Any  # LU of I − core, or None if no state is transient

    def values(self, constant: Floats) -> Floats:
        """Solve V = constant + inner V on the transient states; on the others V is the constant."""
        values = constant.copy()
        if self.factor is not None:
            known = constant[self.transient] + self.edge @ constant[~self.transient]
            values[self.transient] = _refined(known, self.factor.solve, lambda x: x - self.core @ x)
        return values

    def visits(self, mass: Floats) -> Floats:
        """Solve n = mass + innerᵀ n on the transient states; on the others n is the mass that arrives."""
        visits = mass.copy()
        if self.factor is not None:
            t = self.transient
            n = _refined(mass[t], lambda x: self.factor.solve(x, trans="T"), lambda x: x - self.core.T @ x)
            visits[t] = np.maximum(n, 0.0)
            visits[~t] += self.edge.T @ visits[t]
        return visits

    def residual(self, values: Floats, constant: Floats) -> Floats:
        """How much V = constant + inner V is missed by, at most; what rounding may hide is included."""
        miss = np.abs(constant + self.inner @ values - values)
        size = np.abs(constant) + np.abs(values) + self.inner @ np.abs(values)
        result: Floats = (miss + 8 * np.finfo(np.float64).eps * size)[self.transient]
        return result


def _refined(right: Floats, solve: Callable[[Floats], Floats], apply: Callable[[Floats], Floats]) -> Floats:
    """Solve with one step of refinement, which brings back what the factorisation rounds away."""
    x = solve(right)
    return x + solve(right - apply(x))


def block(moves: Moves, stays: Bools, *, discount: float = 1.0) -> Block:
    """Factorise one layer; ``stays[i]`` says whether move i remains in it."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = moves.states.size
    row, column = moves.row[stays], moves.position(moves.successor[stays])
    inner = csr_array((discount * moves.weight[stays], (row, column)), shape=(size, size))
    _, label = connected_components(inner, connection="strong")
    if discount < 1:
        transient = ~moves.is_terminal
    else:
        leaves = np.zeros(label.max() + 1, np.bool_)
        leaves[label[moves.row[~stays]]] = True
        leaves[label[moves.rests > 0]] = True
        leaves[label[row[label[row] != label[column]]]] = True
        transient = leaves[label]
    core, edge = inner[transient][:, transient], inner[transient][:, ~transient]
    return Block(inner=inner, core=core, edge=edge, transient=transient, label=label, factor=_factorise(core))


def _factorise(core: Any) -> Any:
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    return splu(csc_array(eye_array(core.shape[0]) - core)) if core.shape[0] else None


def add_up(places: Ints, weights: Floats, count: int) -> Floats:
    """The sum of the weights at each of ``count`` places."""
    return np.bincount(places, weights, minlength=count).astype(np.float64, copy=False)
