"""Drawing with NumPy alone: smooth shapes on an array of pixels.

A shape is a function that says how far a pixel lies outside of it; at its edge, colours mix over one pixel.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]

INK: Colour = (52, 56, 66)
PAPER: Colour = (247, 244, 236)
RED: Colour = (206, 62, 55)
GREY: Colour = (214, 210, 200)


@final
class Canvas:
    """Pixels that can be drawn on: rows × columns × 3."""

    __slots__ = ("pixels",)

    def __init__(self, height: int, width: int, colour: Colour = PAPER) -> None:
        self.pixels = np.empty((height, width, 3), np.float32)
        self.pixels[:] = colour

    def copy(self) -> Canvas:
        """The same picture, to be drawn on separately."""
        twin = Canvas(0, 0)
        twin.pixels = self.pixels.copy()
        return twin

    def image(self) -> Image:
        """The picture as bytes."""
        return np.rint(self.pixels).astype(np.uint8)

    def disc(self, y: float, x: float, radius: float, colour: Colour, opacity: float = 1.0) -> None:
        """A filled circle."""
        rows, columns, part = self._part(y - radius, x - radius, y + radius, x + radius)
        self._blend(part, np.hypot(rows - y, columns - x) - radius, colour, opacity)

    def ring(self, y: float, x: float, radius: float, thick: float, colour: Colour, opacity: float = 1.0) -> None:
        """A circle's line."""
        far = radius + thick
        rows, columns, part = self._part(y - far, x - far, y + far, x + far)
        self._blend(part, np.abs(np.hypot(rows - y, columns - x) - radius) - thick / 2, colour, opacity)

    def box(
        self, top: float, left: float, height: float, width: float, colour: Colour, corner: float = 0.0,
        opacity: float = 1.0,
    ) -> None:  # fmt: skip
        """A filled rectangle, with rounded corners."""
        rows, columns, part = self._part(top, left, top + height, left + width)
        down = np.abs(rows - top - height / 2) - height / 2 + corner
        right = np.abs(columns - left - width / 2) - width / 2 + corner
        outside = np.hypot(np.maximum(down, 0), np.maximum(right, 0)) + np.minimum(np.maximum(down, right), 0) - corner
        self._blend(part, outside, colour, opacity)

    def line(
        self, y: float, x: float, to_y: float, to_x: float, thick: float, colour: Colour, opacity: float = 1.0
    ) -> None:
        """A straight line with round ends."""
        rows, columns, part = self._part(
            min(y, to_y) - thick, min(x, to_x) - thick, max(y, to_y) + thick, max(x, to_x) + thick
        )
        down, right = to_y - y, to_x - x
        along = ((rows - y) * down + (columns - x) * right) / max(down * down + right * right, 1e-9)
        along = np.clip(along, 0, 1)
        far = np.hypot(rows - y - along * down, columns - x - along * right)
        self._blend(part, far - thick / 2, colour, opacity)

    def arrow(self, y: float, x: float, down: int, right: int, size: float, thick: float, colour: Colour) -> None:
        """An arrow head that points in a direction."""
        half, wide = size / 2, size / 1.4
        for side in (-1, 1):
            end = y - down * half + side * right * wide, x - right * half + side * down * wide
            self.line(y + down * half, x + right * half, *end, thick, colour)

    def _part(self, top: float, left: float, bottom: float, right: float) -> tuple[Any, Any, tuple[slice, slice]]:
        """The pixels near a shape: their rows, their columns, and where they are."""
        height, width = self.pixels.shape[:2]
        first, last = max(int(top) - 1, 0), min(int(bottom) + 2, height)
        begin, end = max(int(left) - 1, 0), min(int(right) + 2, width)
        rows = np.arange(first, last, dtype=np.float32)[:, None] + 0.5
        columns = np.arange(begin, end, dtype=np.float32)[None, :] + 0.5
        return rows, columns, (slice(first, last), slice(begin, end))

    def _blend(self, part: tuple[slice, slice], outside: Any, colour: Colour, opacity: float) -> None:
        share = (np.clip(0.5 - outside, 0, 1) * opacity)[..., None]
        self.pixels[part] += share * (np.asarray(colour, np.float32) - self.pixels[part])


def damage_strip(canvas: Canvas, top: float, damage: int) -> None:
    """A row of pips, one for each unit of damage so far; a bar where there are too many."""
    left, width = 14.0, canvas.pixels.shape[1] - 28.0
    most = int(width // 16) + 1
    if damage > most:
        canvas.box(top + 6, left, 10, width, RED, 5)
        return
    for pip in range(most):
        if pip < damage:
            canvas.disc(top + 11, left + 16 * pip, 5, RED)
        elif pip < max(damage, 4):
            canvas.ring(top + 11, left + 16 * pip, 4, 1.4, GREY)


STRIP = 22  # pixels below a picture, for the pips


def shade(colour: Colour, factor: float) -> Colour:
    """A darker (below 1) or lighter colour."""
    red, green, blue = (int(min(max(part * factor, 0), 255)) for part in colour)
    return red, green, blue
