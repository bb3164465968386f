"""``report`` and ``paper``: what to look at, and what to compare with the paper."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from almostsure.cli import machine
from almostsure.cli.guard import Rejected
from almostsure.cli.options import HTML, PROOF, Budget, Seed, Task, check_output, command
from almostsure.cli.terminal import clean, heading, next_step, say, table

FIGURES = Path("almostsure-paper")


@command(PROOF)
def report(
    task: Task,
    budget: Budget = None,
    limit: Annotated[float | None, typer.Option(help="Of the plan to compare with: damage on average.")] = None,
    risk: Annotated[float | None, typer.Option(help="Of the plan to compare with: P(damage > Δ).")] = None,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("almostsure-report.html"),
) -> None:
    """Write an interactive HTML report: one file, which opens offline."""
    check_output(output, *HTML)
    mdp = task.mdp
    written = _write(mdp, output, name=task.name, budget=budget, limit=limit, risk=risk, seed=seed)
    if task.json:
        task.emit(output=str(written), bytes=written.stat().st_size, seed=seed)
        return
    heading(f"{task.title}")
    say(f"The report is {written} ({written.stat().st_size / 2**20:.1f} MB). It opens in any browser, offline.")
    next_step(written.resolve().as_uri(), note="open it")


@command(PROOF, model=False)
def paper(
    task: Task,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the figures.")] = FIGURES,
    seed: Seed = 0,
) -> None:
    """Reproduce the paper: every lemma and theorem checked, both experiments, claim by claim."""
    from almostsure.paper import reproduce

    result = reproduce(output, seed=seed, progress=not task.json)
    if task.json:
        rows = [claim.row() for claim in result.claims]
        files = {"figures": [*map(str, result.figures)], "tables": [*map(str, result.tables)]}
        report = None if result.report is None else str(result.report)
        machine.emit("paper", None, passed=result.passed, claims=rows, seed=seed, report=report, **files)
    else:
        _show_paper(result)
    if not result.passed:
        raise Rejected


def _write(mdp: Any, output: Path, **options: Any) -> Path:
    from almostsure.report import write_report

    return write_report(mdp, output, command=_command_line(), **options)


def _command_line() -> str:
    """The command that was typed, for the report's block on reproducing it."""
    return clean(shlex.join(["almostsure", *sys.argv[1:]]))


def _show_paper(result: Any) -> None:
    heading("Reinforcement Learning with Almost Sure Constraints, claim by claim")
    rows = [(claim.name, claim.title, claim.verdict, claim.value) for claim in result.claims]
    table(("", "about", "verdict", "found here"), rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.counts().items() if count)
    say(f"\n{len(result.claims)} claims; verdicts: {counts}. Where the text is loose, claims.txt has what holds.")
    say(f"Figures, tables and the report are in {result.folder}; open {result.report}.")
    next_step("almostsure report paper", note="the paper's model, to play with")
