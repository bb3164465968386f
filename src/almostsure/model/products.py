"""``product(mdp, monitor)``: the product of a model and a monitor (see :mod:`almostsure.model.monitors`).

Pairs (state, memory) are found by breadth-first search, one frontier at a time.  A monitor is called once for each pair
of a memory and a letter, not once per outcome.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from almostsure.arguments import names_right_word, whole
from almostsure.errors import ArgumentError, Blame, LimitReached, ModelError
from almostsure.model.arrays import spans
from almostsure.model.build.function import MAX_STATES
from almostsure.model.build.transitions import build
from almostsure.model.labels import TRAP, traps, with_more_states
from almostsure.model.mdp import MDP, Ints
from almostsure.model.monitors import ENDED, FORBIDDEN, MonitorLike, verdict_of
from almostsure.model.source import Model, as_model
from almostsure.wording import brief

MAX_MEMORIES = 1_000_000


class Parts(NamedTuple):
    """The components of a product's states."""

    base: MDP
    monitor: MonitorLike
    states: Ints  # [num_states] a state of the base; −1 for the states after ENDED and FORBIDDEN
    memories: list[Any]  # [num_states]


class Edges(NamedTuple):
    """The outcomes of a product before equal ones are merged."""

    source: Ints  # [n] a state of the product
    outcome: Ints  # [n] an outcome of the base
    target: Ints  # [n] a state of the product
    damage: Ints  # [n] the damage in the product


def edges_of(parts: Parts) -> Edges:
    """The outcomes of a product with those of its base that they come from, recomputed by the same search."""
    return _Product(parts.base, parts.monitor, len(parts.memories)).edges()


@names_right_word
def product(mdp: Model, monitor: MonitorLike, *, max_states: int = MAX_STATES) -> MDP:
    """The reachable product of a model and a monitor: its states are pairs of a state and a memory of the monitor.

    Parameters
    ----------
    mdp
        The model.
    monitor
        A :class:`Monitor` of your own, or :class:`SecondBudget`, :class:`Refill`, :class:`Steps`, :class:`Automaton`.
    max_states
        Stop with an error if there are more, as there are if a memory grows forever.  The search may take 2 GiB for a
        million states.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import Steps
    >>> pit = asure.from_transitions([0], [0], [0], [1], [0], [1])  # every step does damage 1
    >>> asure.minimal_budget(product(pit, Steps(3))).smallest_budget()
    3
    """
    base = as_model(mdp)
    if not isinstance(monitor, MonitorLike):
        raise ArgumentError(
            f"a monitor must have start, letters and read; got {monitor!r}. Make one with Monitor(start, step)."
        )
    return _Product(base, monitor, whole("max_states", max_states)).model()


@final
class _Product:
    """Breadth-first search of the pairs (state, memory), one frontier at a time.

    A pair is stored as one integer, memory · number of states + state.
    """

    def __init__(self, base: MDP, monitor: MonitorLike, max_states: int) -> None:
        self.base, self.monitor, self.max_states = base, monitor, max_states
        self.letter, self.letters = monitor.letters(base)
        self.memories: list[Any] = []
        self.memory_index: dict[Any, int] = {}
        self.moves: dict[int, tuple[int, int]] = {}  # (memory, letter) → (next memory, damage or −1)
        self.index: dict[int, int] = {}  # pair → state of the product
        self.columns: list[tuple[Ints, ...]] = []
        self.ends = self.traps = False
        self.is_terminal, self.terminal = base.is_terminal(), list[int]()  # states of the base, pairs
        self.ptr = base.outcome_ptr[base.choice_ptr]  # offsets of the outcomes of each state
        self.trap = traps(base.labels, base.num_states, base.unknown)

        self._memory(self.monitor.start)  # gets number 0
        frontier: Ints = self.base.initial_states.astype(np.int64)
        self._number(frontier)
        while frontier.size:
            frontier = self._expand(frontier)

    def _expand(self, frontier: Ints) -> Ints:
        """Follow all outcomes of the pairs of a frontier; returns the new pairs."""
        base = self.base
        memory, state = np.divmod(frontier, base.num_states)
        outcome, owner = spans(self.ptr, state)
        terminal = self.is_terminal[state]  # stays terminal, whatever the monitor does
        outcome, owner = outcome[~terminal[owner]], owner[~terminal[owner]]
        key = memory[owner] * len(self.letters) + self.letter[outcome]
        keys, back = np.unique(key, return_inverse=True)
        moves = np.array([self.moves.get(k) or self._move(k) for k in keys.tolist()], np.int64).reshape(-1, 2)[back]
        damage = np.where(moves[:, 1] < 0, base.damage[outcome], moves[:, 1])
        target = np.where(moves[:, 0] < 0, moves[:, 0], moves[:, 0] * base.num_states + base.successor[outcome])
        trapped = self.trap[base.successor[outcome]]  # forbidden and unknown states stay so in the product
        target[trapped], damage[trapped] = -2, 1
        self.traps |= bool(trapped.any())
        new = np.unique(target[target >= 0])
        new = new[[k not in self.index for k in new.tolist()]] if new.size else new
        self._number(new)
        self.columns.append((frontier[owner], outcome, target, damage))
        self.terminal += frontier[terminal].tolist()
        return new

    def _number(self, keys: Ints) -> None:
        first = len(self.index)
        if first + keys.size > self.max_states:
            memory, state = divmod(int(keys[-1]), self.base.num_states)
            raise LimitReached(
                f"the product has more than max_states = {self.max_states:,} states; one of the last is "
                f"{self.base.describe_state(state)} with memory {brief(self.memories[memory])}. If the memory grows "
                "forever, bound it; otherwise raise max_states."
            )
        self.index.update(zip(keys.tolist(), range(first, first + keys.size), strict=True))

    def _memory(self, memory: Any) -> int:
        try:
            number = self.memory_index.setdefault(memory, len(self.memories))
        except TypeError:
            raise ModelError(f"a monitor's memory must be hashable; got {brief(memory)}") from None
        if number == len(self.memories):
            self.memories.append(memory)
            if number >= MAX_MEMORIES:
                raise LimitReached(
                    f"a monitor must have at most {MAX_MEMORIES:,} memories; got more, such as {brief(memory)}. "
                    "If they grow forever, bound them."
                )
        return number

    def _move(self, key: int) -> tuple[int, int]:
        """The next memory after a letter: its number (−1 ended, −2 forbidden), and the damage (−1: unchanged)."""
        memory, letter = divmod(key, len(self.letters))
        before, read = self.memories[memory], self.letters[letter]
        with Blame(lambda: f"the monitor failed with memory {brief(before)} at {brief(read)}"):
            after = self.monitor.read(before, read)
        after, damage = verdict_of(after)
        damage = -1 if damage is None else damage
        if after is FORBIDDEN:
            self.traps, self.moves[key] = True, (-2, 1)
        elif after is ENDED:
            self.ends, self.moves[key] = True, (-1, damage)
        else:
            self.moves[key] = self._memory(after), damage
        return self.moves[key]

    def edges(self) -> Edges:
        """All outcomes of the product, with those of the base that they come from."""
        source, outcome, target, damage = (np.concatenate(c) for c in zip(*self.columns, strict=True))
        places = np.array([*self.index], np.int64)
        order = np.argsort(places)
        number = order[np.searchsorted(places[order], np.stack([source, np.maximum(target, places[order[0]])]))]
        end, trap = len(self.index), len(self.index) + self.ends
        return Edges(number[0], outcome, np.select([target == -1, target == -2], [end, trap], number[1]), damage)

    def model(self) -> MDP:
        """The product."""
        base, end, trap = self.base, len(self.index), len(self.index) + self.ends
        source, outcome, next_state, damage = self.edges()
        places = np.array([*self.index], np.int64)
        _, action, _, probability, reward, _ = (column[outcome] for column in base.columns())
        columns = [source, action, next_state, probability, reward, damage]
        if self.traps:
            loop = (trap, int(base.choice_action[0]), trap, 1.0, 0.0, 1)
            columns = [np.append(column, x) for column, x in zip(columns, loop, strict=True)]
        memory, state = np.divmod(places, base.num_states)
        return self._named(columns, state, [self.memories[m] for m in memory.tolist()], end)

    def _named(self, columns: list[Any], state: Ints, memories: list[Any], end: int) -> MDP:
        base, extra = self.base, ["ended"] * self.ends + [TRAP] * self.traps
        names = [f"{base.state_name(s)} | {m}" for s, m in zip(state.tolist(), memories, strict=True)] + extra
        labels = with_more_states({name: holds[state] for name, holds in base.labels.items()}, len(extra))
        if self.traps:
            labels.setdefault(TRAP, np.zeros(len(names), np.bool_))[-1] = True
        parts = Parts(base, self.monitor, np.append(state, np.full(len(extra), -1)), memories + [None] * len(extra))
        return build(
            columns,
            num_states=len(names),
            terminal=[*(self.index[key] for key in self.terminal), *([end] if self.ends else ())],
            initial=dict(enumerate(base.initial_probabilities.tolist())),  # the first frontier
            state_names=names if len(set(names)) == len(names) else None,
            action_names=base.action_names,
            labels=labels,
            origin=base.origin.derived(rewards={}, variables={}, parts=parts),
        )
