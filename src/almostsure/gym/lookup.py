"""Which damage many transitions did at once, as the model knows it.

Outcomes are numbered ``(choice * num_states + successor) * 256 + damage``, ascending, so that one binary search finds
all of a batch.  What is not found, or has several damages where none is said, is left to the single form to explain.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import MDP, Bools

Numbers = npt.NDArray[np.int64]

DAMAGES = 256


@final
class Lookup:
    """Finds the damages of transitions."""

    def __init__(self, mdp: MDP) -> None:
        self._num_states, self._num_actions = mdp.num_states, mdp.num_actions
        # one entry more, for states and actions that do not exist
        self._choice: Numbers = np.full(mdp.num_states * mdp.num_actions, -1, np.int64)
        self._choice[mdp.choice_states().astype(np.int64) * mdp.num_actions + mdp.choice_action] = np.arange(
            mdp.num_choices
        )
        pair = mdp.outcome_choices().astype(np.int64) * mdp.num_states + mdp.successor
        self._full: Numbers = np.unique(pair * DAMAGES + mdp.damage)
        self._pair: Numbers
        self._pair, first, count = np.unique(self._full // DAMAGES, return_index=True, return_counts=True)
        self._damage: Numbers = np.where(count == 1, self._full[first] % DAMAGES, -1)  # −1: it may be several

    def damages(self, states: Numbers, actions: Numbers, after: Numbers, said: npt.NDArray[Any] | None) -> Numbers:
        """The damage of each transition; −1 where it is impossible, or unknown."""
        pair = self._choice[states * self._num_actions + actions] * self._num_states + after
        if said is None:
            at = np.minimum(np.searchsorted(self._pair, pair), self._pair.size - 1)
            found: Numbers = np.where(self._pair[at] == pair, self._damage[at], -1)
            return found
        whole: Bools = (said >= 0) & (said < DAMAGES) & (said == np.floor(said))
        damage: Numbers = np.where(whole, said, 0).astype(np.int64)
        key = pair * DAMAGES + damage
        at = np.minimum(np.searchsorted(self._full, key), self._full.size - 1)
        return np.where(whole & (self._full[at] == key), damage, -1)
