"""The assured policy on models of the verification community, compared with Storm: same values, tolerance and run.

    python benchmarks/bench_models.py --models DIR [--only NAME …]

DIR holds UMB files (or the same compressed, .umb.xz) of the Quantitative Verification Benchmark Set, goals absorbing.
There are also random layered graphs without cycles: width 1000, three choices of two outcomes.
Each case runs in separate processes, ours and Storm's in turn.  Ours is the whole call from loaded arrays: k*, the
pairs that the start can reach, values and proved bounds.  Storm's is its sound check alone, on the pairs that are safe
and reachable, without the time to unfold and build them.  CPU seconds, medians of up to five runs; memory is the peak
of the whole process.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import almostsure as asure
from almostsure.model.mdp import MDP

sys.path.insert(0, str(Path(__file__).parent))

from storm_policy import measured, unfold

TOLERANCE = 1e-6
SKIPPED = 77  # the exit code of a benchmark without its input
CASES: dict[str, tuple[str, dict[str, str], int]] = {
    "eajs.4": ("eajs.4", {"damage": "localFailure", "reward": "utilityLocal"}, 3),
    "consensus.6": ("consensus.6", {"damage": "c1", "cost": "steps1"}, 1),
    "consensus.6, budget 3": ("consensus.6", {"damage": "c1", "cost": "steps1"}, 3),
    "wlan.5": ("wlan.5", {"damage": "collisions", "cost": "cost"}, 3),
    "pnueli-zuck.5": ("pnueli-zuck.5", {"damage": "other", "cost": "steps1"}, 2),
    "elevators.b-11-9": ("elevators.b-11-9", {"damage": "var5_1", "cost": "steps1"}, 7),
    "exploding-blocksworld.5": ("exploding-blocksworld.5", {"damage": "var14_0", "cost": "steps1"}, 3),
    "rabin.3": ("rabin.3", {"damage": "other", "cost": "steps1"}, 5),
    "tireworld.17": ("tireworld.17", {"damage": "var7_0", "cost": "steps1"}, 3),
    "echoring": ("echoring", {"damage": "failed"}, 3),
}
LAYERED = {"100 layers": 100, "1000 layers": 1000}


def layered(depth: int, width: int = 1000) -> MDP:
    """A random acyclic graph: every choice leads to two states of the next layer; budget 2."""
    rng = np.random.default_rng(0)
    states = np.repeat(np.arange(depth * width), 6)
    successor = np.minimum((states // width + 1) * width + rng.integers(width, size=states.size), depth * width)
    return asure.from_transitions(
        states, np.tile([0, 0, 1, 1, 2, 2], depth * width), successor, np.full(states.size, 0.5),
        -rng.random(states.size), rng.random(states.size) < 0.05, terminal=[depth * width],
    )  # fmt: skip


def ours(mdp: MDP, budget: int) -> dict[str, float]:
    """Solve once, which may compile, and then measure."""
    shield = measured(lambda: asure.minimal_budget(mdp, cap=budget))["cpu"]
    try:
        found = asure.solve_policy(mdp, asure.AlmostSure(budget), tolerance=TOLERANCE)
    except asure.errors.Infeasible:
        return {"shield": shield, "value": math.nan}
    answer = {"shield": shield, "value": found.value, "width": found.upper - found.lower}
    del found  # one solution at a time, so that memory is that of one
    return answer | measured(lambda: asure.solve_policy(mdp, asure.AlmostSure(budget), tolerance=TOLERANCE))


def storms(mdp: MDP, budget: int, costs: bool) -> dict[str, float]:
    """Storm's check on the pairs that the start can reach inside the shield."""
    import stormpy

    from almostsure.model.storm.write import to_storm

    of_choice = asure.minimal_budget(mdp, cap=budget).of_choice
    game = to_storm(unfold(mdp, of_choice, budget, -1.0 if costs else 1.0)[0])
    parsed = stormpy.parse_property('R{"reward"}min=? [F "terminal"]' if costs else 'R{"reward"}max=? [C]')
    values = []
    answer = measured(lambda: values.append(stormpy.model_checking(game, parsed).get_value(0)))
    return answer | {"value": -values[0] if costs else values[0]}


def child(name: str, file: str, who: str) -> None:
    """One side of one case; prints a line of JSON."""
    _, options, budget = CASES.get(name, ("", {"cost": "reward"}, 2))
    mdp = layered(LAYERED[name]) if name in LAYERED else asure.load(file, **options)
    found = ours(mdp, budget) if who == "ours" else storms(mdp, budget, "cost" in options)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def run(name: str, file: Path, who: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", name, str(file), who]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        sys.exit(f"{name}, {who}: {answer.stderr[-2000:]}")
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def unpacked(folder: Path, stem: str, scratch: Path) -> Path:
    plain = folder / f"{stem}.umb"
    if plain.exists():
        return plain
    target = scratch / plain.name
    if not target.exists():
        # In small pieces: Linux counts the memory of the parent process into the peak of a child.
        with lzma.open(folder / f"{stem}.umb.xz") as packed, target.open("wb") as whole:
            shutil.copyfileobj(packed, whole)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(*options.child)
    if options.models is None:
        print(
            "--models DIR must name a folder of UMB files: make bench NAMES=models ARGS='--models DIR'", file=sys.stderr
        )
        sys.exit(SKIPPED)
    print(f"{'model':<26}{'value':>12}{'k* s':>8}{'ours s':>9}{'Storm s':>9}{'ratio':>8}{'MB':>7}{'Storm':>7}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in (*CASES, *LAYERED):
            if options.only and name not in options.only:
                continue
            file = unpacked(options.models, CASES[name][0], Path(scratch)) if name in CASES else Path()
            mine = run(name, file, "ours")
            if math.isnan(mine["value"]):
                print(f"{name:<26}{'–':>12}{mine['shield']:>8.3f}  no budget suffices", flush=True)
                continue
            theirs = run(name, file, "Storm")
            print(
                f"{name:<26}{mine['value']:>12.7g}{mine['shield']:>8.3f}{mine['cpu']:>9.3f}{theirs['cpu']:>9.3f}"
                f"{theirs['cpu'] / mine['cpu']:>7.1f}×{mine['peak_mb']:>7.0f}{theirs['peak_mb']:>7.0f}",
                flush=True,
            )
            same = math.isclose(mine["value"], theirs["value"], rel_tol=1e-5, abs_tol=1e-5)
            if not same and not math.isinf(mine["value"]):
                sys.exit(f"values differ: {mine['value']} and {theirs['value']}")
    return None


if __name__ == "__main__":
    main()
