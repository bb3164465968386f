"""``make fuzz``: compares random models with plain twins, and plays random agents inside shields, up to given numbers.

Batch i of a seed is always the same.  The progress is stored in a file after every batch, so the command can be stopped
and resumed.  It stops at the first difference, and prints the batch to repeat (``--batch``).
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

MODELS = 2000  # per batch
KINDS = (  # of models: the largest number of states, and the damages
    {"states": 8, "damages": [1, 2, 3]},
    {"states": 12, "damages": [1]},
    {"states": 3, "damages": [1, 2, 7, 254, 255]},
)


def batch(seed: int, number: int, steps: int) -> Counter[str]:
    """Draw models, make all comparisons, and play; returns the counts."""
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
    parser.add_argument("--models", type=float, default=1e6, help="number of models to compare")
    parser.add_argument("--steps", type=float, default=1e9, help="number of shielded steps to play")
    parser.add_argument("--seed", type=int, help="seed of the random numbers; by default a new one")
    parser.add_argument("--state", type=Path, default=Path("out/fuzz.json"), help="file for the progress")
    parser.add_argument("--batch", type=int, help="only run this batch, and show where it fails")
    given = parser.parse_args()
    each = round(given.steps / max(given.models / MODELS, 1))
    if given.batch is not None:
        print(show(batch(given.seed or 0, given.batch, each)))
        return 0
    given.state.parent.mkdir(parents=True, exist_ok=True)
    seed, number, counted, seconds = begin(given.state, given.seed)
    print(f"seed {seed}, {number} batches are done; Ctrl-C keeps them in {given.state}", flush=True)
    start, printed = time.monotonic() - seconds, 0.0
    try:
        while counted["models"] < given.models or counted["steps"] < given.steps:
            counted += batch(seed, number, each)
            number += 1
            kept = {"seed": seed, "batches": number, "seconds": time.monotonic() - start, "counted": dict(counted)}
            with atomic_write(given.state) as file:
                file.write(json.dumps(kept).encode())
            if time.monotonic() - printed > 10:
                printed = time.monotonic()
                print(f"{printed - start:6.0f} s  {show(counted)}", flush=True)
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
    """The seed, batches, counts and seconds so far, from the file if it has this seed."""
    if path.exists():
        kept = json.loads(path.read_text())
        if seed in (None, kept["seed"]):
            return kept["seed"], kept["batches"], Counter(kept["counted"]), kept["seconds"]
    return secrets.randbits(32) if seed is None else seed, 0, Counter(), 0.0


def show(counted: Counter[str]) -> str:
    """The counts as text."""
    return ", ".join(f"{number:,} {what}" for what, number in counted.items())


if __name__ == "__main__":
    sys.exit(main())
