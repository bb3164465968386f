"""Models in the languages that Storm reads (PRISM, JANI, DRN), and models handed to Storm.

Needs the extra ``storm`` (stormpy).  Both ways lead through a temporary UMB file, which is by far the fastest way
into and out of stormpy, so that one reader and one writer serve everybody.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from fractions import Fraction
from os import PathLike
from typing import Any

import numpy as np

from almostsure.errors import AlmostSureError, FileError, MissingExtra, ModelError, UnknownName
from almostsure.model.files import save
from almostsure.model.foreign import resolve, to_mdp
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.model.umb import Umb

PRISM = (".prism", ".pm", ".nm", ".sm")
JANI = (".jani",)
DRN = (".drn",)
LIFTED = "Transition rewards are not supported"  # how Storm's message begins
SUMS = "do not sum to one"
HINTS = {  # what to do about Storm's messages, by a part of them
    "Parsing error": "A name that is not declared gives this message too: check the names there.",
    "out-of-bounds": "Guard the command, or widen the variable's range.",
    SUMS: "Mend them: a command's probabilities must sum to 1.",
    "single initial state": "Check that the init value of every variable lies in its range.",
}

Constant = bool | int | float | str


def from_prism(
    path: str | PathLike[str],
    *,
    damage: str,
    constants: Mapping[str, Constant] | str | None = None,
    reward: str | None = None,
    cost: str | None = None,
) -> MDP:
    """Build a model from a PRISM (``.prism``, ``.pm``, ``.nm``), JANI (``.jani``) or DRN (``.drn``) file.

    Parameters
    ----------
    path
        The file; its ending tells the language.
    damage
        What hurts: a label (every step that *ends* in a labelled state hurts once), a reward structure (counted as
        PRISM accumulates it: state rewards on every step out of the state, action and transition rewards on that
        step) or an action (every step by it hurts once).  A name that belongs to several of them needs the prefix
        ``label:``, ``reward:`` or ``action:``; in double quotes it is a label.  PRISM's reward structure without a
        name is called ``default``.
    constants
        Values of undefined constants, as ``{"N": 3, "p": 0.5}`` or ``"N=3,p=0.5"``.
    reward
        The reward structure that becomes the reward; by default there is none.  Policies *maximise* it.
    cost
        A reward structure that is to be kept small, as time and energy are: it is subtracted from the reward.

    Returns
    -------
    MDP
        With action names, and with names such as ``x=1, y=0`` of up to a million states.  Choices without an
        action are named ``choice 0``, ``choice 1``, …; a Markov chain has one choice a state.  Deadlocks are
        terminal: on the self-loop that Storm gives them, nothing hurts and nothing is earned.

    Notes
    -----
    JANI allows a reward that depends on where an edge leads.  Storm replaces it by its mean over the edge.  As a
    reward that changes no expected return, but a mean damage bounds nothing: such a damage is refused.

    Raises
    ------
    MissingExtra
        stormpy is not installed.
    UnknownName
        The file has no such damage, reward, cost or constant; the message lists what it has.
    ModelError
        A constant is missing, a damage is no integer 0 … 255, or Storm finds fault with the model: probabilities that
        do not sum to 1, an assignment that leaves its variable's range, a mistake in the language.
    """
    stormpy = _import_stormpy()
    if not os.path.isfile(path):
        raise FileError(f"cannot read {os.fspath(path)!r}: there is no such file.", path=path)
    with tempfile.TemporaryDirectory(prefix="almostsure-") as folder, _storm(stormpy, f"{os.fspath(path)}: "):
        model, lifted = _build(stormpy, path, constants)
        if model.model_type.name not in ("MDP", "DTMC"):
            raise ModelError(
                f"{os.fspath(path)}: the model must be a Markov decision process or a discrete-time Markov chain; "
                f"it is of type {model.model_type.name}."
            )
        exported = os.path.join(folder, "model.umb")
        _export(stormpy, model, exported)
        umb = Umb(exported, shown=os.fspath(path))
        if lifted and resolve(umb, damage)[0] == "reward":
            raise ModelError(
                f"{umb.shown}: Storm only keeps the mean of rewards that depend on where an edge leads, and a mean "
                f"damage bounds nothing; so {damage!r} must not be used. Give the states after a damaging step a "
                "label, and name that as damage."
            )
        return to_mdp(umb, damage=damage, reward=reward, cost=cost)


def to_storm(mdp: Model) -> Any:
    """The model as stormpy's ``SparseMdp``.

    It has the reward models ``damage`` and ``reward``, the labels ``init``, ``terminal`` and ``relay``, and the
    actions as choice labels.  Storm allows a choice only one outcome for each successor: further ones pass through
    relay states, which come after the model's own states and carry the label ``relay`` (see
    :func:`almostsure.model.files.save`).
    """
    stormpy = _import_stormpy()
    with tempfile.TemporaryDirectory(prefix="almostsure-") as folder, _storm(stormpy, "Storm cannot take the model: "):
        file = os.path.join(folder, "model.umb")
        save(as_model(mdp), file, relay=True)
        options = stormpy.io.UmbImportOptions()
        options.build_state_valuations = False
        return stormpy.build_model_from_umb(file, options=options)


# ---------------------------------------------------------------------- stormpy


def _import_stormpy() -> Any:
    try:
        import stormpy
        import stormpy.developer
        import stormpy.io
    except ImportError:
        raise MissingExtra("stormpy", "storm") from None
    return stormpy


@contextlib.contextmanager
def _storm(stormpy: Any, prefix: str) -> Iterator[None]:
    """Turn Storm's errors into ours, and keep it from printing them as well."""
    level = stormpy.developer.get_log_level()
    stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)
    try:
        yield
    except AlmostSureError:
        raise
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        message = str(error).strip()
        hint = next((hint for part, hint in HINTS.items() if part in message), "")
        raise ModelError(f"{prefix}{message}{chr(10) if chr(10) in message else ' '}{hint}".rstrip()) from error
    finally:
        stormpy.developer.set_log_level(level)


def _build(stormpy: Any, path: str | PathLike[str], constants: Mapping[str, Constant] | str | None) -> tuple[Any, bool]:
    """Storm's sparse model, and whether it replaced rewards of single outcomes by their mean."""
    name, ending = os.fspath(path), os.path.splitext(path)[1].lower()
    if ending in DRN:
        if constants:
            raise ModelError(f"{name}: a DRN file has no constants; leave out constants=.")
        drn = stormpy.io.DirectEncodingParserOptions()
        drn.build_choice_labeling = True
        return stormpy.build_model_from_drn(name, options=drn), False
    if ending in PRISM:
        program = _parse_prism(stormpy, name)
    elif ending in JANI:
        program = stormpy.io.parse_jani_model(name)[0]
    else:
        hint = "load a UMB file with load()" if ending == ".umb" else "rename the file"
        known = ", ".join(PRISM + JANI + DRN)
        raise FileError(f"{name}: the name of a model file must end in one of {known}; {hint}.", path=path)
    program = _with_constants(stormpy, program, _constants(constants), name)
    try:
        return _explore(stormpy, program, lift=False), False
    except RuntimeError as error:
        if LIFTED not in str(error):
            raise
        return _explore(stormpy, program, lift=True), True


def _explore(stormpy: Any, program: Any, *, lift: bool) -> Any:
    """Build the model, checked.

    Storm compares sums of rounded numbers with 1, to the last bit: 0.06 + 0.94 would be refused.  In that case it
    checks in exact arithmetic, and the rounded model is built without; its sums are looked at again when it is read.
    """
    try:
        return stormpy.build_model(program, options=_options(stormpy, lift=lift))
    except RuntimeError as error:
        if SUMS not in str(error):
            raise
    stormpy.build_model[stormpy.Rational](program, options=_options(stormpy, lift=lift))
    return stormpy.build_model(program, options=_options(stormpy, lift=lift, checks=False))


def _parse_prism(stormpy: Any, path: str) -> Any:
    try:
        return stormpy.io.parse_prism_program(path)
    except RuntimeError as error:
        if str(error) != "std::exception":
            raise
    with open(path, encoding="utf-8", errors="replace") as file:
        unknown = ", ".join(repr(name) for name in _undeclared(file.read()))
    assigned = f": {unknown} is assigned to but not declared" if unknown else ""
    raise ModelError(f"{path}: Storm cannot read the model, and does not say why. Check the names in it{assigned}.")


def _undeclared(program: str) -> list[str]:
    """The variables of a PRISM program that are assigned to, but neither declared nor made by renaming a module."""
    text = re.sub(r"//.*", "", program)
    declared = re.findall(r"(\w+)\s*:\s*(?:\[|bool\b|int\b|clock\b)", text)
    renamed = re.findall(r"=\s*(\w+)\s*[,\]]", text)
    return sorted(set(re.findall(r"(\w+)'\s*=", text)).difference(declared, renamed))


def _options(stormpy: Any, *, lift: bool, checks: bool = True) -> Any:
    options = stormpy.BuilderOptions()
    options.set_build_all_reward_models()
    options.set_build_all_labels()
    options.set_build_state_valuations()
    options.set_build_choice_labels()
    options.set_scale_and_lift_transition_rewards(lift)
    options.set_exploration_checks(checks)  # without, x'=9 where x has 3 bits changes the variable beside it
    return options


def _export(stormpy: Any, model: Any, path: str) -> None:
    options = stormpy.io.UmbExportOptions()
    options.compression = stormpy.io.CompressionMode.NO_COMPRESSION
    stormpy.io.export_to_umb(model, path, options=options)


# ---------------------------------------------------------------------- constants


def _constants(given: Mapping[str, Constant] | str | None) -> dict[str, Constant]:
    if not isinstance(given, str):
        return dict(given or {})
    pairs = [part.partition("=") for part in given.split(",") if part.strip()]
    for name, equals, value in pairs:
        if not (name.strip() and equals and value.strip()):
            raise ModelError(f"constants must have the form 'N=3,p=0.5'; got {given!r}")
    result: dict[str, Constant] = {name.strip(): value.strip() for name, _, value in pairs}
    if len(result) < len(pairs):
        raise ModelError(f"every constant must be given once; got {given!r}")
    return result


def _with_constants(stormpy: Any, program: Any, given: dict[str, Constant], shown: str) -> Any:
    defined = {constant.name: constant.defined for constant in program.constants}
    types = {constant.name: constant.type for constant in program.constants}
    for name in given:
        if name not in defined:
            raise UnknownName("constant", name, defined, f"{shown} has: {', '.join(defined) or 'none'}.")
        if defined[name]:
            raise ModelError(f"constant {name!r} has a value in {shown}, which cannot be changed. Leave it out.")
    missing = [name for name, is_defined in defined.items() if not is_defined and name not in given]
    if missing:
        example = ",".join(f"{name}=…" for name in missing)
        raise ModelError(
            f"{shown}: constants must have a value; {', '.join(missing)} has none. Pass constants='{example}'."
        )
    if not given:
        return program
    values = {name: _typed(stormpy, name, _value(stormpy, name, value), types[name]) for name, value in given.items()}
    return stormpy.io.instantiate_constants(program, values)[0]


def _value(stormpy: Any, name: str, value: Any) -> Any:
    """A number that stormpy takes, from a number or from text such as ``3``, ``0.5``, ``1/3`` or ``true``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    try:
        number = Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise ModelError(f"constant {name!r} must be a number, true or false; got {value!r}") from None
    whole = number.denominator == 1 and isinstance(value, str) and value.lstrip("+-").isdigit()
    return int(number) if whole else stormpy.Rational(str(number))


def _typed(stormpy: Any, name: str, value: Any, kind: Any) -> Any:
    """The value as the constant was declared: 1 is a double too, and 3.0 an integer."""
    if kind.is_boolean != isinstance(value, bool):
        wanted = "true or false" if kind.is_boolean else "a number"
        raise ModelError(f"constant {name!r} must be {wanted}; got {str(value).lower()}")
    if kind.is_boolean:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ModelError(f"constant {name!r} must be finite; got {value}")
    number = Fraction(str(value))
    if not kind.is_integer:
        return stormpy.Rational(str(number)) if isinstance(value, int) else value
    if number.denominator != 1 or abs(number) >= 2**63:
        raise ModelError(f"constant {name!r} must be a whole number of less than 64 bits; got {value}")
    return int(number)
