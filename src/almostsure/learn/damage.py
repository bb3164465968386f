"""``StepDamage``: the damage of an environment's steps, computed by a function or a rule, or reported in ``info``.

Wherever nobody said which entry of ``info`` is the damage, both ``info["damage"]`` and ``info["cost"]`` are.  If a step
has both, they must agree: to prefer one silently could miss damage.  A tracker inside has said it: it writes the damage
to ``info["damage"]``, and leaves the environment's own cost as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Real
from typing import Any, final

from almostsure.arguments import as_python
from almostsure.errors import Blame, ModelError
from almostsure.model.build.damage import DAMAGE_KEYS, Damage, check_reset, damage_function
from almostsure.model.build.environment import layers
from almostsure.model.build.validate import as_damage
from almostsure.wording import brief

RULE = re.compile(r"[<>=]|\bterminated\b")  # in a rule, but not in a key of ``info``
TRACKERS = "almostsure.gym.damage"  # the module of the wrappers that write the damage


@final
class StepDamage:
    """The damage of each step.

    Parameters
    ----------
    env
        The environment.
    damage
        A function of (state, action, next state, reward, terminated), a rule, or a key of ``info``.  By default
        ``"damage"`` or ``"cost"``, whichever there is; they must agree, unless a tracker inside wrote the former.
    """

    def __init__(self, env: Any, damage: Damage | str | None) -> None:
        self.function: Damage | None = None
        self.keys: tuple[str, ...] = ("damage",) if _is_tracked(env) else DAMAGE_KEYS
        if isinstance(damage, str) and RULE.search(damage) is None:
            self.keys = (damage,)
        elif damage is not None:
            self.function = damage_function(damage)

    def check_reset(self, info: dict[str, Any]) -> None:
        """Raise ModelError if a reset did damage, according to ``info``."""
        check_reset(info, *self.keys)

    def __call__(self, before: Any, action: Any, after: Any, reward: Any, terminated: Any, info: Any) -> Any:
        """The damage of a step, as computed or reported; ModelError if there is neither."""
        if self.function is not None:
            outcome = before, action, after, reward, terminated
            with Blame(lambda: f"damage failed for {', '.join(map(brief, outcome))}"):
                return self.function(before, action, after, float(reward), bool(terminated))
        if (damage := self.reported(info)) is None:
            raise self.missing(info, f"after {'' if before is None else f'{brief(before)}, '}action {action}")
        return damage

    def reported(self, info: Mapping[str, Any]) -> Any:
        """The damage that ``info`` reports, unchecked; None if it reports none, ModelError if it reports two."""
        reported = None
        for key in self.keys:
            value = info.get(key)
            if reported is None:
                reported = value
            elif value is not None and value is not reported and _number(value) != _number(reported):
                first, second = self.keys
                raise ModelError(
                    f"info[{first!r}] and info[{second!r}] must agree, as both may be the damage of a step; got "
                    f"{as_python(reported)!r} and {as_python(value)!r}. Say which it is with damage={first!r} or "
                    f"damage={second!r}, here or in a DamageTracker or VectorDamageTracker around the environment."
                )
        return reported

    def most(self, info: Mapping[str, Any]) -> Any:
        """The largest number that the info of a step reports, for the record of a step that was refused."""
        return max((value for key in self.keys if isinstance(value := info.get(key), Real)), default=None)

    def missing(self, info: Mapping[str, Any], where: str) -> ModelError:
        """The error for a step whose ``info`` does not report the damage."""
        return ModelError(
            f"info must hold the damage under {' or '.join(map(repr, self.keys))}; it has "
            f"{sorted(map(str, info)) or 'nothing'} {where}. Pass damage=, a rule or a function of (s, a, s2, r, "
            "terminated), here or to a DamageTracker around the environment."
        )


def _number(value: Any) -> int | None:
    """A damage as an integer, also from an array with one entry; None for anything else."""
    return as_damage(value.item() if getattr(value, "size", 0) == 1 else value)


def _is_tracked(env: Any) -> bool:
    """Whether a tracker inside wrote the damage; in a vector, it may also be inside each of its environments."""
    if any(type(layer).__module__ == TRACKERS for layer in layers(env)):
        return True
    inside: Any = getattr(getattr(env, "unwrapped", None), "envs", None)
    return bool(inside) and all(map(_is_tracked, inside))
