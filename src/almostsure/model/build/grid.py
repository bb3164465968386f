"""``from_map``: gridworlds drawn as text; ``grid_family``: random gridworlds.

======  =====================================================================================
``.``   floor
``#``   wall; walls and the edge of the map block: a step into them leaves the agent where it is
``S``   start; several starts are equally likely
``G``   goal: terminal, with the goal's reward for entering
``1``…  hazard, ``1`` to ``9``: every step that ends in the cell does that much damage
``~``   water: hazard with damage 1
``X``   pit: it cannot be left, and every step in it does damage 1, so no finite budget suffices
``<``   one-way cells ``<``, ``>``, ``^``, ``v``: the only action is the one that points that way
======  =====================================================================================

A legend defines further characters.  *Every step that ends in a cell* includes steps that a wall blocks: an agent that
stays in the water takes damage again.

Steps slip to the left and to the right, each with probability ``slip``, in one of two ways:

- ``"forward"``: the step succeeds, and then drifts one cell to its left or right (a diagonal move);
- ``"side"``: the agent moves one cell to the left or right instead.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from almostsure.arguments import mapping, names_right_word
from almostsure.errors import FileError, ModelError, UnknownName
from almostsure.model.build.transitions import from_transitions
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Bools, Floats, Ints

SlipModel = Literal["forward", "side"]
Map = str | Sequence[str | Sequence[str]] | npt.NDArray[Any] | os.PathLike[str]

DIRECTIONS = ("north", "east", "south", "west")
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # of DIRECTIONS, in rows and columns
MOST_NAMES = 100_000  # larger maps have no names of states, which would need more memory than the states


@names_right_word
@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The meaning of a character of a map.

    Attributes
    ----------
    wall, start, terminal
        A wall cannot be entered; episodes begin in a start, and end in a terminal cell.
    stuck
        The cell cannot be left: every action stays.
    damage, reward
        The damage of every step that ends in the cell, and its reward in addition to ``step_reward``.
    exits
        The actions of the cell, as letters of ``"NESW"``.

    Examples
    --------
    >>> import almostsure as asure
    >>> legend = {"S": Cell(start=True, exits="E"), "a": Cell(damage=2), "G": Cell(terminal=True, reward=9.0)}
    >>> asure.solve_policy(asure.from_map("SaG", legend=legend), asure.AlmostSure(2)).value
    9.0
    """

    wall: bool = False
    start: bool = False
    terminal: bool = False
    stuck: bool = False
    damage: int = 0
    reward: float = 0.0
    exits: str = "NESW"

    def __post_init__(self) -> None:
        if not isinstance(self.damage, (int, np.integer)) or not 0 <= self.damage <= MAX_DAMAGE:
            raise ModelError(f"a cell's damage must be an integer 0 … {MAX_DAMAGE}; got {self.damage!r}")
        if not np.isfinite(self.reward):
            raise ModelError(f"a cell's reward must be finite; got {self.reward!r}")
        if not self.exits or not set(self.exits) <= set("NESW"):
            raise ModelError(f"a cell's exits must be letters of 'NESW', at least one; got {self.exits!r}")
        if self.wall + self.terminal + self.stuck > 1 or (self.wall and self.start):
            raise ModelError("a cell must be one of wall, terminal and stuck, and no wall is a start; got several")


LEGEND: Mapping[str, Cell] = {
    ".": Cell(),
    "#": Cell(wall=True),
    "S": Cell(start=True),
    "G": Cell(terminal=True),
    "~": Cell(damage=1),
    "X": Cell(stuck=True, damage=1),
    "^": Cell(exits="N"),
    ">": Cell(exits="E"),
    "v": Cell(exits="S"),
    "<": Cell(exits="W"),
} | {str(damage): Cell(damage=damage) for damage in range(1, 10)}


@names_right_word
def from_map(
    text: Map,
    *,
    slip: float = 0.0,
    slip_model: SlipModel = "forward",
    step_reward: float = 0.0,
    goal_reward: float = 1.0,
    legend: Mapping[str, Cell | int | str] | None = None,
) -> MDP:
    """Build a gridworld from a map; :mod:`almostsure.model.build.grid` lists its characters.

    Parameters
    ----------
    text
        The map, one line per row; common indentation and blank lines around it are ignored.  Or a list of its rows, a
        two-dimensional array of characters, or a ``Path`` of a text file (a string is always a map).
    slip
        Probability of slipping to the left, and of slipping to the right; at most 0.5.
    slip_model
        ``"forward"``: the step succeeds, and then drifts to its left or right; ``"side"``: the agent moves there
        instead.
    step_reward
        Reward of every step, including the one into the goal.
    goal_reward
        Additional reward for entering ``G``.
    legend
        Further characters, each as a known character with the same meaning, a number (the damage of a hazard), or a
        :class:`Cell`; ``{"F": ".", "H": 1}`` makes F floor and H a hazard.  It may also redefine the known ones.

    Examples
    --------
    >>> from almostsure.model.build.grid import from_map
    >>> mdp = from_map('''
    ...     S.G
    ...     .2.
    ... ''')
    >>> mdp
    <MDP: 6 states, 21 choices, 21 outcomes, starts in r0c0>
    >>> mdp.outcomes("r0c1", "south")
    [Outcome(next_state=4, probability=1.0, reward=0.0, damage=2)]
    """
    meaning = _legend(mapping("legend", legend, "characters to cells"), goal_reward)
    try:
        rows, kind, cells = _read(_text(text), meaning)
    except ModelError as error:
        if isinstance(text, str) and _names_a_file(text):
            raise ModelError(f"{error} To read the file {text!r}, pass Path({text!r}).") from None
        raise
    return _Terrain(kind, cells).model(slip=slip, slip_model=slip_model, step_reward=step_reward, text=rows)


# ---------------------------------------------------------------------- reading a map


def _read(text: str, meaning: Mapping[str, Cell]) -> tuple[tuple[str, ...], Ints, list[Cell]]:
    """The rows of a map, the kind of each cell, [rows, columns], and the meaning of each kind."""
    rows, first_line = _lines(text)
    characters = np.array([list(row) for row in rows])
    known, kind = np.unique(characters, return_inverse=True)
    kind = kind.reshape(characters.shape)
    for number, character in enumerate(known.tolist()):
        if character not in meaning:
            row, column = np.argwhere(kind == number)[0].tolist()
            raise _unknown(character, first_line + row, column + 1, meaning)
    return tuple(rows), kind, [meaning[character] for character in known.tolist()]


def _text(given: Map) -> str:
    """The text of a map given in any form."""
    if isinstance(given, str):
        return given
    if isinstance(given, os.PathLike):
        return _file_text(given)
    rows = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(rows, (list, tuple)):
        raise ModelError(f"a map must be text, rows, an array of characters or a Path; got {type(given).__name__}")
    return "\n".join(row if isinstance(row, str) else _row_text(row) for row in rows)


def _row_text(row: Any) -> str:
    listed = row if isinstance(row, (list, tuple)) else [row]
    characters = [c.decode("ascii", "replace") if isinstance(c, bytes) else c for c in listed]
    for c in characters:
        if not isinstance(c, str) or len(c) != 1 or c.isspace():
            raise ModelError(f"the cells of a map must be single visible characters; got {c!r}")
    return "".join(characters)


def _file_text(path: os.PathLike[str]) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise FileError(f"cannot read the map {os.fspath(path)}: {error.strerror}", path=path) from error
    except UnicodeDecodeError:
        raise FileError(f"the map {os.fspath(path)} must be UTF-8 text; it is not", path=path) from None


def _names_a_file(text: str) -> bool:
    return "\n" not in text and "\0" not in text and (text.lower().endswith(".txt") or os.path.isfile(text))


def _legend(given: Mapping[str, Cell | int | str], goal_reward: float) -> dict[str, Cell]:
    meaning = dict(LEGEND)
    meaning["G"] = replace(meaning["G"], reward=goal_reward)
    for character, cell in given.items():
        if not isinstance(character, str) or len(character) != 1 or character.isspace():
            raise ModelError(f"a legend's keys must be single visible characters; got {character!r}")
        if isinstance(cell, str):
            if cell not in meaning:
                raise UnknownName("map character", cell, meaning)
            cell = meaning[cell]
        elif isinstance(cell, (int, np.integer)):
            cell = Cell(damage=int(cell))
        elif not isinstance(cell, Cell):
            raise ModelError(f"legend[{character!r}] must be a Cell, a damage or a known character; got {cell!r}")
        meaning[character] = cell
    return meaning


def _lines(text: str) -> tuple[list[str], int]:
    """The rows of a map, and the line number of the first one."""
    lines = [line.rstrip() for line in textwrap.dedent(text).splitlines()]
    filled = [number for number, line in enumerate(lines) if line]
    if not filled:
        raise ModelError("a map must have at least one row; got an empty text")
    rows, first_line = lines[filled[0] : filled[-1] + 1], filled[0] + 1
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ModelError(
                f"the rows of a map must be equally long; got {len(row)} cells on line {first_line + number} "
                f"and {len(rows[0])} on line {first_line}. Pad them with '#' or '.'."
            )
    return rows, first_line


def _unknown(character: str, line: int, column: int, meaning: Mapping[str, Cell]) -> ModelError:
    return ModelError(
        f"unknown map character {character!r} at line {line}, column {column}. Known: {' '.join(meaning)}. "
        f"Define it, such as legend={{{character!r}: '.'}} for floor or legend={{{character!r}: 1}} for a "
        "hazard with damage 1."
    )


# ---------------------------------------------------------------------- from terrain to model


class _Terrain:
    """A map as flat arrays with one entry per cell, from the kind of each cell and the meaning of each kind."""

    def __init__(self, kind: Ints, cells: Sequence[Cell]) -> None:
        self.rows, self.columns = kind.shape

        def spread(values: list[Any], dtype: Any = np.bool_) -> npt.NDArray[Any]:
            return np.array(values, dtype)[kind.ravel()]

        self.wall, self.start = spread([cell.wall for cell in cells]), spread([cell.start for cell in cells])
        self.terminal, self.stuck = spread([cell.terminal for cell in cells]), spread([cell.stuck for cell in cells])
        self.damage = spread([cell.damage for cell in cells], np.uint8)
        self.reward = spread([cell.reward for cell in cells], np.float64)
        self.exits = spread([[letter in cell.exits for letter in "NESW"] for cell in cells])  # [cells, 4]

    def model(self, *, slip: float, slip_model: SlipModel, step_reward: float, text: tuple[str, ...]) -> MDP:
        if not self.start.any():
            raise ModelError("a map must have a start; got none. Put an 'S' where episodes begin.")
        cells = np.flatnonzero(~self.wall).astype(np.int32)
        state = np.full(self.wall.size, -1, np.int32)
        state[cells] = np.arange(cells.size, dtype=np.int32)
        inner = cells[~self.terminal[cells]]  # cells with actions
        weights, targets = self._targets(inner, slip, slip_model)  # [k], [inner, 4, k]
        allowed = self.exits[inner]
        to = targets[allowed].ravel()
        per_state = np.count_nonzero(allowed, axis=1) * weights.size
        places = divmod(cells, self.columns) if cells.size <= MOST_NAMES else None
        return from_transitions(
            np.repeat(state[inner], per_state),
            np.repeat(np.tile(np.arange(4, dtype=np.uint8), (inner.size, 1))[allowed], weights.size),
            state[to],
            np.tile(weights, to.size // weights.size),
            step_reward + self.reward[to],
            self.damage[to],
            num_states=cells.size,
            terminal=state[cells[self.terminal[cells]]],
            initial=self.start[cells] / np.count_nonzero(self.start),
            action_names=DIRECTIONS,
            state_names=[f"r{row}c{column}" for row, column in zip(*places, strict=True)] if places else None,
            layout=Layout(rows=self.rows, columns=self.columns, cell=cells, text=text),
        )

    def _targets(self, cells: Ints, slip: float, slip_model: SlipModel) -> tuple[Floats, Ints]:
        """The probabilities of the drifts (none, left, right), and the cells they lead to: [cells, 4, drifts]."""
        if not 0 <= slip <= 0.5:
            raise ModelError(f"slip must lie in 0 … 0.5, as it is the probability of each side; got {slip}")
        if slip_model not in ("forward", "side"):
            raise UnknownName("slip model", slip_model, ("forward", "side"), "There are 'forward' and 'side'.")
        drifts = [(turn, p) for turn, p in ((0, 1 - 2 * slip), (3, slip), (1, slip)) if p > 0]
        moves = self._moves()
        targets = np.empty((cells.size, 4, len(drifts)), np.int32)
        for direction in range(4):
            for i, (turn, _) in enumerate(drifts):
                ahead = moves[direction][cells]
                aside = moves[(direction + turn) % 4]
                targets[:, direction, i] = ahead if turn == 0 else aside[ahead if slip_model == "forward" else cells]
        targets[self.stuck[cells]] = cells[self.stuck[cells], None, None]
        return np.array([p for _, p in drifts]), targets

    def _moves(self) -> npt.NDArray[np.int32]:
        """The cell that each action leads to from each cell, without slipping: [4, cells]."""
        row, column = np.divmod(np.arange(self.wall.size, dtype=np.int32), np.int32(self.columns))
        result = np.empty((4, self.wall.size), np.int32)
        for direction, (down, right) in enumerate(STEPS):
            to_row = np.clip(row + down, 0, self.rows - 1)
            to = to_row * self.columns + np.clip(column + right, 0, self.columns - 1)
            result[direction] = np.where(self.wall[to], row * self.columns + column, to)
        return result


# ---------------------------------------------------------------------- random maps


@names_right_word
def grid_family(
    n: int,
    *,
    seed: int = 0,
    hazard: float = 0.05,
    lakes: float = 0.2,
    largest_lake: int = 12,
    pits: float = 0.002,
    slip: float = 0.1,
    slip_model: SlipModel = "forward",
) -> MDP:
    """A seeded n × n map of water and pits, for benchmarks: n² states, four actions and twelve outcomes each.

    The start is the top left cell and the goal, with reward 1, the bottom right one.  Minimal budgets vary (0, 1, 2, …
    and infinite) with ``slip_model="forward"``; with ``"side"`` almost all are 0 or infinite.

    Parameters
    ----------
    n
        Rows and columns, at least 2.
    seed
        Seed of the random numbers.
    hazard
        Share of the cells that are single cells of water.
    lakes, largest_lake
        Share of the area covered by round lakes (less if they overlap), and their largest radius.
    pits
        Share of the cells that are pits.
    slip, slip_model
        As in :func:`from_map`.

    Examples
    --------
    >>> grid_family(6).num_states
    36
    """
    if n < 2:
        raise ModelError(f"a grid must have at least 2 × 2 cells; got n={n}")
    rng = np.random.default_rng(seed)
    water = rng.random((n, n)) < hazard
    _fill_lakes(water, lakes, largest_lake, rng)
    kind = water.astype(np.uint8)
    kind[rng.random((n, n)) < pits] = 2
    kind[0, 0], kind[-1, -1] = 3, 4
    symbols = np.frombuffer(b".~XSG", np.uint8)
    cells = [replace(LEGEND[symbol], reward=float(symbol == "G")) for symbol in ".~XSG"]
    text = tuple(row.tobytes().decode() for row in symbols[kind])
    return _Terrain(kind, cells).model(slip=slip, slip_model=slip_model, step_reward=0.0, text=text)


def _fill_lakes(water: Bools, share: float, largest: int, rng: np.random.Generator) -> None:
    """Draw discs with radii 1 … largest and centres anywhere, until their areas add up to the share."""
    n, wanted = water.shape[0], share * water.size
    while wanted > 0:
        radius = int(rng.integers(1, largest + 1))
        row, column = (int(x) for x in rng.integers(0, n, 2))
        top, left = max(0, row - radius), max(0, column - radius)
        window = water[top : row + radius + 1, left : column + radius + 1]
        y, x = np.ogrid[top : top + window.shape[0], left : left + window.shape[1]]
        window |= (y - row) ** 2 + (x - column) ** 2 <= radius**2
        wanted -= np.pi * radius**2
