"""Run benchmarks, store their output, and write docs/benchmarks.md from it.

Without arguments the page is written from the stored results; ``--run budget policy`` runs these benchmarks first,
``--run all`` all of them, and arguments after ``--`` are passed to the benchmarks.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

APPENDIX = ROOT / "docs" / "benchmarks-raw.md"
SKIPPED = 77  # the exit code of a benchmark without its input

HEAD = """\
# Benchmarks

How fast `almostsure` is, compared with other tools. Absolute times depend on the machine, so every benchmark measures a
peer in the same run; compare the ratios. `make bench` runs all benchmarks. `scripts/benchmarks_page.py` makes these
tables from their output, which the [appendix](benchmarks-raw.md) shows unchanged. `benchmarks/README.md` explains the
columns.
"""
RAW = """\
# Benchmarks, raw output

The unchanged output of the last run of each benchmark. The [tables](benchmarks.md) are made from it.
"""
NUMBER = r"(?:[-−]?[\d,.]+(?:e[-+]?\d+)?|[-−]?inf|–)"


class Summary(NamedTuple):
    """A table of a benchmark: the text above it, its columns, and the pattern of its rows in the output."""

    about: str
    columns: tuple[str, ...]
    row: str
    order: tuple[int, ...] = ()  # the group of the pattern for each column, if not in order
    under: str = ""  # the pattern of a line above the rows; its group is their first cell


SUMMARIES = {
    "budget": [
        Summary(
            "Minimal budgets of all states at once, and level-by-level queries in Storm (a dash: not run).",
            ("model", "outcomes", "levels", "seconds", "million outcomes per second", "Storm, seconds", "ratio"),
            rf"^(\S+) +([\d,]+) +([\d,]+) +({NUMBER}) +{NUMBER} +({NUMBER}) +{NUMBER} +{NUMBER} +({NUMBER}) +{NUMBER} "
            r"+([\d.]+×|–)$",
        )
    ],
    "models": [
        Summary(
            "The best policy on models of the verification community, in CPU seconds. Ours is the whole call from the "
            "loaded model: k\\*, which has a column of its own, the reachable pairs, values, bounds and a policy. "
            "Storm's is its check alone, without the unfolding that it needs first. Below 1 Storm is faster.",
            ("model", "best return", "k\\*", "ours", "Storm", "ratio", "MB, ours", "MB, Storm"),
            rf"^(\S.*?) +({NUMBER}) +({NUMBER}) +({NUMBER}) +({NUMBER}) +({NUMBER}×) +(\d+) +(\d+)$",
        )
    ],
    "policy": [
        Summary(
            "The best policy from the start, and Storm's check alone on the unfolded model, in CPU seconds.",
            ("model", "ours", "Storm", "ratio", "MB, ours", "MB, Storm"),
            rf"^(\S+) +\d+ +ours +{NUMBER} s +({NUMBER}) cpu +(\d+) MB.*\n"
            rf" +Storm +{NUMBER} s +({NUMBER}) cpu +(\d+) MB +({NUMBER}×) cpu.*$",
            (0, 1, 3, 5, 2, 4),
        )
    ],
    "agents": [
        Summary(
            "Ten million shielded training steps of each learner.",
            ("model", "learner", "million steps", "episodes", "violations", "million steps per second"),
            r"^(hazard-map|archipelago|random, [\d,]+ choices) +(\S.*?) {2,}(\d+) +([\d,]+) +(\d+) +([\d.]+)$",
        ),
        Summary(
            "Learners on the hazard map with a budget of 3: means over five seeds, 100,000 steps each.",
            ("learner", "violations in training", "return", "P(overspend)", "damage"),
            r"^(\S.*?) {2,}([\d,.]+(?: ± \S+)?) {2,}(\S+ ± \S+) {2,}(?:\S+ ± \S+ {2,})?"
            r"(\S+(?: ± \S+)?) {2,}(\S+ ± \S+)(?:  ✕ overspends)?$",
        ),
    ],
    "gym": [
        Summary(
            "The time per step of a Gymnasium environment, with and without a shield.",
            ("environments", "bare", "shielded", "ratio"),
            r"^(.+?) +bare +([\d.]+ µs) +shielded +([\d.]+ µs) +([\d.]+×)$",
        ),
        Summary(
            "Random play inside the shield, and the largest damage of an episode.",
            ("environment", "budget", "steps", "episodes", "worst damage"),
            r"^(\S+) +budget (\d+) +([\d,]+) steps +([\d,]+) episodes +worst damage (\d+)$",
        ),
    ],
    "shield": [
        Summary(
            "Masks per second, compared with hand-written NumPy.",
            ("model", "question", "millions per second", "by hand", "ratio"),
            r"^  (\S.*?) +(\d+) M/s +by hand +(\d+) M/s +([\d.]+×)$",
            under=r"^(\S.*?): table built .*$",
        )
    ],
    "simulate": [
        Summary(
            "Simulated steps on the hazard map.",
            ("engine", "million steps per second"),
            r"^(\S.*?) +([\d.]+) million steps (?:a|per) second .*$",
        )
    ],
    "model": [
        Summary(
            "Each measurement is compared with a peer or a limit; a ratio below 1 is better.",
            ("measurement", "result", "peer or limit", "ratio"),
            r"^(\S.*?) {2,}(\S.*?) {2,}(\S.*?) {2,}([\d.]+) ×$",
        )
    ],
}
DROPPED = ("share of the gap closed",)  # columns of printed Markdown tables that are left out


def names() -> list[str]:
    """The names of all benchmarks: budget, policy and so on."""
    return sorted(path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py"))


def run(name: str, arguments: list[str]) -> int:
    """Run one benchmark, show its output, and store it if it succeeds; returns its exit code."""
    command = ["python", f"benchmarks/bench_{name}.py", *arguments]
    shown = ["DIR" if os.path.isabs(part) else part for part in command]
    lines = [f"$ {' '.join(shown)}", f"# {machine()}"]
    print(*lines, sep="\n")
    with subprocess.Popen([sys.executable, *command[1:]], cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode == 0:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.txt").write_text("\n".join(lines).rstrip() + "\n", "utf-8")
    return process.returncode


def machine() -> str:
    """A line about the machine, without anything private."""
    cores, today = os.cpu_count(), datetime.date.today()
    return f"{today}, {cores} cores, {platform.machine()}, Python {platform.python_version()}"


def title(name: str) -> str:
    """The first sentence of a benchmark's docstring."""
    text = ast.get_docstring(ast.parse((BENCHMARKS / f"bench_{name}.py").read_text("utf-8"))) or name
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def kept(name: str) -> str:
    """The stored output of a benchmark, or ""."""
    path = RESULTS / f"{name}.txt"
    return path.read_text("utf-8").rstrip() if path.is_file() else ""


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def rows_of(summary: Summary, text: str) -> list[tuple[str, ...]]:
    """The rows of a table, each with the group of the line above it."""
    rows = []
    for match in re.finditer(summary.row, text, re.MULTILINE):
        above = re.findall(summary.under, text[: match.start()], re.MULTILINE) if summary.under else []
        rows.append((*above[-1:], *match.groups()))
    return rows


def tables(name: str) -> Iterator[str]:
    """The tables of a benchmark, each with the sentence above it."""
    text = kept(name)
    for summary in SUMMARIES.get(name, []):
        rows = rows_of(summary, text)
        if rows:
            order = summary.order or range(len(summary.columns))
            cells = [[row[at].replace("-inf", "−∞") for at in order] for row in rows]
            yield f"{summary.about}\n\n{markdown(summary.columns, cells)}\n"
    if name not in SUMMARIES and (printed := [line for line in text.splitlines() if line.startswith("|")]):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed]
        shown = [at for at, column in enumerate(cells[0]) if column not in DROPPED]
        head, _, *rows = [[row[at] for at in shown] for row in cells]
        yield markdown(head, rows) + "\n"


def page() -> str:
    """The page of tables, from the stored results."""
    parts = [HEAD]
    for name in names():
        found = list(tables(name))
        if found:
            parts += [f"## {title(name)}\n", *found]
    return "\n".join(parts)


def appendix() -> str:
    """The page of the unchanged output."""
    parts = [RAW]
    parts += [f"## {title(name)}\n\n```text\n{kept(name)}\n```\n" for name in names() if kept(name)]
    return "\n".join(parts)


def main() -> None:
    """Run the requested benchmarks, then write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="+", metavar="NAME", default=[], help="benchmarks to run first, or all")
    own, _, extra = " ".join(sys.argv[1:]).partition(" -- ")
    options = parser.parse_args(own.split())
    asked = names() if options.run == ["all"] else options.run
    codes = {name: run(name, extra.split()) for name in asked}
    PAGE.write_text(page(), "utf-8")
    APPENDIX.write_text(appendix(), "utf-8")
    print(f"wrote {os.path.relpath(PAGE, ROOT)}")
    skipped = [name for name, code in codes.items() if code == SKIPPED]
    if skipped:
        print(f"skipped, since their input is missing (see above); earlier results are kept: {', '.join(skipped)}")
    if failed := [name for name, code in codes.items() if code not in (0, SKIPPED)]:
        sys.exit(f"failed, and the results are not stored: {', '.join(failed)}")


if __name__ == "__main__":
    main()
