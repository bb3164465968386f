"""``minimal`` and ``explain``: what every state needs, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from almostsure.budget.answer import INFINITE
from almostsure.budget.explain import Explanation
from almostsure.budget.result import MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.cli.guard import Rejected
from almostsure.cli.machine import MOST, need
from almostsure.cli.options import ANSWERS, ARRAYS, Task, action_of, check_output, command, state_of, word
from almostsure.cli.terminal import bar, budgets_look, clean, draw_maps, facts, heading, needs, next_step, say, table

LEVELS = 20  # rows of a table of budgets
STEPS = 24  # rows of an explanation


@command(ANSWERS)
def budget(
    task: Task,
    cap: Annotated[int | None, typer.Option(help="Stop at this budget; what needs more reads ∞.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Save budgets and certificate (.safetensors).")
    ] = None,
) -> None:
    """The least damage budget of every state, exact and certified."""
    check_output(output, *ARRAYS)
    found = minimal_budget(task.mdp, cap=cap, check="always")
    if output is not None:
        found.save(output)
    if task.json:
        task.emit(**_budget_results(found, output))
    else:
        _show_budget(task, found, output)
    if found.smallest_budget() == INFINITE:
        raise Rejected


@command(ANSWERS)
def explain(
    task: Task,
    state: Annotated[str | None, typer.Argument(help="A state's name or number; by default where it starts.")] = None,
    action: Annotated[str | None, typer.Argument(help="An action of it.")] = None,
) -> None:
    """Why a state needs what it needs: how nature can force the damage."""
    mdp = task.mdp
    found = minimal_budget(mdp)
    worst = mdp.initial_states[np.argmax(found.of_state[mdp.initial_states])]
    where = int(worst) if state is None else state_of(mdp, state)
    why = found.explain(where, None if action is None else action_of(mdp, action))
    if task.json:
        task.emit(**_explain_results(why, found))
    else:
        _show_explanation(task, why, found)


# ---------------------------------------------------------------------- budget


def _budget_results(minimal: MinimalBudget, output: Path | None) -> dict[str, Any]:
    small = minimal.mdp.num_states <= MOST
    return {
        "smallest_budget": need(minimal.smallest_budget()),
        "cap": minimal.cap,
        "histogram": [{"budget": need(value), "states": count} for value, count in minimal.histogram().items()],
        "of_state": [need(value) for value in minimal.of_state.tolist()] if small else None,
        "certificate": "verified",
        "engine": minimal.engine,
        "output": None if output is None else str(output),
    }


def _show_budget(task: Task, minimal: MinimalBudget, output: Path | None) -> None:
    heading(task.title)
    words = "What each cell needs, if the damage must never exceed it:"
    draw_maps(task.mdp, [("", budgets_look(minimal.of_state))], introduction=words)
    budget, cap = minimal.smallest_budget(), minimal.cap
    least = needs(budget) if budget < INFINITE else "∞" if cap is None else f"more than {cap}, the cap"
    facts(
        [
            ("at the start", f"{least} is the least damage that can be promised with probability one"),
            ("certificate", f"verified, by a checker that shares no code with the {minimal.engine}"),
            *([("saved", output)] if output is not None else []),
        ]
    )
    heading("How the safe part grows with the budget Δ")
    _show_growth(minimal)
    if output is not None:
        next_step(f"almostsure check {task.arguments} {word(output)}")
    elif budget == INFINITE:
        next_step(f"almostsure explain {task.arguments}")
    else:
        next_step(f"almostsure explain {task.arguments}", f"almostsure solve {task.arguments} --budget {budget}")


def _show_growth(minimal: MinimalBudget) -> None:
    safe, size = 0, minimal.of_state.size
    rows: list[tuple[object, ...]] = []
    counts = minimal.histogram()
    stuck = counts.pop(INFINITE, 0)
    for budget, count in counts.items():
        safe += count
        rows.append((str(budget), f"{safe:,}", _part(safe, size), bar(safe / size)))
    if len(rows) > LEVELS:
        rows = [*rows[: LEVELS - 5], ("…", "", "", ""), *rows[-4:]]
    table(("Δ", "safe states", "", ""), rows, right=(0, 1, 2))
    if stuck:
        never = "for no budget" if minimal.cap is None else f"for no budget up to {minimal.cap}"
        say(f"{stuck:,} {'state is' if stuck == 1 else 'states are'} safe {never}.", style="dim")


def _part(some: int, every: int) -> str:
    """In per cent; all of it only where it is all."""
    return "100%" if some == every else min(f"{some / every:.1%}", "99.9%", key=lambda text: float(text[:-1]))


# ---------------------------------------------------------------------- explain


def _explain_results(why: Explanation, minimal: MinimalBudget) -> dict[str, Any]:
    mdp = minimal.mdp
    return {
        "state": mdp.state_name(why.state),
        "action": None if why.action is None else mdp.action_name(why.action),
        "needs": need(why.needs),
        "actions": [{"action": name, "needs": need(value)} for name, value in _actions(why, minimal)],
        "steps": [
            {
                "state": mdp.state_name(step.state),
                "action": mdp.action_name(step.action),
                "needs": need(step.needs),
                "next_state": mdp.state_name(step.next_state),
                "damage": step.damage,
            }
            for step in why.steps
        ],
        "damage": why.damage,
        "trap": [mdp.state_name(state) for state in why.trap],
        "complete": why.complete,
    }


def _actions(why: Explanation, minimal: MinimalBudget) -> list[tuple[str, int]]:
    """The actions of the state, and what they need."""
    mdp = minimal.mdp
    return [(mdp.action_name(int(mdp.choice_action[c])), int(minimal.of_choice[c])) for c in mdp.choices(why.state)]


def _show_explanation(task: Task, why: Explanation, minimal: MinimalBudget) -> None:
    mdp = minimal.mdp
    heading(clean(str(why).partition("\n  1. ")[0]))
    spent = 0
    rows: list[tuple[object, ...]] = []
    for at, step in enumerate(why.steps):
        spent += step.damage
        others = ", ".join(f"{mdp.action_name(a)} {needs(k)}" for a, k in step.others[:6])
        move = (mdp.state_name(step.state), f"{mdp.action_name(step.action)} {needs(step.needs)}", others)
        rows.append((f"{at + 1}.", *move, mdp.state_name(step.next_state), step.damage or "", spent))
    if len(rows) > STEPS:
        gap = f"… {len(rows) - STEPS:,} steps …"
        rows = [*rows[: STEPS // 2], ("", gap, "", "", "", "", ""), *rows[-(STEPS // 2) :]]
    if rows:
        head = ("", "at", "plays, needs", "others need", "nature answers", "damage", "so far")
        table(head, rows, right=(5, 6))
    if why.trap:
        names = " → ".join(clean(mdp.state_name(s)) for s in (*why.trap[:STEPS], why.trap[0]))
        say(f"It goes round for ever, with damage each time: {names}.")
    if not why.complete:
        say(f"Broken off after {len(why.steps):,} steps and {why.damage} damage.")
    heading(f"What may be done at {clean(mdp.state_name(why.state))}")
    table(("action", "with at least"), [(name, needs(value)) for name, value in _actions(why, minimal)], right=(1,))
    next_step(f"almostsure report {task.arguments}", note="click any state in the report to see why")
