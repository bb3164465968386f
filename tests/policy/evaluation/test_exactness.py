"""All results of ``evaluate`` lie within ``accuracy`` of the exact values, also for extreme numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import almostsure as asure
from almostsure import MDP, Policy
from almostsure.policy.evaluation import layer

from .exact import evaluate_exactly


def first(mdp: MDP) -> Policy:
    """The policy that plays the first action of every state."""
    return Policy.from_table(mdp, [int(mdp.actions(s)[0]) for s in range(mdp.num_states)])


def one_state(probabilities: list[float], rewards: list[float]) -> MDP:
    """One state; all outcomes return to it but the last, which ends the run."""
    count = len(probabilities)
    return asure.from_transitions(
        [0] * count, [0] * count, [0] * (count - 1) + [1], probabilities, rewards, [0] * count, terminal=[1]
    )


def check(mdp: MDP, policy: Policy, budget: int | None = None) -> None:
    """Compare all results with fractions."""
    result, exact = asure.evaluate(mdp, policy, budget=budget), evaluate_exactly(mdp, policy, budget)
    within("return", result.expected_return, exact.expected_return, result.accuracy)
    within("damage", result.expected_damage, or_infinite(exact.expected_damage), result.accuracy)
    within("length", result.expected_length, or_infinite(exact.expected_length), result.accuracy)
    within("ends", result.ends, exact.ends, result.accuracy)
    assert 0 <= result.ends <= 1
    assert (result.damage_distribution >= 0).all()
    assert (result.damage_distribution <= 1).all()
    if isinstance(exact.expected_return, Fraction):
        assert Fraction(result.lower) <= exact.expected_return <= Fraction(result.upper)


def or_infinite(value: Fraction | None) -> Fraction | float:
    """The value, or infinity for None."""
    return math.inf if value is None else value


def within(what: str, value: float, exact: Fraction | float | None, accuracy: float) -> None:
    """Fail unless the exact value lies within the accuracy."""
    if exact is None:
        assert math.isnan(value), what
    elif isinstance(exact, float):
        assert value == exact, what
    else:
        assert math.isfinite(accuracy), what
        assert abs(Fraction(value) - exact) <= Fraction(accuracy), f"{what}: {value!r} is not {float(exact)!r}"


@pytest.mark.parametrize(
    ("probabilities", "rewards", "exact"),
    [
        ([0.25, 0.25, 0.5], [1e16, -1e16, 1], 1),
        ([0.5 - 2.0**-46, 0.5 - 2.0**-46, 2.0**-45], [1, -1, 1], 1),
        ([0.25, 0.25, 0.5], [1e9, -1e9, 1e-7], 1e-7),
        ([0.25, 0.25, 0.5], [0, 0, 0], 0),
        ([1 - 2.0**-20, 2.0**-20], [-1, 0], -(2.0**20 - 1)),
    ],
)
def test_sums_that_cancel(probabilities: list[float], rewards: list[float], exact: float) -> None:
    mdp = one_state(probabilities, rewards)
    result = asure.evaluate(mdp, first(mdp))
    assert result.expected_return == exact
    assert result.lower <= exact <= result.upper
    assert result.upper - result.lower <= 1e-15 * abs(exact) + 1e-29 * max(map(abs, rewards)) + 1e-270
    check(mdp, first(mdp))


def test_the_return_of_a_cycle_with_a_small_gain_is_infinite() -> None:
    mdp = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, -1 + 1e-13], [0, 0])
    assert asure.evaluate(mdp, first(mdp)).expected_return == math.inf
    mdp = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, -1], [0, 0])
    assert math.isnan(asure.evaluate(mdp, first(mdp)).expected_return)


@pytest.mark.parametrize(("second", "value"), [(-0.5, math.inf), (-1.5, -math.inf), (-1.0, math.nan)])
def test_clear_drifts_need_no_fractions(monkeypatch: pytest.MonkeyPatch, second: float, value: float) -> None:
    """On a cycle of two states; if rewards cancel out, fractions are used if the class is small enough."""
    mdp = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, second], [0, 0])
    for exact, asked in ((1, False), (2, True)):
        calls = []
        monkeypatch.setattr(layer, "EXACT", exact)
        monkeypatch.setattr(layer._Class, "_exact_drift", lambda chain, calls=calls: calls.append(chain) or 0)
        assert asure.evaluate(mdp, first(mdp)).expected_return == pytest.approx(value, nan_ok=True)
        assert bool(calls) == (asked and math.isnan(value))


def test_gains_that_only_fractions_tell_apart() -> None:
    """On a cycle of two states with thirds and sevenths, rewards cancel out exactly, or almost."""
    third = 1 / 3
    mdp = asure.from_transitions(
        [0, 0, 1, 1], [0] * 4, [0, 1, 0, 1], [third, 1 - third, 0.5, 0.5], [3e8, 3e8, -4e8, -4e8], [0] * 4
    )
    check(mdp, first(mdp))


def hostile(rng: np.random.Generator) -> MDP:
    """A small model with slow leaks, rewards of all sizes, and rewards that cancel."""
    count = int(rng.integers(1, 5))
    rows: list[tuple[int, int, int, float, float, int]] = []
    for state in range(count):
        for action in range(int(rng.integers(1, 3))):
            rows += [(state, action, *outcome) for outcome in outcomes(rng, count)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    starts = rng.random(count)
    initial = {s: float(p) for s, p in enumerate(starts / starts.sum())} if rng.random() < 0.3 else 0
    return asure.from_transitions(*columns, num_states=count + 1, terminal=[count], initial=initial)


def outcomes(rng: np.random.Generator, count: int) -> list[tuple[int, float, float, int]]:
    """The outcomes of a choice."""
    scale = float(10.0 ** rng.integers(-9, 13)) * (1.0 if rng.random() < 0.5 else float(rng.random()))
    small = float(10.0 ** rng.integers(-9, 13))
    damage = int(rng.integers(1, 3)) if rng.random() < 0.3 else 0
    onward = int(rng.integers(0, count))
    kind = rng.integers(4)
    if kind == 0:  # rarely leaves, and gains and losses cancel out
        leak = 2.0 ** -float(rng.integers(20, 51))
        half = (1 - leak) / 2
        return [(onward, half, scale, 0), (onward, half, -scale, 0), (count, 2 * (0.5 - half), small, damage)]
    if kind == 1:
        leak = 2.0 ** -float(rng.integers(20, 51))
        return [
            (onward, 1 - leak, small if rng.random() < 0.2 else 0.0, 0),
            (int(rng.integers(0, count + 1)), leak, -scale, damage),
        ]
    if kind == 2:
        return [
            (onward, 0.25, scale, damage),
            (onward, 0.25, -scale, 0),
            (int(rng.integers(0, count + 1)), 0.5, small, 0),
        ]
    shares = rng.random(3)
    shares = shares / shares.sum()
    signs = rng.choice([-1.0, 1.0], 3)
    return [
        (int(rng.integers(0, count + 1)), float(p), float(sign * scale), damage if at else 0)
        for at, (p, sign) in enumerate(zip(shares, signs, strict=True))
    ]


def some_policy(rng: np.random.Generator, mdp: MDP) -> tuple[Policy, int | None]:
    """A stationary policy, or one with a budget that is also defined once overspent."""
    layers = 1 if rng.random() < 0.5 else 4
    weights = rng.random((layers, mdp.num_choices)) if rng.random() < 0.5 else np.zeros((layers, mdp.num_choices))
    for row in weights:
        for state in range(mdp.num_states):
            choices = mdp.choices(state)
            if not row.any() or weights.max() == 1:
                row[int(rng.integers(choices.start, choices.stop))] = 1.0
    sums = np.add.reduceat(weights, mdp.choice_ptr[:-1].astype(np.int64), axis=1)
    probability = weights / sums[:, mdp.choice_states()]
    return Policy(mdp, probability=probability, budget=None if layers == 1 else 2), None if layers == 1 else 2


@pytest.mark.parametrize("seed", range(34))
def test_hostile_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(30):
        mdp = hostile(rng)
        check(mdp, *some_policy(rng, mdp))
