"""Bounds beside exact values in rational numbers: thousands of small models, hostile in scale, leaks and cancellation.

The exact value is that of the stored numbers: a choice's probabilities are the floats divided by their exact sum.  The
oracle shares nothing with the engine: it enumerates the pairs, and takes the best of all deterministic policies, each
evaluated by elimination with fractions.

    ALMOSTSURE_RATIONAL_MODELS=20000 pytest tests/plan/assured/test_rational.py      more of them
"""

import itertools
import os
from fractions import Fraction

import numpy as np
import pytest

from almostsure import AlmostSure, from_transitions, minimal_budget, solve_policy
from almostsure.errors import Infeasible, LimitReached, UnboundedReturn
from almostsure.plan.assured import engine

MODELS = int(os.environ.get("ALMOSTSURE_RATIONAL_MODELS", "900"))
BLOCKS = 6
POLICIES = 20_000  # a model with more of them is left out


def pairs_of(mdp, of_choice, budget):
    """The choices of each pair that the start can reach: (exact mean reward, {pair: exact probability})."""
    start = (int(mdp.initial_states[0]), budget)
    found, queue = {start: None}, [start]
    for state, left in queue:
        options = []
        for c in range(mdp.choice_ptr[state], mdp.choice_ptr[state + 1]):
            if of_choice[c] > left:
                continue
            outcomes = range(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1])
            total = sum(Fraction(float(mdp.probability[o])) for o in outcomes)
            mean, ahead = Fraction(0), {}
            for o in outcomes:
                p = Fraction(float(mdp.probability[o])) / total
                pair = (int(mdp.successor[o]), left - int(mdp.damage[o]))
                mean += p * Fraction(float(mdp.reward[o]))
                ahead[pair] = ahead.get(pair, Fraction(0)) + p
                if pair not in found:
                    found[pair] = None
                    queue.append(pair)
            options.append((mean, ahead))
        found[state, left] = options
    return start, found


def exact_value(mdp, of_choice, budget):
    """The best return as a fraction, or ±∞; None if there are too many policies, or one whose return has no value."""
    start, found = pairs_of(mdp, of_choice, budget)
    pairs = list(found)
    count = 1
    for pair in pairs:
        count *= len(found[pair])
    if count > POLICIES:
        return None
    best = -np.inf
    for chosen in itertools.product(*(found[pair] for pair in pairs)):
        value = value_of(start, dict(zip(pairs, chosen, strict=True)))
        if value is None:
            return None
        best = max(best, value)
    return best


def value_of(start, policy):
    """What a policy returns from the start: a fraction, ±∞, or None where its rewards do not add up."""
    reach, queue = {start}, [start]
    for pair in queue:
        for ahead in policy[pair][1]:
            if ahead not in reach:
                reach.add(ahead)
                queue.append(ahead)
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


# ---------------------------------------------------------------------- models


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


def check(seed, **options):
    """Whether a model was told apart; fails if its exact value is outside the bounds."""
    rng = np.random.default_rng(seed)
    mdp, budget = hostile(rng), int(rng.integers(0, 3))
    of_choice = minimal_budget(mdp).of_choice
    try:
        found = solve_policy(mdp, AlmostSure(budget), **options)
        lower, upper = found.lower, found.upper
    except Infeasible:
        return "infeasible"
    except UnboundedReturn:
        lower = upper = np.inf
    except LimitReached as error:
        if error.solution is None:
            return "refused"
        lower, upper = error.solution.lower, error.solution.upper
    exact = exact_value(mdp, of_choice, budget)
    if exact is None:
        return "too many"
    assert lower <= exact <= upper, (seed, lower, upper, float(exact), exact)
    return "wide" if lower < upper and not upper - lower <= 1e-8 * max(1, abs(lower)) else "close"


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_exact_value_is_within_the_bounds(block, compiled, monkeypatch):
    if compiled:
        monkeypatch.setattr(engine, "PLAIN", 0)
    each = MODELS // BLOCKS // 2
    seeds = range((2 * block + compiled) * each, (2 * block + compiled + 1) * each)
    answers = [check(seed) for seed in seeds]
    assert answers.count("close") > len(answers) // 3
    assert answers.count("refused") <= len(answers) // 20


@pytest.mark.parametrize("seed", [3001004, 3008660])
def test_gains_behind_a_state_that_is_hardly_ever_left(seed):
    """Per step they are next to nothing; but nobody leaves, and so they go on for ever."""
    assert check(seed) == "close"
