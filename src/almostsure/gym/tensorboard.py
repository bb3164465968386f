"""``TensorBoardSink``: writes a ledger's entries as TensorBoard curves."""

from __future__ import annotations

import os
from typing import Any, final

from almostsure.errors import optional
from almostsure.learn.ledger import Entry, Episode, Violation


@final
class TensorBoardSink:
    """Return, damage, interventions and violations by episode.

    Parameters
    ----------
    folder
        TensorBoard's log directory.  Each copy of the sink, for example in another process, writes a file of its own.

    Examples
    --------
    >>> from almostsure.gym import ready
    >>> env = ready("FrozenLake-v1").shielded(budget=1)
    >>> env.ledger.sinks.append(TensorBoardSink("runs/one"))
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        optional("tensorboard", "deep", "summary")  # raises now if it is not installed
        self.folder = os.path.abspath(folder)
        self._writer: Any = None
        self._episodes = self._interventions = self._violations = 0

    def __call__(self, entry: Entry) -> None:
        """Write an entry."""
        if isinstance(entry, Violation):
            self._violations += 1
            self._write({"violations": self._violations})
        elif isinstance(entry, Episode):
            self._episodes += 1
            self._interventions += entry.interventions
            self._write(
                {
                    "return": entry.reward,
                    "damage": entry.damage,
                    "remaining": entry.budget - entry.damage,
                    "interventions": self._interventions,
                    "violations": self._violations,
                    "steps": entry.steps,
                }
            )

    def _write(self, values: dict[str, float]) -> None:
        if self._writer is None:
            self._writer = optional("tensorboard", "deep", "summary").summary.Writer(self.folder)
        for name, value in values.items():
            self._writer.add_scalar(f"almostsure/{name}", value, self._episodes)

    def close(self) -> None:
        """Flush and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": None}
