"""The budget engine, compared with Storm and with one bare pass over the successors, case by case.

    python benchmarks/bench_budget.py [--quick] [--only NAME …] [--models DIR] [--json FILE] [--huge]

For each case: seconds to solve (best of several, warm, all levels, k* of states and of choices), the same in bare
passes (``np.sum`` over the successor array, best of many, in the same run), outcomes per second, the checker in bare
passes, peak memory beyond the model in bytes per outcome (in a separate process), and, on the grids and on PRISM
models, Storm's checking time and its ratio to ours.  Values are compared with Storm's; certificates are verified.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import almostsure as asure
from almostsure.budget.certificate import check_minimal_budget
from almostsure.budget.compiled.engine import solve_levels
from almostsure.budget.minimal import NO_CAP
from almostsure.model.build.grid import grid_family
from almostsure.model.mdp import MDP, Support
from almostsure.testing.families import chain, garnet, ladder, rings

PARTS = ("choice_ptr", "outcome_ptr", "successor", "damage")
PRISM = {  # models of the Quantitative Verification Benchmark Set: constants, damage
    "resource-gathering.pm": ("B=200,GOLD_TO_COLLECT=15,GEM_TO_COLLECT=15", "reward:attacks"),
    "wlan.4.prism": ("COL=0", "reward:collisions"),
    "csma.3-2.prism": (None, "action:cd"),
}


@dataclass(frozen=True)
class Case:
    """A model to solve, and whether Storm solves it too."""

    name: str
    make: Callable[[], MDP]
    storm: bool = False
    quick: bool = True
    huge: bool = False


@dataclass
class Row:
    """The measurements of one case."""

    case: str
    outcomes: int
    levels: int
    seconds: float
    passes: float
    outcomes_per_second: float
    check_passes: float
    bytes_per_outcome: float | None = None
    storm_check: float | None = None
    storm_convert: float | None = None
    storm_build: float | None = None
    storm_ratio: float | None = None


def cases(models: Path | None) -> Iterator[Case]:
    million = 1_000_000
    for n in (100, 300, 1000):
        yield Case(f"grid-{n}", lambda n=n: grid_family(n), storm=True, quick=n < 1000)
    yield Case("grid-3000", lambda: grid_family(3000), huge=True)
    for rate in (0.02, 0.1, 0.15, 0.3):  # from almost all 0 to almost all ∞
        yield Case(f"random-{rate}", lambda rate=rate: garnet(million, damage_rate=rate), quick=False)
    yield Case("random-local", lambda: garnet(300_000, damage_rate=0.15, reach=50))
    yield Case("random-small-0.15", lambda: garnet(100_000, damage_rate=0.15))
    yield Case("random-small-0.3", lambda: garnet(100_000, damage_rate=0.3))
    yield Case("random-damage-5", lambda: garnet(100_000, damage_rate=0.15, max_damage=5))
    yield Case("harmless", lambda: garnet(100_000, damage_rate=0.0))
    yield Case("chain", lambda: chain(million))
    yield Case("chain-shuffled", lambda: chain(million, shuffled_seed=0))
    yield Case("cyclic-chain", lambda: chain(million, connected=True))
    yield Case("cyclic-chain-shuffled", lambda: chain(million, connected=True, shuffled_seed=0), quick=False)
    yield Case("ladder", lambda: ladder(100_000))
    yield Case("ladder-connected", lambda: ladder(100_000, connected=True))
    yield Case("ladder-wide", lambda: ladder(1000, width=1000, connected=True), quick=False)
    yield Case("rings", lambda: rings(1000, size=100))
    for name, (constants, damage) in PRISM.items():
        if models is not None and (models / name).is_file():
            path = models / name
            make = lambda path=path, c=constants, d=damage: asure.from_prism(path, constants=c, damage=d)  # noqa: E731
            yield Case(name, make, storm=True)


# ---------------------------------------------------------------------- measuring


def best(*runs: Callable[[], object], seconds: float = 3.0, most: int = 200) -> list[float]:
    """The shortest of several runs of each, at least three, taken in turn so that the load is the same for all."""
    times = [[float("inf")] for _ in runs]
    until = time.perf_counter() + seconds
    while len(times[0]) < 4 or (time.perf_counter() < until and len(times[0]) <= most):
        for run, taken in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def solve(support: Support) -> object:
    return solve_levels(support, cap=NO_CAP, report=lambda level, settled: None)


def measure(case: Case, mdp: MDP) -> Row:
    minimal = asure.minimal_budget(mdp, backend="compiled", check="always")
    support = mdp.support
    seconds, check, *bare = best(
        lambda: solve(support), lambda: check_minimal_budget(mdp, minimal), *[lambda: np.sum(support.successor)] * 3
    )
    return Row(
        case=case.name,
        outcomes=mdp.num_outcomes,
        levels=len(minimal.histogram()),
        seconds=seconds,
        passes=seconds / min(bare),
        outcomes_per_second=mdp.num_outcomes / seconds,
        check_passes=check / min(bare),
        bytes_per_outcome=peak_memory(support),
    )


def beside_storm(row: Row, mdp: MDP) -> Row:
    try:
        from storm_budget import solve_by_storm

        run = solve_by_storm(mdp)
    except ImportError:  # without the extra there is no peer
        return row
    if not np.array_equal(run.of_state, asure.minimal_budget(mdp).of_state):
        sys.exit(f"{row.case}: Storm finds other budgets")
    return dataclasses.replace(
        row, storm_check=run.check, storm_convert=run.convert, storm_build=run.build,
        storm_ratio=run.check / row.seconds,
    )  # fmt: skip


# ---------------------------------------------------------------------- in separate processes


def peak_memory(support: Support) -> float | None:
    """The peak of the memory that solving adds, in bytes per outcome."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name in PARTS:
            np.save(f"{folder}/{name}.npy", getattr(support, name))
        run = subprocess.run([sys.executable, __file__, "--child", folder], capture_output=True, text=True, check=True)
    return float(run.stdout) / support.num_outcomes


def child(folder: str) -> None:
    def resident(which: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))

    solve(mixture(50).support)  # compiled code takes memory too, once
    arrays = {name: np.load(f"{folder}/{name}.npy") for name in PARTS}
    for array in arrays.values():
        array.flags.writeable = False
    support = Support(**arrays)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    solve(support)
    print(resident("VmHWM") - before)


def mixture(length: int) -> MDP:
    """A model that needs all kernels: long searches at level 0, acyclic parts, and many levels."""
    part, tail = garnet(500, damage_rate=0.15), np.random.default_rng(0).permutation(length) + 500
    choice = part.outcome_choices()
    columns = [part.choice_states()[choice], part.choice_action[choice], part.successor, part.damage]
    trap = tail, np.zeros(length, int), np.append(tail[1:], tail[-1]), np.append(np.zeros(length - 1, int), 1)
    s, a, t, d = (np.concatenate(pair) for pair in zip(columns, trap, strict=True))
    return asure.from_transitions(s, a, t, np.ones(s.size), np.zeros(s.size), d, normalise=True)


COLD = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from bench_budget import mixture
import almostsure
mdp, small = mixture(3000), almostsure.example("paper")
times = {}
start = time.perf_counter()
almostsure.minimal_budget(small)
times["two states"] = time.perf_counter() - start
for name in ("first", "second"):
    start = time.perf_counter(), time.process_time()
    budget = almostsure.minimal_budget(mdp, backend="compiled", check="never")
    almostsure.budget.certificate._find_compiled(mdp, budget)
    times[name], times[name + " cpu"] = time.perf_counter() - start[0], time.process_time() - start[1]
print(json.dumps(times))
"""


def cold_start() -> dict[str, float]:
    """Seconds of the first run on a machine, with compilation, and of the first run in a later process."""
    code = COLD.replace("from bench_budget import mixture", "exec(open(sys.argv[2]).read())")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mixture.py").write_text(_mixture_source())
        command = [sys.executable, "-c", code, folder, f"{folder}/mixture.py"]
        environment = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/cache"}
        runs = [
            json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
            for _ in range(2)
        ]
    return {
        "cold": runs[0]["first"], "cold cpu": runs[0]["first cpu"], "cached": runs[1]["first"],
        "warm": runs[1]["second"], "two states": min(run["two states"] for run in runs),
    }  # fmt: skip


def _mixture_source() -> str:
    """The source of ``mixture`` alone: this file imports the kernels, which the cold process must not do."""
    import inspect

    head = "import numpy as np\nimport almostsure as asure\nfrom almostsure.testing.families import garnet\n"
    return "from __future__ import annotations\n" + head + "MDP = object\n" + inspect.getsource(mixture)


# ---------------------------------------------------------------------- printing


HEADER = (
    f"{'case':<24}{'outcomes':>12}{'levels':>10}{'seconds':>10}{'passes':>8}{'M/s':>7}{'check':>7}{'B/outc.':>9}"
    f"{'Storm s':>10}{'+ conv.':>9}{'ratio':>8}"
)


def show(row: Row) -> str:
    def cell(value: float | None, width: int, digits: int = 1, end: str = "") -> str:
        return f"{'–' if value is None else f'{value:.{digits}f}{end}':>{width}}"

    return (
        f"{row.case:<24}{row.outcomes:>12,}{row.levels:>10,}{row.seconds:>10.4f}{row.passes:>8.1f}"
        f"{row.outcomes_per_second / 1e6:>7.0f}{row.check_passes:>7.1f}{cell(row.bytes_per_outcome, 9)}"
        f"{cell(row.storm_check, 10, 3)}{cell(row.storm_convert, 9, 2)}"
        f"{cell(row.storm_ratio, 8, int((row.storm_ratio or 0) < 10), '×')}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out long cases")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these cases only; 'cold' is one")
    parser.add_argument("--models", type=Path, metavar="DIR", help=f"a folder with {', '.join(PRISM)}")
    parser.add_argument("--huge", action="store_true", help="also a 3000 × 3000 grid: 10⁸ outcomes, 24 GiB")
    parser.add_argument("--no-storm", action="store_true", help="leave the peer out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def wanted(case: Case, options: argparse.Namespace) -> bool:
    if options.only:
        return case.name in options.only
    return (case.quick or not options.quick) and (options.huge or not case.huge)


def main() -> None:
    options = arguments()
    if options.child:
        child(options.child)
        return
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{os.cpu_count()} cores, load {load:.1f}; passes are of np.sum over the successors, in the same run")
    print(HEADER, flush=True)
    rows = []
    for case in cases(options.models):
        if wanted(case, options):
            mdp = case.make()
            row = measure(case, mdp)
            if case.storm and not options.no_storm:
                row = beside_storm(row, mdp)
            rows.append(row)
            print(show(row), flush=True)
    cold = cold_start() if not options.only or "cold" in options.only else {}
    if cold:
        print("first run on a machine (compiles): {cold:.1f} s; in a new process: {cached:.2f} s; again: {warm:.4f} s; "
              "two states: {two:.1f} ms".format(two=1e3 * cold["two states"], **cold))  # fmt: skip
    if options.json:
        found = {"load": load, "cold": cold, "cases": [dataclasses.asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
