"""``Ledger``: the episodes, surprises and violations of shielded runs.

A ledger is kept in memory.  :meth:`Ledger.record` also appends every further entry to a file as one line of JSON, at
once and in a single write, so several processes may share a file, and a run that is killed loses nothing::

    {"kind": "episode", "number": 1, "steps": 18, "reward": 31.0, "damage": 2, "budget": 3, "interventions": 0, …}
    {"kind": "violation", "step": 120, "state": 4, "action": 1, …}

Each line ends with a checksum: the first 16 digits of the SHA-256 of the object without it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import CorruptFile, FileError
from almostsure.wording import counted, percent

LISTED = 20  # the most violations that are printed
SUMS = ("episodes", "finished", "interventions", "damage", "worst")  # the totals that are saved
START, CHECKSUM = '{"kind": "', ', "sha256": "'  # the beginning of a line, and the text before its checksum


class Surprise(NamedTuple):
    """An outcome that was never seen before.

    Examples
    --------
    >>> Surprise(step=7, state=0, action=1, next_state=2, damage=1, raised=3).raised
    3
    """

    step: int  # the number of transitions watched so far, including this one
    state: int
    action: int
    next_state: int
    damage: int
    raised: int  # the number of states whose minimal budget it raised


class Violation(NamedTuple):
    """A step that took more damage than was left.

    Examples
    --------
    >>> Violation(step=7, state=0, action=1, next_state=2, damage=2, remaining=1, allowed=True, new=True).new
    True
    """

    step: int
    state: int
    action: int
    next_state: int
    damage: int
    remaining: int  # before the step
    allowed: bool  # whether the shield allowed the action
    new: bool  # whether the outcome was never seen before


class Episode(NamedTuple):
    """An episode that is over.

    Examples
    --------
    >>> Episode(1, steps=5, reward=3.0, damage=1, budget=2, interventions=0, ended="terminated").damage
    1
    """

    number: int  # of its environment, from 1
    steps: int
    reward: float  # the sum of its rewards
    damage: int
    budget: int
    interventions: int  # forbidden actions that were replaced
    # reset: reset before its end, by a time limit for example; error: by an outcome that is impossible in the model
    ended: Literal["terminated", "truncated", "violation", "stuck", "reset", "error"]
    environment: int = 0  # its index in a vector environment
    risk: float = 0.0  # the stated probability of overspending


Entry = Surprise | Violation | Episode
Sink = Callable[[Entry], object]  # is called with every entry


@final
@dataclass(slots=True)
class Ledger:
    """All surprises and violations, in order, and totals over all episodes.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.note(Episode(1, steps=5, reward=3.0, damage=1, budget=2, interventions=0, ended="terminated"))
    >>> print(ledger)
    0 steps, 0 surprises, 0 violations
    1 episode, 0 interventions, damage 1 in total and at most 1 per episode
    """

    steps: int = 0  # all steps, also of unfinished episodes
    surprises: list[Surprise] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    episodes: int = 0  # finished ones
    finished: int = 0  # their steps
    interventions: int = 0
    damage: int = 0  # the total of all episodes
    worst: int = 0  # the most damage of an episode
    risked: float = 0.0  # the sum of the stated risks: the expected number of episodes that overspend
    overspent: int = 0  # the number of episodes with a stated risk that did overspend
    sinks: list[Sink] = field(default_factory=list)

    def note(self, entry: Entry) -> None:
        """Add an entry.  Steps are not counted: add them to ``steps``."""
        if isinstance(entry, Surprise):
            self.surprises.append(entry)
        elif isinstance(entry, Violation):
            self.violations.append(entry)
        else:
            self.episodes += 1
            self.finished += entry.steps
            self.interventions += entry.interventions
            self.damage += entry.damage
            self.worst = max(self.worst, entry.damage)
            self.risked += entry.risk
            self.overspent += entry.risk > 0 and entry.damage > entry.budget
        for sink in self.sinks:
            sink(entry)

    def record(self, path: str | os.PathLike[str]) -> Ledger:
        """Append every further entry to a file of JSON lines; returns the ledger itself."""
        self.sinks.append(partial(_append, Path(path).absolute()))  # the working directory may change
        return self

    def __repr__(self) -> str:
        return f"<Ledger: {str(self).splitlines()[0]}; {counted(self.episodes, 'episode')}>"

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("Ledger", str(self))

    def __str__(self) -> str:
        raised = sum(surprise.raised > 0 for surprise in self.surprises)
        how_many = f" ({raised or 'none'} raised the minimal budget of a state)" if self.surprises else ""
        surprises, violations = counted(len(self.surprises), "surprise"), counted(len(self.violations), "violation")
        lines = [f"{counted(self.steps, 'step')}, {surprises}{how_many}, {violations}"]
        lines += [
            f"  step {v.step:,}: state {v.state}, action {v.action} took {v.damage} with {v.remaining} left"
            f"{' (an outcome never seen before)' if v.new else ''}{'' if v.allowed else ', not allowed by the shield'}"
            for v in self.violations[:LISTED]
        ]
        if len(self.violations) > LISTED:
            lines.append(f"  … and {len(self.violations) - LISTED:,} more")
        if self.risked:
            stated = percent(self.risked / self.episodes)
            lines.append(
                f"a risk of {stated} per episode was stated: of {self.episodes:,}, {self.risked:,.3g} may overspend on "
                f"average, and {self.overspent:,} did"
            )
        if self.episodes:
            lines.append(
                f"{counted(self.episodes, 'episode')}, {counted(self.interventions, 'intervention')}, "
                f"damage {self.damage:,} in total and at most {self.worst:,} per episode"
            )
        if self.finished < self.steps:
            left = counted(self.steps - self.finished, "step")
            lines.append(f"{left} of unfinished episodes, whose damage and interventions are not counted yet")
        return "\n".join(lines)

    def to_arrays(self) -> dict[str, npt.NDArray[np.int64]]:
        """Surprises and violations as tables of integers, one row per entry, and the totals over all episodes."""
        sums = np.array([getattr(self, name) for name in SUMS], np.int64)
        tables = {"surprises": _table(self.surprises, Surprise), "violations": _table(self.violations, Violation)}
        return {**tables, "sums": sums}

    @classmethod
    def from_arrays(
        cls, steps: int, surprises: npt.NDArray[Any], violations: npt.NDArray[Any], sums: npt.NDArray[Any]
    ) -> Ledger:
        """The ledger with the arrays of :meth:`to_arrays`; ValueError for others."""
        for table, kind in ((surprises, Surprise), (violations, Violation)):
            if table.dtype.kind != "i" or table.shape[1:] != (len(kind._fields),):
                raise ValueError(f"{kind.__name__.lower()}s must be rows of {len(kind._fields)} whole numbers")
        rows = [Violation(*row)._replace(allowed=bool(row[6]), new=bool(row[7])) for row in violations.tolist()]
        first = [Surprise(*row) for row in surprises.tolist()]
        if sums.dtype.kind != "i" or sums.shape != (len(SUMS),) or (sums < 0).any():
            raise ValueError(f"sums must be {len(SUMS)} whole numbers, 0 or more")
        return cls(steps, first, rows, **dict(zip(SUMS, sums.tolist(), strict=True)))


def _append(path: Path, entry: Entry) -> None:
    """Append an entry to a file as one line, in a single write; creates the file and its folders if needed."""
    about = {"time": round(time.time(), 3), "process": os.getpid()}
    values = {name: None if value != value else value for name, value in entry._asdict().items()}  # JSON has no NaN
    line = _sealed(json.dumps({"kind": type(entry).__name__.lower(), **values, **about}))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opened for every entry, so that copied and forked environments share no file.  A short append is atomic.
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.lseek(file, size - 1, os.SEEK_SET) >= 0 and os.read(file, 1) != b"\n"
            content = (torn * "\n" + line).encode()
            if os.write(file, content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)
    except OSError as error:
        raise FileError(f"cannot append to the ledger {path}: {error.strerror}", path=path) from error


def read_ledger(path: str | os.PathLike[str]) -> Ledger:
    """The ledger in a file of JSON lines, with the entries of all processes that wrote to it.

    Incomplete lines (after a full disk or a kill) are skipped; a line that was changed is an error.  An unfinished
    episode has no line, so its steps are not counted.

    Parameters
    ----------
    path
        The file that :meth:`Ledger.record` appended to.

    Examples
    --------
    >>> ledger = Ledger().record("run.jsonl")
    >>> ledger.note(Episode(1, steps=5, reward=3.0, damage=1, budget=2, interventions=0, ended="terminated"))
    >>> read_ledger("run.jsonl")
    <Ledger: 5 steps, 0 surprises, 0 violations; 1 episode>
    """
    kinds: dict[str, Callable[..., Entry]] = {"surprise": Surprise, "violation": Violation, "episode": Episode}
    result = Ledger()
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read the ledger {path!s}: {error}", path=path) from error
    for number, line in enumerate(lines, 1):
        if _is_incomplete(line):
            continue
        try:
            entry = json.loads(line)
            if _sealed(line[: line.rindex(CHECKSUM)] + "}") != line + "\n":
                raise ValueError("its checksum is wrong")
            kind = kinds[entry.pop("kind")]
            del entry["time"], entry["process"], entry["sha256"]
            result.note(kind(**{name: math.nan if value is None else value for name, value in entry.items()}))
            result.steps += entry["steps"] if kind is Episode else 0
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{path!s} is damaged or not a ledger: line {number} is {line[:80]!r}"
            raise CorruptFile(what, path=path) from error
    return result


def _is_incomplete(line: str) -> bool:
    """Whether a line is only the beginning of a ledger line; no single change makes a complete line look like that."""
    return line[: len(START)] == START[: len(line)] and CHECKSUM not in line and "}" not in line


def _sealed(line: str) -> str:
    """A line: a JSON object with its checksum as the last entry."""
    return f'{line[:-1]}{CHECKSUM}{hashlib.sha256(line.encode()).hexdigest()[:16]}"}}\n'


def _table(rows: Iterable[tuple[int, ...]], kind: type[Surprise] | type[Violation]) -> npt.NDArray[np.int64]:
    return np.array([[int(x) for x in row] for row in rows], np.int64).reshape(-1, len(kind._fields))
