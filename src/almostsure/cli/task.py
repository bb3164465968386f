"""``Task``: one run of a command, with its model; states (with their shell completion), actions and budgets."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.cli.monitors import with_monitors
from almostsure.cli.options import Json, complete_file
from almostsure.cli.output import described, emit
from almostsure.errors import AlmostSureError, ArgumentError, FileError, Infeasible, ModelError, UnknownName, nearest
from almostsure.files import MODELS, STORM
from almostsure.model.build.damage import DAMAGE_KEYS
from almostsure.model.build.environment import GYM, module_and_id
from almostsure.model.build.examples import example_names
from almostsure.model.mdp import MDP
from almostsure.model.source import as_model, model_of_environment, read_constants
from almostsure.wording import counted

OWN = "gym:almostsure/"  # environments of this package, which have a model
MOST_OFFERED = 200  # the most completions of a name
NO_NAME = "almostsure_has_no_such_name"  # a damage that does not exist, for an error that lists those that do
LONGEST_NUMBER = 18  # the most digits of a state number
COMMENT = re.compile(r"//.*")  # in a PRISM program


def _of_model(metavar: str, help: str, *names: str) -> Any:
    """An option about the model."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel="The model")


@dataclass
class Task:
    """One run of a command: its model and its output format.  All fields but the first two are options of commands."""

    command: str
    name: str = ""
    damage: Annotated[
        str | None,
        _of_model(
            "NAME|RULE",
            "The damage. Of a file: a label, condition ('x=3 & y>0'), reward structure or action, or 'enters:LABEL' to "
            "count arrivals only. Of an environment: a rule such as 'reward<=-10', or 'cost' for the info['cost'] of a "
            "deterministic one.",
        ),
    ] = None
    reward: Annotated[
        str | None,
        _of_model("NAME", "The reward structure of a file to maximise, or a label or condition: 1 for arriving there."),
    ] = None
    cost: Annotated[
        str | None, _of_model("NAME", "The reward structure of a file to minimise, or steps for 1 per step.")
    ] = None
    goal: Annotated[
        str | None, _of_model("NAME|RULE", "Where runs of a file's model end: a label or a condition ('x=3').")
    ] = None
    scale: Annotated[
        str | None,
        _of_model("UNIT", "The unit of a file's damage, if it is fractional or above 255: d counts as ⌈d / UNIT⌉."),
    ] = None
    constants: Annotated[
        str | None,
        _of_model(
            "N=3,p=0.5",
            "Constants of a file, parameters of an example or a map (slip=0.1), or options of an environment.",
        ),
    ] = None
    monitors: Annotated[
        list[str] | None,
        _of_model(
            "NAME=…",
            "A monitor, whose memory becomes part of the state; may be repeated. steps=T counts steps; "
            "second=LABEL:BUDGET is a second budget, of which entering the label takes 1; refill=COST:CAPACITY@LABEL "
            "is a tank that is refilled there; automaton=FILE.json.",
            "--monitor",
        ),
    ] = None
    json: Json = False

    @cached_property
    def mdp(self) -> MDP:
        """The model with its monitors, read on first access."""
        return with_monitors(self._read(), self.monitors or ())

    def _read(self) -> MDP:
        self.require()
        if self.name.startswith(OWN):
            import_module("almostsure.gym")  # registers them
        return self._play() if self.is_played else as_model(self.name, **self.options)

    def _play(self) -> MDP:
        from almostsure.learn import explore

        given = {option: value for option, value in self.options.items() if value is not None}
        constants = read_constants(given.pop("constants", None))
        return model_of_environment(self.name, given, constants, lambda env, damage: explore(env, damage=damage))

    @property
    def options(self) -> dict[str, str | None]:
        """The options of ``as_model``."""
        named = ("damage", "reward", "cost", "goal", "scale", "constants")
        return {name: getattr(self, name) for name in named}

    @property
    def is_played(self) -> bool:
        """Whether the model is found by playing an environment that reports its own damage in every step."""
        return self.name.startswith(GYM) and self.damage in DAMAGE_KEYS

    @property
    def environment(self) -> dict[str, Any] | None:
        """The arguments of ``gymnasium.make``; None if the model is no environment."""
        if not self.name.startswith(GYM):
            return None
        return {"id": self.name.removeprefix(GYM), **read_constants(self.constants)}

    @property
    def module(self) -> str:
        """The module that registers the environment, as in ``gym:MODULE:ID``; it may be in the working directory."""
        return module_and_id(self.name)[0] if self.name.startswith(GYM) else ""

    def require(self) -> None:
        """Raise for a missing file or damage, before the model is read."""
        _require_file(self.name)
        if self.module and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # last, so that no file here shadows an installed module
        if self.lacks_damage:
            raise ModelError(f"{self.name} does not say what damage is: --damage NAME. {self._names()}")

    @property
    def lacks_damage(self) -> bool:
        """Whether the model is a file that needs --damage, which is not given."""
        return self.name.lower().endswith(STORM) and self.damage is None

    def offered(self) -> str:
        """The names in such a file that --damage can take, according to Storm, in a sentence."""
        from almostsure.model.storm.read import from_prism

        try:
            from_prism(self.name, damage=NO_NAME, constants=self.constants)
        except UnknownName as error:
            if error.name != NO_NAME:
                raise
            return str(error).removeprefix(f"unknown damage {NO_NAME!r}.").strip()
        return ""

    def _names(self) -> str:
        """These names, from the text of the file if Storm cannot read it."""
        try:
            return self.offered()
        except AlmostSureError as error:  # a constant without a value, or no Storm
            why = str(error).split("\n", 1)[0]
        return f"{_names_in(self.name)} {why.removeprefix(f'{self.name}: ')}"

    @property
    def arguments(self) -> str:
        """The model and its options, as on a command line."""
        words = [self.name]
        for option, value in self.options.items():
            words += [f"--{option}", value] if value else []
        for text in self.monitors or ():
            words += ["--monitor", text]
        return " ".join(map(shlex.quote, words))

    def emit(self, **results: Any) -> None:
        """Print the results as JSON."""
        emit(self.command, described(self.name, self.mdp), **results)

    @property
    def basis(self) -> tuple[str, object]:
        """The evidence for a learned model, as a row of facts; the value is None for other models."""
        return "model", self.mdp.origin.learned or None

    def onward(self, command: str, options: str = "") -> str:
        """A command that needs the model's probabilities; if they are not known, one that does not."""
        return f"{command}{options}" if self.mdp.origin.uncertain is None else exporting(self.arguments, options)

    @property
    def title(self) -> str:
        """The model's name and size."""
        return f"{self.name}: {counted(self.mdp.num_states, 'state')}, {counted(self.mdp.num_choices, 'choice')}"


def about_model(named: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that makes a command with a MODEL argument and the options of models from a body that takes a Task.

    ``named`` is the type of the argument; if that is optional, the task's name may be empty.
    """
    required = get_args(named)[0] is str
    model = Parameter("model", Parameter.POSITIONAL_OR_KEYWORD, annotation=named)
    types = get_type_hints(Task, include_extras=True)
    options = {
        each.name: Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=types[each.name])
        for each in fields(Task)[2:]
    }

    def as_command(body: Callable[..., None]) -> Callable[..., None]:
        @wraps(body)
        def command(model: str | None, **given: Any) -> None:
            if model == "":
                raise UnknownName("model", model, example_names())
            told = {name: given.pop(name) for name in options}
            body(Task(body.__name__, model or "", **told), **given)

        _, *own = signature(body, eval_str=True).parameters.values()
        first = model if required else model.replace(default=None)
        command.__signature__ = Signature([first, *own, *options.values()])  # type: ignore[attr-defined]
        return command

    return as_command


def exporting(arguments: str, options: str = "") -> str:
    """The command that exports the shield of a model, which needs no probabilities."""
    return f"almostsure export {arguments} shield.py{options}"


def _names_in(program: str) -> str:
    """The names in the text of a PRISM program that --damage can take, in a sentence."""
    try:
        text = COMMENT.sub("", Path(program).read_text("utf-8"))
    except (OSError, ValueError):
        text = ""
    found = {word: re.findall(rf'\b{word}\s+"([^"\n]+)"', text) for word in ("label", "rewards")}
    kinds = {"labels": found["label"], "rewards": found["rewards"]}
    listed = [f"{kind} {', '.join(map(repr, names))}" for kind, names in kinds.items() if names]
    return f"It has {'; '.join(listed)}." if listed else "NAME can be a label, a reward structure or an action."


def _require_file(name: str) -> None:
    """Raise if a file does not exist, with the nearest one that does, also if the ending is misspelt."""
    if name.startswith(GYM) or os.path.exists(name):
        return
    is_model = name.lower().endswith(MODELS)
    if is_model and os.path.islink(name):
        raise FileError(
            f"cannot read {name!r}: it is a link to {os.readlink(name)!r}, which does not exist.", path=name
        )
    folder, ending = os.path.dirname(name), os.path.splitext(name)[1]
    like = nearest(name, complete_file(f"{folder}/" if folder else "", MODELS)) if ending else None
    if like is None and not is_model:
        return  # not a file name
    hint = "" if like is None else f" Did you mean {like!r}?"
    raise FileError(f"cannot read {name!r}: there is no such file.{hint}", path=name)


# ---------------------------------------------------------------------- states and actions


def state_of(mdp: MDP, text: str) -> int:
    """The state with a name or, if no state has this name, with a number."""
    return mdp.state(_name_or_number(text, mdp.state_names))


def action_of(mdp: MDP, text: str) -> int:
    """The action with a name or number."""
    return mdp.action(_name_or_number(text, mdp.action_names))


def _name_or_number(text: str, names: Sequence[str] | None) -> int | str:
    is_name = names is not None and text in names
    return text if is_name or not text.isdecimal() or len(text) > LONGEST_NUMBER else int(text)


def complete_state(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The states of the model on the command line that begin with ``incomplete``."""
    return _names_before(ctx, "state_names", incomplete)


def complete_action(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The actions of the model on the command line that begin with ``incomplete``."""
    return _names_before(ctx, "action_names", incomplete)


def _names_before(ctx: typer.Context, kind: str, incomplete: str) -> Iterator[str]:
    """The names of the model on the command line, none if it cannot be read: completion never fails."""
    task = Task("", str(ctx.params.get("model", "")))
    for name in task.options:
        setattr(task, name, ctx.params.get(name))
    try:
        names = getattr(task.mdp, kind) or ()
    except Exception:
        return
    yield from islice((name for name in names if name.startswith(incomplete)), MOST_OFFERED)


# ---------------------------------------------------------------------- budgets


def with_risk(budget: int | None, risk: float) -> tuple[int, float]:
    """Budget and risk; raises if --budget is missing."""
    if budget is None:
        raise ArgumentError("--risk is the probability of more than --budget; give both.")
    return budget, risk


def budget_of(task: Task, budget: int | None, *, discount: float = 1.0) -> int:
    """The given budget, or else the default of all commands."""
    from almostsure.plan.tradeoff.curve import assured_curve
    from almostsure.plan.tradeoff.suggest import TEN, default_budget

    if budget is not None:
        return budget
    least = least_budget(task)
    return default_budget(assured_curve(task.mdp, least + TEN, discount=discount), least)


def least_budget(task: Task) -> int:
    """The minimal budget at the start; raises if it is infinite."""
    minimal = minimal_budget(task.mdp)
    least = minimal.smallest_budget()
    if least == INFINITE:
        raise Infeasible(f"{minimal.nothing_suffices()} from the start. See: almostsure explain {task.arguments}")
    return least
