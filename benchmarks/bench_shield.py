"""Masks per second: ``shield.mask``, compared with hand-written vectorised NumPy.

The peer has a table of k* by state and action, and computes ``table[states] <= remaining``, then checks that no row is
empty.  Both must give the same masks, or the benchmark fails.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import almostsure as asure
from almostsure.shield import Shield
from almostsure.testing.families import garnet, ladder

LOOK_UPS = 4_000_000


def best(run: Callable[[], object], repeat: int = 5) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def peer(shield: Shield) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    mdp = shield.mdp
    table = mdp.by_action(shield.minimal.of_choice, asure.INFINITE)

    def mask(states: np.ndarray, remaining: np.ndarray) -> np.ndarray:
        result = table[states] <= remaining[..., None]
        if not result.any(axis=-1).all():
            raise ValueError("an empty mask")
        return result

    return mask


def compare(title: str, shield: Shield, look_ups: int, one_budget: bool) -> None:
    rng = np.random.default_rng(0)
    safe = np.flatnonzero(shield.minimal.of_state < asure.INFINITE)
    states = rng.choice(safe, look_ups)
    remaining = shield.minimal.of_state[states] + rng.integers(0, 3, look_ups)
    if one_budget:
        remaining = np.asarray(remaining.max())
    theirs = peer(shield)
    if not np.array_equal(shield.mask(states, remaining), theirs(states, remaining)):
        sys.exit(f"{title}: the masks differ")
    ours, other = best(lambda: shield.mask(states, remaining)), best(lambda: theirs(states, remaining))
    rates = f"{look_ups / ours / 1e6:7.0f} M/s   by hand {look_ups / other / 1e6:5.0f} M/s"
    print(f"{title:<30} {rates}   {other / ours:5.1f}×")


def main() -> None:
    models = {
        "10,000 states, 4 actions": garnet(10_000, 4, 3, seed=1, damage_rate=0.02),
        "1,000,000 states, 4 actions": garnet(1_000_000, 4, 2, seed=1, damage_rate=0.02),
        "1,000 budgets, 2 actions": ladder(1_000, width=10),
        "10,000 states, 18 actions": garnet(10_000, 18, 3, seed=1, damage_rate=0.02),
    }
    for name, mdp in models.items():
        shield = Shield(asure.minimal_budget(mdp))
        start = time.perf_counter()
        shield.mask(int(np.argmin(shield.minimal.of_state)), 0)
        print(f"{name}: table built in {1e3 * (time.perf_counter() - start):.1f} ms")
        for one_budget in (False, True):
            compare(f"  {'one budget for all' if one_budget else 'a budget each'}", shield, LOOK_UPS, one_budget)
        compare("  batches of 64", shield, 64, False)


if __name__ == "__main__":
    main()
