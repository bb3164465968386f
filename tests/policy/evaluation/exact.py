"""Evaluates policies in fractions, by elimination: slow and exact.  The plain twin of ``evaluate``.

A chain is a dictionary from nodes to lists of (probability, reward, damage, next node).  Nodes are pairs (state,
remaining); once the budget is overspent, remaining stays −1.  A stationary policy begins with −1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from almostsure import MDP, Policy

Node = tuple[int, int]
Move = tuple[Fraction, Fraction, int, Node]
Chain = dict[Node, list[Move]]
ZERO, ONE = Fraction(0), Fraction(1)


class Exact(NamedTuple):
    """The results of a policy; None for an undefined return, and for infinite values."""

    expected_return: Fraction | float | None
    expected_damage: Fraction | None
    expected_length: Fraction | None
    ends: Fraction


def shares(values: list[float]) -> list[Fraction]:
    """Floats divided by their exact sum."""
    total = sum(map(Fraction, values))
    return [Fraction(value) / total for value in values]


def chain_of(mdp: MDP, policy: Policy, budget: int | None) -> tuple[Chain, dict[Node, Fraction]]:
    """The Markov chain of a policy, from the initial states."""
    left = -1 if policy.budget is None or budget is None else budget
    initial = dict(
        zip([(s, left) for s in mdp.initial_states.tolist()], shares(mdp.initial_probabilities.tolist()), strict=True)
    )
    chain: Chain = {}
    waiting = list(initial)
    is_terminal = mdp.is_terminal()
    while waiting:
        node = waiting.pop()
        if node in chain:
            continue
        chain[node] = [] if is_terminal[node[0]] else moves(mdp, policy, node)
        waiting += [move[3] for move in chain[node]]
    return chain, initial


def moves(mdp: MDP, policy: Policy, node: Node) -> list[Move]:
    """The moves of a node."""
    state, left = node
    played = policy.shares(state, policy.layer(left)).tolist()
    result = []
    for choice, share in zip(mdp.choices(state), shares(played), strict=True):
        outcomes = slice(int(mdp.outcome_ptr[choice]), int(mdp.outcome_ptr[choice + 1]))
        rows = zip(
            shares(mdp.probability[outcomes].tolist()), mdp.reward[outcomes].tolist(), mdp.damage[outcomes].tolist(),
            mdp.successor[outcomes].tolist(), strict=True,
        )  # fmt: skip
        for probability, reward, damage, successor in rows:
            if share > 0:
                after = (successor, -1 if left < 0 else max(left - damage, -1))
                result.append((share * probability, Fraction(reward), damage, after))
    return result


def solve(chain: Chain, gain: dict[Node, Fraction]) -> dict[Node, Fraction]:
    """Solve x = gain + P x for transient nodes; moves to other nodes contribute nothing."""
    order = list(gain)
    rows = {n: {t: ZERO for t in order} for n in order}
    for n in order:
        for probability, _, _, target in chain[n]:
            if target in rows[n]:
                rows[n][target] += probability
    value = dict(gain)
    for n in order:  # Gauss and Jordan
        stays = ONE - rows[n][n]
        rows[n] = {t: (ZERO if t == n else p / stays) for t, p in rows[n].items()}
        value[n] /= stays
        for other in order:
            share = rows[other].get(n, ZERO)
            if other != n and share:
                value[other] += share * value[n]
                rows[other] = {
                    t: (ZERO if t == n else p + share * rows[n][t]) for t, p in rows[other].items()
                }  # fmt: skip
    return value


def reach(chain: Chain) -> dict[Node, set[Node]]:
    """The nodes that each node can reach."""
    result = {n: {n, *(move[3] for move in chain[n])} for n in chain}
    while True:
        grown = {n: set().union(*(result[t] for t in result[n])) for n in result}
        if grown == result:
            return result
        result = grown


def evaluate_exactly(mdp: MDP, policy: Policy, budget: int | None = None) -> Exact:
    """The expected return, damage and length, and the probability of an end."""
    chain, initial = chain_of(mdp, policy, budget)
    reached = reach(chain)
    closed = {n for n in chain if all(n in reached[t] for t in reached[n])}
    transient = [n for n in chain if n not in closed]

    def expected(gains: dict[Node, Fraction]) -> Fraction:
        value = solve(chain, {n: gains[n] for n in transient})
        return sum((p * value.get(n, ZERO) for n, p in initial.items()), ZERO)

    means = {n: sum((p * r for p, r, _, _ in chain[n]), ZERO) for n in chain}
    hurts = {n: sum((p * d for p, _, d, _ in chain[n]), ZERO) for n in chain}
    steps = {n: ONE for n in transient}
    ends = {n: sum((p for p, _, _, t in chain[n] if not chain[t]), ZERO) for n in chain}
    already = sum((p for n, p in initial.items() if not chain[n]), ZERO)
    signs = {drift(chain, reached[n], means) for n in closed if any(means[t] for t in reached[n])}
    gain: Fraction | float | None = expected(means)
    if signs:
        gain = float("inf") if signs == {1} else float("-inf") if signs == {-1} else None
    return Exact(
        gain,
        None if any(hurts[n] for n in closed) else expected(hurts),
        None if any(chain[n] for n in closed) else expected(steps),
        already + expected(ends),
    )


def drift(chain: Chain, members: set[Node], means: dict[Node, Fraction]) -> int:
    """The sign of the mean reward of a closed class, by its stationary distribution: π = π P, one entry set to 1."""
    first, *others = sorted(members)
    backwards: Chain = {n: [] for n in members}
    for n in members:
        for probability, _, _, target in chain[n]:
            backwards[target].append((probability, ZERO, 0, n))
    arriving = {n: sum((p for p, _, _, source in backwards[n] if source == first), ZERO) for n in others}
    share = {first: ONE, **solve(backwards, arriving)}
    total = sum((share[n] * means[n] for n in members), ZERO)
    return (total > 0) - (total < 0)
