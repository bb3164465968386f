"""Exact values of small chains in fractions, and small models that are hostile in scale, leaks and cancellation.

A chain is a dictionary: for each place its exact mean reward, and where it leads with which exact probability.
"""

from fractions import Fraction

import numpy as np

from almostsure import from_transitions


def value_of(start, policy):
    """What a policy returns from the start: a fraction, ±∞, or None where its rewards do not add up."""
    reach = reachable(start, policy)
    closed = closed_classes(reach, policy)
    worst = Fraction(0)
    for members in closed:
        gain = mean_gain(members, policy)
        if gain > 0:
            return np.inf
        if gain < 0:
            worst = None
        elif any(policy[pair][0] != 0 for pair in members):
            return None
    if worst is None:
        return -np.inf
    ended = set().union(*closed)
    return evaluate(start, reach - ended, policy)


def closed_classes(reach, policy):
    """The classes of a chain that are never left."""
    ahead = {pair: reachable(pair, policy) for pair in reach}
    classes = {frozenset(ahead[pair]) for pair in reach if all(pair in ahead[other] for other in ahead[pair])}
    return list(classes)


def reachable(pair, policy):
    """Where a chain may come from a place on."""
    found, queue = {pair}, [pair]
    for here in queue:
        for ahead in policy[here][1]:
            if ahead not in found:
                found.add(ahead)
                queue.append(ahead)
    return found


def mean_gain(members, policy):
    """The mean reward per step in a closed class, up to a positive factor: its visits between two of one member."""
    root, *others = sorted(members)
    total = policy[root][0]
    if others:
        moves = {pair: dict(policy[pair][1]) for pair in members}
        rewards = {pair: policy[pair][0] for pair in members}
        for pair in others:
            eliminate(pair, moves, rewards)
        total = rewards[root]
    return total


def evaluate(start, moving, policy):
    if start not in moving:
        return Fraction(0)
    moves = {pair: {to: p for to, p in policy[pair][1].items() if to in moving} for pair in moving}
    rewards = {pair: policy[pair][0] for pair in moving}
    for pair in sorted(moving - {start}):
        eliminate(pair, moves, rewards)
    return rewards[start] / (1 - moves[start].get(start, Fraction(0)))


def eliminate(pair, moves, rewards):
    """Take a pair out of a chain: whoever went there goes where it would have gone."""
    own = 1 / (1 - moves[pair].pop(pair, Fraction(0)))
    gone, reward = moves.pop(pair), rewards.pop(pair)
    for here, ahead in moves.items():
        p = ahead.pop(pair, None)
        if p is not None:
            rewards[here] += p * own * reward
            for to, chance in gone.items():
                ahead[to] = ahead.get(to, Fraction(0)) + p * own * chance


def hostile(rng):
    """A small model with rewards of any scale, probabilities of any size, and rewards that cancel out."""
    size, scale = int(rng.integers(2, 5)), 10.0 ** rng.integers(-9, 13)
    cancels = rng.random() < 0.4
    rows = []
    for s in range(size):
        for a in range(int(rng.integers(1, 4))):
            count = int(rng.integers(1, 4))
            targets = rng.integers(0, size + 1, count)
            p = rng.dirichlet(np.ones(count))
            if rng.random() < 0.4 and count > 1:
                leak = 2.0 ** -int(rng.integers(20, 51))
                p = np.r_[leak, np.full(count - 1, (1 - leak) / (count - 1))]
            if rng.random() < 0.3:
                p = np.full(count, 1 / count)
            kind = rng.random()
            if cancels:
                r = rng.choice([1.0, -1.0, 0.0], count) * (scale if kind < 0.5 else 1.0)
            elif kind < 0.3:
                r = np.zeros(count)
            elif kind < 0.8:
                r = -rng.random(count) * scale
            else:
                r = rng.normal(size=count) * 10.0 ** rng.integers(-9, 13, count)
            d = rng.random(count) < 0.2
            rows += [(s, a, int(t), float(x), float(y), int(z)) for t, x, y, z in zip(targets, p, r, d, strict=True)]
    return from_transitions(*zip(*rows, strict=True), num_states=size + 1, terminal=[size], normalise=True)
