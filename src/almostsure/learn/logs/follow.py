"""Checks that the rows of a log are consecutive steps of episodes.

A log with missing, repeated or reordered rows does not show the true outcomes, so nothing valid can be learned from it.
Therefore, within an episode,

- the next state of a row must be the state of the row after it;
- numbered steps must begin with 0 or 1 and increase by one;
- no row may follow one that is flagged terminated or truncated;
- cumulative damage must not fall, and must agree with the damage of each row if a log has both;

and an episode must not go on after rows of another one.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from almostsure.arguments import as_python
from almostsure.errors import ModelError
from almostsure.learn.logs.columns import LogRows
from almostsure.model.arrays import Bools, Ints

SORT = "Sort the log by episode and step."


@final
class Follower:
    """Checks the rows of a log, piece by piece.

    Parameters
    ----------
    max_damage
        The largest damage of one step.
    """

    def __init__(self, max_damage: int) -> None:
        self.max_damage = max_damage
        self._last: LogRows | None = None  # the row before the next piece
        self._episodes: set[Any] = set()  # all so far
        self._first_step = 0

    def follow(self, rows: LogRows) -> tuple[Ints, Bools]:
        """Check the next rows; returns the damage of each of them, and whether it is the first of its episode."""
        if self._last is None:
            self._check_start(rows)
        elif any((x is None) != (y is None) for x, y in zip(self._last, rows, strict=True)):
            raise ModelError(f"all parts of a log must have the same columns; they differ at {rows.place(0)}")
        before, new = self._last, slice(-rows.state.size, None)
        rows = rows if before is None else _joined(before, rows)
        begins = self._begins(rows, is_first=before is None)
        self._check_episodes(rows, begins, new)
        if rows.step is not None:
            self._check_steps(rows, rows.step, begins)
        self._check_states(rows, begins)
        damage = self._damage(rows, begins)
        self._last = _last_row(rows)
        return damage[new], begins[new]

    def _check_start(self, rows: LogRows) -> None:
        if rows.step is None:
            return
        if rows.step[0] > 1:
            raise ModelError(f"an episode must begin with step 0 or 1; got {rows.step[0]} at {rows.place(0)}. {SORT}")
        self._first_step = int(rows.step[0])

    def _begins(self, rows: LogRows, *, is_first: bool) -> Bools:
        """Which rows are the first of their episode; ``is_first``: whether the piece is the first of the log."""
        begins = np.zeros(rows.state.size, np.bool_)
        begins[0] = is_first
        if rows.episode is not None:
            begins[1:] = rows.episode[1:] != rows.episode[:-1]
        else:
            begins[1:] = (rows.terminated | rows.truncated)[:-1]
        return begins

    # ------------------------------------------------------------------ the rules

    def _check_episodes(self, rows: LogRows, begins: Bools, new: slice) -> None:
        if rows.episode is None:
            return
        after_end = np.append(False, (rows.terminated | rows.truncated)[:-1]) & ~begins
        if after_end.any():
            at = int(np.argmax(after_end))
            how = "terminated" if rows.terminated[at - 1] else "truncated"
            raise ModelError(
                f"nothing must follow a row that is flagged {how}; {rows.place(at)} goes on with episode "
                f"{as_python(rows.episode[at])!r}. Give each episode a number of its own."
            )
        for at in np.flatnonzero(begins[new]).tolist():
            name = as_python(rows.episode[new][at])
            if name in self._episodes:
                where = rows.place(at + rows.state.size - begins[new].size)
                raise ModelError(
                    f"the rows of an episode must be consecutive; {where} goes on with episode {name!r}, after "
                    f"another one. {SORT} If they are episodes of several logs, give each another number."
                )
            self._episodes.add(name)

    def _check_steps(self, rows: LogRows, step: Ints, begins: Bools) -> None:
        wanted = np.where(begins, self._first_step, np.append(0, step[:-1]) + 1)
        wrong = step != wanted
        wrong[0] &= begins[0]  # otherwise it was checked with the last piece
        if not wrong.any():
            return
        at = int(np.argmax(wrong))
        if begins[at]:
            what = f"every episode must begin with step {self._first_step}, as the first one does"
            raise ModelError(f"{what}; got {step[at]} at {rows.place(at)}. Are rows missing?")
        if step[at] == step[at - 1]:
            self._refuse_repetition(rows, at, f"step {step[at]}")
        rule = f"steps must increase by one; got {step[at]} after {step[at - 1]} at {rows.place(at)}"
        raise ModelError(f"{rule}. {SORT if step[at] < step[at - 1] else 'Rows are missing before it.'}")

    def _check_states(self, rows: LogRows, begins: Bools) -> None:
        wrong = np.append(False, rows.state[1:] != rows.next_state[:-1]) & ~begins
        if not wrong.any():
            return
        at = int(np.argmax(wrong))
        if all(column[at] == column[at - 1] for column in (rows.state, rows.action, rows.next_state)):
            self._refuse_repetition(rows, at, "the row before")
        remedy = (
            "Rows are missing, or in the wrong order."
            if rows.episode is not None
            else "If an episode begins there, name the column that says so: columns={'episode': …} or {'truncated': …}."
        )
        raise ModelError(
            f"a row must begin where the one before it ended, in state {rows.next_state[at - 1]}; got state "
            f"{rows.state[at]} at {rows.place(at)}. {remedy}",
            state=int(rows.state[at]),
        )

    def _refuse_repetition(self, rows: LogRows, at: int, what: str) -> None:
        damage = rows.damage if rows.damage is not None else rows.cumulative
        assert damage is not None  # a log without either is refused when its columns are found
        if damage[at] == damage[at - 1]:
            raise ModelError(f"rows must not be repeated; {rows.place(at)} repeats {what}. Remove it.")
        raise ModelError(
            f"damage must not contradict itself; {rows.place(at)} repeats {what} with damage {damage[at]} instead of "
            f"{damage[at - 1]}. Remove the wrong one."
        )

    def _damage(self, rows: LogRows, begins: Bools) -> Ints:
        """The damage of every row, from the damage or the cumulative damage."""
        if rows.cumulative is None:
            assert rows.damage is not None
            return rows.damage
        gained = rows.cumulative - np.where(begins, 0, np.append(0, rows.cumulative[:-1]))
        self._check_gains(rows, gained, begins)
        return gained if rows.damage is None else rows.damage

    def _check_gains(self, rows: LogRows, gained: Ints, begins: Bools) -> None:
        rules = {
            "cumulative damage must not fall": gained < 0,
            f"cumulative damage must not grow by more than {self.max_damage}": gained > self.max_damage,
        }
        if rows.damage is not None:
            rules["damage and cumulative damage must not contradict each other"] = gained != rows.damage
        for rule, wrong in rules.items():
            wrong[0] &= begins[0]  # otherwise it was checked with the last piece
            if wrong.any():
                at = int(np.argmax(wrong))
                here = "" if rows.damage is None else f" where the damage is {rows.damage[at]}"
                raise ModelError(f"{rule}; it changes by {gained[at]}{here} at {rows.place(at)}")


# ---------------------------------------------------------------------- rows


def _last_row(rows: LogRows) -> LogRows:
    """The last row alone."""
    place = rows.place(rows.state.size - 1)
    last: list[Any] = [None if column is None else column[-1:].copy() for column in rows[:-1]]
    return LogRows(*[*last, lambda _: place])


def _joined(before: LogRows, rows: LogRows) -> LogRows:
    """A piece with the row before it."""

    def place(i: int) -> str:
        return before.place(0) if i == 0 else rows.place(i - 1)

    pairs: Any = zip(before[:-1], rows[:-1], strict=True)
    both: list[Any] = [None if y is None else np.append(x, y) for x, y in pairs]
    return LogRows(*[*both, place])
