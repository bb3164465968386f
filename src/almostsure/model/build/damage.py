"""What hurts in an environment, said in a word or in a rule, without any code.

A rule is one or more parts with commas between them, whose damages add up.  A part is a condition, which hurts by 1
where it holds, or a number, ``if``, and a condition::

    reward<=-100                     the cliff of CliffWalking
    terminated and reward<=0         the holes of FrozenLake
    1 if reward<0, 5 if terminated   both, and more for the end

A condition compares ``reward``, ``state``, ``action`` or ``next_state`` with a number by ``<``, ``<=``, ``>``, ``>=``,
``==`` or ``!=``, or is ``terminated``; ``and`` joins several, and ``not`` turns one round.

For the toy environments of Gymnasium there are ready rules:

>>> for name, rule in RULES.items():
...     print(f"{name:<13} {rule}")
FrozenLake    terminated and reward<=0
CliffWalking  reward<=-100
Taxi          reward<=-10

Nothing need be said for these (:func:`known_damage`).
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, final

import numpy as np

from almostsure.errors import ModelError, UnknownName

RULES = MappingProxyType(
    {
        "FrozenLake": "terminated and reward<=0",  # falling into a hole, with the usual rewards
        "CliffWalking": "reward<=-100",  # falling off the cliff
        "Taxi": "reward<=-10",  # picking up or dropping nobody
    }
)
TOLD = ("damage", "cost")  # what the info of an environment calls it
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
    """A rule as a function of (state, action, next state, reward, terminated), as ``from_gymnasium`` wants it.

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
    """Whether a function can be called with the five values of an outcome, as far as its signature tells."""
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
    """What users give as damage, as a function: a function of an outcome, a rule, or the name of a ready one."""
    if isinstance(damage, str):
        return DamageRule(RULES.get(damage, damage))
    if not callable(damage) or not takes_an_outcome(damage):
        raise ModelError(f"damage must be a function of ({', '.join(PARAMETERS)}), in this order; got {damage!r}")
    return damage  # type: ignore[no-any-return]


def damage_of(env: Any, damage: Damage | str | None) -> Damage:
    """What hurts in an environment: what is given, or else what is known of it."""
    found = known_damage(env) if damage is None else damage_function(damage)
    if found is None:
        name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
        raise ModelError(
            f"{name} does not say what hurts. Pass damage: a rule such as damage='reward<=-10' or damage='terminated', "
            f"a ready one ({', '.join(RULES)}), or a function of ({', '.join(PARAMETERS)})."
        )
    return found


def known_damage(env: Any) -> Damage | None:
    """What counts as damage in the toy-text environments that Gymnasium has; None for others.

    ==============  ===================================================================
    FrozenLake      1 for falling into a hole
    CliffWalking    1 for falling off the cliff
    Taxi            1 for a pick-up or drop-off that is not possible there
    ==============  ===================================================================

    An environment that says its damage itself (a DamageTracker) is not overruled.

    Parameters
    ----------
    env
        A Gymnasium environment, perhaps wrapped.

    Examples
    --------
    >>> import gymnasium
    >>> hurts = known_damage(gymnasium.make("CliffWalking-v1"))
    >>> hurts(36, 1, 36, -100.0, False), hurts(36, 0, 24, -1.0, False)
    (1, 0)
    """
    layer = env
    while layer is not env.unwrapped:
        if type(layer).__name__ == "DamageTracker":
            return None
        layer = layer.env
    make = KNOWN.get(type(env.unwrapped).__name__)
    return None if make is None else make(env.unwrapped)


def check_reset(info: dict[str, Any], *keys: str) -> None:
    """Refuse an environment whose reset hurts, by what ``info`` says under the keys."""
    for key in keys:
        if info.get(key):
            raise ModelError(f"a reset must do no damage; info[{key!r}] is {info[key]!r} after it")


def _into_hole(holes: frozenset[int], s: Any, a: Any, s2: Any, r: float, terminated: bool) -> int:
    return int(int(s2) in holes and int(s) not in holes)


# These make functions that can be pickled, as environments may be; lambdas cannot.
KNOWN: dict[str, Callable[[Any], Damage]] = {
    # By the map, not by the reward as in RULES: a lake may be made with rewards of its own.
    "FrozenLakeEnv": lambda lake: partial(_into_hole, frozenset(np.flatnonzero(lake.desc.ravel() == b"H").tolist())),
    "CliffWalkingEnv": lambda _: DamageRule(RULES["CliffWalking"]),
    "TaxiEnv": lambda _: DamageRule(RULES["Taxi"]),
}


def _part(text: str, whole: str) -> tuple[int, list[_Condition]]:
    found = PART.fullmatch(text)
    if found is None:
        raise _not_understood(text, whole)
    amount, conditions = int(found[1] or 1), re.split(r"\s+and\s+", found[2].strip())
    if not 0 <= amount <= 255:
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
        raise UnknownName("quantity", found[1], (*NUMBERS, "terminated"), f"It stands in the damage rule {whole!r}.")
    try:
        return _Condition(found[1], COMPARE[found[2]], float(found[3]), negated)
    except ValueError:
        raise _not_understood(text, whole) from None


def _holds(condition: _Condition, values: dict[str, Any]) -> bool:
    # bool, as the tables of environments hold NumPy's numbers, whose comparisons are neither True nor False.
    return bool(condition.holds(values[condition.name], condition.value)) is not condition.negated


def _not_understood(text: str, whole: str) -> ModelError:
    where = "" if text == whole else f" of {whole!r}"
    return ModelError(
        f"a damage rule must read like 'reward<=-10', 'terminated and reward<=0' or '2 if reward<0, 5 if terminated', "
        f"or be one of {', '.join(RULES)}; got {text!r}{where}."
    )
