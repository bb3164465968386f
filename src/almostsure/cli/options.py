"""The options that commands share, checks of output paths, and the shell completion of models and files."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from fractions import Fraction
from glob import escape, glob
from pathlib import Path
from typing import Annotated, Any

import typer

from almostsure.errors import ArgumentError
from almostsure.files import MODELS, TENSORS, atomic_write, target_of
from almostsure.model.build.examples import example_names

ENVIRONMENTS = ("gym:FrozenLake-v1", "gym:CliffWalking-v1", "gym:Taxi-v4", "gym:almostsure/Warehouse-v0")  # completed
PICTURES = (".png", ".pdf", ".svg")

# ---------------------------------------------------------------------- completion


def complete_model(incomplete: str) -> Iterator[str]:
    """The examples, environments, folders and model files that begin with ``incomplete``."""
    yield from (name for name in (*example_names(), *ENVIRONMENTS) if name.startswith(incomplete))
    yield from complete_file(incomplete, MODELS)


def complete_result(incomplete: str) -> Iterator[str]:
    """The files of budgets, shields and policies that begin with ``incomplete``."""
    yield from complete_file(incomplete, TENSORS)


def complete_file(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Folders, and files with one of the endings; hidden ones only if ``incomplete`` begins with a dot."""
    folder, slash, beginning = incomplete.rpartition("/")
    for name in sorted(glob(f"{escape(beginning)}*", root_dir=f"{folder}{slash}" or None)):
        path = f"{folder}{slash}{name}"
        if os.path.isdir(path):
            yield f"{path}/"
        elif name.lower().endswith(endings):
            yield path


# ---------------------------------------------------------------------- types of options


def _named_model(help: str) -> Any:
    return typer.Argument(metavar="MODEL", help=help, autocompletion=complete_model, show_default=False)


def named_budget(help: str) -> Any:
    """``--budget``, or ``-b``."""
    return typer.Option("--budget", "-b", metavar="Δ", help=help)


def named_output(help: str) -> Any:
    """``--output``, or ``-o``: a file or a folder to write."""
    return typer.Option("--output", "-o", help=help)


def named_probability(help: str) -> Any:
    """A probability, also as a percentage: 5% is 0.05."""
    return typer.Option(metavar="P", help=help, parser=_probability)


def _probability(text: str) -> float:
    said = str(text).strip()
    try:
        return float(Fraction(said[:-1].strip()) / 100) if said.endswith("%") else float(said)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{said!r} is not a probability, such as 0.05 or 5%.") from None


ModelName = Annotated[
    str,
    _named_model(
        "The name of an example (see almostsure models), a file (.umb, .prism, .jani, .drn, .txt, .map), or gym:ID for "
        "an environment of Gymnasium; gym:MODULE:ID if a module in this folder registers it.",
    ),
]
AnyModelName = Annotated[
    str | None, _named_model("The name of an example, a file, or gym:ID for an environment of Gymnasium.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.", rich_help_panel="Output")]
Budget = Annotated[
    int | None,
    named_budget(
        "The budget: no episode takes more damage than this. By default, the one after which more hardly pays (see "
        "almostsure suggest), at most 10 above the least that is safe."
    ),
]
Limit = Annotated[
    float | None, typer.Option(metavar="C", help="Instead of --budget: at most this much damage on average.")
]
Risk = Annotated[
    float | None,
    named_probability("With --budget: the probability with which it may be exceeded, such as 0.05 or 5%."),
]
Horizon = Annotated[
    int | None, typer.Option(metavar="T", help="Count only the first T steps, for the damage and for the return.")
]
Cap = Annotated[int | None, typer.Option(metavar="Δ", help="Stop at this budget; states that need more show ∞.")]
Discount = Annotated[float, typer.Option(metavar="G", help="Discount factor of the return, in (0, 1].")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers.")]


def typed(**options: float | str | None) -> str:
    """Options as on a command line, each after a space, without those that are None."""
    return "".join(f" --{name} {_exactly(value)}" for name, value in options.items() if value is not None)


def _exactly(value: float | str) -> str:
    """A number as on a command line: short, and never rounded."""
    short = f"{value}" if isinstance(value, str) else f"{value:g}"
    return short if isinstance(value, str) or ("e+" not in short and float(short) == value) else repr(value)


def discount_option(discount: float) -> str:
    """The option for a discount, after a space; empty for a discount of 1."""
    return typed(discount=None if discount == 1 else discount)


# ---------------------------------------------------------------------- outputs


def save_picture(result: Any, path: Path | None) -> None:
    """Save the picture of a result atomically, unless the path is None."""
    if path is None:
        return
    buffer = io.BytesIO()
    result.plot().figure.savefig(buffer, format=path.suffix.lower().removeprefix("."))
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def word(path: Path) -> str:
    """A path as one word of a command line."""
    return shlex.quote(str(path))


def check_output(path: Path | None, *endings: str) -> None:
    """Raise, before any work is done, if a file could not be written or has the wrong ending."""
    if path is None:
        return
    target_of(path)
    if path.suffix.lower() not in endings:
        raise ArgumentError(f"the name of the output must end in {' or '.join(endings)}; got {str(path)!r}.")
