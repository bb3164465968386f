"""One run of a command: which model it is about, and how a state, an action and a budget are named."""

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
from almostsure.model.build.damage import TOLD
from almostsure.model.build.environment import GYM, module_and_id
from almostsure.model.build.examples import example_names
from almostsure.model.mdp import MDP
from almostsure.model.source import as_model, model_of_environment, read_constants
from almostsure.wording import counted

OWN = "gym:almostsure/"  # environments of this package, which know their models
MOST_OFFERED = 200  # completions of a state's name
NOBODY = "almostsure_has_no_such_name"  # in place of a damage, to be told which names there are
LONGEST_NUMBER = 18  # digits; no model has more states
COMMENT = re.compile(r"//.*")  # in a PRISM program


def _of_model(metavar: str, help: str, *names: str) -> Any:
    """An option about the model."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel="The model")


@dataclass
class Task:
    """One run of a command: which model, and how to answer.  All but the first two are options of the command."""

    command: str
    name: str = ""
    damage: Annotated[
        str | None,
        _of_model(
            "NAME|RULE",
            "What hurts: a label, condition ('x=3 & y>0'), reward structure or action of a file, 'enters:LABEL' for "
            "arriving there only; for gym:… a rule such as 'reward<=-10', or 'cost' for what info['cost'] says when an "
            "environment without chance is played.",
        ),
    ] = None
    reward: Annotated[
        str | None, _of_model("NAME", "The file's reward structure to maximise, or a label: 1 for arriving there.")
    ] = None
    cost: Annotated[str | None, _of_model("NAME", "The file's reward structure to minimise, or steps.")] = None
    goal: Annotated[
        str | None, _of_model("NAME|RULE", "Where a run ends: a label, or a condition ('x=3'), of a file.")
    ] = None
    scale: Annotated[
        str | None,
        _of_model("UNIT", "The unit of a file's damage, where it is fractional or above 255: d counts as ⌈d / UNIT⌉."),
    ] = None
    constants: Annotated[
        str | None,
        _of_model(
            "N=3,p=0.5",
            "Constants of a file, parameters of an example or a map (slip=0.1), options of an environment.",
        ),
    ] = None
    monitors: Annotated[
        list[str] | None,
        _of_model(
            "NAME=…",
            "What states remember of a run; may be repeated. steps=T; second=LABEL:BUDGET, where entering the label "
            "takes 1 of a budget of its own; refill=COST:CAPACITY@LABEL is a tank that is filled there; "
            "automaton=FILE.json.",
            "--monitor",
        ),
    ] = None
    json: Json = False

    @cached_property
    def mdp(self) -> MDP:
        """The model, read when it is first needed, with what is to be remembered along a run."""
        return with_monitors(self._read(), self.monitors or ())

    def _read(self) -> MDP:
        self.require()
        if self.name.startswith(OWN):
            import_module("almostsure.gym")  # which registers them
        return self._play() if self.is_played else as_model(self.name, **self.options)

    def _play(self) -> MDP:
        from almostsure.learn import explore

        given = {option: value for option, value in self.options.items() if value is not None}
        constants = read_constants(given.pop("constants", None))
        return model_of_environment(self.name, given, constants, lambda env, damage: explore(env, damage=damage))

    @property
    def options(self) -> dict[str, str | None]:
        """What ``as_model`` is told about the model, besides its name."""
        named = ("damage", "reward", "cost", "goal", "scale", "constants")
        return {name: getattr(self, name) for name in named}

    @property
    def is_played(self) -> bool:
        """Whether the model is found by playing an environment that says its damage itself, at every step."""
        return self.name.startswith(GYM) and self.damage in TOLD

    @property
    def environment(self) -> dict[str, Any] | None:
        """What ``gymnasium.make`` takes to make the environment; None for a model of another kind."""
        if not self.name.startswith(GYM):
            return None
        return {"id": self.name.removeprefix(GYM), **read_constants(self.constants)}

    @property
    def module(self) -> str:
        """The module that registers the environment, as in ``gym:MODULE:ID``; it may be in the working directory."""
        return module_and_id(self.name)[0] if self.name.startswith(GYM) else ""

    def require(self) -> None:
        """Refuse what is plainly not a model before it is read."""
        _require_file(self.name)
        if self.module and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # behind all others: no file here is taken for an installed module
        if self.is_untold:
            raise ModelError(f"{self.name} does not say what damage is: --damage NAME. {self._names()}")

    @property
    def is_untold(self) -> bool:
        """Whether the model is a file that has to be told what damage is, and was not."""
        return self.name.lower().endswith(STORM) and self.damage is None

    def offered(self) -> str:
        """What such a file has that damage can be, as Storm reads it."""
        from almostsure.model.storm.read import from_prism

        try:
            from_prism(self.name, damage=NOBODY, constants=self.constants)
        except UnknownName as error:
            if error.name != NOBODY:
                raise
            return str(error).removeprefix(f"unknown damage {NOBODY!r}.").strip()
        return ""

    def _names(self) -> str:
        """The same, also where Storm cannot say so."""
        try:
            return self.offered()
        except AlmostSureError as error:  # a constant without a value, or no Storm
            why = str(error).split("\n", 1)[0]
        return f"{_names_in(self.name)} {why.removeprefix(f'{self.name}: ')}"

    @property
    def arguments(self) -> str:
        """The model as the next command has to name it."""
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
        """What a learned model rests on, as a row of facts; nothing for others."""
        return "model", self.mdp.origin.learned or None

    def onward(self, command: str, options: str = "") -> str:
        """A command that needs the model's probabilities; where they are not known, the one that does without."""
        return f"{command}{options}" if self.mdp.origin.uncertain is None else exporting(self.arguments, options)

    @property
    def title(self) -> str:
        """The model's name, and its size."""
        return f"{self.name}: {counted(self.mdp.num_states, 'state')}, {counted(self.mdp.num_choices, 'choice')}"


def about_model(named: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that takes the name of a model, in this way, and the options of all models; its body takes a Task.

    Where the model need not be named, the task's name may be empty.
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
    """The command that writes a model's shield, for which it need not have probabilities."""
    return f"almostsure export {arguments} shield.py{options}"


def _names_in(program: str) -> str:
    """What the text of a PRISM program has that damage can be: for what Storm cannot read as it is."""
    try:
        text = COMMENT.sub("", Path(program).read_text("utf-8"))
    except (OSError, ValueError):
        text = ""
    found = {word: re.findall(rf'\b{word}\s+"([^"\n]+)"', text) for word in ("label", "rewards")}
    kinds = {"labels": found["label"], "rewards": found["rewards"]}
    listed = [f"{kind} {', '.join(map(repr, names))}" for kind, names in kinds.items() if names]
    return f"It has {'; '.join(listed)}." if listed else "A label, a reward structure or an action can be named."


def _require_file(name: str) -> None:
    """Say that a file does not exist, with the nearest that does, also where the ending is misspelt."""
    if name.startswith(GYM) or os.path.exists(name):
        return
    is_model = name.lower().endswith(MODELS)
    if is_model and os.path.islink(name):
        raise FileError(f"cannot read {name!r}: it is a link to {os.readlink(name)!r}, which is not there.", path=name)
    folder, ending = os.path.dirname(name), os.path.splitext(name)[1]
    like = nearest(name, complete_file(f"{folder}/" if folder else "", MODELS)) if ending else None
    if like is None and not is_model:
        return  # it may be no file
    hint = "" if like is None else f" Did you mean {like!r}?"
    raise FileError(f"cannot read {name!r}: there is no such file.{hint}", path=name)


# ---------------------------------------------------------------------- states and actions


def state_of(mdp: MDP, text: str) -> int:
    """A state by its name or, if there is none of that name, by its number."""
    return mdp.state(_name_or_number(text, mdp.state_names))


def action_of(mdp: MDP, text: str) -> int:
    """An action by its name or number."""
    return mdp.action(_name_or_number(text, mdp.action_names))


def _name_or_number(text: str, names: Sequence[str] | None) -> int | str:
    is_name = names is not None and text in names
    return text if is_name or not text.isdecimal() or len(text) > LONGEST_NUMBER else int(text)


def complete_state(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The states of the model named before that begin like this."""
    return islice(_names_before(ctx, "state_names", incomplete), MOST_OFFERED)


def complete_action(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """The actions of the model named before that begin like this."""
    return _names_before(ctx, "action_names", incomplete)


def _names_before(ctx: typer.Context, kind: str, incomplete: str) -> Iterator[str]:
    """Names of the model on the command line so far, if it can be read; completion never fails."""
    task = Task("", str(ctx.params.get("model", "")))
    for name in task.options:
        setattr(task, name, ctx.params.get(name))
    try:
        names = getattr(task.mdp, kind) or ()
    except Exception:
        return
    yield from (name for name in names if name.startswith(incomplete))


# ---------------------------------------------------------------------- budgets


def with_risk(budget: int | None, risk: float) -> tuple[int, float]:
    """Both, as --risk needs a --budget."""
    if budget is None:
        raise ArgumentError("--risk is the probability of more than --budget; give both.")
    return budget, risk


def budget_of(task: Task, budget: int | None, *, discount: float = 1.0) -> int:
    """The budget that was asked for, or else the one that every command takes."""
    from almostsure.plan.tradeoff.curve import assured_curve
    from almostsure.plan.tradeoff.suggest import TEN, default_budget

    if budget is not None:
        return budget
    least = least_budget(task)
    return default_budget(assured_curve(task.mdp, least + TEN, discount=discount), least)


def least_budget(task: Task) -> int:
    """The least budget that can be promised at the start."""
    minimal = minimal_budget(task.mdp)
    least = minimal.smallest_budget()
    if least == INFINITE:
        raise Infeasible(f"{minimal.nothing_suffices()} from the start. See: almostsure explain {task.arguments}")
    return least
