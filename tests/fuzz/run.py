"""``make fuzz``: random models against plain twins, and random agents inside shields, until the numbers are reached.

Batch i of a seed is the same whenever and wherever it runs.  What is done is kept in a file after every batch, so
that the command can be stopped and resumes there; the first difference stops it, and says which batch to run
again (``--batch``).
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import checks
import numpy as np

from almostsure.files import atomic_write
from almostsure.testing import random_union

MODELS = 2000  # of a batch
KINDS = (  # of models: their states at most, and the damages that they know
    {"states": 8, "damages": [1, 2, 3]},
    {"states": 12, "damages": [1]},
    {"states": 3, "damages": [1, 2, 7, 254, 255]},
)


def batch(seed: int, number: int, steps: int) -> Counter[str]:
    """Draw models, compare everything, and play; returns what was counted."""
    rng = np.random.default_rng([seed, number])
    budget = int(rng.integers(0, 6))
    case = checks.case_of(random_union(rng, MODELS, **KINDS[number % len(KINDS)]), budget)
    counted = checks.budgets(case, rng) + checks.play(case, rng, budget=budget, steps=steps)
    for check in (checks.alone, checks.masks, checks.guarded, checks.horizons):
        counted += check(case, rng)
    few = checks.case_of(random_union(rng, 100, **KINDS[number % len(KINDS)]), budget)
    for check in (checks.forgeries, checks.risks, checks.grids, *[checks.products] * 5):
        counted += check(few, rng)
    return counted


def main() -> int:
    """Run batches until there are enough models and steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=float, default=1e6, help="how many models to compare")
    parser.add_argument("--steps", type=float, default=1e9, help="how many shielded steps to play")
    parser.add_argument("--seed", type=int, help="seed of the random numbers; by default a new one")
    parser.add_argument("--state", type=Path, default=Path("out/fuzz.json"), help="where to keep what is done")
    parser.add_argument("--batch", type=int, help="run this batch alone, and show where it fails")
    given = parser.parse_args()
    each = round(given.steps / max(given.models / MODELS, 1))
    if given.batch is not None:
        print(show(batch(given.seed or 0, given.batch, each)))
        return 0
    given.state.parent.mkdir(parents=True, exist_ok=True)
    seed, number, counted, seconds = begin(given.state, given.seed)
    print(f"seed {seed}, {number} batches are done; Ctrl-C keeps them in {given.state}", flush=True)
    start, told = time.monotonic() - seconds, 0.0
    try:
        while counted["models"] < given.models or counted["steps"] < given.steps:
            counted += batch(seed, number, each)
            number += 1
            kept = {"seed": seed, "batches": number, "seconds": time.monotonic() - start, "counted": dict(counted)}
            with atomic_write(given.state) as file:
                file.write(json.dumps(kept).encode())
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(f"{told - start:6.0f} s  {show(counted)}", flush=True)
    except KeyboardInterrupt:
        print(f"stopped; {given.state} has {show(counted)}")
        return 130
    except Exception:
        traceback.print_exc()
        print(f"A DIFFERENCE: seed {seed}, batch {number}. Run it again with --seed {seed} --batch {number}.")
        return 1
    print(f"{show(counted)}: 0 differences, 0 violations, in {time.monotonic() - start:.0f} s (seed {seed})")
    return 0


def begin(path: Path, seed: int | None) -> tuple[int, int, Counter[str], float]:
    """Seed, batches, counts and seconds so far: those of the file, if it is of this seed."""
    if path.exists():
        kept = json.loads(path.read_text())
        if seed in (None, kept["seed"]):
            return kept["seed"], kept["batches"], Counter(kept["counted"]), kept["seconds"]
    return secrets.randbits(32) if seed is None else seed, 0, Counter(), 0.0


def show(counted: Counter[str]) -> str:
    """What was counted, in words."""
    return ", ".join(f"{number:,} {what}" for what, number in counted.items())


if __name__ == "__main__":
    sys.exit(main())
