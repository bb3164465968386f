"""Renders the environments of this package: as text, and by pygame as pictures.

A *drawing* of a state has rows of characters and the agent's position.  Text shows the agent as ``@``.  Pictures have
one tile per character, the agent as a disc, and below them one red dot per unit of damage so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import optional
from almostsure.model.layout import Layout

MODES = ("ansi", "rgb_array", "human")

Image = npt.NDArray[np.uint8]  # [rows, columns, 3]
Colour = tuple[int, int, int]

CELL, STRIP = 32, 22  # pixels: the side of a tile, and the height of the strip for the damage
INK: Colour = (52, 56, 66)
PAPER: Colour = (247, 244, 236)
RED: Colour = (206, 62, 55)
AGENT: Colour = (228, 118, 42)
FLOOR: Colour = (240, 236, 226)
TILES: dict[str, Colour] = {
    "#": (92, 97, 108),
    "~": (110, 175, 220),
    "G": (122, 190, 130),
    "D": (122, 190, 130),
    "X": (43, 34, 52),
    "=": (203, 201, 193),
    "F": (238, 176, 34),
    "A": (196, 164, 120),
    "B": (196, 164, 120),
    " ": PAPER,
} | {str(damage): (120 - 10 * damage, 180 - 10 * damage, 225 - 7 * damage) for damage in range(1, 10)}
PLAIN = "#. ~=S"  # characters that are not written on their tile


class Drawing(NamedTuple):
    """The drawing of a state."""

    rows: Sequence[str]
    agent: tuple[int, int] | None  # row and column; None if the agent is not on the map
    note: str = ""  # appended to the status line of text


Draw = Callable[[int], Drawing]  # of a state


class Scene(NamedTuple):
    """A state, with the last step and the damage of the episode."""

    state: int
    action: str  # the last action's name, or ""
    damage: int  # of the episode so far
    damaged: bool  # whether the last step did damage


def on_map(layout: Layout, state: int) -> Drawing:
    """The drawing of a model that has a layout."""
    return Drawing(layout.text, layout.place(state))


@final
class Renderer:
    """Renders scenes in one of the ``MODES``.  A copy opens a window of its own."""

    def __init__(self, draw: Draw, mode: str, fps: float) -> None:
        self.draw, self.mode, self.fps = draw, mode, fps
        self._screen: Any = None
        self._clock: Any = None

    def show(self, scene: Scene) -> str | Image | None:
        """Text or a picture; in mode ``"human"``, None, after drawing in the window."""
        drawing = self.draw(scene.state)
        if self.mode == "ansi":
            return _text(drawing, scene)
        pygame = _pygame()
        picture = _picture(pygame, drawing, scene)
        if self.mode == "rgb_array":
            return np.ascontiguousarray(pygame.surfarray.array3d(picture).swapaxes(0, 1))
        if self._screen is None:
            pygame.display.init()
            pygame.display.set_caption("almostsure")
            self._screen, self._clock = pygame.display.set_mode(picture.get_size()), pygame.time.Clock()
        self._screen.blit(picture, (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self.fps)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._screen is not None:
            _pygame().display.quit()
            self._screen = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_screen": None, "_clock": None}


def _text(drawing: Drawing, scene: Scene) -> str:
    rows = [list(row) for row in drawing.rows]
    if drawing.agent is not None:
        row, column = drawing.agent
        rows[row][column] = "@"
    status = f"{scene.action or 'start'}, damage so far {scene.damage}{drawing.note}"
    return "\n".join([*("".join(row) for row in rows), status])


def _picture(pygame: Any, drawing: Drawing, scene: Scene) -> Any:
    height, width = len(drawing.rows), max(map(len, drawing.rows))
    surface = pygame.Surface((width * CELL, height * CELL + STRIP))
    surface.fill(PAPER)
    font = pygame.font.Font(None, CELL)
    for row, line in enumerate(drawing.rows):
        for column, character in enumerate(line):
            tile = pygame.Rect(column * CELL, row * CELL, CELL, CELL)
            surface.fill(TILES.get(character, FLOOR), tile)
            if character not in PLAIN:
                letter = font.render(character, True, PAPER if character == "X" else INK)
                surface.blit(letter, letter.get_rect(center=tile.center))
    if drawing.agent is not None:
        row, column = drawing.agent
        middle = (column * CELL + CELL // 2, row * CELL + CELL // 2)
        pygame.draw.circle(surface, RED if scene.damaged else INK, middle, 13)
        pygame.draw.circle(surface, AGENT, middle, 11)
    _draw_damage(pygame, surface, height * CELL + STRIP // 2, scene.damage)
    return surface


def _draw_damage(pygame: Any, surface: Any, middle: int, damage: int) -> None:
    """One dot per unit of damage; a bar if there are too many."""
    num_fitting = (surface.get_width() - 28) // 16 + 1
    if damage > num_fitting:
        surface.fill(RED, pygame.Rect(14, middle - 5, surface.get_width() - 28, 10))
        return
    for dot in range(damage):
        pygame.draw.circle(surface, RED, (14 + 16 * dot, middle), 5)


def _pygame() -> Any:
    pygame = optional("pygame", "envs")
    pygame.font.init()
    return pygame
