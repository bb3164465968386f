"""``models``: the examples, the other ways to name a model, and descriptions of models."""

from __future__ import annotations

import os

from almostsure.budget.certificate import show
from almostsure.cli import options as opt
from almostsure.cli.maps import draw_maps, terrain
from almostsure.cli.output import MOST, described, emit, facts, heading, next_step, say, table
from almostsure.cli.task import Task, about_model
from almostsure.errors import AlmostSureError
from almostsure.model.build.damage import TOYS
from almostsure.model.build.examples import description, example, example_names
from almostsure.model.show.describe import facts as model_facts


@about_model(opt.AnyModelName)
def models(task: Task) -> None:
    """List the examples and the other ways to name a model, or describe one model."""
    if task.lacks_damage and os.path.exists(task.name):
        _offer(task)
    elif task.name:
        _describe(task)
    elif task.json:
        listed = [described(name, example(name)) | {"description": description(name)} for name in example_names()]
        emit("models", None, models=listed)
    else:
        _list()


def _list() -> None:
    from almostsure.budget.solve import minimal_budget

    heading("Examples")
    rows = []
    for name in example_names():
        mdp = example(name)
        rows.append((name, f"{mdp.num_states:,}", show(minimal_budget(mdp).smallest_budget()), description(name)))
    table(("name", "states", "least Δ", "what it shows"), rows, right=(1, 2))
    heading("Other ways to name a model")
    facts(
        ("model.umb", "a UMB file, written by almostsure, Storm, PRISM or Modest"),
        ("model.prism", "a PRISM, JANI or DRN file, with --damage NAME (and --constants N=3, --reward NAME)"),
        ("map.txt", "a map drawn as text, with --constants slip=0.1,step_reward=-1 if wanted"),
        (
            "gym:FrozenLake-v1",
            f"an environment with a transition table; needs --damage RULE, except for {', '.join(TOYS)}",
        ),
    )
    next_step("almostsure models quicksand", "almostsure budget quicksand")


def _offer(task: Task) -> None:
    """Print the names that --damage can take for a file that needs it."""
    try:
        offered = task.offered()
    except AlmostSureError:
        task.require()  # raises, with the names in the text of the file
        raise
    if task.json:
        emit("models", None, offered=offered)
        return
    say(offered)
    next_step(f"almostsure budget {task.arguments} --damage NAME", note="with one of these names as the damage")


def _describe(task: Task) -> None:
    mdp = task.mdp
    if task.json:
        task.emit(
            actions=[mdp.action_name(action) for action in range(mdp.num_actions)],
            initial=[mdp.state_name(int(state)) for state in mdp.initial_states[:MOST]],
            max_damage=mdp.max_damage,
            terminal_states=int(mdp.is_terminal().sum()),
            map=None if mdp.layout is None else list(mdp.layout.text),
        )
        return
    heading(task.title)
    draw_maps(mdp, [("", terrain)], labelled=True)
    facts(*model_facts(mdp))
    next_step(f"almostsure budget {task.arguments}", f"almostsure solve {task.arguments}")
