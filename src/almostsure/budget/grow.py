"""``GrowingBudget``: updates a minimal budget when outcomes are added to the model.

More outcomes can only raise k*, so the old values are lower bounds, and only states that lose their support need to be
examined: those without a choice all of whose outcomes cost at most the state's value.  These are *dead*, all others are
settled.  Levels are visited in ascending order.  At level L, the candidates are all dead states, and the states settled
at L that may have lost their support.  A candidate without a choice all of whose outcomes cost at most L is dead, which
may remove the support of others: of candidates at this level, and of settled states when their level is visited.  The
remaining candidates are settled at L.  The next level is the least at which a settled state may have lost its support
or an outcome of a dead state becomes affordable; if there is none, the dead states have ∞.  This is the definition of
the levels, restricted to states that may have changed.

Ranks are updated too, so the raised budget has a certificate.  The work is counted; if a change turns out not to be
local, the compiled engine solves the whole model instead.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import final

import numpy as np

from almostsure.budget.minimal import INFINITE, NO_CAP, Answer, Halted, MinimalBudget
from almostsure.errors import Interrupted, ModelError
from almostsure.model.arrays import grouped, owners
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.model.mdp import MDP, Ints, Support, index_dtype

LOCAL = 30_000  # outcomes examined after which solving the whole model is faster


class _NotLocal(Exception):
    """The change affects too many states to be followed one by one."""


@final
class GrowingBudget:
    """A minimal budget that is updated as outcomes are discovered.

    Parameters
    ----------
    minimal
        The budget to begin with, without a cap.  To begin without outcomes, take the budget of a model in which every
        choice is a self-loop without damage and reward, which does not change k*.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [0, 0], [0, 0], terminal=[1])
    >>> growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    >>> growing.add(0, 0, 0, 1)  # action 0 may do damage 1
    ()
    >>> growing.add(0, 1, 1, 2)  # action 1 may do damage 2: now state 0 needs 2
    (0,)
    >>> growing.of_choice
    array([3, 2, 0], dtype=int32)
    """

    def __init__(self, minimal: MinimalBudget) -> None:
        if minimal.cap is not None:
            raise ModelError(f"only a budget without a cap can grow; this one has cap={minimal.cap}. Solve without it.")
        self.mdp: MDP = minimal.mdp
        self.solves = 0  # the number of changes that were not local
        self._begin(minimal.mdp.support, minimal)

    def _begin(self, base: Support, solved: MinimalBudget | Answer) -> None:
        """Take the solution of all outcomes known so far, which are those of ``base``."""
        self._base, self.of_state, self.of_choice = base, solved.of_state.copy(), solved.of_choice.copy()
        self.rank = solved.rank.astype(np.int64)
        self._next_rank = int(self.rank.max()) + 1
        self._added: dict[int, list[tuple[int, int]]] = defaultdict(list)  # choice -> (successor, damage)
        self._leading: dict[int, list[int]] = defaultdict(list)  # state -> choices with an added outcome to it
        self._before: tuple[Ints, Ints] | None = None  # the predecessors of all states, computed on first use
        self._unfinished = False  # whether an update was interrupted, so that values may be too small; set last

    # ------------------------------------------------------------------ growing

    def add(self, state: int | str, action: int | str, next_state: int | str, damage: int) -> tuple[int, ...]:
        """Add one outcome; returns the states whose budget rose, ascending.

        If it is interrupted by Ctrl-C, values may be too small until the next call completes the update.
        """
        choice, target = self.mdp.choice(state, action), self.mdp.state(next_state)
        amount = as_damage(damage)
        if amount is None:
            raise ModelError(f"damage must be an integer 0 … {MAX_DAMAGE}; got {damage!r}", choice=choice)
        is_new = (target, amount) not in self._outcomes(choice)
        if is_new:
            self._added[choice].append((target, amount))
            self._leading[target].append(choice)
        if self._unfinished:
            return self._solve_anew()
        if not is_new:
            return ()
        cost = min(int(self.of_state[target]) + amount, INFINITE)
        if cost <= self.of_choice[choice]:
            return ()
        s = self.mdp.choice_state(choice)
        rest = min((int(self.of_choice[c]) for c in self.mdp.choices(s) if c != choice), default=INFINITE)
        if min(cost, rest) <= self.of_state[s]:
            self.of_choice[choice] = cost
            return ()
        self._unfinished = True
        raised = self._raise(s)
        self._unfinished = False
        return raised

    def snapshot(self, mdp: MDP | None = None) -> MinimalBudget:
        """The current values as a MinimalBudget of ``mdp``, which must have exactly the outcomes known so far."""
        if self._unfinished:
            self._solve_anew()
        owner = self.mdp if mdp is None else mdp
        return MinimalBudget(
            mdp=owner, of_state=self.of_state.copy(), of_choice=self.of_choice.copy(), rank=self.rank.copy(),
            engine="growing engine",
        )  # fmt: skip

    # ------------------------------------------------------------------ the current game

    def _outcomes(self, choice: int) -> list[tuple[int, int]]:
        begin, end = self._base.outcome_ptr[choice : choice + 2].tolist()
        known = list(zip(self._base.successor[begin:end].tolist(), self._base.damage[begin:end].tolist(), strict=True))
        return known + self._added[choice] if choice in self._added else known

    def _predecessors(self, state: int) -> set[int]:
        if self._before is None:
            ptr, order = grouped(self._base.successor, self._base.num_states)
            self._before = ptr, owners(self._base.outcome_ptr)[order]
        begin, by_target = self._before
        leading = set(by_target[begin[state] : begin[state + 1]].tolist())
        return leading | set(self._leading[state]) if state in self._leading else leading

    # ------------------------------------------------------------------ raising

    def _raise(self, start: int) -> tuple[int, ...]:
        try:
            raised = _Local(self, start).run()
        except _NotLocal:
            return self._solve_anew()
        for choice in {c for s in raised for c in (*self._predecessors(s), *self.mdp.choices(s))}:
            cost = max(int(self.of_state[t]) + d for t, d in self._outcomes(choice))
            self.of_choice[choice] = min(cost, INFINITE)
        return tuple(sorted(raised))

    def _solve_anew(self) -> tuple[int, ...]:
        from almostsure.budget.compiled.engine import solve_levels

        merged = self._merged()
        try:
            answer = solve_levels(merged, cap=NO_CAP, report=lambda _level, _settled: None)
        except Halted:
            raise Interrupted("interrupted; the next add() or snapshot() completes the update.") from None
        raised = np.flatnonzero(answer.of_state != self.of_state)
        self._begin(merged, answer)
        self.solves += 1
        return tuple(raised.tolist())

    def _merged(self) -> Support:
        """The base and the added outcomes, as one support."""
        base = self._base
        extra = [(c, t, d) for c, found in self._added.items() for t, d in found]
        choice, target, damage = np.array(extra, np.int64).reshape(-1, 3).T
        order = np.argsort(choice, kind="stable")
        at = base.outcome_ptr[choice[order] + 1]
        counts = np.bincount(choice, minlength=base.num_choices)
        ptr = base.outcome_ptr + np.r_[0, np.cumsum(counts)]
        return Support(
            choice_ptr=base.choice_ptr,
            outcome_ptr=ptr.astype(index_dtype(base.num_outcomes + len(extra) + 1)),
            successor=np.insert(base.successor, at, target[order]),
            damage=np.insert(base.damage, at, damage[order].astype(np.uint8)),
        )


class _Local:
    """A local update, state by state (see the module's docstring)."""

    def __init__(self, growing: GrowingBudget, start: int) -> None:
        self.growing = growing
        self.dead: set[int] = set()
        self.level = -1
        self.before: dict[int, tuple[int, int]] = {}  # value and rank of the states that died
        self.doubtful = [(int(growing.of_state[start]), start)]  # settled states that may have lost support, by level
        self.spent = 0
        self.outcomes: dict[int, list[list[tuple[int, int]]]] = {}

    def run(self) -> set[int]:
        value = self.growing.of_state
        try:
            while (level := self._next_level()) is not None:
                self._visit(level)
            for s in self.dead:
                value[s] = INFINITE
        except BaseException:
            for s, (v, r) in self.before.items():
                value[s], self.growing.rank[s] = v, r
            raise
        return {s for s, (v, _) in self.before.items() if value[s] != v}

    def _next_level(self) -> int | None:
        value, levels = self.growing.of_state, []
        while self.doubtful and (self.doubtful[0][1] in self.dead or value[self.doubtful[0][1]] != self.doubtful[0][0]):
            heapq.heappop(self.doubtful)
        if self.doubtful:
            levels.append(self.doubtful[0][0])
        for s in self.dead:
            for choice in self._choices(s):
                costs = [int(value[t]) + d for t, d in choice if t not in self.dead]
                levels += [cost for cost in costs if self.level < cost < INFINITE]
        return min(levels, default=None)

    def _choices(self, s: int) -> list[list[tuple[int, int]]]:
        if s not in self.outcomes:
            self.outcomes[s] = [self.growing._outcomes(c) for c in self.growing.mdp.choices(s)]
        self.spent += sum(map(len, self.outcomes[s]))
        if self.spent > LOCAL:
            raise _NotLocal
        return self.outcomes[s]

    def _visit(self, level: int) -> None:
        value, rank, growing = self.growing.of_state, self.growing.rank, self.growing
        self.level = level
        look = list(self.dead)
        value[look] = level
        self.dead.clear()
        while self.doubtful and self.doubtful[0][0] == level:
            s = heapq.heappop(self.doubtful)[1]
            if value[s] == level:
                look.append(s)
        while look:
            s = look.pop()
            if value[s] != level or self._has_support(s, level):
                continue
            self.before.setdefault(s, (level, int(rank[s])))
            value[s] = INFINITE
            rank[s] = growing._next_rank
            growing._next_rank += 1
            self.dead.add(s)
            self._queue_predecessors(s, level, look)

    def _has_support(self, s: int, level: int) -> bool:
        value = self.growing.of_state
        return any(all(int(value[t]) + d <= level for t, d in choice) for choice in self._choices(s))

    def _queue_predecessors(self, s: int, level: int, look: list[int]) -> None:
        """Queue the states that may have relied on ``s`` for examination: now, or when their level is visited."""
        value = self.growing.of_state
        predecessors = self.growing._predecessors(s)
        self.spent += len(predecessors)
        for p in {self.growing.mdp.choice_state(c) for c in predecessors}:
            if value[p] == level:
                look.append(p)
            elif level < value[p] < INFINITE:
                heapq.heappush(self.doubtful, (int(value[p]), p))
