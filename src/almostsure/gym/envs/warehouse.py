"""A warehouse with a robot, a forklift, and damage for their collisions.

::

    #############      A, B   parcels to be brought to the dock D, one at a time
    #A.########B#      =      the lane of a forklift, which drives to and fro and sometimes waits
    ##.####.###.#
    #===========#      Robot and forklift both move one cell per step.  If they would meet, in a cell or
    #####.#######      between two, the robot is bumped, damage 1: both stay where they are, and the
    #.....D.....#      forklift turns round.
    #############

Every step has reward −1; delivering A has reward 40 and B 60.  The action *stay* at the dock without a parcel ends the
episode.  The forklift's initial phase is random.  The damage that can be forced depends on the forklift's position and
direction: with a small budget the robot must wait, perhaps in the niche north of the lane; with a larger one it can go
at once.
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
REWARDS = {"A": 40.0, "B": 60.0}  # for delivery
STAY = 4

Cell = tuple[int, int]


class Situation(NamedTuple):
    """A state of the warehouse."""

    robot: Cell
    phase: int  # of the forklift's tour
    carried: str  # "", "A" or "B"
    waiting: str  # the parcels that have not been picked up


class Floor(NamedTuple):
    """The cells of the map."""

    free: frozenset[Cell]
    tour: tuple[Cell, ...]  # the forklift's position in each phase, there and back
    dock: Cell
    parcels: dict[Cell, str]


def read_floor() -> Floor:
    """Parse the map."""
    cells = {(r, c): character for r, row in enumerate(MAP) for c, character in enumerate(row)}
    lane = sorted(cell for cell, character in cells.items() if character == "=")
    return Floor(
        free=frozenset(cell for cell, character in cells.items() if character != "#"),
        tour=(*lane, *lane[-2:0:-1]),
        dock=next(cell for cell, character in cells.items() if character == "D"),
        parcels={cell: character for cell, character in cells.items() if character in REWARDS},
    )


FLOOR = read_floor()


@lru_cache(maxsize=8)
def warehouse(*, pause: float = 0.2) -> tuple[MDP, tuple[Situation | None, ...]]:
    """The model, and the situation of each of its states; None for the terminal state.

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
    """The map with the waiting parcels, the forklift ``F`` and the robot."""
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


Result = tuple[Situation | None, float, float, int]  # next situation, probability, reward, damage


def _outcomes(here: Situation, action: int, pause: float) -> Iterator[Result]:
    if action == STAY and here.robot == FLOOR.dock and not here.carried:
        yield None, 1.0, 0.0, 0
        return
    yield _move(here, action, True, 1 - pause)
    if pause:
        yield _move(here, action, False, pause)


def _move(here: Situation, action: int, goes: bool, probability: float) -> Result:
    """Move the robot and, if it ``goes``, the forklift, at the same time."""
    down, right = MOVES[action]
    robot = here.robot[0] + down, here.robot[1] + right
    robot = robot if robot in FLOOR.free else here.robot
    phase = (here.phase + goes) % len(FLOOR.tour)
    truck_was, truck = FLOOR.tour[here.phase], FLOOR.tour[phase]
    if robot == truck or (robot == truck_was and here.robot == truck and robot != here.robot):
        back = (len(FLOOR.tour) - here.phase) % len(FLOOR.tour)  # the same cell, in the other direction
        return here._replace(phase=back), probability, -1.0, 1
    return _handle(here, robot, phase, probability)


def _handle(here: Situation, robot: Cell, phase: int, probability: float) -> Result:
    """Pick up a parcel that waits in the robot's cell, or deliver the carried one at the dock."""
    carried, waiting, reward = here.carried, here.waiting, -1.0
    parcel = FLOOR.parcels.get(robot, "")
    if parcel and parcel in waiting and not carried:
        carried, waiting = parcel, waiting.replace(parcel, "")
    elif carried and robot == FLOOR.dock:
        reward += REWARDS[carried]
        carried = ""
    return Situation(robot, phase, carried, waiting), probability, reward, 0
