"""Maps with slips and free steps: many choices look equally good, and some of them never arrive."""

from fractions import Fraction

import numpy as np
import pytest

from almostsure import AlmostSure, from_transitions, solve_policy
from almostsure.errors import LimitReached
from almostsure.plan.assured import engine
from almostsure.plan.assured.component import plains

from ...rational import value_of

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


def slippery(size, prizes, *, slip, pits=(), aside=False, start=0):
    """A map whose steps slip to all four sides, or to the left and right alone; prizes end it, and pits for nothing."""
    ends = {**dict.fromkeys(pits, 0.0), **prizes}
    rows = []
    for y, x in np.ndindex(size, size):
        for action in range(0 if (y, x) in ends else 4):
            for move, (down, right) in enumerate(MOVES):
                to = min(max(y + down, 0), size - 1), min(max(x + right, 0), size - 1)
                p = slip / 2 * ((move + action) % 2) if aside else slip / 4
                p += (1 - slip) * (move == action)
                rows.append((y * size + x, action, to[0] * size + to[1], p, ends.get(to, 0.0), 0))
    ended = [y * size + x for y, x in ends]
    return from_transitions(
        *zip(*rows, strict=True), num_states=size**2, terminal=ended, initial=start or size**2 // 2, normalise=True
    )


def scattered(seed, size, slip):
    """A map with some prizes and pits anywhere."""
    rng = np.random.default_rng(seed)
    cells = [divmod(int(cell), size) for cell in rng.choice(size**2, 8, replace=False)]
    cells = [cell for cell in cells if cell[0] * size + cell[1] != size**2 // 2]
    prizes = {cell: float(rng.choice([0.25, 0.5, 1.0])) for cell in cells[:3]}
    return slippery(size, prizes, slip=slip, pits=cells[3 : 3 + 2 * (seed % 3)])


def exact(mdp, choice):
    """What everybody is worth, in fractions: the policy is improved until nothing is better."""
    rows = []
    for c in range(mdp.num_choices):
        at, to = slice(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1]), {}
        chances = [Fraction(p) for p in mdp.probability[at].tolist()]
        for t, p in zip(mdp.successor[at].tolist(), chances, strict=True):
            to[t] = to.get(t, 0) + p / sum(chances)
        rewards = mdp.reward[at].tolist()
        rows.append((sum(p * Fraction(r) for p, r in zip(chances, rewards, strict=True)) / sum(chances), to))
    policy = choice.tolist()
    while True:
        chain = {s: rows[c] for s, c in enumerate(policy)}
        worth = [value_of(s, chain) for s in chain]
        ahead = [gain + sum(p * worth[t] for t, p in to.items()) for gain, to in rows]
        best = [max(range(*mdp.choice_ptr[s : s + 2]), key=ahead.__getitem__) for s in chain]
        better = [s for s in chain if ahead[best[s]] > worth[s]]
        if not better:
            return worth
        for s in better:
            policy[s] = best[s]


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_value_is_within_the_bounds(seed):
    """With slips so rare, waiting takes up to 10²⁰ steps to go wrong."""
    mdp = scattered(seed, 5, slip=(1e-4, 0.01)[seed % 2])
    layers = solve_policy(mdp, AlmostSure(0), everywhere=True).layers
    for low, worth, high in zip(layers.lower[0], exact(mdp, layers.choice[0]), layers.upper[0], strict=True):
        assert Fraction(low) <= worth <= Fraction(high)
        assert high - low < 1e-10


@pytest.mark.parametrize("size", [12, 16, 24, 30])
@pytest.mark.parametrize("slip", [0.01, 0.1])
def test_slippery_free_maps_are_settled(size, slip):
    for seed in range(3):
        mdp = scattered(100 * size + seed, size, slip=slip)
        found = solve_policy(mdp, AlmostSure(0))
        assert found.upper - found.lower <= 1e-8
        assert found.evaluate().expected_return == pytest.approx(found.value, abs=1e-8)
        assert found.evaluate().expected_length < 1e5  # of all that look as good, it does not wait


def test_plains_that_steps_lead_between_for_ever_are_one():
    """Between two of them one can go for ever, so that roundings would add up without end."""
    rows = [
        ".X..X.....X....",
        "X..XX.X....B...",
        "............X..",
        "X.X.......XX...",
        ".....XX.......A",
        "....X......X...",
        ".....X......X..",
        ".......X.......",
        "XX.............",
        ".....X.........",
        ".X.............",
        "........X..X...",
        ".....XX........",
        "...X........XX.",
        ".....X.........",
    ]
    cells = {(y, x): cell for y, row in enumerate(rows) for x, cell in enumerate(row)}
    prizes = {
        at: {"A": 0.7143339841766897, "B": 0.9017457204577594}[cell] for at, cell in cells.items() if cell in "AB"
    }
    mdp = slippery(15, prizes, slip=0.1, pits=[at for at, cell in cells.items() if cell == "X"], aside=True, start=61)
    found = solve_policy(mdp, AlmostSure(0))
    assert found.upper - found.lower <= 1e-8


def test_larger_components_are_settled_after_sweeps():
    mdp = scattered(5, 60, slip=0.1)
    found = solve_policy(mdp, AlmostSure(0))
    assert found.upper - found.lower <= 1e-8


def test_what_is_not_settled_is_between_the_exits(monkeypatch):
    monkeypatch.setattr(engine, "SMALL", 0)
    monkeypatch.setattr(plains, "leave_soon", lambda *_: None)
    mdp = slippery(12, {(0, 0): 0.75, (11, 2): 0.5}, slip=0.1)
    with pytest.raises(LimitReached, match="further apart than the tolerance") as caught:
        solve_policy(mdp, AlmostSure(0))
    found = caught.value.solution
    assert found.lower == pytest.approx(0.5)
    assert found.upper == pytest.approx(0.75)
    assert found.lower <= found.evaluate().expected_return <= found.upper
