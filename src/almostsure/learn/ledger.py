"""What an online shield has lived through: its surprises and its violations, when and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt


class Surprise(NamedTuple):
    """An outcome that was never seen before."""

    step: int  # how many transitions had been watched, this one included
    state: int
    action: int
    next_state: int
    damage: int
    raised: int  # how many states need more since then


class Violation(NamedTuple):
    """A step that took more damage than was left."""

    step: int
    state: int
    action: int
    next_state: int
    damage: int
    remaining: int  # before the step
    allowed: bool  # whether the shield had allowed it
    new: bool  # whether the outcome had never been seen before


@final
@dataclass(slots=True)
class Ledger:
    """All surprises and violations, in order; nothing is ever removed."""

    steps: int = 0  # transitions watched
    surprises: list[Surprise] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def __str__(self) -> str:
        raised = sum(surprise.raised > 0 for surprise in self.surprises)
        lines = [
            f"{self.steps:,} steps, {len(self.surprises):,} surprises ({raised:,} raised a budget), "
            f"{len(self.violations):,} violations"
        ]
        lines += [
            f"  step {v.step:,}: state {v.state}, action {v.action} took {v.damage} with {v.remaining} left"
            f"{' (an outcome never seen before)' if v.new else ''}{'' if v.allowed else ', against the shield'}"
            for v in self.violations
        ]
        return "\n".join(lines)

    def to_arrays(self) -> dict[str, npt.NDArray[np.int64]]:
        """The entries as two tables of integers, one row each."""
        return {"surprises": _table(self.surprises, Surprise), "violations": _table(self.violations, Violation)}

    @classmethod
    def from_arrays(cls, steps: int, surprises: npt.NDArray[Any], violations: npt.NDArray[Any]) -> Ledger:
        """The ledger of two such tables."""
        rows = [Violation(*row)._replace(allowed=bool(row[6]), new=bool(row[7])) for row in violations.tolist()]
        return cls(steps, [Surprise(*row) for row in surprises.tolist()], rows)


def _table(rows: Iterable[tuple[int, ...]], kind: type[Surprise] | type[Violation]) -> npt.NDArray[np.int64]:
    return np.array([[int(x) for x in row] for row in rows], np.int64).reshape(-1, len(kind._fields))
