"""The damage of outcomes in an environment, as a function or as a rule in text.

A rule has one or more parts, separated by commas, whose damages add up.  A part is a condition, for damage 1, or a
number, ``if``, and a condition::

    reward<=-100                     the cliff of CliffWalking
    terminated and reward<=0         the holes of FrozenLake
    1 if reward<0, 5 if terminated   both, and more for the end

A condition compares ``reward``, ``state``, ``action`` or ``next_state`` with a number by ``<``, ``<=``, ``>``, ``>=``,
``==`` or ``!=``, or is ``terminated``.  ``and`` combines conditions, ``not`` negates one.  Rules are never executed as
code.

Gymnasium's toy environments need no rule: :func:`known_damage` has theirs.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from almostsure.errors import ModelError, UnknownName
from almostsure.model.build.environment import layers, wrapper_that_changes

DAMAGE_KEYS = ("damage", "cost")  # the keys of damage in the info of an environment
Damage = Callable[[Any, Any, Any, float, bool], Any]  # of (state, action, next state, reward, terminated)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
PARAMETERS = ("state", "action", "next_state", "reward", "terminated")  # of a damage function
NUMBERS = ("reward", "state", "action", "next_state")
COMPARISON = re.compile(r"(\w+)\s*(<=|>=|==|!=|<|>)\s*([-+]?[\d.]+(?:e[-+]?\d+)?)", re.IGNORECASE)
PART = re.compile(r"(?:(\d{1,9})\s+if\s+)?(.+)", re.DOTALL)


class _Condition(NamedTuple):
    name: str
    holds: Callable[[Any, Any], bool]
    value: float
    negated: bool


@final
class DamageRule:
    """A rule as a function of (state, action, next state, reward, terminated), for ``from_gymnasium``.

    Examples
    --------
    >>> rule = DamageRule("reward<=-100")
    >>> rule(36, 1, 37, -100.0, False), rule(36, 0, 24, -1.0, False)
    (1, 0)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = [_part(part.strip(), text) for part in text.split(",")]

    def __call__(self, state: Any, action: Any, next_state: Any, reward: float, terminated: bool) -> int:
        """The damage of an outcome."""
        values = {
            "state": state, "action": action, "next_state": next_state, "reward": reward,
            "terminated": bool(terminated),
        }  # fmt: skip
        return sum(amount for amount, conditions in self._parts if all(_holds(c, values) for c in conditions))

    def __repr__(self) -> str:
        return f"DamageRule({self.text!r})"


def takes_an_outcome(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with the five values of an outcome; True if it has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of those written in C have none
        return True
    try:
        signature.bind(*PARAMETERS)
    except TypeError:
        return False
    return True


def damage_function(damage: Any) -> Damage:
    """The damage function given as a function of an outcome, or as a rule."""
    if isinstance(damage, str):
        return DamageRule(damage)
    if not callable(damage) or not takes_an_outcome(damage):
        raise ModelError(f"damage must be a function of ({', '.join(PARAMETERS)}), in this order; got {damage!r}")
    return damage  # type: ignore[no-any-return]


def damage_of(env: Any, damage: Damage | str | None) -> Damage:
    """The damage of an environment's transition table: the given one, or the known one."""
    found = known_damage(env.unwrapped) if damage is None else damage_function(damage)
    if found is None:
        name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
        raise ModelError(
            f"{name} does not define damage. Pass damage=, a rule such as damage='reward<=-10' or damage='terminated', "
            f"or a function of ({', '.join(PARAMETERS)})."
        )
    return found


def known_damage(env: Any) -> Damage | None:
    """The default damage of Gymnasium's toy-text environments; None for others.

    ==============  ==========================================  =================================
    FrozenLake      1 for falling into a hole                   by the map
    CliffWalking    1 for falling off the cliff                 by the rule ``reward<=-100``
    Taxi            1 for an illegal pick-up or drop-off        by the rule ``reward<=-10``
    ==============  ==========================================  =================================

    An environment that reports damage itself (a DamageTracker) has no default: the result is None.  If a wrapper may
    change the rewards or observations that decide, the result is a function that raises ModelError.

    Parameters
    ----------
    env
        A Gymnasium environment, perhaps wrapped.

    Examples
    --------
    >>> import gymnasium
    >>> damage = known_damage(gymnasium.make("CliffWalking-v1"))
    >>> damage(36, 1, 36, -100.0, False), damage(36, 0, 24, -1.0, False)
    (1, 0)
    """
    kind = type(env.unwrapped)
    make = KNOWN.get(f"{kind.__module__}:{kind.__name__}")
    if make is None or any(type(layer).__name__ == "DamageTracker" for layer in layers(env)):
        return None
    damage = make(env.unwrapped)
    part = "reward" if isinstance(damage, DamageRule) else "observation"
    wrapper = wrapper_that_changes(env, part)
    return damage if wrapper is None else partial(_refuse, f"{kind.__name__} is determined by its {part}s", wrapper)


def _refuse(what: str, wrapper: str, *outcome: Any) -> int:
    raise ModelError(
        f"the damage of {what}, which {wrapper} may change. Put DamageTracker of almostsure.gym inside it: "
        f"{wrapper}(DamageTracker(env, known_damage(env)))."
    )


def check_reset(info: dict[str, Any], *keys: str) -> None:
    """Refuse an environment whose reset does damage, according to these keys of ``info``."""
    for key in keys:
        if (damage := info.get(key)) is not None and np.any(damage):
            raise ModelError(f"a reset must do no damage; info[{key!r}] is {damage!r} after it")


def _into_hole(holes: frozenset[int], s: Any, a: Any, s2: Any, r: float, terminated: bool) -> int:
    return int(int(s2) in holes and int(s) not in holes)


# The results must be pickled with environments, so they are not lambdas.
KNOWN: dict[str, Callable[[Any], Damage]] = {
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": lambda lake: partial(
        _into_hole, frozenset(np.flatnonzero(lake.desc.ravel() == b"H").tolist())
    ),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": lambda _: DamageRule("reward<=-100"),
    "gymnasium.envs.toy_text.taxi:TaxiEnv": lambda _: DamageRule("reward<=-10"),
}
TOYS = tuple(path.rpartition(":")[2].removesuffix("Env") for path in KNOWN)


def _part(text: str, whole: str) -> tuple[int, list[_Condition]]:
    found = PART.fullmatch(text)
    if found is None:
        raise _not_understood(text, whole)
    amount, conditions = int(found[1] or 1), re.split(r"\s+and\s+", found[2].strip())
    if amount > 255:
        raise ModelError(f"a damage must be 0 … 255; got {amount} in the rule {whole!r}")
    return amount, [_condition(condition, whole) for condition in conditions]


def _condition(text: str, whole: str) -> _Condition:
    negated, plain = text.startswith("not "), text.removeprefix("not ").strip()
    if plain == "terminated":
        return _Condition("terminated", operator.eq, 1.0, negated)
    found = COMPARISON.fullmatch(plain)
    if found is None:
        raise _not_understood(text, whole)
    if found[1] not in NUMBERS:
        raise UnknownName("quantity", found[1], (*NUMBERS, "terminated"), f"The damage rule is {whole!r}.")
    try:
        return _Condition(found[1], COMPARE[found[2]], float(found[3]), negated)
    except ValueError:
        raise _not_understood(text, whole) from None


def _holds(condition: _Condition, values: dict[str, Any]) -> bool:
    # bool(), since comparisons of NumPy numbers are neither True nor False.
    return bool(condition.holds(values[condition.name], condition.value)) is not condition.negated


def _not_understood(text: str, whole: str) -> ModelError:
    where = "" if text == whole else f" of {whole!r}"
    return ModelError(
        "a damage rule must read like 'reward<=-10', 'terminated and reward<=0' or '2 if reward<0, 5 if terminated'; "
        f"got {text!r}{where}."
    )
