"""Validates users' arguments: numbers are never rounded, and wrong argument names are answered with the right ones."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, ModelError, UnknownName, WrongWord, nearest

TO_LEARNER = {  # what to pass instead of a discount to functions that take learners, or whose result a learner takes
    "learners": "learners=[ShieldedQ(discount=…)]",
    "settings": "settings=Settings(discount=…)",
    "shield": "it to the learner, as discount= (gamma= in Stable-Baselines3)",
}
TO_SAMPLER = {"sampler": "sampler=EnvSampler(env, set_state, damage)"}
SAMPLES = {"samples": "samples", "delta": "mu= and delta=, which determine the number of samples"}
# Argument names of other libraries: the parameters that they may mean here, and what to pass for each.
WORDS: dict[str, dict[str, str]] = {
    "gamma": {"discount": "discount"} | TO_LEARNER,
    "discount": TO_LEARNER,
    "total": {"budget": "budget"},
    "limit": {"budget": "budget"},
    "cost_limit": {
        "budget": "budget",
        "limit": "limit",
        "constraint": "constraint=AlmostSure(budget), or Expected(budget)",
    },
    "cost": {"damage": "damage"} | TO_SAMPLER,
    "damage": TO_SAMPLER,
    "epsilon": {"risk": "risk", "delta": "delta=, the probability of being wrong", "explore": "explore"},
    "confidence": {"delta": "delta=, which is 1 − confidence"},
    "mu": {"needed": "needed=samples_needed(…, mu=, delta=)"},
    "terminal": {"outcomes": "actions=; a state without any is terminal"},
    "timesteps": {"total_timesteps": "total_timesteps", "steps": "steps"},
    "total_timesteps": {"steps": "steps"},
    "steps": {"total_timesteps": "total_timesteps"},
    "delta": {"risk": "budget= (Δ) or risk=", "budget": "budget"},
    "horizon": {"max_steps": "max_steps"},
    "budget": {
        "cap": "cap",
        "limit": "limit",
        "remaining": "remaining",
        "constraint": "constraint=AlmostSure(budget)",
    },
    "samples": SAMPLES,
    "n_samples": SAMPLES,
    "num_samples": SAMPLES,
    "n": {"episodes": "episodes"},
    "episodes": {"steps": "steps"},
    "num_episodes": {"episodes": "episodes", "steps": "steps"},
    "n_episodes": {"episodes": "episodes", "steps": "steps"},
    "start": {"initial": "initial"},
    "start_state": {"initial": "initial"},
} | {
    name: {"settings": f"settings=Settings({name}=…)"}
    for name in ("n_envs", "n_steps", "batch_size", "n_epochs", "learning_rate", "gae_lambda", "ent_coef", "net_arch")
}
MAX_BUDGET = 2**31 - 2  # one below INFINITE
MAX_HORIZON = 2**31 - 2  # steps are stored in 32 bits

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")
V = TypeVar("V")


def names_right_word(function: F) -> F:
    """Make a function or class refuse names of other libraries, such as ``gamma=``, with an error that names its own.

    A name is refused if the function has another argument of that meaning, and none of that name.  ``horizon``, for
    example, is right where it means the number of steps that count, and wrong where ``max_steps``, the truncation of
    episodes, is meant.  For a misspelled name the error suggests the nearest argument.

    Examples
    --------
    >>> from almostsure.arguments import names_right_word
    >>> @names_right_word
    ... def value(reward, *, discount=1.0):
    ...     return reward * discount
    >>> value(3, gamma=0.9)
    Traceback (most recent call last):
    almostsure.errors.WrongWord: value has no argument gamma: pass discount=
    """
    body = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    known = {name: kind for name, kind in inspect.signature(body).parameters.items() if name != "self"}
    wrong = {
        given: next(word for name, word in meant.items() if name in known)
        for given, meant in WORDS.items()
        if given not in known and any(name in known for name in meant)
    }

    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())

    @functools.wraps(body)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for given in kwargs.keys() - known.keys() if kwargs else ():
            word = wrong.get(given) or (None if takes_any else nearest(given, known))
            if word is not None:
                raise WrongWord(function.__name__, given, word)
        return body(*args, **kwargs)

    if isinstance(function, type):
        function.__init__ = checked  # type: ignore[misc]
        return function
    return checked  # type: ignore[return-value]


def whole(name: str, value: object) -> int:
    """``value`` as an int if it is a whole number of either sign; 3.0 and NumPy integers are, True is not."""
    if type(value) is int:  # the common case, fast: shields call this at every step
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError, ValueError):  # ∞, NaN
            number: int = int(value)  # type: ignore[call-overload]
            if number == value:
                return number
    raise ArgumentError(f"{name} must be a whole number; got {value!r}")


def count(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """``value`` as an int if it is a whole number, at least ``least``, and at most ``most`` if that is given."""
    number = whole(name, value)
    if number < least:
        raise ArgumentError(f"{name} must be at least {least}; got {number}")
    if most is not None and number > most:
        raise ArgumentError(f"{name} must be at most {most:,}; got {number}")
    return number


def whole_array(name: str, values: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
    """``values`` as an array of integers, if they are whole numbers."""
    if isinstance(values, list | tuple) and any(isinstance(value, bool) for value in values):
        raise ArgumentError(f"{name} must be whole numbers; got bool")
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:  # nested sequences of different lengths, for example
        raise ArgumentError(f"{name} must be whole numbers; {error}") from None
    if array.dtype.kind in "iu":
        return array
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(np.int64)  # an empty list
    if array.dtype.kind != "f":
        raise ArgumentError(f"{name} must be whole numbers; got {array.dtype}")
    good = (np.abs(array) < 2**53) & (array == np.floor(array))  # NaN and ∞ are not
    if not good.all():
        at = int(np.argmin(good))
        more = and_more(int(good.size - np.count_nonzero(good)) - 1, "entry")
        raise ArgumentError(f"{name} must be whole numbers; got {array.ravel()[at]} at entry {at}{more}.")
    return array.astype(np.int64)


def check_budget(budget: object, name: str = "budget") -> int:
    """``budget`` as an int if it is a whole number, 0 or more; 3.0 and NumPy integers are."""
    value = check_real(name, budget)
    if not (value >= 0 and value.is_integer()):
        raise ArgumentError(f"{name} must be a whole number, 0 or more; got {budget!r}")
    if value > MAX_BUDGET:
        raise ArgumentError(f"{name} must be at most {MAX_BUDGET}; got {budget!r}")
    return int(value)


def check_horizon(horizon: object, *, least: int = 1) -> int:
    """``horizon`` as an int if it is a number of steps."""
    steps = count("horizon", horizon, least=least)
    if steps > MAX_HORIZON:
        raise ArgumentError(f"horizon must be at most {MAX_HORIZON}; got {steps}. Without a horizon every step counts.")
    return steps


def check_seed(seed: object) -> int:
    """``seed`` as an int if it is a whole number of 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ArgumentError(f"seed must be a whole number, 0 … 2**64 − 1; got {seed!r}")
    return int(seed)


def check_discount(discount: object) -> float:
    """``discount`` as a float if it lies in (0, 1]."""
    value = check_real("discount", discount)
    if not 0 < value <= 1:
        raise ArgumentError(f"discount must lie in (0, 1]; got {value:g}. The default, 1, does not discount.")
    return value


def check_positive(name: str, given: object) -> float:
    """``given`` as a float if it is positive and finite."""
    value = check_real(name, given)
    if not (value > 0 and math.isfinite(value)):
        raise ArgumentError(f"{name} must be positive and finite; got {value:g}")
    return value


def check_tolerance(tolerance: object) -> float:
    """``tolerance`` as a float if it is positive and finite."""
    return check_positive("tolerance", tolerance)


def check_real(name: str, value: object) -> float:
    """``value`` as a float if it is a real number; bools and NaN are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentError(f"{name} must be a number; got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = -math.inf if str(value).startswith("-") else math.inf
    if math.isnan(number):
        raise ArgumentError(f"{name} must be a number; got NaN")
    return number


def one_of(what: str, given: object, known: Collection[str]) -> None:
    """Raise UnknownName, which suggests the nearest name and lists all, unless ``given`` is one of the known names."""
    if not isinstance(given, str) or given not in known:
        raise UnknownName(what, given, known, f"There are: {', '.join(known) or 'none'}.")


def mapping(name: str, given: Mapping[K, V] | None, what: str) -> Mapping[K, V]:
    """``given`` if it is a mapping, an empty one for None; ``what`` says in messages what must map to what."""
    if given is not None and not isinstance(given, Mapping):
        raise ModelError(f"{name} must map {what}; got {given!r:.80}")
    return given or {}


def as_python(value: Any) -> Any:
    """A NumPy scalar as a Python number; any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def and_more(count: int, what: str) -> str:
    """The tail of an error message that counts the other offenders."""
    many = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f" (and {count} more {what if count == 1 else many})" if count > 0 else ""
