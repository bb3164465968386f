"""A window on the screen, by pygame."""

from __future__ import annotations

from typing import Any, final

from almostsure.errors import MissingExtra
from almostsure.gym.canvas import Image

ZOOM_BELOW = 320  # pixels: smaller pictures are shown twice as large


@final
class Window:
    """Shows one picture after another; made when there is something to show.  A copy has a window of its own."""

    def __init__(self, title: str, fps: float) -> None:
        self.title, self.fps = title, fps
        self._pygame: Any = None
        self._screen: Any = None
        self._clock: Any = None

    def show(self, picture: Image) -> None:
        """Show a picture, and wait as long as pictures last."""
        if self._screen is None:
            self._open(picture)
        surface = self._pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        self._screen.blit(self._pygame.transform.scale(surface, self._screen.get_size()), (0, 0))
        self._pygame.event.pump()
        self._pygame.display.flip()
        self._clock.tick(self.fps)

    def _open(self, picture: Image) -> None:
        try:
            import pygame
        except ImportError as error:
            raise MissingExtra("pygame", "envs") from error
        pygame.display.init()
        zoom = 2 if max(picture.shape) < ZOOM_BELOW else 1
        pygame.display.set_caption(self.title)
        self._pygame, self._clock = pygame, pygame.time.Clock()
        self._screen = pygame.display.set_mode((picture.shape[1] * zoom, picture.shape[0] * zoom))

    def close(self) -> None:
        """Close the window, if it was opened."""
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Window, (self.title, self.fps)
