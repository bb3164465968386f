"""``Outcomes``: looks up the damage of transitions in the model, in a microsecond for one run, at once for many.

An environment shows the state that it reached, and may report the damage; the model says what is possible.  The two
must agree.  If the environment reports no damage, the model determines it, provided that all of its outcomes from s by
a to s' have the same damage; otherwise the environment must report it.

Transitions are numbered ``(state * num_actions + action) * num_states + next_state``.  An array has the damage of every
possible transition, or ``ASK`` if several damages are possible.  These, and all transitions that disagree with the
model, are passed to the method for a single transition, which raises the error.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Final, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import as_python
from almostsure.errors import ModelError, ModelMismatch
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.space import Space

Numbers = npt.NDArray[np.int64]

ASK: Final = -1
DENSE = 1 << 22  # the most entries of a table with one for each number

STALE = (
    "The model is out of date, or of another environment: build it anew, or use an OnlineShield, which learns the "
    "outcomes."
)
UNSEEN = "It was learned without seeing this: learn more, or with a smaller mu. "
ORDER = (
    " Or it numbers the actions in another order, since in the model {} does this: then build the model with "
    "action_names= in the environment's order."
)


@final
class Outcomes:
    """The damages of a model's transitions."""

    def __init__(self, mdp: MDP) -> None:
        self._mdp, self._shape = mdp, (mdp.num_states, mdp.num_actions, mdp.num_states)
        self.known: dict[Any, int] = {}  # cache: by state, action, next state, reported damage and its type

    # ------------------------------------------------------------------ one transition

    def damage(self, state: int, action: int, after: int, reported: Any = None) -> int:
        """The damage of a transition; ``reported`` is that of the environment, or None."""
        mdp, choice = self._mdp, self._mdp.choice(state, action)
        outcomes = slice(int(mdp.outcome_ptr[choice]), int(mdp.outcome_ptr[choice + 1]))
        possible = set(mdp.damage[outcomes][mdp.successor[outcomes] == after].tolist())
        damage = self._only(possible, choice, after) if reported is None else reported_damage(mdp, choice, reported)
        if damage not in possible:
            self._impossible(choice, after, damage)
        if reported is None or isinstance(reported, (int, np.integer)):
            self.known[state, action, after, reported, type(reported)] = damage  # 1+0j equals 1, but is not a damage
        return damage

    def _only(self, possible: set[int], choice: int, after: int) -> int:
        if not possible:
            self._impossible(choice, after, None)
        if len(possible) > 1:
            listed = ", ".join(map(str, sorted(possible)))
            raise ModelError(
                f"the damage of a step must be reported if it may differ; {self._mdp.describe_choice(choice)} to "
                f"{self._mdp.describe_state(after)} may do {listed}, and the environment's info has no 'damage'. "
                "Wrap the environment in DamageTracker(env, damage).",
                choice=choice,
            )
        return next(iter(possible))

    def _impossible(self, choice: int, after: int, damage: int | None) -> NoReturn:
        mdp, lost = self._mdp, "" if damage is None else f" with damage {damage}"
        unseen = UNSEEN if mdp.origin.counted else ""
        others = [f"action {mdp.action_name(action)!r}" for action in self._explained_by(choice, after, damage)]
        raise ModelMismatch(
            f"the environment went from {mdp.describe_choice(choice)} to {mdp.describe_state(after)}{lost}, which the "
            f"shield's model says is impossible. {unseen}{STALE}{ORDER.format(' or '.join(others)) if others else ''}"
        )

    def _explained_by(self, choice: int, after: int, damage: int | None) -> list[int]:
        """The actions of the same state that may lead there; with this damage, unless it is None."""
        mdp = self._mdp
        state = mdp.choice_state(choice)
        return [
            int(action)
            for action in mdp.actions(state)
            if any(o.next_state == after and damage in (None, o.damage) for o in mdp.outcomes(state, int(action)))
        ]

    # ------------------------------------------------------------------ many transitions

    def damages(
        self, states: Numbers, actions: Numbers, after: Numbers, reported: npt.ArrayLike | None = None
    ) -> Numbers:
        """The damages of many transitions; ``reported`` has the reported ones, and None for those without a report."""
        damages = self._look_up(states, actions, after)
        reports = None if reported is None else np.broadcast_to(np.asarray(reported), damages.shape)
        doubtful = damages < 0
        if reports is not None:
            doubtful |= damages != reports if reports.dtype.kind in "biuf" else [one is not None for one in reports]
        if np.count_nonzero(doubtful):  # faster than any() for few
            for at in np.flatnonzero(doubtful).tolist():
                one = None if reports is None else as_python(reports[at])
                step = states.item(at), actions.item(at), after.item(at), one, type(one)
                if type(one) is int and step in self.known:
                    damages[at] = self.known[step]
                    continue
                place = self._mdp.state(states[at]), self._mdp.action(actions[at]), self._mdp.state(after[at])
                damages[at] = self.damage(*place, one)
        return damages

    def _look_up(self, states: Numbers, actions: Numbers, after: Numbers) -> Numbers:
        """The damages; ASK if several are possible, the transition is impossible, or an index is out of range."""
        if not states.shape == actions.shape == after.shape:
            shapes = f"{states.shape}, {actions.shape} and {after.shape}"
            raise ValueError(f"there must be as many states, actions and next states; got {shapes}")
        try:
            number = np.ravel_multi_index((states, actions, after), self._shape)
        except ValueError:  # out of range, or too many transitions to be numbered
            return np.full(states.shape, ASK, np.int64)
        if self._table is not None:
            return self._table[number].astype(np.int64)
        possible, damage = self._possible
        at, found = places(possible, number)
        return np.where(found, damage[at], ASK).astype(np.int64)

    @cached_property
    def _possible(self) -> tuple[Numbers, npt.NDArray[np.int16]]:
        """The numbers of all possible transitions, ascending, and the damage of each."""
        mdp = self._mdp
        place = mdp.choice_states().astype(np.int64) * mdp.num_actions + mdp.choice_action
        number = place[mdp.outcome_choices()] * mdp.num_states + mdp.successor
        number, (damage,), agree = once_each(number, mdp.damage.astype(np.int16))
        return number, np.where(agree, damage, np.int16(ASK))

    @cached_property
    def _table(self) -> npt.NDArray[np.int16] | None:
        """The damage of each number, if they are few."""
        number, damage = self._possible
        if math.prod(self._shape) > DENSE:
            return None
        table = np.full(math.prod(self._shape), ASK, np.int16)
        table[number] = damage
        return table


def once_each(number: Numbers, *columns: Ints) -> tuple[Numbers, list[Ints], Bools]:
    """The distinct numbers, ascending; their first entries in the columns; and whether all entries of each agree."""
    if (np.diff(number) < 0).any():
        order = np.argsort(number, kind="stable")
        number, columns = number[order], tuple(column[order] for column in columns)
    first = np.flatnonzero(np.diff(number, prepend=-1))
    agree = [np.minimum.reduceat(x, first) == np.maximum.reduceat(x, first) for x in columns]
    return number[first], [column[first] for column in columns], np.logical_and.reduce(agree)


def places(ascending: Numbers, wanted: Numbers) -> tuple[Ints, Bools]:
    """The positions of numbers among ascending ones, and whether they occur there."""
    at = np.minimum(np.searchsorted(ascending, wanted), ascending.size - 1)
    return at, ascending[at] == wanted


def reported_damage(space: Space, choice: int, reported: Any) -> int:
    """The damage that an environment reports for a step, as an int; True is 1."""
    damage = as_damage(reported)
    if damage is None:
        raise ModelError(
            f"damage must be an integer 0 … {MAX_DAMAGE}; got {reported!r} at {space.describe_choice(choice)}. "
            "Scale or round it in DamageTracker(env, damage).",
            choice=choice,
        )
    return damage
