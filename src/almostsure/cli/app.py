"""All commands, as one application."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# In the order in which the help lists them.
from almostsure.cli import looking, budgets, policies, learning, checking, showing  # isort: skip  # noqa: F401
from almostsure.cli.guard import INTERRUPTED, NOTHING, asked_for, broken_pipe, fail, fail_of_system, usage
from almostsure.cli.machine import version as package_version
from almostsure.cli.options import commands
from almostsure.cli.terminal import prepare_streams

# What typer raises on a wrong command line; where it is defined changes with its version.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]


class _Bare:
    """A command whose help shows a flag as what is typed, without a type behind it."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class _Group(_Bare, TyperGroup):
    """The commands; typer turns Ctrl-C, outside of what they guard, into a code without a word, and Abort into none."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        try:
            return super().make_context(*given, **options)
        except KeyboardInterrupt:
            raise typer.Abort from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


class _Command(_Bare, TyperCommand):
    pass


app = typer.Typer(
    cls=_Group,
    name="almostsure",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    help="Plan and learn under damage budgets that hold with probability one.",
    epilog="Begin with: almostsure demo",
)

for name, panel, body in commands:
    app.command(name, cls=_Command, rich_help_panel=panel)(body)


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
    try:
        result = app(args=arguments, prog_name="almostsure", standalone_mode=False)
        sys.stdout.flush()
    except ClickException as error:
        return usage(error, arguments)
    except (KeyboardInterrupt, typer.Abort) as error:
        asked = asked_for(arguments)
        return fail("almostsure", error, INTERRUPTED, asked, message=NOTHING)
    except SystemExit as error:  # how the help ends where nobody reads it, and how completion ends
        if isinstance(error.__context__, BrokenPipeError):
            return broken_pipe()
        raise
    except BrokenPipeError:
        return broken_pipe()
    except OSError as error:
        return fail_of_system("almostsure", error, asked_for(arguments))
    return result if isinstance(result, int) else 0
