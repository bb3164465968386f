"""``report`` and ``paper``: the interactive report, and the claims of the paper."""

from __future__ import annotations

import shlex
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from almostsure.cli import options as opt
from almostsure.cli.exits import NEGATIVE
from almostsure.cli.options import check_output
from almostsure.cli.output import clean, described, emit, heading, next_step, say, table
from almostsure.cli.task import Task, about_model
from almostsure.files import HTML

FIGURES = Path("almostsure-paper")
OwnModel = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Check the claims on this model instead.", autocompletion=opt.complete_model),
]


@about_model(opt.ModelName)
def report(
    task: Task,
    *,
    budget: opt.Budget = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="C", help="Compare with a policy that takes at most C damage on average; by default --budget."
        ),
    ] = None,
    risk: Annotated[
        float | None, opt.named_probability("Compare with a policy for which P(damage > Δ) ≤ P; by default 0.05.")
    ] = None,
    discount: opt.Discount = 1.0,
    seed: opt.Seed = 0,
    time_limit: Annotated[
        float, typer.Option(metavar="S", help="Leave out parts of the report that are estimated to take more seconds.")
    ] = 20.0,
    output: Annotated[Path, opt.named_output("The HTML file to write.")] = Path("almostsure-report.html"),
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Write an interactive HTML report: a single file that opens offline."""
    from almostsure.report import write_report

    check_output(output, *HTML)
    typed = clean(shlex.join(["almostsure", *sys.argv[1:]]))  # for the report's block on reproducing it
    written = write_report(
        task.mdp, output, budget=budget, limit=limit, risk=risk, discount=discount, seed=seed, time_limit=time_limit,
        name=task.name, command=typed, env=task.environment,
    )  # fmt: skip
    size = written.stat().st_size
    if show:
        webbrowser.open(written.resolve().as_uri())
    if task.json:
        task.emit(output=written, bytes=size, seed=seed)
        return
    heading(task.title)
    say(f"The report is {written} ({size / 2**20:.1f} MB). It opens in any browser, offline.")
    if not show:
        next_step(written.resolve().as_uri(), note="open it, now or by adding --open")


@about_model(OwnModel)
def paper(
    task: Task,
    *,
    output: Annotated[Path, opt.named_output("The folder for tables and figures.")] = FIGURES,
    seed: opt.Seed = 0,
) -> None:
    """Check the claims of the paper and reproduce both experiments, or check the claims on your own model."""
    from almostsure.paper import reproduce

    result = reproduce(output, mdp=task.mdp if task.name else None, seed=seed, progress=not task.json)
    if task.json:
        rows = [claim.row() for claim in result.claims]
        files = {"figures": result.figures, "tables": result.tables, "report": result.report}
        known = described(task.name, task.mdp) if task.name else None
        emit("paper", known, passed=result.passed, claims=rows, seed=seed, **files)
    else:
        _show_paper(result, task)
    if not result.passed:
        raise typer.Exit(NEGATIVE)


def _show_paper(result: Any, task: Task) -> None:
    heading("Reinforcement Learning with Almost Sure Constraints, claim by claim" + (task.name and f", on {task.name}"))
    rows = [(claim.name, claim.title, claim.verdict, claim.value) for claim in result.claims]
    table(("", "about", "verdict", "found here"), rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.counts().items() if count)
    say(f"\n{len(result.claims)} claims; verdicts: {counts}. Where the text is loose, claims.txt has what holds.")
    if task.name:
        say(f"The tables are in {result.folder}.")
        next_step(f"almostsure report {task.arguments}")
    else:
        say(f"Figures, tables and the report are in {result.folder}; open {result.report}.")
        next_step("almostsure report paper", note="the paper's model, interactively")
