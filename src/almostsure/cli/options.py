"""The options that commands share, how the shell completes them, and what outputs must be."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from almostsure.errors import ArgumentError, FileError
from almostsure.files import MODELS, TENSORS, atomic_write
from almostsure.model.build.examples import example_names

ENVIRONMENTS = ("gym:FrozenLake-v1", "gym:CliffWalking-v1", "gym:Taxi-v4", "gym:almostsure/Warehouse-v0")  # offered
PICTURES = (".png", ".pdf", ".svg")
LONGEST_NAME = 255  # bytes of a file's name

# ---------------------------------------------------------------------- completion


def complete_model(incomplete: str) -> Iterator[str]:
    """The examples, environments, folders and model files that begin like this."""
    yield from (name for name in (*example_names(), *ENVIRONMENTS) if name.startswith(incomplete))
    yield from complete_file(incomplete, MODELS)


def complete_result(incomplete: str) -> Iterator[str]:
    """The files of budgets, shields and policies that begin like this."""
    yield from complete_file(incomplete, TENSORS)


def complete_learner(incomplete: str) -> Iterator[str]:
    """The learners that ``compare`` knows."""
    from almostsure.learn.learners import learners

    yield from (name for name in learners if name.startswith(incomplete))


def complete_file(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Folders, and files with one of the endings."""
    folder, _, beginning = incomplete.rpartition("/")
    try:
        entries = sorted(os.scandir(folder or ("/" if "/" in incomplete else ".")), key=lambda entry: entry.name)
    except OSError:
        return
    prefix = incomplete[: len(incomplete) - len(beginning)]
    for entry in entries:
        if entry.name.startswith(beginning) and not (entry.name.startswith(".") and not beginning):
            if entry.is_dir():
                yield f"{prefix}{entry.name}/"
            elif entry.name.lower().endswith(endings):
                yield f"{prefix}{entry.name}"


# ---------------------------------------------------------------------- types of options


def _named_model(help: str) -> Any:
    return typer.Argument(metavar="MODEL", help=help, autocompletion=complete_model, show_default=False)


def _model_option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel="The model")


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
        "An example's name, a file (.umb, .prism, .jani, .drn, .txt, .map), or gym: and an environment's id; "
        "gym:MODULE:ID for one that a module in this folder registers.",
    ),
]
AnyModelName = Annotated[str | None, _named_model("An example's name, a file, or gym: and an environment's id.")]
Damage = Annotated[
    str | None,
    _model_option(
        metavar="NAME|RULE",
        help="What hurts: a label, condition ('x=3 & y>0'), reward structure or action of a file, 'enters:LABEL' for "
        "arriving there only; for gym:… a rule such as 'reward<=-10', or 'cost' for what info['cost'] says when an "
        "environment without chance is played.",
    ),
]
Reward = Annotated[str | None, _model_option(metavar="NAME", help="The file's reward structure to maximise.")]
Cost = Annotated[str | None, _model_option(metavar="NAME", help="The file's reward structure to minimise, or steps.")]
Goal = Annotated[
    str | None,
    _model_option(metavar="NAME|RULE", help="Where a run ends: a label, or a condition ('x=3'), of a file."),
]
Scale = Annotated[
    str | None,
    _model_option(
        metavar="UNIT",
        help="The unit of a file's damage, where it is fractional or above 255: d counts as ⌈d / UNIT⌉.",
    ),
]
Constants = Annotated[
    str | None,
    _model_option(
        metavar="N=3,p=0.5",
        help="Constants of a file, parameters of an example or a map (slip=0.1), options of an environment.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.", rich_help_panel="Output")]
Budget = Annotated[
    int | None,
    named_budget(
        "The budget: no episode takes more damage than this. By default the first, among the least safe one "
        "and the next ten, after which more hardly pays."
    ),
]
Limit = Annotated[
    float | None, typer.Option(metavar="C", help="Instead of --budget: at most this much damage on average.")
]
Risk = Annotated[
    float | None,
    named_probability("With --budget: the probability with which more damage is tolerated, such as 0.05 or 5%."),
]
Horizon = Annotated[
    int | None, typer.Option(metavar="T", help="Count only so many steps, for the damage and for the return.")
]
Monitors = Annotated[
    list[str] | None,
    _model_option(
        "--monitor",
        metavar="NAME=…",
        help="What states remember of a run; may be repeated. steps=T; second=LABEL:BUDGET, where entering the label "
        "takes 1 of a budget of its own; refill=COST:CAPACITY@LABEL is a tank that is filled there; "
        "automaton=FILE.json.",
    ),
]
Cap = Annotated[int | None, typer.Option(metavar="Δ", help="Stop at this budget; whatever needs more reads ∞.")]
Discount = Annotated[float, typer.Option(metavar="G", help="Discount factor of the return, in (0, 1].")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers.")]


def discount_option(discount: float) -> str:
    """How a command is told the discount, with a space before it; nothing where there is none."""
    return "" if discount == 1 else f" --discount {discount!r}"


# ---------------------------------------------------------------------- outputs


def save_picture(result: Any, path: Path | None) -> None:
    """The picture of a result, all of it or nothing, if it was asked for."""
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
    """Refuse what could not be written before any work is done for it, and what would get a wrong name."""
    if path is None:
        return
    folder = os.path.dirname(os.path.realpath(path))
    why = ""
    if os.path.isdir(path):
        why = "it is a folder. Choose another name"
    elif not os.path.isdir(folder):
        why = f"there is no folder {folder!r}. Make it first"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder!r} may not be written to"
    elif len(os.fsencode(path.name)) > LONGEST_NAME:
        why = "the name is too long"
    if why:
        raise FileError(f"cannot write {str(path)!r}: {why}.", path=path)
    if path.suffix.lower() not in endings:
        raise ArgumentError(f"the name of the output must end in {' or '.join(endings)}; got {str(path)!r}.")
