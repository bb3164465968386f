"""Bounds enclose exact values in rational numbers, for thousands of small models with extreme numbers and cycles.

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
from almostsure.plan.assured import engine, exact

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
    value = exact_value(mdp, of_choice, budget)
    if value is None:
        return "too many"
    assert lower <= value <= upper, (seed, lower, upper, float(value), value)
    return "wide" if lower < upper and not upper - lower <= 1e-8 * max(1, abs(lower)) else "close"


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_exact_value_is_within_the_bounds(block, compiled, monkeypatch):
    monkeypatch.setattr(exact, "FEW", 0)  # bounds in 64-bit numbers alone
    if compiled:
        monkeypatch.setattr(engine, "PLAIN", 0)
    if block % 2:
        monkeypatch.setattr(engine, "FAR", -1)  # pairs are numbered anew
    each = MODELS // BLOCKS // 2
    seeds = range((2 * block + compiled) * each, (2 * block + compiled + 1) * each)
    answers = [check(seed) for seed in seeds]
    assert answers.count("close") > len(answers) // 3
    assert answers.count("refused") + answers.count("not proved") <= len(answers) // 20


@pytest.mark.parametrize("seed", [3001004, 3008660])
def test_gains_behind_a_state_that_is_hardly_ever_left(seed):
    """Per step they are next to nothing; but nobody leaves, and so they go on for ever."""
    assert check(seed) == "close"


def model(*rows, terminal):
    return from_transitions(*zip(*rows, strict=True), num_states=terminal + 1, terminal=[terminal], normalise=True)


def test_many_outcomes_add_up_to_many_roundings(monkeypatch):
    """A cycle that gains 1.4e-14 per round, one step of which has 3,000 outcomes."""
    count = 3000
    rewards = -1 - 1e-7 * np.arange(count) / count
    spread = [(0, 0, 1, 1 / count, r, 0) for r in rewards.tolist()]
    p = model(*spread, (1, 0, 0, 1, 1, 0), terminal=2).probability[:count].tolist()
    mean = sum(Fraction(a) * Fraction(b) for a, b in zip(p, rewards.tolist(), strict=True)) / sum(map(Fraction, p))
    back = (1, 0, 0, 1, float(-mean) + 1.4e-14, 0)
    assert mean + Fraction(back[4]) > 0
    for rows in ([*spread, back], [*spread, back, (1, 1, 2, 1, -5, 0)]):
        with pytest.raises(UnboundedReturn, match="collected for ever, without damage, among: 0; 1"):
            solve_policy(model(*rows, terminal=2), AlmostSure(0), tolerance=1e3)
        monkeypatch.setattr(exact, "FEW", 0)
        with pytest.raises(LimitReached, match="cancel out so nearly"):
            solve_policy(model(*rows, terminal=2), AlmostSure(0), tolerance=1e3)
        monkeypatch.undo()


def test_a_gain_on_a_rare_way_does_not_outweigh_a_loss_within_rounding(monkeypatch):
    rare = 2.0**-20
    rows = [(0, 0, 1, 1 - rare, 1, 0), (0, 0, 2, rare, 1, 0), (0, 1, 3, 1, -5, 0), (1, 0, 0, 1, -1 - 1e-15, 0)]
    mdp = model(*rows, (2, 0, 0, 1, -1, 0), (2, 1, 0, 1, -1 + 1e-13, 0), terminal=3)
    few = solve_policy(mdp, AlmostSure(0))
    assert few.proved
    assert few.lower <= exact_value(mdp, minimal_budget(mdp).of_choice, 0) <= few.upper
    monkeypatch.setattr(exact, "FEW", 0)
    with pytest.raises(LimitReached, match="cancel out so nearly"):
        solve_policy(mdp, AlmostSure(0))


@pytest.mark.parametrize("loss", [1e-7, 1e-8, 1e-9, 1e-10])
def test_a_cycle_that_loses_a_little_is_left(loss):
    mdp = model((0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -1 - loss, 0), (0, 1, 2, 1, 0, 0), terminal=2)
    solution = solve_policy(mdp, AlmostSure(0))
    assert (solution.lower, solution.upper, solution.proved) == (0, 0, True)


@pytest.mark.parametrize("tolerance", [1e-8, 1e-30])
def test_a_few_pairs_are_solved_in_fractions_where_rounding_counts(tolerance):
    """With a tolerance that no bounds meet, all models are solved in fractions."""
    answers = [check(seed, tolerance=tolerance) for seed in range(MODELS // 12, MODELS // 6)]
    assert answers.count("close") > len(answers) // 3
    assert answers.count("wide") + answers.count("not proved") == 0
