"""All commands, as one application."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from almostsure.cli.commands.abstract import abstract
from almostsure.cli.commands.budget import budget, explain
from almostsure.cli.commands.check import check, convert, export
from almostsure.cli.commands.demo import demo
from almostsure.cli.commands.learn import compare, learn
from almostsure.cli.commands.models import models
from almostsure.cli.commands.report import paper, report
from almostsure.cli.commands.solve import simulate, solve
from almostsure.cli.commands.suggest import frontier, suggest
from almostsure.cli.exits import DEBUG, run_to_exit
from almostsure.cli.output import prepare_streams
from almostsure.exports import package_version

PANELS = {  # the panels of the help and their commands, in order
    "First steps": (demo, models),
    "Questions about a model": (budget, explain, suggest, frontier, solve, simulate, learn, compare, abstract),
    "Evidence and files": (check, convert, export, report, paper),
}
EXAMPLES = {  # shown by --help: one command line for each command, which works as it is
    "demo": "almostsure demo",
    "models": "almostsure models quicksand",
    "budget": "almostsure budget gym:FrozenLake-v1 --constants map_name=8x8",
    "explain": "almostsure explain quicksand r2c2 east",
    "suggest": "almostsure suggest hazard-map",
    "frontier": "almostsure frontier hazard-map --budget 3",
    "solve": "almostsure solve hazard-map --budget 3 -o policy.safetensors",
    "simulate": "almostsure simulate hazard-map --budget 3 --episodes 1000",
    "learn": "almostsure learn hazard-map --budget 2",
    "compare": "almostsure compare corridor --steps 5000 --learner shielded --learner lagrangian",
    "abstract": "almostsure abstract Pendulum-v1",
    "check": "almostsure budget quicksand -o q.safetensors; almostsure check quicksand q.safetensors",
    "convert": "almostsure convert quicksand quicksand.umb",
    "export": "almostsure export quicksand shield.h --budget 5",
    "report": "almostsure report hazard-map --budget 3 --open",
    "paper": "almostsure paper",
}


class _Bare:
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class _Group(_Bare, TyperGroup):
    """The group of commands, in which Ctrl-C raises Abort: typer would turn it into an exit code without a message."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        try:
            return super().make_context(*given, **options)
        except KeyboardInterrupt as error:
            raise typer.Abort from error

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error


class _Command(_Bare, TyperCommand):
    pass


app = typer.Typer(
    cls=_Group,
    name="almostsure",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    help="Plan and learn policies that never exceed a damage budget.",
    epilog="Begin with: almostsure demo. Every command has --debug, which shows the traceback of an error.",
)

for panel, bodies in PANELS.items():
    for body in bodies:
        epilog = f"Example:  {EXAMPLES[body.__name__]}"
        app.command(body.__name__, cls=_Command, rich_help_panel=panel, epilog=epilog)(body)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"almostsure {package_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run(arguments: list[str]) -> int:
    """Run a command line; returns the exit code."""
    prepare_streams()
    words = [word for word in arguments if word != DEBUG]
    return run_to_exit(lambda: app(args=words, prog_name="almostsure", standalone_mode=False), arguments)
