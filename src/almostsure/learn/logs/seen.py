"""Counting the steps of a log whose number of states and actions is not known beforehand."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, final

import numpy as np

from almostsure.errors import ModelError
from almostsure.learn.counts import Counts, outcome_key
from almostsure.learn.logs.columns import LogRows
from almostsure.model.arrays import Bools, Floats, Ints

MANY = 1 << 20  # tables are merged when they have more entries than this, and than twice the merged table
END = -1  # the next state of a step that ended its episode


class SeenTable(NamedTuple):
    """Different outcomes, ascending by (state, action, next state, damage)."""

    outcome: Ints  # [4, outcomes]: state, action, next state, damage
    times: Ints
    reward: Floats  # sums


@final
class Seen:
    """The outcomes and starts in a log so far."""

    def __init__(self) -> None:
        self.rows = self.ends = 0
        self.starts: Counter[int] = Counter()
        self._tables: list[SeenTable] = []
        self._waiting = 0  # entries that are not merged yet

    def add(self, rows: LogRows, damage: Ints, begins: Bools) -> None:
        """Add some rows, with the damage of each row and whether it is the first of its episode."""
        after = np.where(rows.terminated, END, rows.next_state)
        outcome = np.stack([rows.state, rows.action, after, damage])
        table = _merged(SeenTable(outcome, np.ones(rows.state.size, np.int64), rows.reward))
        self._tables.append(table)
        self._waiting += table.times.size
        if self._waiting > max(MANY, 2 * self._tables[0].times.size):
            self.table()
        self.rows += rows.state.size
        self.ends += int(np.count_nonzero(rows.terminated))
        self.starts.update(rows.state[begins].tolist())

    def table(self) -> SeenTable:
        """All outcomes, merged."""
        if len(self._tables) > 1:
            outcomes, times, rewards = zip(*self._tables, strict=True)
            whole = SeenTable(np.concatenate(outcomes, axis=1), np.concatenate(times), np.concatenate(rewards))
            self._tables = [_merged(whole)]
        self._waiting = 0
        return self._tables[0]

    def states(self) -> Ints:
        """The different states, ascending."""
        state, _, after, _ = self.table().outcome
        different: Ints = np.unique(np.concatenate([state, after[after != END]]))
        return different

    def actions(self) -> Ints:
        """The different actions, ascending."""
        return np.unique(self.table().outcome[1])

    def count_into(self, counts: Counts, state_order: Ints, action_order: Ints) -> None:
        """Fill empty counts; state i of the log is state ``state_order[i]`` of the space, and likewise for actions."""
        (state, action, after, damage), times, reward = self.table()
        space = counts.space
        state, action = state_order[state], action_order[action]
        target = np.where(after == END, -1 if space.end is None else space.end, state_order[after])
        choice = space.find_choices(state, action)
        strange = np.flatnonzero(choice < 0)
        if strange.size:
            at, where = int(action[strange[0]]), int(state[strange[0]])
            has = ", ".join(space.action_name(one) for one in space.actions(where).tolist())
            name = space.action_name(at) if at < space.num_actions else str(at)
            raise ModelError(
                f"the log must only show actions that a state has; it shows {name} in {space.describe_state(where)}, "
                f"which has {has}.",
                state=where,
                action=at,
            )
        key = outcome_key(space, choice, target, damage)
        order = np.argsort(key)
        samples = np.bincount(choice, weights=times, minlength=space.num_choices).astype(np.int64)
        arrays = {"key": key[order], "times": times[order], "reward": reward[order], "samples": samples}
        counts.restore({**arrays, "latest": np.zeros_like(samples)})


def _merged(table: SeenTable) -> SeenTable:
    """Sort a table and merge equal outcomes."""
    order = np.lexsort(table.outcome[::-1])
    outcome = table.outcome[:, order]
    starts = np.flatnonzero(np.append(True, (np.diff(outcome) != 0).any(axis=0)))
    return SeenTable(
        outcome[:, starts], np.add.reduceat(table.times[order], starts), np.add.reduceat(table.reward[order], starts)
    )
