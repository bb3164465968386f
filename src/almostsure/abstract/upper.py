"""``UpperBudget``: a verified upper bound on the minimal budget of every cell, and the need of every pattern."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, CorruptFile, MissingExtra
from almostsure.files import file_name, load_tensors, must_hold, save_tensors
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction
    from almostsure.abstract.diagnosis import Diagnosis, Tightness
    from almostsure.abstract.shield.policy import CellPolicy
    from almostsure.abstract.shield.shield import CellShield
    from almostsure.plots import Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UpperBudget:
    """Upper bounds k̂ on the minimal budgets of the states in each cell.

    Made by ``minimal_budget(abstraction)`` or ``check_upper(abstraction, values)``; both verify it.  ``INFINITE`` means
    that no finite bound was proved (or, with a cap, none up to the cap): the system itself may need less.

    Examples
    --------
    >>> import almostsure as asure
    >>> def step(state, action):
    ...     return (0.9 * state[0] + action,)
    >>> grid = asure.Grid([-1.0], [1.0], [40])
    >>> system = asure.abstract(step, grid, [-0.05, 0.05], unsafe=lambda state: state[0] > 0.8)
    >>> asure.minimal_budget(system).histogram()
    {0: 38, 1: 2}
    """

    abstraction: Abstraction
    of_state: npt.NDArray[np.int32]  # [cells]
    row: npt.NDArray[np.int32]  # [cells] the row of a cell in needs, −1 where its value is INFINITE
    needs: npt.NDArray[np.uint8 | np.int32]  # [finite cells, patterns] the largest number stands for ∞
    cap: int | None = None
    engine: str = ""
    checked: bool = True
    upper_bound: bool = True

    def __post_init__(self) -> None:
        for array in (self.of_state, self.row, self.needs):
            array.flags.writeable = False

    # ------------------------------------------------------------------ questions

    def of(self, state: int | Sequence[float]) -> int:
        """The upper budget of a cell (its number) or of the cell of a point; INFINITE outside the box too."""
        cell = self.abstraction.grid.cell_or_point(state)
        return INFINITE if cell < 0 else int(self.of_state[cell])

    def patterns(self, state: int | Sequence[float]) -> dict[tuple[int, ...], int]:
        """The upper bound on the need of each pattern at a cell or point, without those for which it is ∞."""
        cell = self.abstraction.grid.cell_or_point(state)
        if cell < 0 or self.row[cell] < 0:
            return {}
        needs = self.needs[self.row[cell]].tolist()
        sequences, most = self.abstraction.patterns.sequences, np.iinfo(self.needs.dtype).max
        return {sequence: need for sequence, need in zip(sequences, needs, strict=True) if need != most}

    def smallest_budget(self) -> int:
        """The least budget that is proved to suffice in all initial cells."""
        return int(self.of_state[self.abstraction.initial_cells()].max())

    def safe_share(self, budget: int = 0) -> float:
        """The share of cells for which ``budget`` is proved to suffice."""
        return float((self.of_state <= min(budget, INFINITE - 1)).mean())

    def histogram(self) -> dict[int, int]:
        """The number of cells by upper budget, ascending; the last key may be INFINITE."""
        values, counts = np.unique(self.of_state, return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def explain(self, state: int | Sequence[float] | None = None) -> Diagnosis:
        """Why no budget was proved for a cell or point, and what would help; by default for the worst initial cell."""
        from almostsure.abstract.diagnosis import explain

        return explain(self, state)

    def tightness(self, *, sample: int = 100, seed: int = 0) -> Tightness:
        """How tight the bounds are: lower bounds by search, on samples of cells with and without an upper budget."""
        from almostsure.abstract.diagnosis import tightness

        return tightness(self, sample=sample, seed=seed)

    def shield(self) -> CellShield:
        """The shield.  ``almostsure.Shield(minimal)`` is the same."""
        from almostsure.abstract.shield.shield import CellShield

        return CellShield(self)

    def policy(self) -> CellPolicy:
        """The policy behind the proof, which can be played, saved and exported."""
        from almostsure.abstract.shield.policy import CellPolicy

        return CellPolicy(self)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the values to a safetensors file, atomically."""
        cap = "" if self.cap is None else str(self.cap)
        strings = {"cap": cap, "engine": self.engine, **_made_of(self.abstraction)}
        arrays: dict[str, npt.NDArray[Any]] = {"of_state": self.of_state}
        save_tensors(path, kind="upper", model=self.abstraction.fingerprint, arrays=arrays, strings=strings)

    @classmethod
    def load(cls, path: str | PathLike[str], abstraction: Abstraction) -> UpperBudget:
        """Read upper budgets of ``abstraction`` and verify them: files with too small values are refused."""
        file_name(path, "UpperBudget.load(path, abstraction)")
        arrays, strings = load_tensors(path, kind="upper", model=fingerprint_of(abstraction))
        with must_hold(path, "upper budgets of its system"):
            found = abstraction.check_upper(claimed(path, arrays))
            for name, made in _made_of(abstraction).items():
                if strings[name] != made:
                    raise ValueError(f"its {name} must be {made}; got {strings[name]}")
        return found

    # ------------------------------------------------------------------ pictures

    def plot(
        self,
        x: str | int = 0,
        y: str | int = 1,
        *,
        at: Mapping[str, float] | None = None,
        trajectory: npt.ArrayLike | None = None,
    ) -> Figure:
        """A picture of the upper budgets over two coordinates, and a trajectory.  Needs ``almostsure[plot]``.

        Pale cells have an upper budget only for other values of the fixed coordinates.  For a system with one
        coordinate, the upper budgets are shown as bars.

        Parameters
        ----------
        x, y
            The coordinates, by name or position.
        at
            The values of the other coordinates, by name; by default those at the centre of the start, or of the box.
        trajectory
            States of a run, [steps, coordinates], drawn on top.
        """
        from almostsure.abstract.pictures import plot

        return plot(self, x, y, at=at, trajectory=trajectory)

    def to_html(
        self,
        path: str | PathLike[str],
        x: str | int = 0,
        y: str | int = 1,
        *,
        slider: str | int | None = None,
        at: Mapping[str, float] | None = None,
        trajectory: npt.ArrayLike | None = None,
    ) -> None:
        """Write a page with the picture of two coordinates and a slider for a third (by default the first other one).

        The default trajectory is a run of up to 200 random allowed actions from the centre of the start.
        """
        from almostsure.abstract.pictures import page, write_page

        write_page(path, self, page(self, x, y, slider=slider, at=at, path=trajectory))

    def _repr_html_(self) -> str:
        """In a notebook: the summary and, if Matplotlib is installed, the picture with its slider."""
        import html

        from almostsure.abstract.pictures import SCRIPT, page

        facts = f"<pre>{html.escape(repr(self))}</pre>"
        count = self.abstraction.grid.num_coordinates
        try:
            return f"{facts}{page(self, count - 2, count - 1)}<script>{SCRIPT}</script>"
        except MissingExtra:
            return facts

    def __repr__(self) -> str:
        counts = self.histogram()
        stuck = counts.pop(INFINITE, 0)
        start, total = self.smallest_budget(), self.abstraction.num_cells
        if start == INFINITE:
            need = "no budget was proved to suffice at the start"
        else:
            need = f"the start needs a budget of at most {start}"
        levels = f"{min(counts)} … {max(counts)}" if len(counts) > 1 else str(*counts)
        rest = f"; for {stuck:,} nothing was proved" if stuck else ""
        proved = f"{total - stuck:,} cells ({(total - stuck) / total:.1%}) need at most {levels}{rest}"
        return (
            f"<UpperBudget: {need} ({counted(total, 'cell')})\n"
            f"  {proved if counts else 'for no cell was a finite budget proved'}\n"
            f"  upper bounds by the {self.engine}; verified>"
        )


def claimed(path: str | PathLike[str], arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The values in a file, not yet verified."""
    if set(arrays) != {"of_state"}:
        raise CorruptFile(f"{path!s} must hold of_state; got {sorted(arrays)}", path=path)
    return arrays["of_state"]


def fingerprint_of(abstraction: object) -> str:
    """The fingerprint of an abstraction; raises if it is none."""
    if not hasattr(abstraction, "check_upper"):
        raise ArgumentError(f"abstraction must be an Abstraction; got {type(abstraction).__name__}.")
    return str(abstraction.fingerprint)  # type: ignore[attr-defined]


def _made_of(abstraction: Abstraction) -> dict[str, str]:
    """The grid and the patterns as JSON, from which ``almostsure check`` rebuilds the abstraction of a known system."""
    grid = abstraction.grid
    made = {"low": grid.low, "high": grid.high, "cells": grid.cells, "periodic": grid.periodic}
    return {"grid": json.dumps(made), "patterns": json.dumps(abstraction.patterns.sequences)}
