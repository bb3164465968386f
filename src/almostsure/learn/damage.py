"""``StepDamage``: the damage of an environment's steps, computed by a function or a rule, or reported in ``info``."""

from __future__ import annotations

import re
from typing import Any, final

from almostsure.errors import Blame, ModelError
from almostsure.model.build.damage import DAMAGE_KEYS, Damage, check_reset, damage_function, known_damage
from almostsure.wording import brief

RULE = re.compile(r"[<>=]|\bterminated\b")  # in a rule, but not in a key of ``info``


@final
class StepDamage:
    """The damage of each step.

    Parameters
    ----------
    env
        The environment.
    damage
        A function of (state, action, next state, reward, terminated), a rule, or a key of ``info``.  By default
        ``"damage"`` or ``"cost"``, whichever there is, or the known damage of a toy-text environment.
    """

    def __init__(self, env: Any, damage: Damage | str | None) -> None:
        self.function: Damage | None = None
        self.keys: tuple[str, ...] = DAMAGE_KEYS
        if isinstance(damage, str) and RULE.search(damage) is None:
            self.keys = (damage,)
        else:
            self.function = known_damage(env) if damage is None else damage_function(damage)

    def check_reset(self, info: dict[str, Any]) -> None:
        """Raise ModelError if a reset did damage, according to ``info``."""
        check_reset(info, *self.keys)

    def __call__(self, before: Any, action: int, after: Any, reward: float, terminated: bool, info: Any) -> Any:
        """The damage of a step, as computed or reported."""
        if self.function is not None:
            outcome = before, action, after, reward, terminated
            with Blame(lambda: f"damage failed for {', '.join(map(brief, outcome))}"):
                return self.function(*outcome)
        for key in self.keys:
            if key in info:
                return info[key]
        raise ModelError(
            f"info must hold the damage under {' or '.join(map(repr, self.keys))}; it has "
            f"{sorted(map(str, info)) or 'nothing'} after {brief(before)}, action {action}. Pass damage=, a rule or a "
            "function of (s, a, s2, r, terminated)."
        )
