"""``budget`` and ``explain``: the minimal budget of every state, and why it is not smaller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from almostsure.budget.explain import Explanation
from almostsure.budget.minimal import INFINITE, MinimalBudget, Needs
from almostsure.budget.solve import minimal_budget
from almostsure.cli import options as opt
from almostsure.cli.exits import NEGATIVE
from almostsure.cli.maps import budgets_look, draw_maps
from almostsure.cli.options import check_output, word
from almostsure.cli.output import MOST, bar, budget_column, clean, facts, heading, need, next_step, say, table
from almostsure.cli.task import Task, about_model, action_of, complete_action, complete_state, state_of
from almostsure.files import TENSORS
from almostsure.wording import counted, percent

if TYPE_CHECKING:
    from almostsure.budget.horizon import HorizonBudget

STEPS = 24  # of an explanation in one line or in lines of text


@about_model(opt.ModelName)
def budget(
    task: Task,
    *,
    cap: opt.Cap = None,
    horizon: opt.Horizon = None,
    output: Annotated[Path | None, opt.named_output("Save the budgets with their certificate (.safetensors).")] = None,
) -> None:
    """Compute the minimal budget of every state, exactly and with a certificate.

    It is the least budget with which some policy never overspends from that state on, whatever chance does.
    """
    check_output(output, *TENSORS)
    found: MinimalBudget | HorizonBudget
    if horizon is None:
        found = minimal_budget(task.mdp, cap=cap, check="always")
    else:
        found = minimal_budget(task.mdp, cap=cap, horizon=horizon)
    if output is not None:
        found.save(output)
    least = found.smallest_budget()
    if task.json:
        start = {"minimal_budget": need(least), "upper_bound": found.less_may_do, "cap": found.cap}
        task.emit(**start, **_budget_results(found), output=output)
    else:
        _show_budget(task, found, output)
    if least == INFINITE:
        raise typer.Exit(NEGATIVE)


@about_model(opt.ModelName)
def explain(
    task: Task,
    state: Annotated[
        str | None,
        typer.Argument(
            metavar="STATE", help="The name or number of a state; by default the start.", autocompletion=complete_state
        ),
    ] = None,
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="ACTION", help="An action of that state; by default the best one.", autocompletion=complete_action
        ),
    ] = None,
) -> None:
    """Explain why a state needs its budget: a path on which chance forces that much damage."""
    mdp = task.mdp
    found = minimal_budget(mdp)
    where = None if state is None else state_of(mdp, state)
    why = found.explain(where, None if action is None else action_of(mdp, action))
    if task.json:
        task.emit(**_explain_results(why, found))
    else:
        _show_explanation(task, why, found)


# ---------------------------------------------------------------------- budget


def _budget_results(found: MinimalBudget | HorizonBudget) -> dict[str, Any]:
    if not isinstance(found, MinimalBudget):
        return {"horizon": found.horizon, "settled": found.settled}
    names = found.mdp.state_names
    listed = found.mdp.num_states <= MOST
    return {
        "histogram": [{"minimal_budget": need(value), "states": count} for value, count in found.histogram().items()],
        "of_state": [need(value) for value in found.of_state.tolist()] if listed else None,
        "state_names": list(names) if listed and names is not None else None,
        "certificate": "verified",
        "engine": found.engine,
    }


def _show_budget(task: Task, found: MinimalBudget | HorizonBudget, output: Path | None) -> None:
    heading(task.title)
    ways = _show_ever(task, found, output) if isinstance(found, MinimalBudget) else _show_within(task, found, output)
    next_step(*([f"almostsure check {task.arguments} {word(output)}"] if output is not None else ways))


def _show_within(task: Task, found: HorizonBudget, output: Path | None) -> list[str]:
    """Print the budgets for a number of steps; returns the next commands."""
    shown = _needs_at_start(found, f" for {counted(found.horizon, 'step')}")
    facts(("the start", shown), task.basis, ("saved", output))
    for line in found.explain(int(task.mdp.initial_states[0])).splitlines()[: STEPS + 1]:
        say(clean(line))
    return [task.onward(f"almostsure solve {task.arguments}", f" --horizon {found.horizon}")]


def _show_ever(task: Task, minimal: MinimalBudget, output: Path | None) -> list[str]:
    """Print the budgets without a horizon; returns the next commands."""
    words = "The budget that each cell needs:"
    draw_maps(task.mdp, [("", budgets_look(minimal.of_state))], introduction=words, labelled=True)
    facts(
        ("the start", _needs_at_start(minimal)),
        ("certificate", f"verified, by a checker that shares no code with the {minimal.engine}"),
        task.basis,
        ("saved", output),
    )
    heading("States that are safe with a budget of Δ")
    _show_growth(minimal)
    explain = f"almostsure explain {task.arguments}"
    if minimal.smallest_budget() == INFINITE:
        return [explain]
    return [explain, task.onward(f"almostsure suggest {task.arguments}")]


def _needs_at_start(minimal: Needs, steps: str = "") -> str:
    """The need of the start in words, and why less may or cannot suffice."""
    least, origin = minimal.smallest_budget(), minimal.mdp.origin
    if least < INFINITE:
        why = ": less cannot be promised with probability one" if least and not steps else ""
        if least and minimal.less_may_do:
            why = ": some intervals begin at 0, and what they allow may be impossible"
        if not minimal.mdp.max_damage:
            why = ": no step of the model does damage"
        return f"needs a budget of {minimal.at_most(minimal.mdp.show_damage(least))}{steps}{why}"
    if minimal.cap is not None and minimal.mdp.unknown is None:
        return f"needs more than {minimal.cap}, the cap{steps}{origin.if_positive}"
    return f"{minimal.nothing_suffices()}{steps}{origin.if_positive}"


def _show_growth(minimal: MinimalBudget) -> None:
    safe, size = 0, minimal.of_state.size
    rows: list[tuple[object, ...]] = []
    counts = minimal.histogram()
    stuck = counts.pop(INFINITE, 0)
    title, shown = budget_column(minimal.mdp)
    for level, count in counts.items():
        safe += count
        rows.append((shown(level), f"{safe:,}", percent(safe / size), bar(safe / size)))
    table((title, "safe states", "", ""), rows, right=(0, 1, 2), cut=True)
    if stuck:
        which = "finite budget" if minimal.cap is None else f"budget up to {minimal.cap}"
        never = f"safe with no {which}" if minimal.mdp.unknown is None else f"not known to be safe with any {which}"
        say(f"{stuck:,} {'state is' if stuck == 1 else 'states are'} {never}.", style="dim")


# ---------------------------------------------------------------------- explain


def _explain_results(why: Explanation, minimal: MinimalBudget) -> dict[str, Any]:
    mdp = minimal.mdp
    return {
        "state": mdp.state_name(why.state),
        "action": None if why.action is None else mdp.action_name(why.action),
        "minimal_budget": need(why.needs),
        "upper_bound": minimal.less_may_do,
        "actions": [{"action": name, "minimal_budget": need(value)} for name, value in _actions(why, minimal)],
        "steps": [
            {
                "state": mdp.state_name(step.state),
                "action": mdp.action_name(step.action),
                "minimal_budget": need(step.needs),
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
    """The actions of the state, with their minimal budgets."""
    mdp = minimal.mdp
    return [(mdp.action_name(int(mdp.choice_action[c])), int(minimal.of_choice[c])) for c in mdp.choices(why.state)]


def _show_explanation(task: Task, why: Explanation, minimal: MinimalBudget) -> None:
    mdp = minimal.mdp
    heading(clean(why.headline))
    spent = 0
    rows: list[tuple[object, ...]] = []
    for at, step in enumerate(why.steps):
        spent += step.damage
        others = ", ".join(f"{mdp.action_name(a)} {why.show(k)}" for a, k in step.others[:6])
        move = (mdp.state_name(step.state), f"{mdp.action_name(step.action)} {why.show(step.needs)}", others)
        rows.append((f"{at + 1}.", *move, mdp.state_name(step.next_state), step.damage or "", spent))
    if rows:
        head = ("", "at", "plays, needs", "others need", "nature answers", "damage", "so far")
        table(head, rows, right=(5, 6), cut=True)
    if why.trap:
        names = " → ".join(clean(mdp.state_name(s)) for s in (*why.trap[:STEPS], why.trap[0]))
        say(f"It goes round for ever, with damage each time: {names}.")
    if not why.complete:
        say(f"The path is cut after {counted(len(why.steps), 'step')} and {why.damage} damage.")
    heading(f"The actions of {clean(mdp.state_name(why.state))}")
    needs = f"needs {minimal.at_most('')}".strip()
    table(("action", needs), [(name, why.show(value)) for name, value in _actions(why, minimal)], right=(1,))
    next_step(f"almostsure report {task.arguments}", note="click any state in the report to see why")
