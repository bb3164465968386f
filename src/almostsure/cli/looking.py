"""``demo`` and ``models``: a first look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from almostsure.cli import machine
from almostsure.cli.demo import show_demo
from almostsure.cli.options import FIRST, AnyModelName, Constants, Cost, Damage, Reward, Task, command
from almostsure.cli.terminal import draw_maps, facts, heading, needs, next_step, table, terrain
from almostsure.model.damage import RULES
from almostsure.model.examples import example, examples
from almostsure.model.mdp import MDP

REPORT = Path("almostsure-report.html")


@command(FIRST, model=False)
def demo(
    task: Task,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the HTML report goes.")] = REPORT,
) -> None:
    """What this is about: one map, three kinds of promise, and a report to look at."""
    show_demo(task, output)


@command(FIRST, model=False)
def models(
    task: Task,
    model: AnyModelName = None,
    damage: Damage = None,
    reward: Reward = None,
    cost: Cost = None,
    constants: Constants = None,
) -> None:
    """The examples, and the other ways to name a model; or what is known about one model."""
    if model is not None:
        options = {"damage": damage, "reward": reward, "cost": cost, "constants": constants}
        _one(Task(command="models", name=model, json=task.json, **options))
    elif task.json:
        listed = [
            machine.described(name, example(name)) | {"description": entry.description}
            for name, entry in examples.items()
        ]
        machine.emit("models", None, models=listed)
    else:
        _all()


def _all() -> None:
    from almostsure.budget.solve import minimal_budget

    heading("Examples")
    rows = []
    for name, entry in examples.items():
        mdp = example(name)
        rows.append((name, f"{mdp.num_states:,}", needs(minimal_budget(mdp).smallest_budget()), entry.description))
    table(("name", "states", "least Δ", "what it shows"), rows, right=(1, 2))
    heading("A model is also")
    facts(
        [
            ("model.umb", "a UMB file, of almostsure, Storm, PRISM or Modest"),
            ("model.prism", "a PRISM, JANI or DRN file, with --damage NAME (and --constants N=3, --reward NAME)"),
            ("map.txt", "a map drawn as text, with --constants slip=0.1,step_reward=-1 if wanted"),
            ("gym:FrozenLake-v1", f"an environment that has a table; --damage RULE unless it is {', '.join(RULES)}"),
        ]
    )
    next_step("almostsure models quicksand", "almostsure budget quicksand")


def _one(task: Task) -> None:
    mdp = task.mdp
    if task.json:
        task.emit(
            actions=[mdp.action_name(action) for action in range(mdp.num_actions)],
            initial=[mdp.state_name(int(state)) for state in mdp.initial_states[: machine.MOST]],
            max_damage=mdp.max_damage,
            terminal_states=int(mdp.is_terminal().sum()),
            map=None if mdp.layout is None else list(mdp.layout.text),
        )
        return
    heading(task.title)
    draw_maps(mdp, [("", terrain)])
    facts(_facts(mdp))
    next_step(f"almostsure budget {task.arguments}", f"almostsure solve {task.arguments}")


def _facts(mdp: MDP) -> list[tuple[str, object]]:
    """The lines of the model's own summary, in two columns."""
    lines = [line.strip().partition("  ") for line in mdp.summary().splitlines()[1:]]
    return [(name, value.strip()) for name, _, value in lines]
