"""Models: building, memory, files, and the time until the first output.

    python benchmarks/bench_model.py [--quick]

Each row has a comparison that is measured in the same run:

- ``from_transitions`` of shuffled outcomes, with one ``np.lexsort`` of the same three keys;
- memory of a model, in bytes per outcome, with the limit of 24;
- ``load`` of a memory-mapped file, with the time to read the file from start to end, and the bytes that it read;
- ``import almostsure``, with ``import numpy``;
- the first line of the demo, from the start of Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import almostsure as asure
from almostsure.model.build.grid import grid_family


def best(function: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def show(what: str, got: str, peer: str, ratio: str) -> None:
    """Print one row."""
    print(f"{what:44} {got:>16}   {peer:34} {ratio:>12}", flush=True)


def building(mdp: asure.MDP) -> None:
    """``from_transitions``, compared with a lexsort."""
    order = np.random.default_rng(0).permutation(mdp.num_outcomes)
    choice = mdp.outcome_choices()[order]
    keys = mdp.successor[order], mdp.choice_action[choice], mdp.choice_states()[choice]
    rest = mdp.probability[order], mdp.reward[order], mdp.damage[order]
    sort = best(lambda: np.lexsort(keys), 2)
    build = best(lambda: asure.from_transitions(keys[2], keys[1], keys[0], *rest, num_states=mdp.num_states), 2)
    what = f"from_transitions, {mdp.num_outcomes / 1e6:.1f} M shuffled outcomes"
    show(what, f"{build:.2f} s", f"one np.lexsort: {sort:.2f} s", f"{build / sort:.2f} ×")


def memory(mdp: asure.MDP) -> None:
    """Bytes per outcome."""
    whole = mdp.nbytes / mdp.num_outcomes
    support = mdp.support.successor.itemsize + mdp.support.damage.itemsize
    show("memory of a grid", f"{whole:.1f} B/outcome", "limit: 24", f"{whole / 24:.2f} ×")
    show("successor and damage alone", f"{support} B/outcome", "limit: 5", f"{support / 5:.2f} ×")


def files(mdp: asure.MDP) -> None:
    """``load``, compared with reading the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.umb"
        mdp.save(path)
        asure.load(path)
        read = best(path.read_bytes, 2)
        before = bytes_read()
        load = best(lambda: asure.load(path), 3)
        touched = (bytes_read() - before) / 3
        what = f"load of a file of {path.stat().st_size / 2**20:.0f} MiB"
        show(what, f"{load * 1e3:.1f} ms", f"reading it: {read * 1e3:.0f} ms", f"{load / read:.4f} ×")
        show(
            "  bytes read by load",
            f"{touched / 1024:.0f} KiB",
            f"in the file: {path.stat().st_size / 1024:.0f} KiB",
            "",
        )


def bytes_read() -> int:
    """The bytes that this process has read so far, if the system tells."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        return 0
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("rchar")))


def starting() -> None:
    """The time of the import, and until the demo's first line."""

    def cpu(code: str) -> float:
        program = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
        return min(
            float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
            for _ in range(3)
        )

    ours, numpy = cpu("import almostsure"), cpu("import numpy")
    show("import almostsure, CPU", f"{ours:.2f} s", f"import numpy: {numpy:.2f} s", f"{ours / numpy:.2f} ×")
    command = [sys.executable, "-u", "-m", "almostsure", "demo"]
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder) as demo,
    ):
        assert demo.stdout is not None
        demo.stdout.readline()
        first = time.perf_counter() - start
        demo.stdout.read()
    if demo.returncode:
        sys.exit("the demo failed")
    show("first line of the demo", f"{first:.2f} s", "limit: 3 s", f"{first / 3:.2f} ×")


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    mdp = grid_family(316 if parser.parse_args().quick else 1000)
    building(mdp)
    memory(mdp)
    files(mdp)
    starting()


if __name__ == "__main__":
    main()
