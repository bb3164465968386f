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

from almostsure import AlmostSure, minimal_budget, solve_policy
from almostsure.errors import Infeasible, LimitReached, UnboundedReturn
from almostsure.plan.assured import engine

from ..rational import hostile, value_of

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


def check(seed, **options):
    """How a model was told apart; fails if its exact value is outside of bounds that are called proved."""
    rng = np.random.default_rng(seed)
    mdp, budget = hostile(rng), int(rng.integers(0, 3))
    of_choice = minimal_budget(mdp).of_choice
    try:
        found = solve_policy(mdp, AlmostSure(budget), **options)
    except Infeasible:
        return "infeasible"
    except UnboundedReturn:
        found = None
    except LimitReached as error:
        if error.solution is None:
            return "refused"
        found = error.solution
    if found is not None and not found.proved:
        return "not proved"
    lower, upper = (np.inf, np.inf) if found is None else (found.lower, found.upper)
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
    assert answers.count("refused") + answers.count("not proved") <= len(answers) // 20


@pytest.mark.parametrize("seed", [3001004, 3008660])
def test_gains_behind_a_state_that_is_hardly_ever_left(seed):
    """Per step they are next to nothing; but nobody leaves, and so they go on for ever."""
    assert check(seed) == "close"
