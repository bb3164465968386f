"""``CellPolicy``: the policy behind the proved budgets, which can be played, saved and exported.

In each cell it plays the pattern with the smallest need to its end, and then reads the next cell.  Its memory is one
number, the *rest* of the current pattern (−1: none).  Without a goal, its damage is at most the upper budget of the
start; with a goal, it arrives within this many steps.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from almostsure.abstract.upper import fingerprint_of
from almostsure.arguments import and_more, whole_array
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, CertificateError, NoSafeAction
from almostsure.files import file_name, load_tensors, must_hold, save_tensors
from almostsure.wording import brief, counted

if TYPE_CHECKING:
    from almostsure.abstract.abstraction import Abstraction
    from almostsure.abstract.upper import UpperBudget

Ints = npt.NDArray[np.int64]


@final
class CellPolicy:
    """Plays the pattern with the smallest need in every cell with an upper budget.  Made by :meth:`UpperBudget.policy`.

    Parameters
    ----------
    minimal
        Verified upper budgets.
    choice
        The number of the pattern to play in each cell, −1 for none; by default the first with the smallest need.

    Examples
    --------
    >>> import almostsure as asure
    >>> def step(state, action):
    ...     return (0.9 * state[0] + action,)
    >>> grid = asure.Grid([-1.0], [1.0], [40])
    >>> system = asure.abstract(step, grid, [-0.05, 0.05], unsafe=lambda state: state[0] > 0.8)
    >>> asure.minimal_budget(system).policy()
    <CellPolicy on 40 of 40 cells of <Abstraction: 40 cells, 2 actions, counts damage>>
    """

    def __init__(self, minimal: UpperBudget, choice: npt.ArrayLike | None = None) -> None:
        finite = minimal.row >= 0
        if choice is None:
            chosen = np.full(finite.size, -1, np.int32)
            chosen[finite] = minimal.needs.argmin(axis=1)
        else:
            chosen = np.asarray(choice, np.int32)
            if chosen.shape != finite.shape or not ((chosen >= -1) & (chosen < minimal.needs.shape[1])).all():
                raise ArgumentError(f"choice must number a pattern for each of {finite.size:,} cells")
            needs = minimal.needs[minimal.row[finite], chosen[finite]]
            wrong = np.flatnonzero((chosen[finite] < 0) | (needs > minimal.of_state[finite]))
            if wrong.size or (chosen[~finite] != -1).any():
                cell = int(np.flatnonzero(finite)[wrong[0]]) if wrong.size else int(np.argmax(chosen * ~finite != 0))
                where = minimal.abstraction.grid.describe(cell) + and_more(wrong.size - 1, "cell")
                raise CertificateError(f"the pattern of {where} needs more than the upper budget there", state=cell)
        self.minimal, self.choice = minimal, chosen
        chosen.flags.writeable = False

    @property
    def abstraction(self) -> Abstraction:
        """The continuous system."""
        return self.minimal.abstraction

    def act(self, points: npt.ArrayLike, rests: npt.ArrayLike | None = None) -> tuple[Ints, Ints]:
        """The actions at points, [n, coordinates], and the rests of their patterns after them.

        Parameters
        ----------
        points
            The observed states of the runs.
        rests
            The rests that :meth:`act` returned one step before; omit them in the first step.

        Raises
        ------
        NoSafeAction
            If a run without a rest is in a cell without an upper budget, or outside the box.
        """
        at, patterns = np.asarray(points), self.abstraction.patterns
        if at.ndim != 2 or at.dtype.kind not in "iuf":
            raise ArgumentError(f"points must be numbers [n, coordinates], such as [point]; got {brief(points)}")
        before = np.full(len(at), -1, np.int64) if rests is None else whole_array("rests", rests).astype(np.int64)
        if before.shape != at.shape[:1] or not ((before >= -1) & (before < len(patterns.rests))).all():
            raise ArgumentError(
                f"rests must be those that act returned for these {counted(len(at), 'point')} one step before"
            )
        begins = before < 0
        cells = self.abstraction.cells_of(at[begins])
        pattern = np.where(cells < 0, -1, self.choice[cells])
        if (pattern < 0).any():
            first = int(np.argmax(pattern < 0))
            where = "a state outside the box" if cells[first] < 0 else self.abstraction.grid.describe(int(cells[first]))
            more = and_more(int((pattern < 0).sum()) - 1, "run")
            raise NoSafeAction(f"nothing was proved at {where}{more}", state=int(cells[first]), remaining=INFINITE)
        actions, left = np.empty_like(before), np.empty_like(before)
        actions[begins], left[begins] = patterns.first[pattern], patterns.rest[pattern]
        actions[~begins], left[~begins] = patterns.rest_first[before[~begins]], patterns.rest_rest[before[~begins]]
        return actions, left

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy and its upper budgets to a safetensors file, atomically."""
        arrays: dict[str, npt.NDArray[Any]] = {"of_state": self.minimal.of_state, "choice": self.choice}
        save_tensors(path, kind="cell policy", model=self.abstraction.fingerprint, arrays=arrays, strings={})

    @classmethod
    def load(cls, path: str | PathLike[str], abstraction: Abstraction) -> CellPolicy:
        """Read a policy of ``abstraction`` and verify it: files that claim too small budgets are refused."""
        file_name(path, "CellPolicy.load(path, abstraction)")
        arrays, _ = load_tensors(path, kind="cell policy", model=fingerprint_of(abstraction))
        with must_hold(path, "a policy of its system"):
            return cls(abstraction.check_upper(arrays["of_state"]), arrays["choice"])

    def export_numpy(self, path: str | PathLike[str]) -> tuple[Path, Path]:
        """Write a Python module and its table, which need only NumPy.

        The module has ``act(point, rest=0)``, which returns the action and the rest.  Returns both paths.
        """
        from almostsure.abstract.shield.export import export_numpy

        return export_numpy(self, path)

    def export_c(self, path: str | PathLike[str], *, name: str = "almostsure") -> Path:
        """Write a self-contained C99 header; its comments explain it."""
        from almostsure.abstract.shield.export import export_c

        return export_c(self, path, name=name)

    def __repr__(self) -> str:
        cells = int((self.choice >= 0).sum())
        return f"<CellPolicy on {cells:,} of {self.choice.size:,} cells of {self.abstraction!r}>"
