"""The positions of the states of a model in a drawing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """A grid of ``rows`` × ``columns`` cells that states are drawn in.

    ``cell[s]`` is ``row * columns + column`` of state ``s``, or −1 if the state is not drawn.
    ``text`` is the map as it is displayed: one string per row, one character per cell.

    Examples
    --------
    >>> import almostsure as asure
    >>> layout = asure.from_map("S.G").layout
    >>> layout.rows, layout.columns, layout.text
    (1, 3, ('S.G',))
    """

    rows: int
    columns: int
    cell: npt.NDArray[np.int32]  # [num_states]
    text: tuple[str, ...]  # [rows] of length columns

    def with_more_states(self, count: int) -> Layout:
        """The layout after ``count`` states that are not drawn are appended to the model."""
        return replace(self, cell=np.append(self.cell, np.full(count, -1, self.cell.dtype)))

    def place(self, state: int) -> tuple[int, int] | None:
        """Row and column of ``state``, or None if it is not drawn."""
        cell = int(self.cell[state])
        return None if cell < 0 else divmod(cell, self.columns)
