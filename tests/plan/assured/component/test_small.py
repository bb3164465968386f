"""Small components are solved in compiled code, with the same results as by other methods."""

import numpy as np
import pytest

from almostsure import from_transitions
from almostsure.plan.assured import engine

from ..test_engine import solved

SIZE = 40
KINDS = {
    "only the end is worth something": lambda rng, last: 1.0 if last else 0.0,
    "some steps cost": lambda rng, last: -float(rng.integers(0, 2)),
    "rewards on the way": lambda rng, last: float(rng.integers(0, 3)) if last else -float(rng.integers(0, 2)),
}


def ladder_of_cycles(seed, kind):
    """Pairs of states that lead to each other, and now and then on to the next two, with or without damage."""
    rng, rows = np.random.default_rng(seed), []
    for x in range(0, SIZE, 2):
        for state in (x, x + 1):
            other = 2 * x + 1 - state
            rows.append((state, 0, other, 1.0, KINDS[kind](rng, False), 0))
            on, reward = float(rng.choice([0.1, 0.5, 1.0])), KINDS[kind](rng, True)
            rows.append((state, 1, x + 2, on, reward, int(rng.integers(0, 2))))
            if on < 1:
                rows.append((state, 1, int(rng.choice([x, x + 1])), 1 - on, reward, 0))
    rows.append((SIZE + 1, 0, SIZE, 1.0, 0.0, 0))
    return from_transitions(*zip(*rows, strict=True), num_states=SIZE + 2, terminal=[SIZE], normalise=True)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_small_components_are_settled_in_compiled_code(kind, discount, monkeypatch):
    for seed in range(8):
        mdp = ladder_of_cycles(seed, kind)
        expected = solved(mdp, 6, method="direct", discount=discount)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "Component", None)
            found = solved(mdp, 6, discount=discount)
        assert np.array_equal(np.isneginf(found[0]), np.isneginf(expected[0]))
        finite = np.isfinite(found[0]) & np.isfinite(expected[0])
        lower, upper = found[0][finite], found[1][finite]
        assert (lower <= expected[1][finite]).all()
        assert (expected[0][finite] <= upper).all()
        assert (upper - lower).max() <= 1e-8 * max(1.0, np.abs(lower).max())


def test_gains_that_may_go_on_are_left_to_others():
    rows = [(0, 0, 1, 1.0, 1.0, 0), (1, 0, 0, 1.0, 1.0, 0), (1, 1, 2, 1.0, 0.0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    assert solved(mdp, 0) is None


@pytest.mark.parametrize("method", ["as always", "direct", "plain"])
@pytest.mark.parametrize("gain", [1e5, 1e6])
def test_resting_is_worth_no_more_than_the_upper_bound(gain, method):
    """The way out is worth 2.8e-14 of what it begins with less than nothing, which only a long chain tells."""
    size = 14
    end, short = size + 1, 0.7 * 4e-14 * gain
    rows = [(0, 0, 0, 1.0, 0.0, 0), (0, 1, 1, 1.0, gain, 0)]
    for i in range(1, size):
        rows += [(i, 0, i + 1, 0.5, 0.0, 0), (i, 0, end, 0.5, 1 - gain, 0)]
    rows += [(size, 0, end, 1.0, 1 - gain - 2.0 ** (size - 1) * (1 + short), 0), (size, 1, 0, 1.0, -3 * gain, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), num_states=size + 2, terminal=[end])
    lower, upper, _ = solved(mdp, 0, method=method)
    assert lower[0, 0] <= 0 <= upper[0, 0]


@pytest.mark.parametrize("idle", [None, 0.0, -1.0])
@pytest.mark.parametrize("gain", [-1.0, 1.0])
def test_turns_of_which_some_are_free(gain, idle, monkeypatch):
    """The agent's turn is free and nature's is not; idling forbids that every policy leaves."""
    rng, rows = np.random.default_rng(0), []
    for x in range(0, SIZE, 2):
        rows += [(x, 0, x + 1, 1.0, 0.0, 0), (x, 1, x + 2, 1.0, -float(rng.integers(0, 3)), 0)]
        stay = float(rng.choice([0.25, 1 / 3, 1 - 2.0**-10]))
        rows += [(x + 1, 0, x, stay, gain, 0), (x + 1, 0, x + 2, 1 - stay, gain, int(rng.integers(0, 2)))]
        if idle is not None and x % 8 == 0:
            rows.append((x, 2, x, 1.0, idle, 0))
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[SIZE])
    expected = solved(mdp, 3, method="direct")
    with monkeypatch.context() as patch:
        patch.setattr(engine, "Component", None)
        found = solved(mdp, 3)
    safe = ~np.isnan(found[0])
    assert np.array_equal(safe, ~np.isnan(expected[0]))
    lower, upper = found[0][safe], found[1][safe]
    assert (lower <= expected[1][safe]).all()
    assert (expected[0][safe] <= upper).all()
    assert (upper - lower).max() <= 1e-8 * np.abs(lower).max()


@pytest.mark.parametrize("side", [8, 20])
def test_maps_with_free_steps_are_settled_in_compiled_code(side, monkeypatch):
    """64 or 400 pairs: moves are free and slip, a few end the run, and so does a choice, for a prize."""
    for seed in range(4):
        rng, rows = np.random.default_rng(seed), []
        worth = rng.random((side, side)).round(2)
        for r, c in np.ndindex(side, side):
            for a, (y, x) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
                for p, (dy, dx) in ((0.8, (y, x)), (0.1, (x, y)), (0.1, (-x, -y))):
                    target = np.clip(r + dy, 0, side - 1) * side + np.clip(c + dx, 0, side - 1)
                    rows.append((r * side + c, a, target, p * 0.98, 0.0, 0))
                rows.append((r * side + c, a, side * side, 0.02, 0.0, 0))
            rows.append((r * side + c, 4, side * side, 1.0, worth[r, c], 0))
        mdp = from_transitions(*zip(*rows, strict=True), terminal=[side * side], normalise=True)
        expected = solved(mdp, 0, method="direct")
        with monkeypatch.context() as patch:
            patch.setattr(engine, "Component", None)
            patch.setattr(engine, "PLAIN", 0)
            found = solved(mdp, 0)
        assert (found[0] <= expected[1]).all()
        assert (expected[0] <= found[1]).all()
        assert (found[1] - found[0]).max() <= 1e-12


def test_what_takes_long_to_eliminate_is_left_to_others():
    """All 400 pairs lead anywhere, so no order is narrow."""
    rng, size = np.random.default_rng(0), 400
    states = np.repeat(np.arange(size), 3)
    target = np.where(np.arange(3 * size) % 3 == 2, size, rng.integers(0, size, 3 * size))
    rows = (
        states,
        0 * states,
        target,
        np.tile([0.5, 0.45, 0.05], size),
        np.where(target == size, -rng.random(3 * size), 0),
    )
    mdp = from_transitions(*rows, 0 * states, terminal=[size], normalise=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "PLAIN", 0)
        lower, upper, _ = solved(mdp, 0)
    assert (upper - lower).max() <= 1e-8


def test_choices_that_may_lead_to_lost_pairs_do_not_widen_the_band(monkeypatch):
    """On a path of 400 states with free steps, each may also gamble, half of which ends where nobody leaves."""
    size, rows = 400, []
    for s in range(size):
        rows += [
            (s, 0, max(s - 1, 0), 0.49, 0, 0),
            (s, 0, min(s + 1, size - 1), 0.49, 0, 0),
            (s, 0, size + 2, 0.02, s, 0),
        ]
        rows += [(s, 1, size, 1, 0, 0)]
    rows += [(size, 0, size + 1, 0.5, 0, 0), (size, 0, 200, 0.5, 0, 0), (size + 1, 0, size + 1, 1, -1, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[size + 2])
    expected = solved(mdp, 0, method="direct")
    monkeypatch.setattr(engine, "Component", None)
    monkeypatch.setattr(engine, "PLAIN", 0)
    found = solved(mdp, 0)
    assert (found[0] <= expected[1]).all()
    assert (expected[0] <= found[1]).all()
