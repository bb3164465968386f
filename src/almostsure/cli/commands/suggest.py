"""``suggest`` and ``frontier``: how to choose the budget, and the price of certainty."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from almostsure.cli import options as opt
from almostsure.cli.options import check_output, discount_option, save_picture
from almostsure.cli.output import bar, budget_column, facts, heading, next_step, say, table
from almostsure.cli.task import Task, about_model, budget_of, least_budget
from almostsure.wording import number, percent

if TYPE_CHECKING:
    from almostsure.plan import Frontier, Suggestion

Plot = Annotated[Path | None, typer.Option(help="Save the picture (.png, .pdf, .svg).")]


@about_model(opt.ModelName)
def suggest(
    task: Task,
    *,
    most: Annotated[
        int | None,
        typer.Option(metavar="Δ", help="The largest budget to consider; by default, until more hardly pays."),
    ] = None,
    plot: Plot = None,
) -> None:
    """Suggest a budget: the least that is safe, the return for each further unit, and where more stops paying."""
    from almostsure.plan import suggest_budget

    check_output(plot, *opt.PICTURES)
    least_budget(task)
    found = suggest_budget(task.mdp, most=most)
    save_picture(found, plot)
    if task.json:
        task.emit(
            least=found.least, budget=found.budget, pays_until=found.pays_until, limit=found.limit, curve=found.curve,
            plot=plot,
        )  # fmt: skip
        return
    _show_suggestion(task, found)
    next_step(f"almostsure solve {task.arguments} --budget {found.budget}")


@about_model(opt.ModelName)
def frontier(
    task: Task,
    *,
    budget: opt.Budget = None,
    discount: opt.Discount = 1.0,
    plot: Plot = None,
) -> None:
    """Compare the best returns when damage is limited almost surely, on average, and up to a risk.

    All budgets up to --budget are compared.
    """
    from almostsure.plan import frontier as find_frontier

    check_output(plot, *opt.PICTURES)
    found = find_frontier(task.mdp, budget_of(task, budget, discount=discount), discount=discount)
    save_picture(found, plot)
    if task.json:
        curves = ("budgets", "assured", "limits", "expected", "risks", "chance")
        task.emit(budget=found.budget, discount=discount, **{name: getattr(found, name) for name in curves}, plot=plot)
        return
    _show_frontier(task, found)
    command = f"almostsure report {task.arguments} --budget {found.budget}{discount_option(discount)}"
    next_step(command, note="the same curves in a report")


def _show_suggestion(task: Task, found: Suggestion) -> None:
    from almostsure.plan.tradeoff.curve import no_sure_end
    from almostsure.plan.tradeoff.suggest_text import pays, shares

    heading(task.title)
    unsure = no_sure_end(found.curve, found.least)
    why = (": less cannot be promised" if found.least else "") + (f"; {unsure}" if unsure else "")
    facts(("least", f"{found.least}{why}"), ("suggested", f"{found.budget}: {pays(found)}"))
    heading("The best return for each budget Δ")
    budgets = range(found.least, found.most + 1)
    title, shown = budget_column(task.mdp)
    steps = zip(budgets, found.curve[found.least :].tolist(), shares(found, budgets), strict=True)
    rows = [(shown(budget), number(value), bar(share or 0.0)) for budget, value, share in steps]
    table((title, "return", ""), rows, right=(0, 1), cut=True)
    say(f"\nNo budget returns more than {number(found.limit)}." if found.limit < math.inf else "\nThere is no limit.")


def _show_frontier(task: Task, found: Frontier) -> None:
    heading(f"{task.name}: what certainty costs")
    on_average = dict(zip(found.limits.tolist(), found.expected.tolist(), strict=True))
    rows = [
        (f"{k:g}", number(value), number(other), number(0.0 if math.isclose(other, value) else other - value))
        for k, value in zip(found.budgets.tolist(), found.assured.tolist(), strict=True)
        for other in [on_average.get(k, math.nan)]
    ]
    table(("Δ", "never more", "on average", "difference"), rows, right=(0, 1, 2, 3), cut=True)
    if found.chance.size:
        heading(f"The best return for each risk of more than {found.budget} damage")
        risks = zip(found.risks.tolist(), found.chance.tolist(), strict=True)
        table(("risk", "return"), [(percent(risk), number(value)) for risk, value in risks], right=(0, 1))
