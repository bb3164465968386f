"""Gymnasium environments: ids as users write them, spaces, wrappers, and what steps and resets return.

``gym:FrozenLake-v1`` is an environment registered in Gymnasium, ``gym:MODULE:ID`` one that a module registers on
import.  ``gym:`` may be left out if only an environment is possible.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from almostsure.errors import ArgumentError, ModelError, UnknownName, nearest
from almostsure.wording import brief

GYM = "gym:"  # before the id of an environment
ENVIRONMENT_ID = re.compile(r"([\w.]+:)?([\w.-]+/)?[\w.-]+-v\d+")  # such as FrozenLake-v1
VERSION = re.compile(r"-v\d+$")
SKIPPING = {  # wrappers of Gymnasium around which damage cannot be counted, and what they hide
    "Autoreset": "every reset",
    "RepeatAction": "every step",
    "MaxAndSkipObservation": "every step",
    "DictInfoToList": "infos as a dictionary",
}
CHANGING = {  # wrappers of Gymnasium with a step of their own, and what they may change; others change nothing
    "AtariPreprocessing": ("observation", "reward"),
    "FrameStackObservation": ("observation",),
    "MaxAndSkipObservation": ("observation", "reward"),
    "NormalizeReward": ("reward",),
    "RepeatAction": ("reward",),
    "TimeAwareObservation": ("observation",),
}
BASES = {"Wrapper": "", "ActionWrapper": "action", "ObservationWrapper": "observation", "RewardWrapper": "reward"}
INFO = (dict, Mapping)  # dict is checked much faster
NEW = "Wrap the environment so that it follows Gymnasium's present interface."
HIDING = SKIPPING | {"StickyAction": "which action is played", "DelayObservation": "the present state"}


def names_environment(name: str) -> bool:
    """Whether a text can only be the name of an environment."""
    return name.startswith(GYM) or ENVIRONMENT_ID.fullmatch(name) is not None


def module_and_id(name: str) -> tuple[str, str]:
    """The module that registers an environment (empty if there is none), and the id."""
    module, _, env_id = name.removeprefix(GYM).rpartition(":")
    return module, env_id


def make_environment(name: str, **options: Any) -> Any:
    """The environment with this name, made by ``gymnasium.make`` with these options."""
    import gymnasium

    module, env_id = module_and_id(name)
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:  # user code may raise anything
            raise ModelError(
                f"the module {module} of {GYM}{module}:{env_id} cannot be imported: {error}. It must be installed, or "
                "a file in the working directory."
            ) from error
    try:
        return gymnasium.make(env_id, **options)
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv):
        raise _unknown(module, env_id) from None
    except Exception as error:  # a missing library, an unknown option, …
        how = f" with {options}" if options else ""
        raise ModelError(f"{env_id} cannot be made{how}: {error}") from error


def one_environment(env: Any) -> Any:
    """The environment, made if it is an id; ArgumentError for a class or a vector of environments."""
    if isinstance(env, str):
        return make_environment(env)
    if isinstance(env, type):
        raise ArgumentError(
            f"env must be an environment; got the class {env.__name__}. Pass an instance: {env.__name__}()."
        )
    if hasattr(env, "single_observation_space"):
        raise ArgumentError(
            f"env must be one environment; got {type(env).__name__}, a vector of them. Pass an environment such as "
            "those in it; ShieldedVectorEnv puts the resulting shield around the vector."
        )
    return env


def discrete_size(what: str, space: Any) -> int | None:
    """The size of a discrete action or observation space (``what``), which must start at 0; None for other spaces."""
    if all(kind.__name__ != "Discrete" for kind in type(space).__mro__):  # other spaces have an n too
        return None
    size, start = int(space.n), int(getattr(space, "start", 0))
    if start:
        shift = f"{what} {'+' if (start > 0) == (what == 'action') else '-'} {abs(start)}"
        raise ArgumentError(
            f"{what}s must be numbered from 0; the space is {space}. Renumber them: gymnasium.wrappers."
            f"Transform{what.title()}(env, lambda {what}: {shift}, gymnasium.spaces.Discrete({size}))."
        )
    return size


def _unknown(module: str, env_id: str) -> UnknownName:
    """The error for an id that is not registered, with known ids of a similar name, apart from the version."""
    import gymnasium

    listed = [known for known, spec in gymnasium.registry.items() if spec is not None]
    like = nearest(VERSION.sub("", env_id), [VERSION.sub("", known) for known in listed])
    near = [known for known in listed if VERSION.sub("", known) == like]
    remedy = f"The module {module} does not register it." if module else f"With its module: {GYM}MODULE:{env_id}."
    return UnknownName("environment", env_id, near, "" if near else remedy)


def layers(env: Any) -> Iterator[Any]:
    """The wrappers around an environment, the outermost first."""
    import gymnasium

    while isinstance(env, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
        yield env
        env = env.env


def wrapper_that_changes(env: Any, *parts: str) -> str | None:
    """The outermost wrapper that may change actions, observations or rewards (``parts``), by name; None if none may.

    Wrappers with a step of their own may change everything, except for Gymnasium's.
    """
    for layer in layers(env):
        kind = next(kind for kind in type(layer).__mro__ if "step" in vars(kind))
        if kind.__module__ == "gymnasium.core":
            changed: tuple[str, ...] = (BASES[kind.__name__],)
        elif kind.__module__.startswith("gymnasium."):
            changed = CHANGING.get(kind.__name__, ())
        else:
            changed = parts
        if any(part in changed for part in parts):
            return type(layer).__name__
    return None


def check_layers(env: Any, who: str, hiding: Mapping[str, str] = HIDING, *, around: bool = True) -> None:
    """Refuse wrappers that hide from ``who`` what it must observe; ``around``: whether ``who`` is a wrapper itself."""
    for layer in layers(env):
        name = type(layer).__name__
        for kind in type(layer).__mro__:
            if kind.__name__ in hiding and kind.__module__.startswith("gymnasium."):
                remedy = f"Put {who} inside it: {name}({who}(…))." if around else "Pass the environment inside it."
                raise ArgumentError(f"{who} must see {hiding[kind.__name__]}; {name} inside hides that. {remedy}")


def two_values(result: Any) -> tuple[Any, Any]:
    """The observation and the info of a reset; ModelError if it returned something else."""
    if not isinstance(result, (tuple, list)) or len(result) != 2 or not isinstance(result[1], INFO):
        raise ModelError(f"a reset must return an observation and a dictionary, info; got {brief(result)}. {NEW}")
    return result[0], result[1]


def five_values(result: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """The five values of a step; the cost, the third of six values in Safety-Gymnasium, becomes ``info["cost"]``.

    Raises ModelError if it returned something else.
    """
    if not isinstance(result, (tuple, list)) or len(result) not in (5, 6) or not isinstance(result[-1], INFO):
        raise ModelError(
            "a step must return observation, reward, terminated, truncated and a dictionary, info, or six values, with "
            f"the cost third; got {brief(result)}. {NEW}"
        )
    if len(result) == 6:
        observation, reward, cost, terminated, truncated, info = result
        if "cost" in info and not np.array_equal(info["cost"], cost):
            raise ModelError(f"info['cost'] must be the cost of the step, {cost!r}; got {info['cost']!r}")
        return observation, reward, terminated, truncated, {**info, "cost": cost}
    observation, reward, terminated, truncated, info = result
    return observation, reward, terminated, truncated, info
