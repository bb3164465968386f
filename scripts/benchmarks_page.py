"""Run benchmarks, keep what they print, and write docs/benchmarks.md from it.

Without arguments the page is written from the results that are kept; ``--run budget policy`` runs these first,
``--run all`` all of them, and what follows ``--`` goes to the benchmarks.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

HEAD = """\
# Benchmarks

Every benchmark runs beside a peer in the same run and prints ratios, because seconds depend on the machine.
`make bench` runs them all. This page is made of what they printed, unchanged, by `scripts/benchmarks_page.py`;
`benchmarks/README.md` explains the columns.
"""


def names() -> list[str]:
    """Of all benchmarks: budget, policy and so on."""
    return sorted(path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py"))


def run(name: str, arguments: list[str]) -> None:
    """Run one benchmark, show what it prints, and keep it if it ends well."""
    command = ["python", f"benchmarks/bench_{name}.py", *arguments]
    lines = [f"$ {' '.join(command)}", f"# {machine()}"]
    print(*lines, sep="\n")
    with subprocess.Popen([sys.executable, *command[1:]], cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        sys.exit(f"benchmark {name} failed; its result is not kept")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.txt").write_text("\n".join(lines).rstrip() + "\n", "utf-8")


def machine() -> str:
    """In one line, without anything private."""
    cores, today = os.cpu_count(), datetime.date.today()
    return f"{today}, {cores} cores, {platform.machine()}, Python {platform.python_version()}"


def title(name: str) -> str:
    """The first sentence of a benchmark's docstring."""
    text = ast.get_docstring(ast.parse((BENCHMARKS / f"bench_{name}.py").read_text("utf-8"))) or name
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def page() -> str:
    """The page, from the results that are kept."""
    parts = [HEAD]
    for name in names():
        kept = RESULTS / f"{name}.txt"
        if kept.is_file():
            parts.append(f"## {title(name)}\n\n```text\n{kept.read_text('utf-8').rstrip()}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Run what was asked for, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="+", metavar="NAME", default=[], help="benchmarks to run first, or all")
    own, _, extra = " ".join(sys.argv[1:]).partition(" -- ")
    options = parser.parse_args(own.split())
    for name in names() if options.run == ["all"] else options.run:
        run(name, extra.split())
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
