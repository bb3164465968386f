"""The assured policy: the best return inside the shield of all reachable pairs, with proved bounds.

1. *Explore* the pairs (state, remaining) that are reachable inside the shield from the given ones, and list their
   strongly connected components so that each comes after its successors (:mod:`.explore`).
2. *Settle* them in this order.  A single pair takes one Bellman backup, with its self-loop eliminated.  A small
   component is solved directly or, where every step costs, by sweeps (:mod:`.component.small`).  Both are compiled.
3. All other components are settled one by one by :mod:`.component.component`.

Small models run the same code uncompiled, so that they need not wait for the compiler.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from almostsure.errors import LimitReached
from almostsure.files import give_back
from almostsure.kernels import is_compiled, plain
from almostsure.memory import untouched
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.plan.assured import explore, sums
from almostsure.plan.assured.component.component import Component, make_part
from almostsure.plan.assured.component.small import largest, settle
from almostsure.plan.assured.explore import Graph, Moves, Span
from almostsure.plan.assured.steps import NOWHERE, TINY, Bounds, Game, Known, Part

RARE = 32  # reachable choices (or pairs) are rare if they are fewer than 1 in RARE of the model's
PLAIN = 20_000  # outcomes · budgets up to which kernels run uncompiled; a tenth of it once they are compiled
SMALL = 4_000  # the most pairs of a component that :func:`.small.settle` tries
USED = 0.98  # the share of the tolerance for the width of the bounds; the rest is for rounding
SAMPLED = 2_000  # pairs in the sample for :meth:`Engine._is_scattered`
FAR, SCATTERED = 16, 0.3  # pairs are scattered if more than this share of neighbours is more than FAR states apart
NO_PAIRS = np.zeros(0, np.int64)
SPARE = 4  # arrays are made larger by 1 in SPARE than a component needs, so that the next one may fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Bounds of the best return and a policy, for the reachable pairs (state, remaining)."""

    graph: Graph
    lower: Floats  # [pairs]; −∞ where no run ends, +∞ where reward can be collected for ever
    upper: Floats  # [pairs]
    play: Ints  # [pairs], the graph's choice
    number: Ints  # [remaining · states + state], the number of the pair plus 1; 0: not reachable
    cycles: list[Ints]  # the pairs of cycles on which reward can be collected for ever
    undefined: Ints  # pairs that have no return, as gains and losses cancel out for ever; their bounds read −∞
    plainly: bool  # whether kernels run uncompiled
    proved: bool  # whether the bounds are exact; not if rewards that cancel out up to rounding were taken for 0
    doubts: tuple[str, ...] = ()  # why some bounds are −∞ and ∞, and what may help

    def at(self, codes: Ints) -> Ints:
        """The numbers of pairs given as remaining · states + state; −1 for those not covered."""
        return self.number[codes].astype(np.int64) - 1


def call(kernel: Any, *arguments: Any, plainly: bool) -> Any:
    """Call a kernel; with ``plainly``, its uncompiled Python function."""
    if not plainly:
        return kernel(*arguments)
    with np.errstate(all="ignore"):
        return plain(kernel)(*arguments)


def unsigned(array: Ints) -> Ints:
    """The array as read-only uint32, so that kernels are compiled for one type, without tests for negative indices."""
    result = array.view(np.uint32) if array.dtype == np.int32 else array.astype(np.uint32)
    result.flags.writeable = False
    return result


class Engine:
    """Explores the pairs that are reachable from ``starts``, and solves them."""

    def __init__(self, mdp: MDP, of_choice: Ints, budget: int, starts: Ints, discount: float) -> None:
        self.mdp, self.is_monotone = mdp, True  # whether a larger remaining budget allows every choice of a smaller one
        size = mdp.num_outcomes * (budget + 1)
        self.plainly = size <= PLAIN // 10 or (size <= PLAIN and not is_compiled(settle))
        moves = Moves(
            unsigned(mdp.choice_ptr), unsigned(mdp.outcome_ptr), unsigned(mdp.successor), mdp.damage,
            unsigned(of_choice),
        )  # fmt: skip
        self.choice_ptr = moves.choice_ptr
        if (budget + 1) * mdp.num_states >= 2**32:
            raise LimitReached(
                f"{budget + 1:,} budgets of {mdp.num_states:,} states make more pairs than 32 bits can count. "
                "Solve for a smaller budget."
            )
        self.number = np.zeros((budget + 1) * mdp.num_states, np.uint32)
        room = explore.room_to_explore(moves, self.number.size)
        graph, room, span = self._explore(moves, starts, room)
        if starts.size < graph.state.size and span[1] and self._is_scattered(graph):  # numbered as the model's states
            graph, room, span = self._explore(moves, explore.in_order(self.number, mdp.num_states), room)
        rare = self.is_rare(graph)
        if rare:
            graph = Graph(*(array.copy() for array in graph))
            del room
            give_back(mdp.nbytes)  # also what k* has used
        gain, is_one = self.zeros(graph), np.zeros(mdp.num_choices, np.bool_)
        choices = graph.origin if rare else np.arange(mdp.num_choices, dtype=np.uint32)
        self.call(sums.expected, moves.outcome_ptr, mdp.probability, mdp.reward, choices, gain, is_one)
        self._set_game(Game(graph, moves.outcome_ptr, mdp.probability, gain, is_one, discount), span)

    def _explore(self, moves: Moves, starts: Ints, room: Graph) -> tuple[Graph, Graph, Span]:
        """The graph of the pairs that are reachable from ``starts``, the arrays of which it is a part, and its span."""
        progress = np.array([0, 0, 0, 0, self.number.size, 0], np.int64)
        while not self.call(explore.explore, moves, starts.astype(np.int64, copy=False), self.number, room, progress):
            room = explore.with_more_room(room)
        graph, span = explore.explored(room, progress)
        return graph, room, span

    def _is_scattered(self, graph: Graph) -> bool:
        """Whether pairs found one after the other are often far apart in the model.

        Not if pairs are rare: then few of their neighbours in the model are reached.
        """
        if RARE * graph.state.size < self.number.size:
            return False
        at = np.arange(0, graph.state.size - 1, 1 + graph.state.size // SAMPLED)
        distance = np.abs(graph.state[at + 1].astype(np.int64) - graph.state[at])
        return bool(np.count_nonzero(distance > FAR) > SCATTERED * at.size)

    def _set_game(self, game: Game, span: Span) -> None:
        """Find the components of a game's graph, and make the arrays for its solution."""
        self.game, self.graph, self.discount = game, game.graph, game.discount
        size = game.graph.state.size
        search = explore.room_for(size)
        left, layers = game.graph.remaining, explore.NO_LAYERS
        if self.is_monotone and bool((left[1:] <= left[:-1]).all()):
            layers = self.number.reshape(-1, self.mdp.num_states)
        self.order: tuple[Ints, Ints] = self.call(explore.components, game.graph, search, span, layers)
        self.bounds = Bounds(
            np.empty(size), np.empty(size), search.path, search.at, search.met.view(np.float32)
        )  # in memory of the search, which is already mapped
        self.bounds.place.fill(NOWHERE)
        self.bounds.rival.fill(0.0)
        cyclic = self.order[0].size <= size  # whether any component has several pairs
        states = self.mdp.num_states if cyclic else 0
        self.known = Known(np.full(states, np.nan), np.empty(states, np.uint32))
        self.cycles: list[Ints] = []
        self.undefined: list[Ints] = []
        self.doubts: list[str] = []
        self.proved = True
        self.rooms: dict[str, tuple[tuple[int, ...], Part]] = {}

    def is_rare(self, graph: Graph) -> bool:
        """Whether a graph has so few of the model's choices that touching memory for all of them would dominate."""
        return graph.origin.size < self.mdp.num_choices // RARE

    def zeros(self, graph: Graph) -> Floats:
        """Zeros, one for each of the model's choices, to be filled in for those of the graph."""
        size = self.mdp.num_choices
        return untouched(size) if self.is_rare(graph) else np.zeros(size)

    def other(self, graph: Graph, gain: Floats) -> Engine:
        """An engine for the same model with another graph and other rewards, undiscounted, ready to solve."""
        result = copy.copy(self)
        result.is_monotone = False
        result._set_game(self.game._replace(graph=graph, gain=gain, discount=1.0), self.call(explore.span, graph))
        return result

    def call(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, uncompiled for small models."""
        return call(kernel, *arguments, plainly=self.plainly)

    def solve(self, tolerance: float, report: Callable[[int, int], None] | None = None) -> None:
        """Settle all components, one after the other, aiming at bounds no further apart than the tolerance."""
        start, member = self.order
        self.cycles.clear()
        self.undefined.clear()
        self.doubts.clear()
        self.proved = True
        half = max(USED * tolerance / 2, TINY)  # with tolerance 0: a positive width that no bounds reach
        small = SMALL if not self.plainly else 0
        part, scratch = self._room(small)
        where = self.game, self.bounds, self.order
        at = 0
        while True:
            at = self.call(settle, *where, at, small, part, scratch, half)
            if at == start.size - 1:
                self.rooms.clear()
                return
            Component(self, member[start[at] : start[at + 1]]).settle(half)
            at += 1
            if report is not None:
                report(at, start.size - 1)

    def _room(self, small: int) -> tuple[Part, tuple[Any, ...]]:
        """Arrays in which any component of at most ``small`` pairs fits."""
        pairs, choices, entries = self.call(largest, self.graph, self.order, small)
        return make_part(pairs, choices, entries), (
            np.empty(pairs), np.empty(choices, np.bool_), np.empty(pairs, np.uint32), np.empty(pairs, np.uint32),
            np.empty(pairs), self.known,
        )  # fmt: skip

    def room(self, use: str, *sizes: int) -> Part:
        """Arrays for this many positions, choices and entries of a component, reused by the next one with the same use.

        Writing to memory for the first time is slow.
        """
        known, room = self.rooms.get(use, ((0, 0, 0), None))
        if room is None or any(size > has for size, has in zip(sizes, known, strict=True)):
            graph = self.graph
            most = (graph.state.size, graph.origin.size + graph.state.size, graph.target.size)
            known = tuple(min(size + size // SPARE, limit) for size, limit in zip(sizes, most, strict=True))
            room = make_part(*known)
            self.rooms[use] = known, room
        return room

    def answer(self) -> Pairs:
        """The solution."""
        return Pairs(
            graph=self.graph, lower=self.bounds.low, upper=self.bounds.high, play=self.bounds.policy,
            number=self.number, cycles=self.cycles, undefined=np.concatenate([NO_PAIRS, *self.undefined]),
            plainly=self.plainly, proved=self.proved, doubts=tuple(self.doubts),
        )  # fmt: skip
