"""Minimal budgets of public benchmark models, as a table for others to compare with.

    python publishing/public_models.py FOLDER > publishing/public-models.md

FOLDER holds UMB files (or .umb.xz) of models of the Quantitative Verification Benchmark Set, as `almostsure convert` or
Storm writes them.  Damage is what the second column names: a label hurts in every step that ends in it, a reward
structure as much as it pays.  Every number is checked: the certificate is verified before a row is printed.
"""

from __future__ import annotations

import lzma
import sys
import tempfile
from pathlib import Path

import almostsure as asure

DAMAGE = {
    "consensus.6": "c1",
    "eajs.4": "localFailure",
    "echoring": "failed",
    "elevators.b-11-9": "var5_1",
    "exploding-blocksworld.5": "var14_0",
    "pnueli-zuck.5": "other",
    "rabin.3": "other",
    "tireworld.17": "var7_0",
    "wlan.5": "collisions",
}
HEAD = """\
# Minimal budgets of public models

Models of the Quantitative Verification Benchmark Set (CC-BY 4.0), goals absorbing, as UMB files. k\\* is the least
damage budget that holds with probability one; ∞ means that none does, ever. `python publishing/public_models.py FOLDER`
makes this table, and verifies the certificate of each row. The fingerprint is that of the model as almostsure reads it,
so that the same row can be asked of another tool about the same model.

| model | damage | states | outcomes | k\\* at the start | largest finite k\\* | states with ∞ | fingerprint |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def row(path: Path, name: str) -> str:
    """One line of the table."""
    mdp = asure.load(path, damage=DAMAGE[name])
    minimal = asure.minimal_budget(mdp)
    asure.check_minimal_budget(mdp, minimal)
    counts = minimal.histogram()
    endless = counts.pop(asure.INFINITE, 0)
    start = minimal.smallest_budget()
    cells = [
        name, f"`{DAMAGE[name]}`", f"{mdp.num_states:,}", f"{mdp.num_outcomes:,}",
        "∞" if start == asure.INFINITE else str(start), str(max(counts, default="–")), f"{endless:,}",
        f"`{mdp.fingerprint[:16]}`",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    print(HEAD)
    with tempfile.TemporaryDirectory() as scratch:
        for name in DAMAGE:
            path = folder / f"{name}.umb"
            if not path.exists():
                packed = folder / f"{name}.umb.xz"
                path = Path(scratch) / f"{name}.umb"
                path.write_bytes(lzma.decompress(packed.read_bytes()))
            print(row(path, name), flush=True)


if __name__ == "__main__":
    main()
