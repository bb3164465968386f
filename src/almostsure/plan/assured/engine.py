"""The assured policy: the best return inside the shield, of the pairs that can be reached, with proved bounds.

1. *Explore* the pairs (state, remaining) inside the shield, from the start or from wherever is asked for, and list
   their strongly connected components so that each comes after those it leads to (:mod:`.explore`).
2. *Settle* them in this order.  A single pair takes one step backward, its own loop eliminated; a small component is
   solved directly or, where every step costs, swept; all in compiled code, with bounds (:mod:`.component.small`).
3. Every other component has a method of its own (:mod:`.component.component`).

Small models run the same code without compiling it, so that nobody waits for a compiler.
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
from almostsure.plan.assured.explore import Graph, Moves
from almostsure.plan.assured.steps import NOWHERE, TINY, Bounds, Game, Known, Part

RARE = 32  # choices, or pairs, of the model of which one is reached, or less
PLAIN = 20_000  # outcomes, times remaining budgets, for which nobody waits for a compiler; a tenth if it has run
SMALL = 4_000  # pairs of a component that is swept where it stands
USED = 0.98  # the share of the tolerance that the bounds are made of; the rest is for rounding
SAMPLED, FAR, SCATTERED = 2_000, 16, 0.3  # pairs that are looked at, states in between, and the share that is much
NO_PAIRS = np.zeros(0, np.int64)
SPARE = 4  # one in so many that a component may have more than the last, and fit into its room


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Bounds of the best return and a policy, for the pairs (state, remaining) that can be reached."""

    graph: Graph
    lower: Floats  # [pairs]; −∞ where nothing ends, +∞ where reward can be collected for ever
    upper: Floats  # [pairs]
    play: Ints  # [pairs], the graph's choice
    number: Ints  # [remaining · states + state], the number of the pair plus 1, or 0
    cycles: list[Ints]  # of pairs among which reward can be collected for ever
    undefined: Ints  # pairs that can only stay where gains and losses cancel out: their −∞ stands for no return at all
    plainly: bool  # whether kernels run without being compiled
    proved: bool  # whether the bounds hold exactly; not where rewards cancel out within rounding, and are taken for 0

    def at(self, codes: Ints) -> Ints:
        """The numbers of pairs that are given as remaining · states + state; −1 where they are not covered."""
        return self.number[codes].astype(np.int64) - 1


def call(kernel: Any, *arguments: Any, plainly: bool) -> Any:
    """Call a kernel, compiled or not."""
    if not plainly:
        return kernel(*arguments)
    with np.errstate(all="ignore"):
        return plain(kernel)(*arguments)


def unsigned(array: Ints) -> Ints:
    """The array as read-only uint32: kernels are compiled once, and without tests for negative indices."""
    result = array.view(np.uint32) if array.dtype == np.int32 else array.astype(np.uint32)
    result.flags.writeable = False
    return result


class Engine:
    """One search and the solution of what it finds."""

    def __init__(self, mdp: MDP, of_choice: Ints, budget: int, starts: Ints, discount: float) -> None:
        self.mdp, self.is_monotone = mdp, True  # whether what can be done with less left can be done with more
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
        graph, room = self._explore(moves, starts, room)
        if starts.size < graph.state.size and self._is_scattered(graph):  # numbered anew, as the model numbers states
            graph, room = self._explore(moves, explore.in_order(self.number, mdp.num_states), room)
        rare = self.is_rare(graph)
        if rare:
            graph = Graph(*(array.copy() for array in graph))
            del room
            give_back(mdp.nbytes)  # also what k* has used
        gain, is_one = self.zeros(graph), np.zeros(mdp.num_choices, np.bool_)
        choices = graph.origin if rare else np.arange(mdp.num_choices, dtype=np.uint32)
        self.call(sums.expected, moves.outcome_ptr, mdp.probability, mdp.reward, choices, gain, is_one)
        self._play(Game(graph, moves.outcome_ptr, mdp.probability, gain, is_one, discount))

    def _explore(self, moves: Moves, starts: Ints, room: Graph) -> tuple[Graph, Graph]:
        """The pairs that can be reached from some, and the room they are in."""
        progress = np.zeros(4, np.int64)
        while not self.call(explore.explore, moves, starts.astype(np.int64, copy=False), self.number, room, progress):
            room = explore.with_more_room(room)
        return explore.explored(room, progress), room

    def _is_scattered(self, graph: Graph) -> bool:
        """Whether pairs may be in cycles, and were often found one after the other though far apart in the model.

        Where few of all pairs are reached they have no neighbours to lie beside.
        """
        if RARE * graph.state.size < self.number.size:
            return False
        at = np.arange(0, graph.state.size - 1, 1 + graph.state.size // SAMPLED)
        distance = np.abs(graph.state[at + 1].astype(np.int64) - graph.state[at])
        far = np.count_nonzero(distance > FAR) > SCATTERED * at.size
        return bool(far and self.call(explore.span, graph)[1] > 0)

    def _play(self, game: Game) -> None:
        self.game, self.graph, self.discount = game, game.graph, game.discount
        size = game.graph.state.size
        search = explore.room_for(size)
        left, layers = game.graph.remaining, explore.NO_LAYERS
        if self.is_monotone and bool((left[1:] <= left[:-1]).all()):
            layers = self.number.reshape(-1, self.mdp.num_states)
        self.order: tuple[Ints, Ints] = self.call(explore.components, game.graph, search, layers)
        self.bounds = Bounds(
            np.empty(size), np.empty(size), search.path, search.at, search.met.view(np.float32)
        )  # reuses memory that is already mapped
        self.bounds.place.fill(NOWHERE)
        self.bounds.rival.fill(0.0)
        cyclic = self.order[0].size <= size  # whether any component has several pairs
        states = self.mdp.num_states if cyclic else 0
        self.known = Known(np.full(states, np.nan), np.empty(states, np.uint32))
        self.cycles: list[Ints] = []
        self.undefined: list[Ints] = []
        self.proved = True
        self.rooms: dict[str, tuple[tuple[int, ...], Part]] = {}

    def is_rare(self, graph: Graph) -> bool:
        """Whether a graph has so few of the model's choices that memory for the others is not worth touching."""
        return graph.origin.size < self.mdp.num_choices // RARE

    def zeros(self, graph: Graph) -> Floats:
        """A zero for each of the model's choices, to be written to where a graph has them."""
        size = self.mdp.num_choices
        return untouched(size) if self.is_rare(graph) else np.zeros(size)

    def other(self, graph: Graph, gain: Floats) -> Engine:
        """The same pairs with other choices and rewards, undiscounted, to be solved."""
        result = copy.copy(self)
        result.is_monotone = False
        result._play(self.game._replace(graph=graph, gain=gain, discount=1.0))
        return result

    def call(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, compiled or not."""
        return call(kernel, *arguments, plainly=self.plainly)

    def solve(self, tolerance: float, report: Callable[[int, int], None] | None = None) -> None:
        """Settle all components, one after the other."""
        start, member = self.order
        self.cycles.clear()
        self.undefined.clear()
        self.proved = True
        half = max(USED * tolerance / 2, TINY)  # which no bounds reach
        small = SMALL if not self.plainly else 0
        part, scratch = self._room(small)
        at = 0
        while True:
            at = self.call(settle, self.game, self.bounds, self.order, at, small, part, scratch, half)
            if at == start.size - 1:
                self.rooms.clear()
                return
            Component(self, member[start[at] : start[at + 1]]).settle(half)
            at += 1
            if report is not None:
                report(at, start.size - 1)

    def _room(self, small: int) -> tuple[Part, tuple[Any, ...]]:
        """Arrays for the largest of the small components."""
        pairs, choices, entries = self.call(largest, self.graph, self.order, small)
        return make_part(pairs, choices, entries), (
            np.empty(pairs), np.empty(choices, np.bool_), np.empty(pairs, np.uint32), np.empty(pairs, np.uint32),
            np.empty(pairs), self.known,
        )  # fmt: skip

    def room(self, use: str, *sizes: int) -> Part:
        """Room for so many positions, choices and entries of a component, which the next one may use again.

        Memory that was not written to before is slow.
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
        """What was found."""
        return Pairs(
            graph=self.graph, lower=self.bounds.low, upper=self.bounds.high, play=self.bounds.policy,
            number=self.number, cycles=self.cycles, undefined=np.concatenate([NO_PAIRS, *self.undefined]),
            plainly=self.plainly, proved=self.proved,
        )  # fmt: skip
