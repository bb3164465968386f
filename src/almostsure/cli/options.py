"""The options that commands share, how a model is named, and what happens around every command."""

from __future__ import annotations

import functools
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from almostsure.cli import machine
from almostsure.cli.guard import Asked, guarded
from almostsure.errors import ArgumentError, FileError, ModelError, nearest
from almostsure.model.examples import example_names
from almostsure.model.mdp import MDP
from almostsure.model.source import ENDINGS, GYM, STORM, as_model
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected

ARRAYS, UMB, HTML = (".safetensors",), (".umb",), (".html", ".htm")  # endings of outputs
ENVIRONMENTS = ("gym:FrozenLake-v1", "gym:CliffWalking-v1")  # that completion offers

LONGEST_NUMBER = 18  # digits; no model has more states
OPTION = re.compile(r"\b(damage|reward|cost|constants)=([^=\d])")  # in messages of the library

Body = Callable[..., None]
FIRST, ANSWERS, PROOF = "First steps", "Questions about a model", "Evidence and files"  # panels of the help
commands: list[tuple[str, str, Body]] = []  # name, panel and what typer is given


def complete_model(incomplete: str) -> Iterator[str]:
    """The examples, environments, folders and model files that begin like this."""
    yield from (name for name in (*example_names(), *ENVIRONMENTS) if name.startswith(incomplete))
    yield from complete_file(incomplete, ENDINGS)


def complete_result(incomplete: str) -> Iterator[str]:
    """The files of budgets, shields and policies that begin like this."""
    yield from complete_file(incomplete, (".safetensors",))


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


ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="An example's name, a file (.umb, .prism, .jani, .drn, .txt, .map), or gym: and an environment's id.",
        autocompletion=complete_model,
        show_default=False,
    ),
]
AnyModelName = Annotated[
    str | None,
    typer.Argument(metavar="[MODEL]", help="A model.", autocompletion=complete_model, show_default=False),
]
Damage = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|RULE",
        help="What hurts: a label, reward structure or action of a file; a rule such as 'reward<=-10' for gym:….",
        rich_help_panel="The model",
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The file's reward structure to maximise.", rich_help_panel="The model"),
]
Cost = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The file's reward structure to keep small.", rich_help_panel="The model"),
]
Constants = Annotated[
    str | None,
    typer.Option(
        metavar="N=3,p=0.5",
        help="Constants of a file, parameters of an example or a map (slip=0.1), options of an environment.",
        rich_help_panel="The model",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.", rich_help_panel="Output")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel="Output")]

Budget = Annotated[
    int | None, typer.Option("--budget", "-t", metavar="Δ", help="Never more than this damage, in any episode.")
]
Limit = Annotated[float | None, typer.Option(metavar="C", help="At most this damage on average, instead.")]
Risk = Annotated[
    float | None, typer.Option(metavar="P", help="More than --budget with at most this probability, instead.")
]
Discount = Annotated[float, typer.Option(metavar="G", help="Discount of the return, in (0, 1].")]
Seed = Annotated[int, typer.Option(metavar="N", help="Of everything random; the same seed gives the same result.")]


@dataclass(kw_only=True)
class Task:
    """One run of a command: which model, and how to answer."""

    command: str
    name: str
    damage: str | None = None
    reward: str | None = None
    cost: str | None = None
    constants: str | None = None
    json: bool = False

    @cached_property
    def mdp(self) -> MDP:
        """The model, read when it is first needed."""
        self.require()
        try:
            return as_model(self.name, **self.options)
        except ModelError as error:
            error.args = (as_typed(str(error)),)
            raise

    @property
    def options(self) -> dict[str, str | None]:
        """What ``as_model`` is told about the model, beside its name."""
        return {"damage": self.damage, "reward": self.reward, "cost": self.cost, "constants": self.constants}

    def require(self) -> None:
        """Refuse what is plainly no model before it is read."""
        _require_file(self.name)
        if self.name.lower().endswith(STORM) and self.damage is None:
            raise ModelError(
                f"{self.name} does not say what damage is. Name a label, a reward structure or an action of it: "
                "--damage NAME."
            )

    @property
    def arguments(self) -> str:
        """The model as the next command has to name it."""
        words = [self.name]
        for option, value in self.options.items():
            words += [f"--{option}", value] if value else []
        return " ".join(map(shlex.quote, words))

    def emit(self, **results: Any) -> None:
        """The results as JSON."""
        machine.emit(self.command, machine.described(self.name, self.mdp), **results)

    @property
    def title(self) -> str:
        """The model's name, and its size."""
        return f"{self.name}: {self.mdp.num_states:,} states, {self.mdp.num_choices:,} choices"


def _require_file(name: str) -> None:
    """A file that does not exist is called so, with the nearest that does."""
    if not name.lower().endswith(ENDINGS) or name.startswith(GYM) or os.path.exists(name):
        return
    folder = os.path.dirname(name)
    like = nearest(name, (found for found in complete_file(f"{folder}/" if folder else "", ENDINGS)))
    hint = "" if like is None else f" Did you mean {like!r}?"
    raise FileError(f"cannot read {name!r}: there is no such file.{hint}", path=name)


def as_typed(message: str) -> str:
    """A message of the library, with its options named as they are typed here."""
    return OPTION.sub(lambda found: f"--{found[1]}{'' if found[2] in ' ,.' else ' '}{found[2]}", message)


def command(panel: str, *, model: bool = True) -> Callable[[Body], Body]:
    """Make a command of a function whose first parameter is a Task: the options that make one come in its place."""

    def register(body: Body) -> Body:
        own = list(inspect.signature(body).parameters.values())[1:]
        hints = get_type_hints(body, include_extras=True)
        own = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        shared = _shared(model)
        name = body.__name__.rstrip("_")

        @functools.wraps(body)
        def run(**given: Any) -> None:
            asked = {option: given.pop(option) for option in shared}
            debug = asked.pop("debug")
            task = Task(command=name, name=asked.pop("model", ""), **asked)
            raise typer.Exit(guarded(name, lambda: body(task, **given), Asked(task.json, debug)))

        parameters = [*_first(shared), *own, *_last(shared)]
        parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__  # or typer would read the signature of the body
        commands.append((name, panel, run))
        return body

    return register


def _shared(model: bool) -> dict[str, inspect.Parameter]:
    empty = inspect.Parameter.empty
    of_model = (
        ("model", ModelName, empty), ("damage", Damage, None), ("reward", Reward, None), ("cost", Cost, None),
        ("constants", Constants, None),
    )  # fmt: skip
    always = (("json", Json, False), ("debug", Debug, False))
    return {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, kind, default in (*(of_model if model else ()), *always)
    }


def _first(shared: dict[str, inspect.Parameter]) -> list[inspect.Parameter]:
    return [shared["model"]] if "model" in shared else []


def _last(shared: dict[str, inspect.Parameter]) -> list[inspect.Parameter]:
    return [parameter for name, parameter in shared.items() if name != "model"]


def constraint_of(budget: int | None, limit: float | None, risk: float | None) -> Constraint | None:
    """The constraint that the options name; None if they name none."""
    if limit is not None:
        if budget is not None or risk is not None:
            raise ArgumentError("--limit is a constraint of its own; leave out --budget and --risk.")
        return Expected(limit)
    if risk is not None:
        if budget is None:
            raise ArgumentError("--risk is the probability of more than --budget; give both.")
        return Chance(budget, risk)
    return None if budget is None else AlmostSure(budget)


def word(path: Path) -> str:
    """A path as one word of a command line."""
    return shlex.quote(str(path))


def check_output(path: Path | None, *endings: str) -> None:
    """Refuse what could not be written, before any work is done for it, and what would get a wrong name."""
    if path is None:
        return
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise FileError(f"cannot write {str(path)!r}: it is a folder. Choose another name.", path=path)
    if not os.path.isdir(folder):
        raise FileError(f"cannot write {str(path)!r}: there is no folder {folder!r}. Make it first.", path=path)
    if not os.access(folder, os.W_OK):
        raise FileError(f"cannot write {str(path)!r}: the folder {folder!r} may not be written to.", path=path)
    if path.suffix.lower() not in endings:
        raise ArgumentError(f"the name of the output must end in {' or '.join(endings)}; got {str(path)!r}.")


def state_of(mdp: MDP, text: str) -> int:
    """A state by its name or, if there is none of that name, by its number."""
    return mdp.state(_name_or_number(text, mdp.state_names))


def action_of(mdp: MDP, text: str) -> int:
    """An action by its name or number."""
    return mdp.action(_name_or_number(text, mdp.action_names))


def _name_or_number(text: str, names: Sequence[str] | None) -> int | str:
    is_name = names is not None and text in names
    return text if is_name or not text.isdecimal() or len(text) > LONGEST_NUMBER else int(text)
