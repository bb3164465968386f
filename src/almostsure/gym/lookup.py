"""What a shield knows about many transitions at once: which actions are allowed, and which damage they did.

One table has what each state and action needs.  Outcomes are numbered
``((state * num_actions + action) * num_states + successor) * 256 + damage``: where there are not too many numbers a
table has the damage of each, otherwise one binary search finds those of a batch.  What is impossible, or has several
damages where none is said, is left to the single form to explain.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.budget.answer import INFINITE
from almostsure.model.mdp import MDP, Bools
from almostsure.shield.shield import Shield

Numbers = npt.NDArray[np.int64]

DAMAGES = 256
MOST = 1 << 22  # entries of a table of damages


def outcome_numbers(mdp: MDP) -> Numbers:
    """The number of each outcome, [num_outcomes]."""
    place = mdp.choice_states().astype(np.int64) * mdp.num_actions + mdp.choice_action
    numbers: Numbers = (place[mdp.outcome_choices()] * mdp.num_states + mdp.successor) * DAMAGES + mdp.damage
    return numbers


@final
class Lookup:
    """Masks and damages of many copies of an environment."""

    def __init__(self, shield: Shield) -> None:
        mdp = shield.mdp
        self._shield, self._num_states, self._num_actions = shield, mdp.num_states, mdp.num_actions
        self._needed = np.full((mdp.num_states, mdp.num_actions), INFINITE, np.int32)
        self._needed[mdp.choice_states(), mdp.choice_action] = shield.minimal.of_choice
        full = np.unique(outcome_numbers(mdp))
        self._full: Numbers = full
        pair, first, count = np.unique(full // DAMAGES, return_index=True, return_counts=True)
        self._pair: Numbers = pair
        self._damage: Numbers = np.where(count == 1, full[first] % DAMAGES, -1)  # −1: it may be several
        self._table: npt.NDArray[np.int16] | None = None
        if mdp.num_states**2 * mdp.num_actions <= MOST:
            self._table = np.full(mdp.num_states**2 * mdp.num_actions, -1, np.int16)
            self._table[pair] = self._damage

    def masks(self, states: Numbers, remaining: Numbers) -> npt.NDArray[np.int8]:
        """Which actions are allowed, [copies, num_actions].

        No row is empty where an episode began with enough (:meth:`check`) and all that was played was allowed and led
        where the model says (Theorem 1).
        """
        allowed: Bools = self._needed.take(states, axis=0) <= remaining[:, None]
        return allowed.view(np.int8)

    def check(self, states: Numbers, remaining: Numbers) -> None:
        """Raise NoSafeAction if somebody has no safe action."""
        if (self._shield.minimal.of_state.take(states) > remaining).any():
            self._shield.mask(states, remaining)  # says who

    def refuses(self, states: Numbers, actions: Numbers, remaining: Numbers) -> Bools:
        """Whether each action is refused."""
        result: Bools = self._needed.take(states * self._num_actions + actions) > remaining
        return result

    def damages(self, states: Numbers, actions: Numbers, after: Numbers, said: npt.NDArray[Any] | None) -> Numbers:
        """The damage of each transition; −1 where it is impossible, or unknown."""
        pair = (states * self._num_actions + actions) * self._num_states + after
        if said is not None:
            return self._confirmed(pair, said)
        if self._table is not None:
            return self._table.take(pair).astype(np.int64)
        at = np.minimum(np.searchsorted(self._pair, pair), self._pair.size - 1)
        return np.where(self._pair[at] == pair, self._damage[at], -1)

    def _confirmed(self, pair: Numbers, said: npt.NDArray[Any]) -> Numbers:
        """What is said where that is possible."""
        whole: Bools = (said >= 0) & (said < DAMAGES) & (said == np.floor(said))
        damage: Numbers = np.where(whole, said, 0).astype(np.int64)
        key = pair * DAMAGES + damage
        at = np.minimum(np.searchsorted(self._full, key), self._full.size - 1)
        return np.where(whole & (self._full[at] == key), damage, -1)
