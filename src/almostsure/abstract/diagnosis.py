"""Diagnosis: why no budget was proved for a cell, what would help, and how tight the proved bounds are.

**Why.**  From a cell without a bound, every pattern may end in another such cell, or outside the box.  The path plays
the pattern whose image has the smallest share of such cells, and goes on from one of them.  The coordinate that
*drifted* is the one that, fixed at the middle of the image, would reduce that share most; if none would, the one in
which the image is widest.

**What would help** is tried: the same system in a window around the cell, with cells of half the width, with patterns
longer by one step, and with both.  Leaving the window counts as leaving the box, so bounds proved there hold.

**How tight.**  k̂ is an upper bound.  A lower bound comes from search: with a fixed disturbance, the least damage over
*all* action sequences of a length is at most the minimal budget of the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.abstract.enclosure.evaluate import call, coordinates
from almostsure.abstract.enclosure.images import cells_of, ranges_from
from almostsure.abstract.enclosure.interval import Interval
from almostsure.abstract.grid import OUTSIDE, Grid, is_point
from almostsure.abstract.patterns import MOST, Patterns
from almostsure.arguments import count
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction
    from almostsure.abstract.upper import UpperBudget

Floats = npt.NDArray[np.float64]
LONGEST = 12  # the most steps of a path
WINDOW = 250_000  # the most cells of a window
BRANCHES = 1 << 16  # the most action sequences that the search from one point keeps
DEEPEST = 100  # the most steps of a search


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of the path: the best pattern of a cell, and the cell that it may lead to."""

    cell: int
    pattern: tuple[int, ...]
    next_cell: int  # OUTSIDE: forbidden, or outside the box
    drifted: int | None  # the coordinate that drifted


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The effect of a change, in a window around the cell in question."""

    change: str
    needs: int  # the upper budget of the cell
    share: float  # the share of the window's cells with an upper budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why no budget was proved for a cell, and what would help.  Print it."""

    abstraction: Abstraction
    cell: int
    place: str  # the cell in words
    needs: int
    moves: tuple[Move, ...]
    tries: tuple[Try, ...]

    @property
    def drifted(self) -> str | None:
        """The name of the coordinate that drifted most often on the path."""
        axes = [move.drifted for move in self.moves if move.drifted is not None]
        return self.abstraction.grid.names[max(set(axes), key=axes.count)] if axes else None

    def __str__(self) -> str:
        grid, names = self.abstraction.grid, self.abstraction.action_names
        if self.needs != INFINITE:
            return f"{grid.describe(self.cell)} needs at most {self.needs}: there is nothing to explain."
        lines = [f"No budget was proved to suffice at {grid.describe(self.cell)}."]
        for move in self.moves:
            played = " ".join(names[action] for action in move.pattern)
            why = "" if move.drifted is None else f", as {grid.names[move.drifted]} drifts"
            where = grid.describe(move.next_cell)
            if move.next_cell == OUTSIDE:
                where = "leave the box or reach a forbidden state"
            lead = "may" if move.next_cell == OUTSIDE else "may lead to"
            lines.append(f"  {played} {lead} {where}{why}")
        if self.drifted:
            lines.append(f"{self.drifted} drifts most: its cells are wide compared with what one pattern moves it.")
        for one in self.tries:
            found = f"still nothing at {self.place}"
            if one.needs != INFINITE:
                found = f"{self.place} needs at most {one.needs}"
            lines.append(
                f"Tried in a window around {self.place}, {one.change}: {found} ({one.share:.0%} of it proved)."
            )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightness:
    """How tight upper budgets are, on a sample of cells.  Print it."""

    proved: float  # share of all cells with a finite upper budget
    unproved: int  # cells of the sample without one
    lost: int  # of these, cells from whose centre damage beyond any budget is forced
    finite: int  # cells of the sample with one
    exact: int  # of these, cells whose lower bound is the same

    def __str__(self) -> str:
        lines = [f"{self.proved:.1%} of the cells have an upper budget."]
        if self.unproved:
            lines.append(
                f"Of {self.unproved:,} sampled cells without one, {self.lost:,} ({self.lost / self.unproved:.0%}) are "
                "lost under every policy; finer cells or longer patterns can only help the others."
            )
        if self.finite:
            lines.append(
                f"Of {self.finite:,} sampled cells with one, {self.exact:,} ({self.exact / self.finite:.0%}) need "
                "exactly that much, by search."
            )
        return "\n".join(lines)


# ---------------------------------------------------------------------- why


def explain(minimal: UpperBudget, state: int | Sequence[float] | None) -> Diagnosis:
    """Why a cell or point has no upper budget; by default the worst initial cell."""
    abstraction = minimal.abstraction
    if state is None:
        starts = abstraction.initial_cells()
        cell, place = int(starts[np.argmax(minimal.of_state[starts])]), "the start"
    else:
        cell = abstraction.grid.cell_or_point(state)
        place = f"({', '.join(f'{x:g}' for x in np.ravel(state))})" if is_point(state) else f"cell {cell}"
    if cell < 0:
        raise ArgumentError(f"state must lie in the box; got {state!r}, where nothing is known. Widen the box.")
    needs, at = minimal.of(cell), cell
    moves: list[Move] = []
    while needs == INFINITE and at != OUTSIDE and len(moves) < LONGEST and at not in [move.cell for move in moves]:
        moves.append(_move(minimal, at))
        at = moves[-1].next_cell
    tries = _tries(abstraction, cell) if needs == INFINITE else ()
    return Diagnosis(abstraction=abstraction, cell=cell, place=place, needs=needs, moves=tuple(moves), tries=tries)


def _move(minimal: UpperBudget, cell: int) -> Move:
    abstraction = minimal.abstraction
    found = ranges_from(abstraction, cells_of(abstraction, np.array([cell])))
    moves: list[tuple[float, float, Move]] = []
    for p, pattern in enumerate(abstraction.patterns.sequences):
        bad, move = 0.0, Move(cell=cell, pattern=pattern, next_cell=OUTSIDE, drifted=None)
        for q in range(p * found.boxes, (p + 1) * found.boxes):
            low, count = ([int(along[q].flat[0]) for along in part] for part in (found.low, found.counts))
            if count[0] == np.iinfo(found.counts[0][q].dtype).max:
                continue  # the goal is reached
            share, after, drifted = _bad_part(minimal, low, count)
            if share > bad:
                bad, move = share, replace(move, next_cell=after, drifted=drifted)
        moves.append((bad, _off_centre(abstraction.grid, move.next_cell), move))
    return min(moves, key=lambda found: found[:2])[2]


def _off_centre(grid: Grid, cell: int) -> float:
    """The distance of a cell from the centre of the box, relative to the box."""
    if cell == OUTSIDE:
        return np.inf
    return float(np.abs((np.array(np.unravel_index(cell, grid.cells)) + 0.5) / grid.cells - 0.5).sum())


def _bad_part(minimal: UpperBudget, low: list[int], count: list[int]) -> tuple[float, int, int | None]:
    """The share of an image without an upper budget, one of its cells, and the coordinate that makes it so large."""
    grid = minimal.abstraction.grid
    if 0 in count:
        return 2.0, OUTSIDE, count.index(0) if count.count(0) == 1 else None
    axes = [(a + np.arange(n)) % size for a, n, size in zip(low, count, grid.cells, strict=True)]
    bad = minimal.of_state.reshape(grid.cells)[np.ix_(*axes)] == INFINITE
    if not bad.any():
        return 0.0, OUTSIDE, None
    without = [np.take(bad, [bad.shape[j] // 2], axis=j).mean() for j in range(bad.ndim)]
    drifted = int(np.argmin(without)) if min(without) < bad.mean() else int(np.argmax(bad.shape))
    middle = np.array(bad.shape) // 2
    places = np.argwhere(bad)
    at = places[np.argmin(np.abs(places - middle).sum(axis=1))]
    cell = int(np.ravel_multi_index(tuple(int(axis[i]) for axis, i in zip(axes, at, strict=True)), grid.cells))
    return float(bad.mean()), cell, drifted


# ---------------------------------------------------------------------- what would help


def _tries(abstraction: Abstraction, cell: int) -> tuple[Try, ...]:
    longer = longer_patterns(abstraction)
    plans = [("cells of half the width", 2, abstraction.patterns)]
    if longer is not None:
        plans += [
            (f"patterns of {longer.longest} steps", 1, longer),
            (f"cells of half the width and patterns of {longer.longest} steps", 2, longer),
        ]
    return tuple(_try(abstraction, cell, change, finer, patterns) for change, finer, patterns in plans)


def longer_patterns(abstraction: Abstraction) -> Patterns | None:
    """All patterns longer by one step, if the patterns are all sequences of a length and this makes not too many."""
    patterns, length = abstraction.patterns, abstraction.patterns.longest + 1
    everything = patterns.count == patterns.num_actions**patterns.longest
    return Patterns(length, patterns.num_actions) if everything and patterns.num_actions**length <= MOST // 8 else None


def _try(abstraction: Abstraction, cell: int, change: str, finer: int, patterns: Patterns) -> Try:
    """Solve in a window around a cell, or in the whole box if that is small enough."""
    grid, sizes = abstraction.grid, np.array(abstraction.grid.cells)
    if grid.num_cells * finer**grid.num_coordinates > WINDOW:
        sizes = np.minimum(sizes, max(1, int(WINDOW ** (1 / grid.num_coordinates) / finer)))
    index = np.array(np.unravel_index(cell, grid.cells))
    first = np.clip(index - sizes // 2, 0, grid.cells - sizes)
    low = [edges[a] for edges, a in zip(grid.edges, first, strict=True)]
    high = [edges[a + n] for edges, a, n in zip(grid.edges, first, sizes, strict=True)]
    around = [axis for axis in grid.periodic if sizes[axis] == grid.cells[axis]]
    window = Grid(low, high, (sizes * finer).tolist(), periodic=around, names=grid.names)
    middle = grid.centres([cell])[0]
    inside = replace(abstraction, grid=window, patterns=patterns, initial=None)
    found = inside.minimal_budget()
    return Try(change=change, needs=found.of(middle.tolist()), share=float((found.of_state != INFINITE).mean()))


# ---------------------------------------------------------------------- how tight


def tightness(minimal: UpperBudget, *, sample: int, seed: int) -> Tightness:
    """Compare lower bounds at the centres of sampled cells with their upper bounds."""
    sample = count("sample", sample, least=0)
    rng, values = np.random.default_rng(seed), minimal.of_state
    finite, unproved = np.flatnonzero(values != INFINITE), np.flatnonzero(values == INFINITE)
    chosen = [rng.choice(cells, min(sample, cells.size), replace=False) for cells in (finite, unproved)]
    lower = [forced(minimal.abstraction, minimal.abstraction.grid.centres(cells)) for cells in chosen]
    return Tightness(
        proved=finite.size / values.size,
        unproved=chosen[1].size,
        lost=int((lower[1] == INFINITE).sum()),
        finite=chosen[0].size,
        exact=int((lower[0] == values[chosen[0]]).sum()),
    )


def forced(abstraction: Abstraction, points: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The damage that is forced from each of many points, [n, coordinates]: a lower bound on its minimal budget.

    All action sequences are followed until they are too many, for a few fixed disturbances.
    """
    at = np.asarray(points, np.float64)
    bound = np.zeros(len(at), np.int64)
    pushes = [np.zeros(at.shape[1])]
    if abstraction.disturbance is not None:
        pushes = [np.array([pair[side] for pair in abstraction.disturbance]) for side in (0, 1)]
    for push in pushes if abstraction.step is not None else []:
        for i, point in enumerate(at):
            bound[i] = max(bound[i], _least(abstraction, point, push))
    return bound


def _least(abstraction: Abstraction, point: Floats, push: Floats) -> int:
    """The least damage over all action sequences, with ``push`` added to each next state."""
    states, spent = point[None], np.zeros(1, np.int64)
    if abstraction.arrived(states)[0]:
        return 0
    arrived = INFINITE  # the least damage of a sequence that has reached the goal
    for _ in range(DEEPEST):
        if not 0 < len(states) * abstraction.num_actions <= BRANCHES:
            break
        after = [stepped(abstraction, states, action) + push for action in abstraction.actions]
        states = abstraction.grid.wrapped(np.concatenate(after))
        damage = abstraction.damage(states)
        spent = np.minimum(np.tile(spent, abstraction.num_actions) + damage, INFINITE)
        if abstraction.goal is not None:
            there = abstraction.arrived(states)
            arrived = min(arrived, int(spent[there].min(initial=INFINITE)))
            states, spent = states[~there], spent[~there]
        inside = abstraction.grid.cells_of(states) != OUTSIDE if abstraction.patterns.longest == 1 else True
        going = (spent < min(2**31 - 2, arrived)) & inside
        states, spent = states[going], spent[going]
    return int(min(spent.min(initial=INFINITE), arrived))


def stepped(abstraction: Abstraction, states: Floats, action: Any) -> Floats:
    """One step of points; the first of several next states, and the midpoint of an enclosure."""
    assert abstraction.step is not None
    after = call("step", abstraction.step, tuple(states.T), action)
    one = coordinates("step", after[0] if isinstance(after, list) else after, states.shape[1])
    numbers = [(x.low + x.high) / 2 if isinstance(x, Interval) else x for x in one]
    return np.stack([np.broadcast_to(np.asarray(x, np.float64), len(states)) for x in numbers], axis=1)
