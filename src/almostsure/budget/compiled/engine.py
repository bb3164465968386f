"""The compiled engine: runs the kernels, with threads, progress and handling of Ctrl-C.

:mod:`almostsure.budget.compiled.parts` describes the kernels; this module allocates their arrays.  It is only imported
for models large enough to be worth loading a compiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.compiled import compact, higher_levels, level_zero, parts, peeling
from almostsure.budget.compiled.parts import Board, Hope, NarrowSupport, Scratch, Small, Watch
from almostsure.budget.minimal import NO_CAP, Answer, Halted
from almostsure.errors import LimitReached
from almostsure.model.mdp import Ints, Support, index_dtype

Report = Callable[[int, int], None]  # level, settled states

SLOW_SWEEPS = 8  # sweeps that doom few states, after which ``spread`` takes over
FEW = 1 / 16  # the fraction of the states that are alive below which a sweep dooms few
PATIENCE = 1 << 21  # states examined between two reports
THREADS = 2
ROUNDS = 4  # rounds of sweeps, after which the remaining states are settled level by level


@functools.cache
def warm_up() -> None:
    """Compile the kernels, or load them from the cache, on a model that needs all of them."""
    support = Support(
        choice_ptr=np.array([0, 1, 2, 4, 5], np.int32),
        outcome_ptr=np.array([0, 1, 2, 3, 4, 5], np.int32),
        successor=np.array([0, 0, 3, 1, 2], np.int32),
        damage=np.array([0, 1, 0, 1, 1], np.uint8),
    )
    with ThreadPoolExecutor(THREADS) as pool:
        run = _Run(support, NO_CAP, pool)
        run._spread(Hope(run.doomed, np.array([0, 1, 2, 4], np.int32), run.rank), 0)
    _solve(support, cap=NO_CAP, report=lambda _level, _settled: None)


def solve_levels(support: Support, *, cap: int, report: Report) -> Answer:
    """k* by levels, compiled.  KeyboardInterrupt becomes :class:`Halted` with the levels that are complete."""
    try:
        warm_up()
    except Halted:  # its answer belongs to the small model
        raise Halted(None) from None
    return _solve(support, cap=cap, report=report)


def _solve(support: Support, *, cap: int, report: Report) -> Answer:
    with ThreadPoolExecutor(THREADS) as pool:
        run = _Run(support, cap, pool)
        try:
            run.level_zero(report)
            run.higher_levels(report)
            return run.answer(cap)
        except KeyboardInterrupt:
            raise Halted(run.answer(run.level) if run.level >= 0 else None) from None


def estimate(support: Support) -> int:
    """The peak memory of a run in bytes, without the model, if level 0 settles almost nothing (measured)."""
    states, choices, outcomes = support.num_states, support.num_choices, support.num_outcomes
    width = np.dtype(_index(support)).itemsize
    is_wide = support.successor.dtype.itemsize > np.dtype(index_dtype(states)).itemsize
    narrowed = 5 * outcomes + 4 * choices if is_wide else 0
    return int(
        narrowed + (5 + 3 * width) * states + 4 * choices + 0.75 * _compact_size(states, choices, outcomes, width)
    )


def _compact_size(states: int, choices: int, outcomes: int, width: int) -> int:
    """The bytes of a compact game and its board; the pool is rarely filled by more than a quarter."""
    packed = np.dtype(index_dtype(states << parts.DAMAGE_BITS)).itemsize
    return (16 + 8 * width) * states + (3 * width + 1) * choices + (packed + 1 + width // 2) * outcomes


def _index(support: Support) -> type[np.int32] | type[np.int64]:
    """The type of ranks (at first below three times the states), choices, and indices into the pool of watchers."""
    pool = support.num_outcomes + support.num_outcomes // 4
    return index_dtype(max(3 * support.num_states, support.num_choices, pool))


def _narrow(support: Support) -> NarrowSupport:
    """The support with the narrowest index types, read-only: kernels are compiled once per combination of types."""

    def fit(array: Ints, dtype: npt.DTypeLike) -> Any:
        narrow = array.astype(dtype, copy=False).view()
        narrow.flags.writeable = False
        return narrow

    return NarrowSupport(
        choice_ptr=fit(support.choice_ptr, index_dtype(support.num_choices + 1)),
        outcome_ptr=fit(support.outcome_ptr, index_dtype(support.num_outcomes + 1)),
        successor=fit(support.successor, index_dtype(support.num_states)),
        damage=fit(support.damage, np.uint8),
    )


class _Run:
    value: npt.NDArray[np.int32]  # set when it is valid as a partial result after Ctrl-C

    def __init__(self, support: Support, cap: int, pool: ThreadPoolExecutor) -> None:
        self.support, self.cap, self.pool = support, cap, pool
        self.game = _narrow(support)
        self.level = -1  # the last level that is complete
        self.index = _index(support)
        self.doomed = np.full(support.num_states, parts.HOPED, np.uint8)  # after level 0: ALIVE, DOOMED or PEELED
        self.rank = np.zeros(support.num_states, self.index)
        self.of_choice = np.empty(support.num_choices, np.int32)

    def _in_parts(self, work: Callable[[int, int, int], Any], size: int) -> list[Any]:
        """Call ``work(part, first, beyond)`` for each part of ``range(size)``, in parallel."""
        edges = _edges(size)
        return list(self.pool.map(work, range(THREADS), edges[:-1], edges[1:]))

    # ------------------------------------------------------------------ level 0

    def level_zero(self, report: Report) -> None:
        """Find the doomed states: those with k* above 0."""
        states = self.support.num_states
        hope = Hope(self.doomed, np.empty(states, self.game.choice_ptr.dtype), self.rank)
        # peeled states must have the smallest ranks, then those that are ruled out: two ranges are reserved for them
        base = 2 * states
        dead, complete = self._sweeps(hope, base, states, lambda lost: report(0, states - lost))
        if not complete:
            dead += self._spread(hope, base + dead)
        self.doomed &= 1  # HOPED becomes ALIVE, and LOST becomes DOOMED
        self.next_rank = base + dead
        self.num_doomed = dead
        self.level = 0

    def _sweeps(self, hope: Hope, base: int, hoped: int, report: Callable[[int], None]) -> tuple[int, bool]:
        """Sweep until no state is lost any more; returns how many are, and False if it became slow before."""
        lost = count = self._sweep(hope, base, again=False, forward=True)
        forward, slow = False, 0
        while count and lost < hoped:
            report(lost)
            if slow == SLOW_SWEEPS:
                return lost, False
            count = self._sweep(hope, base + lost, again=True, forward=forward)
            lost, forward, slow = lost + count, not forward, slow + (count < FEW * (hoped - lost))
        return lost, True

    def _sweep(self, hope: Hope, next_rank: int, *, again: bool, forward: bool) -> int:
        """One sweep in two halves in parallel, each of which only sees the other's lost states before the sweep.

        Neither half loses a state because of a new one of the other half, so both may use the same ranks.
        """
        copies = hope.kind, hope.kind.copy()  # the second half is only written in the copy

        def half(i: int, first: int, beyond: int) -> int:
            part = hope._replace(kind=copies[i])
            return int(level_zero.sweep(self.game, part, next_rank, first, beyond, again, forward))

        count = int(sum(self._in_parts(half, hope.kind.size)))
        middle = _edges(hope.kind.size)[1]
        hope.kind[middle:] = copies[1][middle:]
        return count

    def _spread(self, hope: Hope, next_rank: int) -> int:
        states, outcomes = self.support.num_states, self.support.num_outcomes
        watch = Watch(
            watchers=np.full(states, parts.NOWHERE, self.index),
            following=np.empty(outcomes, self.index),
            state=np.empty(outcomes, self.index),
            choice=np.empty(outcomes, self.index),
            stack=np.empty(states + 1, self.index),
        )
        return int(level_zero.spread(self.game, hope, next_rank, watch))

    # ------------------------------------------------------------------ levels above 0

    def higher_levels(self, report: Report) -> None:
        """Settle the doomed states."""
        states = self.support.num_states
        node = np.full(2 * states, parts.NOWHERE, self.index)
        np.negative(self.doomed, out=node[::2], dtype=self.index, casting="unsafe")  # 0 if settled, else UNSETTLED
        reached = np.empty(states, self.index)
        # ``of_choice`` is not used before the end, so its memory is used here
        order = self.of_choice if self.index is np.int32 else np.empty(self.num_doomed, self.index)
        strides = peeling.stride(self.game.choice_ptr), peeling.stride(self.game.outcome_ptr)
        peeled = peeling.peel(strides, self.game, self.doomed, node, reached, order, self.cap)
        if peeled < 0:
            raise _too_large()
        del reached, order
        peeling.unzip(node, self.doomed, self.rank)
        node.resize(states, refcheck=False)  # in place: a copy would raise the peak of memory
        self.value = node.astype(np.int32, copy=False)
        left = self.num_doomed - peeled
        if left == states or self.cap == 0:  # all are ∞, or all that is left is above the cap
            left = 0
        elif left > states / 2:
            left -= self._rule_out()
        if not left:
            self.level = self.cap
            return
        small = _Compact(self)
        try:
            small.run(self.cap, report)
        finally:  # settled values are exact, also after an interruption
            self.level = small.scatter()

    def _rule_out(self) -> int:
        """If most states are doomed, most of them are ∞: find those first; returns their number.

        In rounds: states with a choice that does damage only on the way to finite states are finite too; all states
        lost in a round without survivors are ∞, as the ranks of that round prove.
        """
        is_doomed = self.doomed == parts.DOOMED
        kind = np.where(is_doomed, np.uint8(parts.HOPED), np.uint8(parts.FINITE))
        kind[(self.value == parts.INFINITE) & ~is_doomed] = parts.LOST
        hope = Hope(kind, np.empty(kind.size, self.game.choice_ptr.dtype), np.empty_like(self.rank))
        for _ in range(ROUNDS):
            hoped = int(np.count_nonzero(kind == parts.HOPED))
            lost, complete = self._sweeps(hope, kind.size, hoped, lambda _: None)
            if not complete:
                return 0
            if lost == hoped:
                ruled_out = is_doomed & (kind == parts.LOST)
                self.rank[ruled_out] = hope.rank[ruled_out]
                self.doomed[ruled_out] = parts.PEELED
                return lost
            kind[kind == parts.HOPED] = parts.FINITE
            kind[is_doomed & (kind == parts.LOST)] = parts.HOPED
        return 0

    # ------------------------------------------------------------------ the answer

    def answer(self, cap: int) -> Answer:
        """The budgets, INFINITE above ``cap``, which must be a complete level."""
        if not hasattr(self, "value"):  # interrupted while peeling
            self.value = np.where(self.doomed == parts.ALIVE, np.int32(0), parts.INFINITE)

        def part(_: int, first: int, beyond: int) -> None:
            level_zero.choice_values(self.game, self.value, first, beyond, self.of_choice)

        self._in_parts(part, self.support.num_choices)
        return Answer(of_state=self.value, of_choice=self.of_choice, rank=self.rank, cap=cap).capped()


class _Compact:
    """The game that remains after level 0 and peeling, and the run of ``advance`` on it."""

    def __init__(self, run: _Run) -> None:
        self.run_of = run
        doomed = np.flatnonzero(run.doomed == parts.DOOMED)
        self.left = left = doomed.size
        first, last = run.game.choice_ptr[doomed], run.game.choice_ptr[doomed + 1]
        choices = int(np.sum(last - first, dtype=np.int64))
        outcomes = int(np.sum(run.game.outcome_ptr[last] - run.game.outcome_ptr[first], dtype=np.int64))
        count = 1 + left + min(int(np.count_nonzero(run.doomed == parts.PEELED)), outcomes)
        packed = index_dtype(count << parts.DAMAGE_BITS)
        local = np.full(run.support.num_states, parts.NOWHERE, run.index)
        local[doomed] = np.arange(1, left + 1)
        self.states = np.empty(count, run.index)
        self.states[0], self.states[1 : left + 1] = parts.NOWHERE, doomed
        del doomed, first, last
        small = Small(
            choice_ptr=np.empty(left + 2, run.index),
            outcome_ptr=np.empty(choices + 1, run.index),
            outcome=np.empty(outcomes, packed),
            reached=np.empty(choices, run.index),  # takes memory only where it is written
        )
        count, choices, size, widest = compact.extract(run.game, run.doomed, run.value, local, self.states, left, small)
        del local
        self.states = self.states[:count]
        small = small._replace(outcome_ptr=small.outcome_ptr[: choices + 1], outcome=small.outcome[:size])
        self._set_up(small, count, choices, widest + widest // 4)

    def _set_up(self, small: Small, states: int, choices: int, room: int) -> None:
        run, index = self.run_of, self.run_of.index
        value, rank = np.zeros(states, np.int32), np.zeros(states, index)
        value[1:] = run.value[self.states[1:]]
        rank[1:] = run.rank[self.states[1:]]
        del self.states
        peeled = np.arange(self.left + 1, states)
        self.events = peeled[np.argsort(value[peeled], kind="stable")].astype(index)
        self.tally = np.array([0, run.next_rank, 0, 0], np.int64)
        self.board = Board(
            *small,
            value=value,
            rank=rank,
            filed=np.full(2 * states, parts.NOWHERE, index),
            card=np.empty(2 * choices, index),
            harm=np.empty(choices, np.uint8),
            due=np.full(parts.BUCKETS, parts.NOWHERE, index),
        )
        self.scratch = Scratch(
            relies=np.empty(states, index),
            watchers=np.full(states, parts.NOWHERE, index),
            following=np.empty(room, index),
            choice=np.empty(room, index),
            queue=np.empty(states, index),
            dead=np.empty(states, index),
        )

    def run(self, cap: int, report: Report) -> None:
        """Run the levels up to ``cap``."""
        higher_levels.file_witnesses(self.board, self.left)
        settled_before = self.run_of.support.num_states - self.left
        status = parts.MORE
        while status in (parts.MORE, parts.WIDEN):
            if status == parts.WIDEN:
                self.board = self.board._replace(rank=self.board.rank.astype(np.int64))
            most = np.iinfo(self.board.rank.dtype).max
            status = higher_levels.advance(self.board, self.scratch, self.tally, self.events, cap, PATIENCE, most)
            report(int(self.tally[parts.LEVEL]), settled_before + int(self.tally[parts.SETTLED]))
        if status == parts.TOO_LARGE:
            raise _too_large()

    def scatter(self) -> int:
        """Copy values and ranks back; returns the last complete level."""
        run = self.run_of
        states = np.flatnonzero(run.doomed == parts.DOOMED)  # in the order of extraction
        run.value[states] = self.board.value[1 : self.left + 1]
        run.rank = run.rank.astype(self.board.rank.dtype, copy=False)
        run.rank[states] = self.board.rank[1 : self.left + 1]
        return int(self.tally[parts.LEVEL])


def _edges(size: int) -> list[int]:
    return [size * i // THREADS for i in range(THREADS + 1)]


def _too_large() -> LimitReached:
    return LimitReached(
        f"finite budgets must be below {int(parts.INFINITE)}; this model needs a larger one. "
        "Scale the damages down, or pass cap=… to stop at a smaller budget."
    )
