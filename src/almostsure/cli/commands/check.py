"""``check``, ``convert`` and ``export``: certificates that others can verify, and files for other programs."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import almostsure.errors as known_errors
from almostsure.budget.minimal import INFINITE, Needs
from almostsure.budget.solve import minimal_budget
from almostsure.cli import checker
from almostsure.cli import options as opt
from almostsure.cli.exits import NEGATIVE
from almostsure.cli.options import check_output, complete_result, typed, word
from almostsure.cli.output import clean, console, emit, facts, heading, next_step, say
from almostsure.cli.task import Task, about_model, exporting, with_risk
from almostsure.errors import AlmostSureError, ArgumentError, NotEnoughMemory
from almostsure.files import UMB
from almostsure.wording import counted

PROVED = {  # by whether the promise has a risk
    False: "an agent that starts with the minimal budget of its state, and plays only actions that need no more than "
    "the remaining budget{left}, never overspends{within}",
    True: "any agent that plays only allowed actions, even a hostile one, overspends{within} with a probability of at "
    "most the risk",
}
LEAST = "; and no smaller budget can be promised with probability one."
NOT_LEAST = ". It does not claim that no smaller budget suffices: outcomes with an interval from 0 may be impossible."
NOT_LEAST_OF_CELLS = ". It does not claim that no smaller budget suffices: for cells, upper bounds are proved."
NO_LEAST_RISK = ". It does not claim that no smaller risk can be promised."
LIBRARIES = ("numpy", "safetensors", "numba", "gymnasium", "stormpy")


@about_model(opt.ModelName)
def check(
    task: Task,
    result: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT", help="A budget or shield file (.safetensors).", autocompletion=complete_result
        ),
    ],
) -> None:
    """Verify the certificate of a file, in a separate process that loads only the checker and the file readers.

    For upper budgets of a continuous system, MODEL is the name of the system, such as MountainCar-v0.
    """
    answer = run_checker(task, result)
    if task.json:
        emit("check", answer.pop("model"), **answer)
    else:
        _show_verdict(task, result, answer)
    if answer["verdict"] != "verified":
        raise typer.Exit(NEGATIVE)


@about_model(opt.ModelName)
def convert(
    task: Task,
    output: Annotated[Path, typer.Argument(help="The UMB file to write (.umb).", metavar="OUTPUT")],
    *,
    relay: Annotated[
        bool, typer.Option("--relay", help="Add relay states where Storm cannot tell two outcomes apart.")
    ] = False,
) -> None:
    """Write a model as a UMB file, the format that almostsure, Storm, PRISM and Modest exchange."""
    check_output(output, *UMB)
    task.mdp.save(output, relay=relay)
    size = output.stat().st_size
    if task.json:
        task.emit(output=output, bytes=size, relay=relay)
        return
    heading(f"{task.title} → {output} ({size:,} bytes)")
    name = word(output)
    next_step(f"almostsure budget {name} -o budget.safetensors", f"almostsure check {name} budget.safetensors")


@about_model(opt.ModelName)
def export(
    task: Task,
    output: Annotated[Path, typer.Argument(help="A C header (.h) or a Python module (.py).", metavar="OUTPUT")],
    *,
    budget: Annotated[
        int | None, opt.named_budget("The largest remaining budget that the shield is used with; by default any.")
    ] = None,
    risk: opt.Risk = None,
    horizon: opt.Horizon = None,
) -> None:
    """Write the shield as a C99 header, or as a Python module that needs only NumPy."""
    check_output(output, ".h", ".py")
    shield, more = _shield(task, budget, risk, horizon)
    if output.suffix.lower() == ".h":
        shield.export_c(output, *more)
        files = [output]
    else:
        files = list(shield.export_numpy(output, *more))
    if risk is None:  # a risk shield that refuses the start cannot be made
        _warn_of_refusal(shield.minimal, budget)
    if task.json:
        task.emit(budget=budget, output=files)
        return
    heading(f"{task.title} → {' and '.join(map(str, files))}")
    say("Comments in the file explain how to call it. Where no action is safe, it allows none.")
    facts(task.basis)
    if risk is not None:
        next_step(f"almostsure solve {task.arguments}{typed(budget=budget, risk=risk, horizon=horizon)}")
        return
    proof = f"almostsure budget {task.arguments}{typed(horizon=horizon)} -o budget.safetensors"
    next_step(proof, note="the certificate for it")


def _shield(task: Task, budget: int | None, risk: float | None, horizon: int | None) -> tuple[Any, tuple[Any, ...]]:
    """The shield for the options, and further arguments of its exports."""
    from almostsure.plan import RiskShield
    from almostsure.shield import HorizonShield, Shield

    if risk is not None:
        return RiskShield(task.mdp, *with_risk(budget, risk), horizon=horizon), ()
    if horizon is not None:
        return HorizonShield(minimal_budget(task.mdp, horizon=horizon, cap=budget)), ()
    return Shield(minimal_budget(task.mdp)), (budget,)


def _warn_of_refusal(minimal: Needs, budget: int | None) -> None:
    """Print a warning on standard error if the shield refuses the start."""
    least = minimal.smallest_budget()
    if least < INFINITE and (budget is None or least <= budget):
        return
    of = "" if budget is None else f"with a budget of {budget} "
    warning = clean(f"warning: the start {minimal.need_in_words(least)}: {of}this shield refuses it")
    console(stderr=True).print(Text(warning), soft_wrap=True)


def run_checker(task: Task, result: Path) -> dict[str, Any]:
    """The answer of the trusted process."""
    task.require()
    if task.is_played:
        raise ArgumentError(
            "check does not play environments. Write the model that is found, and check that: "
            f"almostsure convert {task.arguments} model.umb"
        )
    request = json.dumps(
        {
            "model": task.name,
            "result": str(result),
            "options": task.options,
            "monitors": list(task.monitors or ()),
            "libraries": [*_libraries(), *([os.getcwd()] if task.module else [])],
        }
    )
    done = subprocess.run(
        [sys.executable, "-I", "-X", "utf8", checker.__file__, request],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches only this process, which then ends the other
    )
    if done.returncode == -signal.SIGKILL:
        raise NotEnoughMemory("the checker's process was killed; this machine may not have enough memory.")
    if done.returncode != 0:
        raise RuntimeError(f"the checker's process ended with code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise _relayed(**answer["error"])
    return answer


def _libraries() -> list[str]:
    """The folders of the libraries that the readers need, which an isolated Python may not search."""
    specs = [importlib.util.find_spec(name) for name in LIBRARIES]
    files = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return sorted({str(Path(file).parents[1]) for file in files})


def _relayed(kind: str, message: str) -> Exception:
    """The error of the other process as an exception of the same class, without its fields."""
    known = getattr(known_errors, kind, None)
    if isinstance(known, type) and issubclass(known, AlmostSureError):
        error = known.__new__(known)
        Exception.__init__(error, message)
        return error
    if kind == "MemoryError":
        return MemoryError(message)
    return RuntimeError(f"{kind}: {message}")


def _claims(answer: dict[str, Any]) -> str:
    """The numbers of a promise in words."""
    horizon = answer.get("horizon")
    steps = "" if horizon is None else f" within {counted(horizon, 'step')}"
    if "risk" in answer:
        return f"more than {answer['budget']} damage{steps} with probability at most {answer['risk']:g}"
    if answer["kind"] == "upper" and answer["minimal_budget"] == "inf":
        return "for some cells; no budget for the start"
    least = "∞" if answer["minimal_budget"] == "inf" else answer["minimal_budget"]
    cap = "" if answer["cap"] is None else f" (budgets up to {answer['cap']})"
    at_most = "at most " if answer["upper_bound"] and least != "∞" else ""
    start = "what the start needs is unknown" if answer.get("unknown") else f"the start needs {at_most}{least}"
    return f"{start}{steps}{cap}"


def _show_verdict(task: Task, result: Path, answer: dict[str, Any]) -> None:
    good = answer["verdict"] == "verified"
    heading(f"{result}: {'the certificate holds' if good else 'REJECTED'}")
    if not good:
        say(answer["reason"], style="red")
    trusted, model = answer["trusted"], answer["model"]
    reader = "Storm" if trusted["storm"] else f"the module {task.module}" if task.module else None
    facts(
        ("model", f"{model['name']}, {model['states']:,} states, fingerprint {model['fingerprint'][:16]}"),
        ("", model["learned"]),
        ("claims", _claims(answer)),
        ("trusted", f"{len(trusted['modules'])} modules of almostsure, {trusted['lines']:,} lines; no engine"),
        (
            "",
            reader and f"and {reader}, which read {model['name']}: the certificate is for the model as it read it",
        ),
    )
    steps, is_of_cells = typed(horizon=answer.get("horizon")), answer["kind"] == "upper"
    if good:
        of_what = ", of the model as it was found" if model["learned"] else ""
        rest = NO_LEAST_RISK if "risk" in answer else NOT_LEAST if answer["upper_bound"] else LEAST
        proved = PROVED["risk" in answer].format(
            within=steps and " within the steps", left=steps and " for the steps left"
        )
        say(f"\nProved{of_what}: {proved}{NOT_LEAST_OF_CELLS if is_of_cells else rest}")
        if is_of_cells:
            return  # no other command reads such files
        risk = typed(budget=answer["budget"], risk=answer["risk"]) if "risk" in answer else ""
        known = answer["uncertain"] is None
        next_step(
            f"almostsure solve {task.arguments}{risk}{steps}" if known else exporting(task.arguments, f"{risk}{steps}")
        )
    elif "risk" not in answer:  # files of risk shields are made in Python
        next_step(
            f"almostsure {'abstract' if is_of_cells else 'budget'} {task.arguments}{steps} -o {word(result)}",
            note="make a new one",
        )
