"""Pictures of models: maps, the paper's two states, and the warehouse."""

from __future__ import annotations

from typing import NamedTuple, Protocol, final

import numpy as np

from almostsure.gym.canvas import GREY, INK, PAPER, RED, STRIP, Canvas, Colour, Image, damage_strip, shade
from almostsure.gym.warehouse import MAP, Situation, read_floor
from almostsure.model.grid import STEPS
from almostsure.model.mdp import MDP, Bools

CELL = 32  # pixels a side
ONE_WAY = "^>v<"  # as maps draw them, in the order of STEPS

WALL: Colour = (92, 97, 108)
FLOOR: Colour = (246, 242, 232)
GOAL: Colour = (92, 168, 104)
PIT: Colour = (43, 34, 52)
AGENT: Colour = (228, 118, 42)
SHALLOW, DEEP = np.array([150, 203, 230]), np.array([22, 82, 150])  # the least and the largest damage


class Scene(NamedTuple):
    """What there is to be drawn."""

    state: int
    action: str  # the last one, or nothing
    damage: int  # so far
    hurt: bool  # by the last step


class Painter(Protocol):
    """Draws the states of a model."""

    def picture(self, scene: Scene) -> Image:
        """Rows × columns × 3 bytes."""
        ...

    def text(self, scene: Scene) -> str:
        """A few lines."""
        ...


def status(scene: Scene) -> str:
    """The line below a drawing in text."""
    return f"{scene.action or 'start'}, damage so far {scene.damage}"


def robot(canvas: Canvas, y: float, x: float, size: float, colour: Colour, *, hurt: bool) -> None:
    """The agent: a small machine with two eyes, which flinches when it is hurt."""
    if hurt:
        canvas.ring(y, x, 0.47 * size, 0.08 * size, RED, 0.9)
    canvas.disc(y + 0.06 * size, x, 0.34 * size, INK, 0.18)
    canvas.disc(y, x, 0.34 * size, shade(colour, 0.8))
    canvas.disc(y - 0.02 * size, x, 0.3 * size, colour)
    for side in (-1, 1):
        canvas.disc(y - 0.06 * size, x + side * 0.12 * size, 0.085 * size, PAPER)
        canvas.disc(y - 0.05 * size, x + side * 0.12 * size, 0.04 * size, INK)


@final
class MapPainter:
    """Draws a model that has a layout: walls, floor, water the darker the more it hurts, pits and goals."""

    def __init__(self, mdp: MDP) -> None:
        assert mdp.layout is not None  # the environment has checked it
        self._mdp, self._layout = mdp, mdp.layout
        self._background: Canvas | None = None

    def text(self, scene: Scene) -> str:
        """The map with the agent on it."""
        rows = [list(row) for row in self._layout.text]
        place = self._layout.place(scene.state)
        if place is not None:
            rows[place[0]][place[1]] = "@"
        return "\n".join([*("".join(row) for row in rows), status(scene)])

    def picture(self, scene: Scene) -> Image:
        """The map with the agent on it, and below it the damage so far."""
        if self._background is None:
            self._background = self._draw()
        canvas = self._background.copy()
        place = self._layout.place(scene.state)
        if place is not None:
            y, x = ((at + 0.5) * CELL for at in place)
            robot(canvas, y, x, CELL, AGENT, hurt=scene.hurt)
        damage_strip(canvas, self._layout.rows * CELL, scene.damage)
        return canvas.image()

    def _draw(self) -> Canvas:
        layout, mdp = self._layout, self._mdp
        canvas = Canvas(layout.rows * CELL + STRIP, layout.columns * CELL, PAPER)
        canvas.box(0, 0, layout.rows * CELL, layout.columns * CELL, WALL)
        hurts = np.zeros(mdp.num_states)
        np.maximum.at(hurts, mdp.successor, mdp.damage)
        is_pit, is_terminal = _is_pit(mdp), mdp.is_terminal()
        for state in np.flatnonzero(layout.cell >= 0).tolist():
            row, column = divmod(int(layout.cell[state]), layout.columns)
            top, left = row * CELL, column * CELL
            light = 1.0 if (row + column) % 2 else 0.975
            canvas.box(top, left, CELL, CELL, shade(FLOOR, light))
            if is_terminal[state]:
                _goal(canvas, top, left)
            elif is_pit[state]:
                _pit(canvas, top, left)
            elif hurts[state]:
                depth = (hurts[state] - 1) / max(mdp.max_damage - 1, 1)
                _water(canvas, top, left, depth, row + column)
            arrow = ONE_WAY.find(layout.text[row][column])
            if arrow >= 0:
                canvas.arrow(top + CELL / 2, left + CELL / 2, *STEPS[arrow], 0.3 * CELL, 3, GREY)
        return canvas


def _goal(canvas: Canvas, top: float, left: float) -> None:
    canvas.box(top + 2, left + 2, CELL - 4, CELL - 4, shade(GOAL, 1.25), 6)
    canvas.line(top + 7, left + 11, top + CELL - 6, left + 11, 2.5, INK)
    canvas.box(top + 7, left + 12, 9, 13, shade(GOAL, 0.72), 2)


def _pit(canvas: Canvas, top: float, left: float) -> None:
    canvas.box(top + 1, left + 1, CELL - 2, CELL - 2, PIT, 5)
    for radius, opacity in ((12, 0.2), (8, 0.3), (4, 0.5)):
        canvas.ring(top + CELL / 2, left + CELL / 2, radius, 2, (150, 120, 170), opacity)


def _water(canvas: Canvas, top: float, left: float, depth: float, phase: int) -> None:
    mixed = (SHALLOW + depth * (DEEP - SHALLOW)).astype(int).tolist()
    colour = (mixed[0], mixed[1], mixed[2])
    canvas.box(top, left, CELL, CELL, colour)
    for wave in range(2):
        y, x = top + 10 + 13 * wave, left + 4 + 6 * ((wave + phase) % 2)
        for begin in (0, 7):
            canvas.line(y, x + begin, y - 3, x + begin + 3.5, 1.6, shade(colour, 1.22))
            canvas.line(y - 3, x + begin + 3.5, y, x + begin + 7, 1.6, shade(colour, 1.22))


def _is_pit(mdp: MDP) -> Bools:
    """Which states can never be left and hurt."""
    state = np.repeat(mdp.choice_states(), np.diff(mdp.outcome_ptr))
    stays = (mdp.successor == state) & (mdp.damage > 0)
    return np.asarray(np.logical_and.reduceat(stays, mdp.outcome_ptr[mdp.choice_ptr[:-1]]))


@final
class PaperPainter:
    """Draws the paper's running example: the circle, its loop that earns and hurts, and the square."""

    def text(self, scene: Scene) -> str:
        """Two places in a row."""
        return f"{'(@)' if scene.state == 0 else '( )'} → {'[@]' if scene.state == 1 else '[ ]'}\n{status(scene)}"

    def picture(self, scene: Scene) -> Image:
        """The circle, the square, and who is where."""
        canvas = Canvas(150 + STRIP, 260)
        loop = RED if scene.hurt else shade(RED, 1.15)
        canvas.ring(42, 75, 26, 4 if scene.hurt else 2.5, loop, 1.0 if scene.hurt else 0.6)
        canvas.arrow(62, 56, 1, 0, 9, 2.5, loop)
        canvas.line(90, 112, 90, 162, 3, INK)
        canvas.arrow(90, 161, 0, 1, 9, 3, INK)
        canvas.disc(90, 75, 34, INK)
        canvas.disc(90, 75, 31, FLOOR)
        canvas.box(60, 170, 60, 60, INK, 4)
        canvas.box(63, 173, 54, 54, shade(GOAL, 1.25), 3)
        robot(canvas, 90, 75 if scene.state == 0 else 200, 46, AGENT, hurt=scene.hurt)
        damage_strip(canvas, 150, scene.damage)
        return canvas.image()


@final
class WarehousePainter:
    """Draws the warehouse: shelves, the lane, the dock, parcels, the forklift and the robot."""

    def __init__(self, situations: tuple[Situation | None, ...]) -> None:
        self._situations, self._floor = situations, read_floor()
        self._background: Canvas | None = None

    def text(self, scene: Scene) -> str:
        """The map with the robot ``@`` and the forklift ``F``."""
        rows = [list(row) for row in MAP]
        at = self._situations[scene.state]
        for (row, column), parcel in self._floor.parcels.items():
            rows[row][column] = parcel if at is not None and parcel in at.waiting else "."
        if at is not None:
            truck = self._floor.tour[at.phase]
            rows[truck[0]][truck[1]] = "F"
        here = self._floor.dock if at is None else at.robot
        rows[here[0]][here[1]] = "@"
        carried = f", carries {at.carried}" if at is not None and at.carried else ""
        return "\n".join([*("".join(row) for row in rows), status(scene) + carried])

    def picture(self, scene: Scene) -> Image:
        """The warehouse from above, and below it the bumps so far."""
        if self._background is None:
            self._background = self._draw()
        canvas, at, floor = self._background.copy(), self._situations[scene.state], self._floor
        for cell, parcel in floor.parcels.items():
            if at is not None and parcel in at.waiting:
                _parcel(canvas, *_middle(cell), 18, parcel)
        if at is not None:
            east = at.phase < len(floor.tour) // 2
            _forklift(canvas, *_middle(floor.tour[at.phase]), 1 if east else -1)
        y, x = _middle(floor.dock if at is None else at.robot)
        robot(canvas, y, x, CELL, (58, 130, 190), hurt=scene.hurt)
        if at is not None and at.carried:
            _parcel(canvas, y - 12, x + 9, 13, at.carried)
        damage_strip(canvas, len(MAP) * CELL, scene.damage)
        return canvas.image()

    def _draw(self) -> Canvas:
        canvas = Canvas(len(MAP) * CELL + STRIP, len(MAP[0]) * CELL)
        for row, line in enumerate(MAP):
            for column, what in enumerate(line):
                top, left = row * CELL, column * CELL
                canvas.box(top, left, CELL, CELL, (226, 223, 214))
                if what == "#":
                    _shelf(canvas, top, left)
                elif what == "=":
                    canvas.box(top, left, CELL, CELL, (203, 201, 193))
                    canvas.box(top + 2, left + 4, 3, CELL - 12, (236, 190, 60))
                    canvas.box(top + CELL - 5, left + 4, 3, CELL - 12, (236, 190, 60))
                elif what == "D":
                    canvas.box(top + 2, left + 2, CELL - 4, CELL - 4, shade(GOAL, 1.3), 5)
                    canvas.ring(top + CELL / 2, left + CELL / 2, 11, 2, shade(GOAL, 0.75))
        return canvas


def _middle(cell: tuple[int, int]) -> tuple[float, float]:
    return (cell[0] + 0.5) * CELL, (cell[1] + 0.5) * CELL


def _shelf(canvas: Canvas, top: float, left: float) -> None:
    canvas.box(top, left, CELL, CELL, (124, 108, 94))
    canvas.box(top + 2, left + 2, CELL - 4, CELL - 4, (148, 130, 112), 2)
    canvas.box(top + CELL / 2 - 1, left + 2, 2, CELL - 4, (112, 97, 84))
    for y, x in ((6, 5), (6, 18), (19, 10)):
        canvas.box(top + y, left + x, 8, 9, (196, 164, 120), 1.5)


def _parcel(canvas: Canvas, y: float, x: float, size: float, name: str) -> None:
    tape: Colour = (60, 120, 190) if name == "A" else (190, 70, 120)
    canvas.box(y - size / 2, x - size / 2, size, size, (178, 132, 82), 2)
    canvas.box(y - size / 2, x - size / 10, size, size / 5, tape)


def _forklift(canvas: Canvas, y: float, x: float, faces: int) -> None:
    for side in (-6, 6):
        canvas.line(y + side, x + faces * 6, y + side, x + faces * 15, 2.5, INK)
    canvas.box(y - 10, x - 11, 20, 20, (150, 105, 10), 4)
    canvas.box(y - 9, x - 10, 18, 18, (238, 176, 34), 4)
    canvas.box(y - 5, x - 5 - faces * 2, 10, 9, INK, 2, 0.85)
