"""Counting the steps of a log when nobody knows beforehand how many states and actions it will show."""

from __future__ import annotations

from collections import Counter
from typing import final

import numpy as np

from almostsure.errors import LimitReached, ModelError
from almostsure.learn.logs.follow import Steps
from almostsure.learn.tally import DAMAGES, Tally, block_of
from almostsure.model.mdp import MDP, Ints

MOST_CHOICES = 1 << 27  # a gigabyte for each of the two arrays that have one entry a choice


@final
class Seen:
    """What a log showed so far.

    Inside, choices are numbered state · room for actions + action, and next states from 1: 0 is the end.  When the
    room is used up it is doubled, and the tally numbered anew.
    """

    def __init__(self) -> None:
        self.num_states = self.num_actions = 0  # as far as was seen
        self.rows = self.ends = 0
        self.starts: Counter[int] = Counter()
        self._states = self._actions = 1  # room
        self._tally = Tally(1, 2)

    def add(self, steps: Steps) -> None:
        """Take in some steps."""
        after = np.where(steps.terminated, 0, steps.next_state + 1)
        self._make_room(max(int(steps.state.max()) + 1, int(after.max())), int(steps.action.max()) + 1)
        choice = steps.state * self._actions + steps.action
        order = np.argsort(choice, kind="stable")
        choices, lengths = np.unique(choice, return_counts=True)
        after, reward, damage = after[order], steps.reward[order], steps.damage[order]
        self._tally.add(block_of(choices, lengths, after, reward, damage, self._states + 1))
        self.rows += steps.state.size
        self.ends += int(np.count_nonzero(steps.terminated))
        self.starts.update(steps.state[steps.begins].tolist())

    def _make_room(self, states: int, actions: int) -> None:
        self.num_states, self.num_actions = max(self.num_states, states), max(self.num_actions, actions)
        if self.num_states <= self._states and self.num_actions <= self._actions:
            return
        old, width = self._tally, self._actions
        while self._states < self.num_states:
            self._states *= 2
        while self._actions < self.num_actions:
            self._actions *= 2
        if self._states * self._actions > MOST_CHOICES:
            raise LimitReached(
                f"states and actions up to {self.num_states - 1:,} and {self.num_actions - 1:,} are too many to count. "
                "Number them from 0 on, without gaps: encode= can do that for states."
            )
        self._tally = Tally(self._states * self._actions, self._states + 1)
        _renumbered(old, self._tally, np.arange(old.num_choices) // width * self._actions
                    + np.arange(old.num_choices) % width, np.arange(old.num_states))  # fmt: skip

    def tally(self, blank: MDP, end: int | None) -> Tally:
        """The tally of a blank model's choices; refused if the log shows others."""
        old, result = self._tally, Tally(blank.num_choices, blank.num_states)
        width = max(self._actions, blank.num_actions)
        known = blank.choice_states().astype(np.int64) * width + blank.choice_action
        state, action = np.divmod(np.arange(old.num_choices), self._actions)
        wanted = state * width + action
        choice = np.minimum(np.searchsorted(known, wanted), known.size - 1)
        strange = np.flatnonzero((known[choice] != wanted) & (old.samples > 0))
        if strange.size:
            at, where = int(action[strange[0]]), int(state[strange[0]])
            has = ", ".join(map(str, blank.actions(where).tolist()))
            raise ModelError(
                f"the log must only show actions that a state has; it shows {at} in state {where}, which has {has}.",
                state=where, action=at,
            )  # fmt: skip
        _renumbered(old, result, choice, np.append(-1 if end is None else end, np.arange(old.num_states - 1)))
        return result


def _renumbered(old: Tally, new: Tally, choice: Ints, next_state: Ints) -> None:
    """Fill ``new`` with what ``old`` has seen, given the new number of each choice and of each next state."""
    key = (choice[old.choice] * new.num_states + next_state[old.next_state]) * DAMAGES + old.damage
    order = np.argsort(key)
    samples, latest = np.zeros(new.num_choices, np.int64), np.zeros(new.num_choices, np.int64)
    sampled = np.flatnonzero(old.samples)
    samples[choice[sampled]], latest[choice[sampled]] = old.samples[sampled], old.latest[sampled]
    new.restore(key[order], old.count[order], old.reward[order], samples, latest)
