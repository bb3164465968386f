"""``learn`` and ``compare``: minimal budgets from samples, and learners side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from almostsure.budget.certificate import show
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.cli import options as opt
from almostsure.cli.exits import NEGATIVE, PYTHON
from almostsure.cli.options import check_output, save_picture, typed, word
from almostsure.cli.output import described, emit, facts, heading, need, next_step, say, table
from almostsure.cli.task import Task, about_model, budget_of
from almostsure.errors import ArgumentError, Interrupted, ModelError
from almostsure.files import LOGS, TENSORS, UMB
from almostsure.wording import counted, number, percent

if TYPE_CHECKING:
    from almostsure.learn import LearnedBudget
    from almostsure.model.mdp import MDP

LEARNERS = ("shielded", "unconstrained", "lagrangian", "saute", "one-step")  # repeated, so that --help imports none


@about_model(opt.ModelName)
def learn(
    task: Task,
    *,
    mu: Annotated[
        float | None,
        opt.named_probability("A lower bound on the probability of every outcome; by default, the model's least one."),
    ] = None,
    delta: Annotated[
        float, opt.named_probability("The probability with which the statement may be wrong, such as 0.05 or 5%.")
    ] = 0.05,
    budget: Annotated[
        int | None, opt.named_budget("Learn only what a shield for this budget needs; by default everything.")
    ] = None,
    seed: opt.Seed = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File that keeps the progress; the same command continues from there.")
    ] = None,
    output: Annotated[
        Path | None, opt.named_output("Save the learned model (.umb), and its minimal budget beside it.")
    ] = None,
) -> None:
    """Learn minimal budgets from samples of a model, or from a log, with a confidence statement.

    A log is a file (.csv, .parquet) in place of MODEL, and needs --mu.
    It has the columns state, action, next_state and damage,
    and may have reward, terminated, truncated, episode and step.
    """
    files = _outputs(output)
    exact = None
    if task.name.lower().endswith(LOGS):
        learned = _from_log(task, mu, delta, {"--budget": budget, "--checkpoint": checkpoint})
    else:
        mdp = _model(task, mu, delta)
        rarest = min(float(mdp.probability.min()), 0.999) if mu is None else mu
        from almostsure.learn import learn_minimal_budget

        learned = learn_minimal_budget(mdp, mu=rarest, delta=delta, budget=budget, seed=seed, checkpoint=checkpoint)
        exact = minimal_budget(mdp).smallest_budget()
    if files is not None:
        learned.mdp.save(files[0])
        learned.minimal.save(files[1])
    if task.json:
        known = described(task.name, learned.mdp if exact is None else task.mdp)
        emit("learn", known, **_learned_results(learned, exact), output=files)
    else:
        _show_learned(task, learned, exact, files)
    if learned.minimal.smallest_budget() == INFINITE:
        raise typer.Exit(NEGATIVE)


@about_model(opt.ModelName)
def compare(
    task: Task,
    *,
    budget: opt.Budget = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            "--learner",
            "-l",
            metavar="NAME",
            help=f"One of {', '.join(LEARNERS)}; may be repeated. By default, all.",
            autocompletion=lambda incomplete: [name for name in LEARNERS if name.startswith(incomplete)],
        ),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Environment steps of each run.")] = 20_000,
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each learner.")] = 3,
    output: Annotated[Path | None, opt.named_output("Save the rows (.csv).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Save the learning curves (.png, .pdf, .svg).")] = None,
) -> None:
    """Train several learners on the model, and compare their violations and returns."""
    from almostsure.learn.comparison.compare import compare as train

    check_output(output, ".csv")
    check_output(plot, *opt.PICTURES)
    try:
        result = train(task.mdp, budget_of(task, budget), learner, steps=steps, seeds=seeds)
    except Interrupted as stopped:
        done = 0 if stopped.kept is None else len(stopped.kept.runs)
        raise Interrupted(
            f"interrupted after {counted(done, 'run')}; nothing was written. For shorter runs, use --steps and --seeds."
        ) from None
    if output is not None:
        result.to_csv(output)
    save_picture(result, plot)
    if task.json:
        bounds = {"random_return": result.random, "assured_return": result.optimum}
        task.emit(
            budget=result.budget, **bounds, rows=result.rows, summary=result.summary(), output=output, plot=plot
        )  # fmt: skip
    else:
        _show_comparison(task, result, [path for path in (output, plot) if path is not None])


# ---------------------------------------------------------------------- learn


def _outputs(output: Path | None) -> tuple[Path, Path] | None:
    if output is None:
        return None
    beside = output.with_suffix(*TENSORS)
    check_output(output, *UMB)
    check_output(beside, *TENSORS)
    return output, beside


def _model(task: Task, mu: float | None, delta: float) -> MDP:
    """The model that is sampled; if an environment has none, the error has the line of Python that learns it."""
    try:
        return task.mdp
    except ModelError as error:
        made = task.environment
        if made is None or "explore(" not in str(error):
            raise
        options = "".join(f", {name}={value!r}" for name, value in made.items() if name != "id")
        env = f"gymnasium.make({made['id']!r}{options})" if options else repr(made["id"])
        told = "" if task.damage is None else f", damage={task.damage!r}"
        python = f"almostsure.explore({env}{told}, mu={0.05 if mu is None else mu:g}, delta={delta:g})"
        raise ModelError(f"{error} {PYTHON}{python}") from error


def _from_log(task: Task, mu: float | None, delta: float, of_sampling: dict[str, object]) -> LearnedBudget:
    from almostsure.learn.logs.learn import learn_from_logs

    if mu is None:
        raise ArgumentError("a log needs a lower bound on the probability of outcomes: --mu, such as --mu 0.05.")
    given = of_sampling | {f"--{option}": value for option, value in task.options.items()}
    given["--monitor"] = task.monitors or None
    unused = [option for option, value in given.items() if value is not None]
    if unused:
        are, them = ("is", "it") if len(unused) == 1 else ("are", "them")
        raise ArgumentError(
            f"{', '.join(unused)} {are} for models that are sampled, and not for logs; leave {them} out."
        )
    return learn_from_logs(task.name, mu=mu, delta=delta)


def _learned_results(learned: LearnedBudget, exact: int | None) -> dict[str, Any]:
    return {
        "mu": learned.mu,
        "delta": learned.delta,
        "budget": learned.budget,
        "samples": learned.samples,
        "uniform_samples": learned.uniform_samples,
        "known_choices": int(np.count_nonzero(learned.known)),
        "statement": learned.statement,
        "minimal_budget": need(learned.minimal.smallest_budget()),
        "exact_minimal_budget": None if exact is None else need(exact),
    }


def _show_learned(task: Task, learned: LearnedBudget, exact: int | None, files: tuple[Path, Path] | None) -> None:
    heading(f"Minimal budgets of {task.name}, learned from samples")
    say(learned.statement + "\n")
    rarest = 1.0 if exact is None else float(task.mdp.probability.min())
    if rarest < learned.mu * (1 - 1e-9):  # up to rounding
        say(f"But this model has outcomes with probability {percent(rarest)}, below --mu, so nothing is promised.\n")
    paper = learned.uniform_samples["paper"]
    truth = "" if exact is None else f"; the exact minimal budget is {show(exact)}"
    known, choices = int(np.count_nonzero(learned.known)), learned.known.size
    rest = "" if known == choices else "; the shield refuses the others"
    least = learned.minimal.smallest_budget()  # infinite: unknown, which is not "no budget suffices"
    needs = f"needs a budget of {least}" if least < INFINITE else "its minimal budget is unknown"
    facts(
        ("samples", f"{learned.samples:,}, {learned.samples / paper:.0%} of the paper's sample bound ({paper:,})"),
        ("known choices", f"{known:,} of {choices:,}{rest}"),
        ("the start", f"{needs}{truth}"),
        ("saved", files and f"{files[0]} and {files[1]}"),
    )
    if files is not None:
        next_step(f"almostsure check {word(files[0])} {word(files[1])}")
    elif exact is None and not known:
        say("\nNo choice occurs often enough: use a longer log, or a weaker promise (--mu, --delta).")
    elif exact is None:
        promise = typed(mu=learned.mu, delta=learned.delta)
        next_step(f"almostsure learn {task.arguments}{promise} -o learned.umb", note="save what was learned")
    else:
        next_step(f"almostsure compare {task.arguments}{typed(budget=learned.budget)}")


# ---------------------------------------------------------------------- compare


def _show_comparison(task: Task, result: Any, files: list[Path]) -> None:
    from almostsure.learn.comparison.result import FEW, TRUNCATED

    heading(f"{task.name}, with a budget of {result.budget}")
    head = ("learner", "violations", "rate", "return", "P(overspend)", "damage", "")
    summary = result.summary()
    shown = result.over_seeds
    rows = [
        (
            name, shown(name, "training_violations"), shown(name, "training_violation_rate", percent),
            shown(name, "deployed_return"), shown(name, "deployed_overspend", percent),
            shown(name, "deployed_mean_damage"),
            "✕" if row["training_violations"] or row["deployed_overspend"] else "✓",
        )
        for name, row in zip(result.learners, summary, strict=True)
    ]  # fmt: skip
    table(head, rows, right=range(1, len(head) - 1))
    seeds = summary[0]["seeds"]
    means = f" Numbers are means over {seeds} seeds, violations included, ± 95 % confidence."
    if seeds < FEW:
        means = f" Ranges are from the least to the largest of {seeds} seeds." if seeds > 1 else ""
    say(
        "\n✓ never overspent, ✕ did; returns of learners that overspend are not comparable. Violations and their rate "
        f"are those of training; the other columns are computed from the model for the learned policy.{means}"
    )
    if result.may_be_cut:
        say(f"{TRUNCATED.capitalize()}.")
    say(f"The assured optimum is {number(result.optimum)}; random play inside the shield {number(result.random)}.")
    if result.learned:
        say(f"The model: {result.learned}")
    for path in files:
        say(f"Saved {path}.")
    next_step(f"almostsure solve {task.arguments} --budget {result.budget}", note="the optimal policy")
