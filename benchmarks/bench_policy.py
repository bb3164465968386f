"""The assured policy, compared with Storm's sound solver on the unfolded model: same values, same tolerance, same run.

    python benchmarks/bench_policy.py [--only NAME …] [--seeds N] [--limit SECONDS] [--large] [--peers] [--json FILE]

Each case runs in separate processes, ours and Storm's in turn, both from the same file of arrays.  Ours is
``solve_policy`` with a budget of 5: k*, the pairs (state, remaining) that the start can reach, values, proved bounds
and a policy.  Storm's is only its solution of these pairs, without finding them and building the model.  Both are
medians of up to five runs, after one of ours that may compile.  Memory is the peak of the whole process.  If values
differ by more than 1e-5 at any pair (relative to values above 1) the benchmark fails.  Storm is stopped after SECONDS
of processor time, including building.  Models for which no such budget suffices, or with nothing to solve, because
almost all states have the value 0 or −∞, are replaced by that of the next seed.

With --peers also mdpsolver and QuantEcon, if installed, on the discounted cases; they support no others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import almostsure as asure
from almostsure.model.build.grid import grid_family
from almostsure.model.mdp import MDP
from almostsure.testing.families import garnet

sys.path.insert(0, str(Path(__file__).parent))

from storm_policy import NAMES, load, measured

BUDGET = 5
TOLERANCE = 1e-6
SAME = 1e-5  # the largest difference of values, relative to values above 1
TRIVIAL = 0.01  # models are skipped if the share of pairs with a value other than 0 and −∞ is smaller
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A family of models, one for each seed; with discount 1 every step costs 1."""

    name: str
    make: Callable[[int], MDP]
    discount: float = 1.0
    large: bool = False


def cases() -> Iterator[Case]:
    side = {"slip_model": "side", "hazard": 0.0, "lakes": 0.05, "pits": 0.0}
    lone = {"slip_model": "side", "hazard": 0.01, "lakes": 0.0, "pits": 0.0}
    for n in (100, 300, 1000):
        yield Case(f"forward-{n}", lambda seed, n=n: grid_family(n, seed=seed), large=n == 1000)
    for n in (100, 300):
        yield Case(f"forward-{n}-discounted", lambda seed, n=n: grid_family(n, seed=seed), discount=0.99)
    yield Case("side-300", lambda seed: grid_family(300, seed=seed, **side))
    yield Case("side-300-discounted", lambda seed: grid_family(300, seed=seed, **side), discount=0.99)
    yield Case("side-lone-300", lambda seed: grid_family(300, seed=seed, **lone))
    yield Case("side-lone-300-discounted", lambda seed: grid_family(300, seed=seed, **lone), discount=0.99)
    yield Case("everywhere-300", lambda seed: slippery(300, seed))
    yield Case("everywhere-300-discounted", lambda seed: slippery(300, seed), discount=0.99)
    yield Case("random-100000", scattered)
    yield Case("random-100000-discounted", scattered, discount=0.99)
    yield Case("side-1000", lambda seed: grid_family(1000, seed=seed, **side), large=True)


def slippery(n: int, seed: int) -> MDP:
    """A map with slips to all sides and an action to wait; water only does damage if it is entered on purpose."""
    rng = np.random.default_rng(seed)
    water = rng.random((n, n)) < 0.25
    water[0, 0] = water[-1, -1] = False
    row, column = (x.ravel() for x in np.indices((n, n)))
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    beside = np.stack([np.clip(row + y, 0, n - 1) * n + np.clip(column + x, 0, n - 1) for y, x in moves], axis=1)
    beside = np.column_stack([beside, np.arange(n * n)])
    states = np.arange(n * n - 1)
    s, a, k = (x.ravel() for x in np.broadcast_arrays(states[:, None, None], np.arange(5)[:, None], np.arange(5)))
    t = beside[s, k]
    p = np.where(a == k, 0.6, 0.1)
    damage = (a == k) & (k < 4) & water.ravel()[t]
    return asure.from_transitions(s, a, t, p, (t == n * n - 1) * 1.0, damage, terminal=[n * n - 1])


def scattered(seed: int) -> MDP:
    """A random model; one state in a thousand is terminal."""
    return garnet(100_000, branching=4, seed=seed, damage_rate=0.02, terminal_rate=0.001)


# ---------------------------------------------------------------------- ours


def prepared(case: Case, seed: int) -> MDP:
    """The model with the rewards of the case: step costs, or the mean gains of its choices."""
    mdp = case.make(seed)
    owner = mdp.choice_states()[mdp.outcome_choices()]
    ends = mdp.is_terminal()[owner]
    gains = np.add.reduceat(mdp.probability * np.maximum(mdp.reward, 0.0), mdp.outcome_ptr[:-1])
    reward = np.where(ends, 0.0, -1.0 if case.discount == 1 else gains[mdp.outcome_choices()])
    return asure.from_transitions(
        owner, mdp.choice_action[mdp.outcome_choices()], mdp.successor, mdp.probability, reward, mdp.damage,
        num_states=mdp.num_states, initial=int(mdp.initial_states[0]), normalise=True,
    )  # fmt: skip


def build(case: Case, seed: int, file: str) -> None:
    """Write a model to a file."""
    mdp = prepared(case, seed)
    start = np.array([mdp.initial_states[0]])
    np.savez(file, **{name: getattr(mdp, name) for name in NAMES}, initial=start)
    print("{}")


def keep(file: str, **arrays: np.ndarray) -> None:
    """Add arrays to a file; existing ones with the same names are replaced."""
    with np.load(file) as found:
        np.savez(file, **(dict(found) | arrays))


def ours(case: Case, file: str) -> None:
    """Solve for the start, measured; then for all pairs, for comparison."""
    from almostsure.plan.assured.layers import solve_layers

    mdp, _ = load(file)
    constraint, how = asure.AlmostSure(BUDGET), {"discount": case.discount, "tolerance": TOLERANCE}
    minimal = asure.minimal_budget(mdp, cap=BUDGET)
    if minimal.of_state[mdp.initial_states].max() > BUDGET:
        print(json.dumps({"share": 0.0}))
        return
    asure.solve_policy(mdp, constraint, **how)
    answer = measured(lambda: asure.solve_policy(mdp, constraint, **how))
    answer["shield_cpu"] = measured(lambda: asure.minimal_budget(mdp, cap=BUDGET))["cpu"]
    answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    keep(file, of_choice=minimal.of_choice)
    layers = solve_layers(mdp, minimal.of_choice, BUDGET, **how)
    np.save(file + ".bounds.npy", np.stack([layers.lower, layers.upper]))
    with np.errstate(invalid="ignore"):
        share = float(np.mean(np.abs(layers.lower + layers.upper) / 2 > TOLERANCE) - np.mean(np.isinf(layers.lower)))
    print(json.dumps(answer | {"share": share}))


# ---------------------------------------------------------------------- side by side


def compare(case: Case, seed: int, limit: float, peers: tuple[str, ...]) -> dict[str, object] | None:
    """The measurements of all solvers, and the differences of their values from ours; None if nothing is to solve."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.npz"
        child = [sys.executable, __file__, "--child", case.name, str(seed), file]
        _json([*child, "build"], None)
        mine = _json([*child, "solve"], None)
        if mine is None or mine["share"] < TRIVIAL:
            return None
        found: dict[str, object] = {"case": case.name, "seed": seed, "ours": mine}
        for name in ("Storm", *(peers if case.discount < 1 else ())):
            script = ["storm_policy.py"] if name == "Storm" else ["peers_policy.py", name]
            command = [sys.executable, str(HERE / script[0]), *script[1:], file, str(BUDGET), str(case.discount)]
            found[name] = answer = _json(command, limit)
            if answer is not None and "cpu" in answer:
                answer["difference"] = difference(np.load(file + ".bounds.npy"), np.load(file + ".values.npy"))
    return found


def _json(command: list[str], limit: float | None) -> dict[str, float] | None:
    """The last line of a command's output; None if it ran out of processor time."""

    def hold() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))

    run = subprocess.run(command, capture_output=True, text=True, preexec_fn=hold)
    if limit is not None and run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if run.returncode:
        sys.exit(f"{' '.join(command[1:])} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def difference(bounds: np.ndarray, values: np.ndarray) -> float:
    """The largest distance of values from the middle of the bounds, relative to values above 1."""
    (lower, upper), values = bounds[:, ~np.isnan(values)], values[~np.isnan(values)]
    if np.isnan(lower).any() or (np.isneginf(lower) != np.isneginf(values)).any():
        return float("inf")
    good = np.isfinite(lower)
    middle = (lower[good] + upper[good]) / 2
    return float((np.abs(middle - values[good]) / np.maximum(1, np.abs(middle))).max(initial=0.0))


def show(found: dict[str, object]) -> str:
    mine = found["ours"]
    assert isinstance(mine, dict)
    text = (
        f"{found['case']:<28}{found['seed']:>4}  ours {mine['wall']:8.3f} s {mine['cpu']:8.3f} cpu"
        f" {mine['peak_mb']:7.0f} MB, shield {mine['shield_cpu'] / mine['cpu']:5.1%}"
    )
    for name in list(found)[3:]:
        text += f"\n{name:>46}"
        peer = found[name]
        if not isinstance(peer, dict):
            text += "   gave no answer in time"
        elif "absent" in peer:
            text += "   is not installed"
        else:
            text += (
                f" {peer['wall']:8.2f} s {peer['cpu']:8.2f} cpu {peer['peak_mb']:7.0f} MB"
                f"   {peer['cpu'] / mine['cpu']:6.1f}× cpu {peer['wall'] / mine['wall']:6.1f}× wall"
                f" {mine['peak_mb'] / peer['peak_mb']:5.2f} of its memory  differ by {peer['difference']:.1e}"
            )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120.0, metavar="SECONDS", help="of processor time, for peers")
    parser.add_argument("--large", action="store_true", help="also a million states: Storm takes ten minutes and 7 GB")
    parser.add_argument("--peers", action="store_true", help="also mdpsolver and QuantEcon")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, seed, file, task = options.child
        case = next(case for case in cases() if case.name == name)
        return build(case, int(seed), file) if task == "build" else ours(case, file)
    peers = ("mdpsolver", "quantecon") if options.peers else ()
    rows = []
    for case in cases():
        if case.name in options.only if options.only else options.large or not case.large:
            found = (compare(case, seed, options.limit, peers) for seed in range(10 * options.seeds))
            for row in itertools.islice((row for row in found if row is not None), options.seeds):
                rows.append(row)
                print(show(row), flush=True)
                if any(isinstance(peer, dict) and peer.get("difference", 0.0) > SAME for peer in row.values()):
                    sys.exit("values differ")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
