"""A warehouse robot that may be bumped, but only so often.

::

    #############      A, B   parcels to be brought to the dock D, one at a time
    #A.########B#      =      the lane of a forklift, which drives to and fro and sometimes waits
    ##.####.###.#
    #===========#      Robot and forklift both move one cell per step.  Where they would meet, in a cell
    #####.#######      or between two, the robot is bumped, damage 1: both stay where they are, and the
    #.....D.....#      forklift turns round.
    #############

Every step costs 1; A is worth 40 and B 60.  To *stay* at the dock, with nothing on board, ends the shift.  The
forklift starts anywhere.  What a robot can be forced to take depends on where the forklift is and which way it
goes, so with little budget it waits for the right moment, or in the niche north of the lane, and with more it hurries.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from almostsure.errors import ArgumentError
from almostsure.gym.envs.render import Drawing
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP

MAP = (
    "#############",
    "#A.########B#",
    "##.####.###.#",
    "#===========#",
    "#####.#######",
    "#.....D.....#",
    "#############",
)
ACTIONS = ("north", "east", "south", "west", "stay")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))
WORTH = {"A": 40.0, "B": 60.0}
STAY = 4

Cell = tuple[int, int]


class Situation(NamedTuple):
    """A state of the warehouse."""

    robot: Cell
    phase: int  # of the forklift's tour
    carried: str  # "", "A" or "B"
    waiting: str  # the parcels that are still on their shelves


class Floor(NamedTuple):
    """The map, read."""

    free: frozenset[Cell]
    tour: tuple[Cell, ...]  # where the forklift is in each phase, there and back
    dock: Cell
    parcels: dict[Cell, str]


def read_floor() -> Floor:
    """What the map says."""
    cells = {(r, c): what for r, row in enumerate(MAP) for c, what in enumerate(row)}
    lane = sorted(cell for cell, what in cells.items() if what == "=")
    return Floor(
        free=frozenset(cell for cell, what in cells.items() if what != "#"),
        tour=(*lane, *lane[-2:0:-1]),
        dock=next(cell for cell, what in cells.items() if what == "D"),
        parcels={cell: what for cell, what in cells.items() if what in WORTH},
    )


FLOOR = read_floor()


@lru_cache(maxsize=8)
def warehouse(*, pause: float = 0.2) -> tuple[MDP, tuple[Situation | None, ...]]:
    """The model, and the situation that each of its states is; None for the end of the shift.

    Parameters
    ----------
    pause
        Probability with which the forklift waits in a step.
    """
    if not 0 <= pause < 1:
        raise ArgumentError(f"pause must be a probability below 1; got {pause}")
    starts = [Situation(FLOOR.dock, phase, "", "AB") for phase in range(len(FLOOR.tour))]
    number: dict[Situation | None, int] = {None: 0} | {start: i + 1 for i, start in enumerate(starts)}
    rows, todo = [], list(starts)
    while todo:
        here = todo.pop()
        for action in range(len(ACTIONS)):
            for after, probability, reward, damage in _outcomes(here, action, pause):
                if after not in number:
                    number[after] = len(number)
                    assert after is not None
                    todo.append(after)
                rows.append((number[here], action, number[after], probability, reward, damage))
    s, a, t, p, r, d = zip(*rows, strict=True)
    initial: dict[int | str, float] = {number[start]: 1 / len(starts) for start in starts}
    names = ["off duty" if at is None else _name(at) for at in number]
    mdp = from_transitions(s, a, t, p, r, d, terminal=[0], initial=initial, action_names=ACTIONS, state_names=names)
    return mdp, tuple(number)


def draw(situations: tuple[Situation | None, ...], state: int) -> Drawing:
    """The map with the parcels that are still there, the forklift ``F`` and the robot."""
    at = situations[state]
    if at is None:
        return Drawing([row.replace("A", ".").replace("B", ".") for row in MAP], FLOOR.dock)
    rows = [list(row) for row in MAP]
    for (row, column), parcel in FLOOR.parcels.items():
        rows[row][column] = parcel if parcel in at.waiting else "."
    row, column = FLOOR.tour[at.phase]
    rows[row][column] = "F"
    note = f", carries {at.carried}" if at.carried else ""
    return Drawing(["".join(row) for row in rows], at.robot, note)


def _name(at: Situation) -> str:
    load = f", carries {at.carried}" if at.carried else ""
    waiting = f", {' and '.join(at.waiting)} waiting" if at.waiting else ""
    return f"robot r{at.robot[0]}c{at.robot[1]}, forklift {at.phase}{load}{waiting}"


Result = tuple[Situation | None, float, float, int]  # what follows, with which probability, reward and damage


def _outcomes(here: Situation, action: int, pause: float) -> Iterator[Result]:
    if action == STAY and here.robot == FLOOR.dock and not here.carried:
        yield None, 1.0, 0.0, 0
        return
    yield _together(here, action, True, 1 - pause)
    if pause:
        yield _together(here, action, False, pause)


def _together(here: Situation, action: int, goes: bool, probability: float) -> Result:
    """Robot and forklift move at the same time."""
    down, right = MOVES[action]
    robot = here.robot[0] + down, here.robot[1] + right
    robot = robot if robot in FLOOR.free else here.robot
    phase = (here.phase + goes) % len(FLOOR.tour)
    truck_was, truck = FLOOR.tour[here.phase], FLOOR.tour[phase]
    if robot == truck or (robot == truck_was and here.robot == truck and robot != here.robot):
        back = (len(FLOOR.tour) - here.phase) % len(FLOOR.tour)  # the same place, the other way
        return here._replace(phase=back), probability, -1.0, 1
    return _handle(here, robot, phase, probability)


def _handle(here: Situation, robot: Cell, phase: int, probability: float) -> Result:
    """Pick up what lies there, and deliver what is brought to the dock."""
    carried, waiting, reward = here.carried, here.waiting, -1.0
    found = FLOOR.parcels.get(robot, "")
    if found and found in waiting and not carried:
        carried, waiting = found, waiting.replace(found, "")
    elif carried and robot == FLOOR.dock:
        reward += WORTH[carried]
        carried = ""
    return Situation(robot, phase, carried, waiting), probability, reward, 0
