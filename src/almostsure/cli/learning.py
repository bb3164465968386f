"""``learn`` and ``compare``: budgets from samples, and learners side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from almostsure.budget.answer import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.cli import machine
from almostsure.cli.guard import Rejected
from almostsure.cli.machine import need
from almostsure.cli.options import ANSWERS, ARRAYS, UMB, Budget, Seed, Task, check_output, command, word
from almostsure.cli.policies import least_budget
from almostsure.cli.terminal import facts, heading, needs, next_step, number, say, share, table
from almostsure.errors import ArgumentError, Interrupted
from almostsure.learn.minimal import LearnedBudget, learn_minimal_budget

LOGS = (".csv", ".parquet", ".pq")


@command(ANSWERS)
def learn(
    task: Task,
    mu: Annotated[
        float | None, typer.Option(help="No outcome is rarer than this; by default, what the model says.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability of failure that is acceptable.")] = 0.05,
    budget: Budget = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where to note progress; the same command goes on from there.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Save the counted model (.umb); its budget goes beside it."),
    ] = None,
) -> None:
    """Learn the budgets from samples of a model, or from a log, with a confidence statement.

    A log is a file (.csv, .parquet) in the place of MODEL; it needs --mu.
    Columns: state, action, next_state, damage.
    If there are such: reward, terminated, truncated, episode, step.
    """
    files = _outputs(output)
    if task.name.lower().endswith(LOGS):
        learned = _from_log(task, mu, delta, {"--budget": budget, "--checkpoint": checkpoint})
    else:
        rarest = min(float(task.mdp.probability.min()), 0.999) if mu is None else mu
        learned = learn_minimal_budget(
            task.mdp, mu=rarest, delta=delta, budget=budget, seed=seed, checkpoint=checkpoint
        )  # fmt: skip
    if files is not None:
        learned.mdp.save(files[0])
        learned.minimal.save(files[1])
    exact = None if task.name.lower().endswith(LOGS) else minimal_budget(task.mdp).smallest_budget()
    if task.json:
        known = machine.described(task.name, learned.mdp if exact is None else task.mdp)
        machine.emit("learn", known, **_learned_results(learned, exact, files))
    else:
        _show_learned(task, learned, exact, files)
    if learned.minimal.smallest_budget() == INFINITE:
        raise Rejected


@command(ANSWERS)
def compare(
    task: Task,
    budget: Budget = None,
    learner: Annotated[
        list[str] | None, typer.Option("--learner", "-l", help="A learner; may be repeated. By default, all.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Environment steps of each run.")] = 20_000,
    seeds: Annotated[int, typer.Option(help="Runs of each learner.")] = 3,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Save the rows (.csv).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Save the learning curves (.png, .pdf, .svg).")] = None,
) -> None:
    """Train learners on the model, and compare how safe and how good they are."""
    from almostsure.learn.compare import compare as train

    check_output(output, ".csv")
    check_output(plot, ".png", ".pdf", ".svg")
    minimal = least_budget(task) if budget is None else budget
    try:
        result = train(task.mdp, minimal, learner, steps=steps, seeds=seeds)
    except Interrupted as stopped:
        done = len(stopped.kept.runs)
        raise Interrupted(
            f"interrupted after {done} runs; nothing was written. --steps and --seeds ask for less."
        ) from None
    if output is not None:
        result.to_csv(output)
    if plot is not None:
        _save_plot(result, plot)
    if task.json:
        files = {"output": None if output is None else str(output), "plot": None if plot is None else str(plot)}
        scale = {"random_return": result.random, "assured_return": result.optimum}
        task.emit(budget=result.budget, **scale, rows=result.rows, summary=result.summary(), **files)
    else:
        _show_comparison(task, result, [path for path in (output, plot) if path is not None])


# ---------------------------------------------------------------------- learn


def _outputs(output: Path | None) -> tuple[Path, Path] | None:
    if output is None:
        return None
    beside = output.with_suffix(*ARRAYS)
    check_output(output, *UMB)
    check_output(beside, *ARRAYS)
    return output, beside


def _from_log(task: Task, mu: float | None, delta: float, of_sampling: dict[str, object]) -> LearnedBudget:
    from almostsure.learn.data import learn_from_logs

    if mu is None:
        raise ArgumentError("a log does not say how rare an outcome can be; give --mu, such as --mu 0.05.")
    given = of_sampling | {f"--{option}": value for option, value in task.options.items()}
    unused = [option for option, value in given.items() if value is not None]
    if unused:
        raise ArgumentError(f"a log cannot be asked, and says itself what hurts: leave out {', '.join(unused)}.")
    return learn_from_logs(task.name, mu=mu, delta=delta)


def _learned_results(learned: LearnedBudget, exact: int | None, files: tuple[Path, Path] | None) -> dict[str, Any]:
    return {
        "mu": learned.mu,
        "delta": learned.delta,
        "budget": learned.budget,
        "samples": learned.samples,
        "uniform_samples": learned.uniform_samples,
        "known_choices": int(np.count_nonzero(learned.accepted)),
        "statement": learned.statement,
        "smallest_budget": need(learned.minimal.smallest_budget()),
        "exact_smallest_total": None if exact is None else need(exact),
        "output": None if files is None else [str(path) for path in files],
    }


def _show_learned(task: Task, learned: LearnedBudget, exact: int | None, files: tuple[Path, Path] | None) -> None:
    heading(f"The budgets of {task.name}, from samples alone")
    say(learned.statement + "\n")
    rarest = 1.0 if exact is None else float(task.mdp.probability.min())
    if rarest < learned.mu * (1 - 1e-9):  # up to rounding
        say(f"But this model has outcomes of {share(rarest)}: nothing is promised here.\n")
    paper = learned.uniform_samples["paper"]
    truth = "" if exact is None else f"; {needs(exact)}, if all is known"
    known, choices = int(np.count_nonzero(learned.accepted)), learned.accepted.size
    rest = "" if known == choices else "; the others are refused"
    facts(
        [
            ("samples", f"{learned.samples:,}, {learned.samples / paper:.0%} of the {paper:,} that Lemma 4 takes"),
            ("known choices", f"{known:,} of {choices:,}{rest}"),
            ("at the start", f"{needs(learned.minimal.smallest_budget())} is needed{truth}"),
            *([("saved", f"{files[0]} and {files[1]}")] if files is not None else []),
        ]
    )
    if files is not None:
        next_step(f"almostsure check {word(files[0])} {word(files[1])}")
    elif exact is None and not known:
        say("\nNo choice was made often enough: it takes a longer log, or a weaker promise (--mu, --delta).")
    elif exact is None:
        next_step(f"almostsure learn {task.arguments} --mu {learned.mu:g} -o learned.umb", note="keep what was learned")
    else:
        next_step(
            f"almostsure compare {task.arguments}{'' if learned.budget is None else f' --budget {learned.budget}'}"
        )


# ---------------------------------------------------------------------- compare


def _save_plot(result: Any, path: Path) -> None:
    """All of the picture, or nothing."""
    import io

    from almostsure.files import atomic_write

    buffer = io.BytesIO()
    result.plot().savefig(buffer, format=path.suffix.lower().removeprefix("."))
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def _fraction(value: float) -> str:
    """Of the optimum; a learner that overspends may get more than all of it."""
    return "–" if value != value else f"{100 * value:.0f} %"


def _show_comparison(task: Task, result: Any, files: list[Path]) -> None:
    heading(f"{task.name}, with a budget of {result.budget}")
    head = ("learner", "violations", "rate", "return", "of optimum", "P(overspend)", "damage")
    rows = [
        (
            row["learner"], number(row["training_violations"]), share(row["training_violation_rate"]),
            number(row["deployed_return"]), _fraction(row["fraction_of_optimum"]), share(row["deployed_overspend"]),
            number(row["deployed_mean_damage"]),
        )
        for row in result.summary()
    ]  # fmt: skip
    table(head, rows, right=range(1, len(head)))
    say(
        "\nViolations and their rate are of training episodes; the rest is exact, of the policy that would be deployed."
    )
    say(f"The assured optimum is {number(result.optimum)}; random play inside the shield {number(result.random)}.")
    for path in files:
        say(f"Saved {path}.")
    next_step(f"almostsure solve {task.arguments} --budget {result.budget}", note="the optimum itself")
