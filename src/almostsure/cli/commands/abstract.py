"""``abstract``: upper budgets of a continuous environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from almostsure.budget.certificate import show
from almostsure.cli import options as opt
from almostsure.cli.exits import NEGATIVE
from almostsure.cli.options import check_output, typed
from almostsure.cli.output import bar, emit, facts, heading, need, next_step, say, table
from almostsure.files import TENSORS
from almostsure.wording import counted, percent

if TYPE_CHECKING:
    from almostsure.abstract import UpperBudget


def abstract(
    system: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM",
            help="A known continuous system, such as CartPole-v1, MountainCar-v0, Pendulum-v1 or dcdc.",
        ),
    ],
    *,
    cells: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Cells per coordinate; by default those of the system.")
    ] = None,
    pattern: Annotated[
        int | None,
        typer.Option(metavar="N", help="The length of the action sequences that are choices; by default the system's."),
    ] = None,
    cap: opt.Cap = None,
    output: Annotated[Path | None, opt.named_output("Save the upper budgets (.safetensors).")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Write a page with a picture of two coordinates and a slider (.html).")
    ] = None,
    json: opt.Json = False,
) -> None:
    """Prove upper bounds on the minimal budgets of a continuous environment, cell by cell."""
    from almostsure.abstract.known.environments import known

    check_output(output, *TENSORS)
    check_output(picture, ".html")
    model = known(system)
    if cells is not None or pattern is not None:
        grid = None if cells is None else model.grid.with_cells(_numbers(cells, model.grid.names))
        model = known(system, grid=grid, pattern=pattern)
    found = model.minimal_budget(cap=cap)
    if output is not None:
        found.save(output)
    if picture is not None:
        count = model.grid.num_coordinates
        found.to_html(picture, count - 2, count - 1)
    if json:
        _emit(system, found, output)
    else:
        _tell(system, found, cells, [file for file in (output, picture) if file is not None])
    if need(found.smallest_budget()) == "inf":
        if not json:
            say(f"\n{found.explain()}")
        raise typer.Exit(NEGATIVE)


def _emit(system: str, found: UpperBudget, output: Path | None) -> None:
    model = found.abstraction
    sizes = {"states": model.num_cells, "choices": model.num_cells * model.patterns.count, "outcomes": None}
    emit(
        "abstract",
        {"name": system, "fingerprint": model.fingerprint, **sizes, "learned": None},
        minimal_budget=need(found.smallest_budget()),
        upper_bound=True,
        cap=found.cap,
        proved_cells=len(found.needs),
        histogram=[{"minimal_budget": need(value), "cells": count} for value, count in found.histogram().items()],
        engine=found.engine,
        output=output,
    )


def _tell(system: str, found: UpperBudget, cells: str | None, files: list[Path]) -> None:
    from almostsure.abstract.diagnosis import longer_patterns

    model, start, finite = found.abstraction, found.smallest_budget(), len(found.needs)
    heading(
        f"{system}: {counted(model.num_cells, 'cell')}, {counted(model.patterns.count, 'pattern')} "
        f"of up to {counted(model.patterns.longest, 'step')}"
    )
    enough = "no budget was proved to suffice" if need(start) == "inf" else f"needs a budget of at most {start}"
    facts(
        ("the start", enough),
        ("proved", f"{counted(finite, 'cell')} ({percent(finite / model.num_cells)})"),
        ("the proof", f"upper bounds by the {found.engine}, verified in one pass"),
    )
    rows = [(show(value), f"{count:,}", bar(count / model.num_cells)) for value, count in found.histogram().items()]
    say()
    table(("needs at most", "cells", ""), rows, right=(0, 1), cut=True)
    for file in files:
        say(f"\nSaved as {file}.")
    if (longer := longer_patterns(model)) is not None:
        options = typed(cells=cells, cap=found.cap, pattern=longer.longest)
        next_step(f"almostsure abstract {system}{options}", note="longer patterns prove more")


def _numbers(text: str, names: Sequence[str]) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--cells must be whole numbers with commas between; got {text!r}") from None
    if len(numbers) != len(names):
        raise typer.BadParameter(f"--cells must have one number per coordinate ({', '.join(names)}); got {text!r}")
    return numbers
