"""``as_model``: the model that an example's name, a path or the id of a Gymnasium environment refers to.

Each reader is imported only when it is used.  So ``almostsure check`` runs only the code that reads the kind of file at
hand, and no other reader has to be trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from almostsure.arguments import names_right_word
from almostsure.errors import AlmostSureError, ArgumentError, Blame, ModelError, UnknownName
from almostsure.files import LOGS, MAPS, MODELS, STORM, TENSORS, UMB
from almostsure.model.build.environment import GYM, make_environment, names_environment
from almostsure.model.mdp import MDP

Model = MDP | str | PathLike[str]  #: accepted by all functions with a model as argument
Constant = bool | int | float | str

CONTINUOUS = (
    "a model must be an MDP; got {}. An abstraction of a continuous system has no probabilities and rewards, so it has "
    "budgets, shields and policies that keep them, but no returns or risks. Shield(minimal_budget(abstraction)) is its "
    "shield. UpperBudget.load(path, abstraction) of almostsure.abstract loads budgets and shields, CellPolicy.load "
    "loads policies."
)
ENVIRONMENT = (
    "from_gymnasium(env) reads the table of an environment; explore(env) finds the model of others by playing."
)


@names_right_word
def as_model(
    model: Model,
    *,
    damage: str | None = None,
    reward: str | None = None,
    cost: str | None = None,
    goal: str | None = None,
    scale: Constant | Fraction | None = None,
    constants: Mapping[str, Constant] | str | None = None,
) -> MDP:
    """The model that ``model`` refers to.

    Parameters
    ----------
    model
        A model, which is returned unchanged; the name of an example; the path of a UMB file (``.umb``), of a PRISM,
        JANI or DRN file, or of a text map (``.txt``, ``.map``; see :func:`almostsure.model.build.grid.from_map`); or
        ``gym:`` and the id of a Gymnasium environment that has a transition table, such as ``gym:FrozenLake-v1`` (see
        :mod:`almostsure.model.build.environment`).
    damage
        The definition of damage, if the model has none.  In files of other programs: a label, a reward structure or
        an action (see :func:`almostsure.from_prism`).  In an environment: a rule such as ``"reward<=-100"`` (see
        :mod:`almostsure.model.build.damage`); FrozenLake, CliffWalking and Taxi have a default.
    reward, cost
        In files of other programs: the reward structure that becomes the reward, and one that is subtracted from it.
    goal, scale
        In files of other programs: the states that end a run, and the unit of damage (see
        :func:`almostsure.from_prism`).
    constants
        ``{"N": 3, "p": 0.5}`` or ``"N=3,p=0.5"``: values of the undefined constants of a PRISM or JANI file, of the
        parameters of an example or a map (``slip``, ``step_reward`` …), or of the options of an environment.

    Examples
    --------
    >>> from almostsure.model.source import as_model
    >>> as_model("paper")
    <MDP: 2 states, 3 choices, 3 outcomes, starts in circle>
    >>> as_model("paper", constants="damage_probability=0.6").num_outcomes
    4
    >>> as_model("gym:CliffWalking-v1")
    <MDP: 48 states, 189 choices, 189 outcomes, starts in r3c0>
    """
    options = {"damage": damage, "reward": reward, "cost": cost, "goal": goal, "scale": scale}
    given = {option: value for option, value in options.items() if value is not None}
    if isinstance(model, MDP):
        _refuse(given | ({"constants": constants} if constants else {}), "the model is not a file")
        return model
    if not isinstance(model, (str, PathLike)):
        raise _no_model(model)
    name = fspath(model)
    if name.startswith(GYM):
        return model_of_environment(name, given, read_constants(constants), _table)
    ending = os.path.splitext(name)[1].lower()
    if name.lower().endswith(STORM):
        return _storm(name, given, constants)
    if ending in (*UMB, *TENSORS):
        return _umb(name, given, constants)
    if ending in MAPS:
        return _map(name, given, read_constants(constants))
    return _example(name, given, read_constants(constants))


def _no_model(thing: object) -> Exception:
    """The error for something that is not a model, with a remedy."""
    if callable(getattr(thing, "check_upper", None)) or hasattr(thing, "abstraction"):
        return ModelError(CONTINUOUS.format(type(thing).__name__))
    remedy = f". {ENVIRONMENT}" if hasattr(thing, "observation_space") else ""
    if callable(getattr(thing, "sample", None)):
        remedy = ". Learn the model of a sampler: learn_minimal_budget(sampler, mu=, delta=).mdp."
    remedy = ". Its model is its attribute mdp." if isinstance(getattr(thing, "mdp", None), MDP) else remedy
    return ArgumentError(f"a model must be an MDP, an example's name or a path; got {type(thing).__name__}{remedy}")


def read_constants(given: Mapping[str, Constant] | str | None) -> dict[str, Constant]:
    """``"N=3,slow=true"`` as ``{"N": 3, "slow": True}``; values other than numbers and truth values stay text."""
    constants = split_constants(given)
    return {k: _constant(v) if isinstance(given, str) else v for k, v in constants.items()}  # type: ignore[arg-type]


def split_constants(given: Mapping[str, Constant] | str | None) -> dict[str, Constant]:
    """``"N=3,p=0.5"`` as ``{"N": "3", "p": "0.5"}``; values stay text, so that nothing is rounded."""
    if not isinstance(given, str):
        return dict(given or {})
    pairs = [tuple(piece.strip() for piece in part.partition("=")) for part in given.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise ModelError(f"constants must have the form 'N=3,p=0.5'; got {given!r}")
    result: dict[str, Constant] = {name: value for name, _, value in pairs}
    if len(result) < len(pairs):
        raise ModelError(f"every constant must be given once; got {given!r}")
    return result


def _constant(text: str) -> Constant:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _refuse(given: Mapping[str, Any], because: str) -> None:
    if given:
        options = ", ".join(f"{option}=" for option in given)
        raise ModelError(f"{options} must be left out: {because}. They are for files of other programs.")


def _made(name: str, constants: Mapping[str, Any], make: Callable[[], MDP]) -> MDP:
    """The result of ``make``; unknown constants and wrong types become a ModelError."""
    try:
        return make()
    except AlmostSureError:
        raise
    except (TypeError, ValueError, LookupError) as error:
        raise ModelError(f"{name} cannot be made with {dict(constants)}: {error}") from error


# ---------------------------------------------------------------------- readers


def _example(name: str, given: dict[str, Any], constants: dict[str, Any]) -> MDP:
    from almostsure.model.build.examples import example, example_names

    if name in example_names():
        _refuse(given, f"the example {name!r} has its own damage and reward")
        return _made(name, constants, lambda: example(name, **constants))
    if os.path.exists(name):
        remedy = f"The name of a model file ends in one of {', '.join(MODELS)}."
        if name.lower().endswith(LOGS):
            remedy += (
                " A log is for almostsure learn; a table of transitions is read in Python, with from_transitions or "
                "from_table."
            )
        raise UnknownName("kind of file", name, (), remedy)
    if names_environment(name):
        raise UnknownName("model", name, [GYM + name])
    listed = ", ".join(example_names())
    raise UnknownName(
        "model", name, example_names(), f"Name an example ({listed}), a file ({', '.join(MODELS)}) or gym:…."
    )


def _umb(name: str, given: dict[str, Any], constants: Mapping[str, Constant] | str | None) -> MDP:
    from almostsure.model.files import load

    _refuse({"constants": constants} if constants else {}, f"{name} is a built model without constants")
    return load(name, **given)


def _map(name: str, given: dict[str, Any], constants: dict[str, Any]) -> MDP:
    import inspect

    from almostsure.model.build.grid import from_map

    _refuse(given, f"the characters of the map {name} define damage")
    known = [parameter for parameter in inspect.signature(from_map).parameters if parameter not in ("text", "legend")]
    for option in constants:
        if option not in known:
            raise UnknownName("constant of a map", option, known, f"A map has: {', '.join(known)}.")
    return _made(name, constants, lambda: from_map(Path(name), **constants))


def _storm(name: str, given: dict[str, Any], constants: Mapping[str, Constant] | str | None) -> MDP:
    if "damage" not in given:
        return _umb(name, given, None)  # raises: such a file needs damage=
    from almostsure.model.storm.read import from_prism

    return from_prism(name, damage=given.pop("damage"), constants=constants, **given)


def _table(env: Any, damage: str | None) -> MDP:
    from almostsure.model.build.tables import from_gymnasium

    with Blame(lambda: f"the table of transitions of {env.spec.id} cannot be read"):
        return from_gymnasium(env, damage)


def model_of_environment(
    name: str, given: dict[str, Any], constants: dict[str, Any], find: Callable[[Any, Any], MDP]
) -> MDP:
    """The model of an environment: its own, or ``find(env, damage)``.  The environment is made and closed here."""
    damage = given.pop("damage", None)
    _refuse(given, "an environment has its own reward")
    with closing(make_environment(name, **constants)) as env:
        own = getattr(env.unwrapped, "mdp", None)
        if isinstance(own, MDP):
            _refuse({} if damage is None else {"damage": damage}, f"{env.spec.id} has its own model")
            return own
        return find(env, damage)
