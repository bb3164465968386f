"""Bounds under expectation and chance constraints, compared with exact fractions; limits that do not bind."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from almostsure import Chance, Expected, Policy, from_transitions, solve_policy
from almostsure.errors import Infeasible, LimitReached, UnboundedReturn

from ...policy.evaluation.exact import evaluate_exactly

POLICIES = 200  # a model with more of them is left out


def hostile_rows(rng):
    """A small model with rewards of any scale and loops that are hardly left; (state, action, next, p, r, d)."""
    size, scale = 2, 10.0 ** rng.integers(-6, 7)
    rows = []
    for s in range(size):
        for a in range(2):
            count = int(rng.integers(1, 4))
            p = rng.dirichlet(np.ones(count))
            if rng.random() < 0.3 and count > 1:
                leak = 2.0 ** -int(rng.integers(5, 25))
                p = np.r_[leak, np.full(count - 1, (1 - leak) / (count - 1))]
            r = -rng.random(count) * scale if rng.random() < 0.8 else rng.normal(size=count)
            d = rng.random(count) < 0.3
            t = rng.integers(0, size + 1, count)
            rows += [(s, a, int(x), float(y), float(z), int(w)) for x, y, z, w in zip(t, p, r, d, strict=True)]
    return rows


def model(rows, states=3, terminal=(2,), initial=0):
    return from_transitions(
        *zip(*rows, strict=True), num_states=states, terminal=list(terminal), initial=initial, normalise=True
    )


def points_of(mdp):
    """Exact damage and return of every deterministic policy with finite ones; None if there are too many."""
    if np.prod(np.diff(mdp.choice_ptr).astype(float)) > POLICIES:
        return None
    choices = [list(mdp.choices(s)) for s in range(mdp.num_states)]
    found = []
    for chosen in itertools.product(*choices):
        result = evaluate_exactly(mdp, Policy(mdp, choice=np.array([chosen], np.int32)))
        if result.expected_return is None or result.expected_return == np.inf:
            return None
        if isinstance(result.expected_return, Fraction) and result.expected_damage is not None:
            found.append((result.expected_damage, result.expected_return))
    return found


def best(points, limit):
    """The largest return of a lottery over the points with at most the limit of damage on average; None if none."""
    limit = Fraction(limit)
    values = [r for d, r in points if d <= limit]
    for (d, r), (e, q) in itertools.product(points, points):
        if d <= limit < e:
            values.append(r + (q - r) * (limit - d) / (e - d))
    return max(values, default=None)


def check(mdp, constraint, exact):
    """Whether bounds were found; fails if they do not enclose the exact value."""
    try:
        found = solve_policy(mdp, constraint)
    except (Infeasible, UnboundedReturn):
        return False
    except LimitReached as error:
        if error.solution is None:
            return False
        found = error.solution
    if exact is None or found.value == -np.inf:
        return False
    assert found.lower <= exact <= found.upper, (found.lower, found.upper, float(exact))
    return True


def test_expectations_are_enclosed():
    compared = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mdp = model(hostile_rows(rng))
        limit = float(rng.choice([0.0, 0.25, 1.0, 1e4]))
        points = points_of(mdp)
        if points:
            compared += check(mdp, Expected(limit), best(points, limit))
    assert compared > 20


def layered(rows, budget):
    """The model on (state, remaining) in which the step that overspends is the only damage."""
    result = []
    for left in range(-1, budget + 1):
        for s, a, t, p, r, d in rows:
            after = -1 if left < 0 else max(left - d, -1)
            result.append((3 * (left + 1) + s, a, 3 * (after + 1) + t, p, r, int(left >= 0 > after)))
    ends = [3 * (left + 1) + 2 for left in range(-1, budget + 1)]
    return model(result, 3 * (budget + 2), ends, 3 * (budget + 1))


def test_chances_are_enclosed():
    compared = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = hostile_rows(rng)
        risk, budget = float(rng.choice([0.1, 0.5])), int(rng.integers(0, 2))
        points = points_of(layered(rows, budget))
        if points:
            compared += check(model(rows), Chance(budget, risk), best(points, risk))
    assert compared > 8


def test_a_limit_that_does_not_bind_costs_no_accuracy():
    rows = [(0, 0, 0, 1, 0, 1), (0, 1, 1, 0.5, 1, 0), (0, 1, 0, 0.5, 0, 1)]
    found = solve_policy(model(rows, 2, [1]), Expected(1e4))
    assert found.upper - found.lower < 1e-13
    assert found.price == 0


def test_a_loop_that_is_hardly_left():
    rows = [(0, 0, 0, 1 - 2**-20, -1, 0), (0, 0, 1, 2**-20, -1, 0)]
    found = solve_policy(model(rows, 2, [1]), Expected(1))
    assert found.lower <= -(2**20) <= found.upper
    assert found.upper - found.lower < 1e-7


@pytest.mark.parametrize("constraint", [Expected(1.0), Chance(1, 0.25)])
def test_without_rewards_the_return_is_exactly_zero(constraint):
    rows = [(0, 0, 1, 0.5, 0, 0), (0, 0, 0, 0.5, 0, 1), (0, 1, 1, 1, 0, 1)]
    found = solve_policy(model(rows, 2, [1]), constraint)
    assert (found.lower, found.value, found.upper) == (0, 0, 0)


def test_a_bound_that_is_not_proved_says_so(monkeypatch):
    """Where the priced problem has no finite value, the dual values of the programme are a bound up to rounding."""
    from almostsure.plan.programme import solve

    rows = [(0, 0, 1, 1, 1, 1), (0, 1, 1, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), num_states=2, terminal=[1])
    proved = solve_policy(mdp, Expected(0.5))
    monkeypatch.setattr(solve, "upper_bound", lambda mdp, *args, **options: (mdp, np.array([np.inf]), 0.0))
    found = solve_policy(mdp, Expected(0.5))
    assert proved.proved
    assert not found.proved
    assert found.upper == pytest.approx(proved.upper)
    assert ", not proved" in str(found)
    assert "not proved" not in str(proved)


@pytest.mark.parametrize(("slow", "limit"), [(1.0, 1), (0.3, 1), (0.01, 1), (1.0, 0.5)])
def test_a_long_way_out_costs_no_digits(slow, limit):
    """Steps until an exit of 1e-6, or an exit for one damage: where that is just affordable, and where it is not."""
    rare = 1e-6
    rows = [(0, 0, 1, 1 - rare, -slow, 0), (0, 0, 2, rare, -slow, 0), (1, 0, 0, 1, -slow, 0), (0, 1, 2, 1, -5, 1)]
    mdp = model(rows)
    found, share = solve_policy(mdp, Expected(limit)), Fraction(rare) / (Fraction(rare) + Fraction(1 - rare))
    walk = -Fraction(slow) * (2 - share) / share
    assert found.lower <= Fraction(limit) * -5 + (1 - Fraction(limit)) * walk <= found.upper
    assert found.upper - found.lower <= 1e-8 * max(1, abs(found.lower))
