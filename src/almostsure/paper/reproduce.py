"""``reproduce``: run every check, draw every figure, write tables and a report, in one call."""

from __future__ import annotations

import csv
import io
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, final

from almostsure.errors import FileError, Interrupted
from almostsure.files import atomic_write
from almostsure.paper import experiments, feasibility, fixed_point, memory, sampling
from almostsure.paper.claim import FAILS, HOLDS, LOOSE, Check, Claim, checked_seed
from almostsure.progress import Bar

PAPER = "Castellano, Min, Bazerque, Mallada: Reinforcement Learning with Almost Sure Constraints (L4DC 2022)"
COMMAND = "almostsure paper"

CHECKS: tuple[Check, ...] = (  # in the order of the paper
    memory.termination, memory.definition_1, memory.proposition_1, memory.definition_2, memory.definition_3,
    memory.lemma_1, memory.lemma_2, feasibility.lemma_3_decomposition, feasibility.lemma_3_bellman,
    feasibility.monotonicity, feasibility.definition_4, feasibility.theorem_1, feasibility.theorem_2,
    fixed_point.definition_5, fixed_point.algorithm_1, fixed_point.theorem_3, sampling.definition_6,
    sampling.algorithm_2, sampling.lemma_4, sampling.lemma_5, sampling.remark_1, sampling.remark_2,
    experiments.experiment_1_assured, experiments.experiment_1_expected, experiments.experiment_1_variability,
    experiments.experiment_2_minimum, experiments.experiment_2_concentration, experiments.experiment_2_policy,
    experiments.experiment_2_expected, experiments.experiment_2_sensitivity, experiments.experiment_2_damage,
    experiments.conclusions, fixed_point.definition_7, fixed_point.proposition_2,
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reproduction:
    """What became of the paper's claims, and where tables, figures and report lie.  Print it."""

    claims: tuple[Claim, ...]
    unchecked: int  # claims that an interruption left out
    folder: Path
    figures: tuple[Path, ...]
    tables: tuple[Path, ...]
    report: Path | None  # None if it was interrupted before

    @property
    def passed(self) -> bool:
        """Whether all was done and no claim fails; a loose text passes if what we put in its place holds."""
        return self.report is not None and all(claim.passed for claim in self.claims)

    def counts(self) -> dict[str, int]:
        """How many claims have which verdict."""
        return {verdict: sum(c.verdict == verdict for c in self.claims) for verdict in (HOLDS, LOOSE, FAILS)}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{number} {verdict}" for verdict, number in self.counts().items())
        return f"<Reproduction: {len(self.claims)} claims, {numbers}; in {self.folder}>"

    def __str__(self) -> str:
        return as_text(self.claims, self.unchecked)


def reproduce(folder: str | PathLike[str], *, seed: int = 0, progress: bool = True) -> Reproduction:
    """Check every claim of the paper, draw its figures, and write all of it to a folder.

    Writes ``claims.txt``, ``claims.csv`` and ``claims.json``; each figure as ``.pdf`` and ``.png``; and
    ``report.html``.  The same seed gives the same files, with the same versions.

    Parameters
    ----------
    folder
        Is created where it does not exist; files in it are replaced one by one, each all at once.
    seed
        Of the random models and the simulated episodes.
    progress
        Show a progress bar, if someone is looking at a terminal.

    Raises
    ------
    MissingExtra
        Matplotlib, of the extra ``plot``, is not installed.
    FileError
        The folder cannot be written to.
    Interrupted
        On Ctrl-C.  What is done is written, and ``kept`` is the Reproduction of it.
    """
    from almostsure.paper import figures

    figures.require()
    seed = checked_seed(seed)
    work = _Work(_made(folder), progress)
    try:
        with Bar("reproducing the paper", len(CHECKS) + 4) as bar:
            work.run(seed, bar)
    except KeyboardInterrupt:
        work.write_tables(seed)
        kept = work.result()
        raise Interrupted(
            f"interrupted after {len(kept.claims)} of {len(CHECKS)} claims; they are in {work.folder}", kept=kept
        ) from None
    return work.result()


class _Work:
    """One run, and what it has so far."""

    def __init__(self, folder: Path, progress: bool) -> None:
        self.folder, self.progress = folder, progress
        self.claims: list[Claim] = []
        self.figures: list[Path] = []
        self.tables: list[Path] = []
        self.report: Path | None = None
        self.drawn: list[tuple[str, bytes, str]] = []  # as the report takes them

    @property
    def unchecked(self) -> int:
        return len(CHECKS) - len(self.claims)

    def run(self, seed: int, bar: Bar) -> None:
        for number, check in enumerate(CHECKS):
            self._tell(bar, number, check.__name__.replace("_", " "))
            self.claims.append(check(seed))
        self.write_tables(seed)
        for number, (name, draw) in enumerate(_figures().items(), start=len(CHECKS)):
            self._tell(bar, number, name)
            self._draw(name, draw(seed))
        self._tell(bar, len(CHECKS) + 3, "report")
        self._report(seed)

    def _tell(self, bar: Bar, done: int, note: str) -> None:
        if self.progress:
            bar.update(done, note)

    def _draw(self, name: str, figure: Any) -> None:
        from almostsure.paper.figures import CAPTIONS, as_pdf, as_png

        png = as_png(figure)
        for kind, content in (("pdf", as_pdf(figure)), ("png", png)):
            self.figures.append(_write(self.folder / f"{name}.{kind}", content))
        title, caption = CAPTIONS[name]
        self.drawn.append((title, png, caption))

    def _report(self, seed: int) -> None:
        from almostsure.report import write_report

        mdp = experiments.experiment(2, seed).mdp
        self.report = write_report(
            mdp, self.folder / "report.html", budget=experiments.BUDGET, limit=float(experiments.BUDGET), seed=seed,
            command=f"{COMMAND} --seed {seed}", name="the paper's second experiment", figures=self.drawn,
        )  # fmt: skip

    def write_tables(self, seed: int) -> None:
        contents = {
            "txt": as_text(self.claims, self.unchecked), "csv": as_csv(self.claims),
            "json": as_json(self.claims, seed, self.unchecked),
        }  # fmt: skip
        self.tables = [_write(self.folder / f"claims.{kind}", text.encode()) for kind, text in contents.items()]

    def result(self) -> Reproduction:
        return Reproduction(
            claims=tuple(self.claims), unchecked=self.unchecked, folder=self.folder, figures=tuple(self.figures),
            tables=tuple(self.tables), report=self.report,
        )  # fmt: skip


def _figures() -> dict[str, Callable[[int], Any]]:
    from almostsure.paper.figures import experiment_figure, sample_figure

    return {
        "damage-per-episode": lambda seed: experiment_figure(experiments.experiment(1, seed)),
        "return-per-episode": lambda seed: experiment_figure(experiments.experiment(2, seed)),
        "sample-bound": lambda seed: sample_figure(sampling.sample_curve(seed)),
    }


# ---------------------------------------------------------------------- tables


def as_text(claims: Sequence[Claim], unchecked: int = 0) -> str:
    """The claims as text, one after the other, and how many hold."""
    parts = [_block(claim) for claim in claims]
    failing = [claim.name for claim in claims if not claim.passed]
    loose = sum(claim.verdict == LOOSE for claim in claims)
    done = f"{len(claims)} of {len(claims) + unchecked} claims, interrupted" if unchecked else f"{len(claims)} claims"
    fail = f"{len(failing)} FAIL: {', '.join(failing)}" if failing else "none fails"
    end = f"{done}: {len(claims) - loose - len(failing)} hold, {loose} hold but are loosely put, {fail}"
    return "\n\n".join([PAPER, *parts, end]) + "\n"


def _block(claim: Claim) -> str:
    lines = [f"{claim.name}: {claim.title}  [{claim.verdict}]"]
    for label, text in (("paper", claim.statement), ("ours", claim.value), ("comment", claim.comment)):
        if text:
            lines += textwrap.wrap(text, 100, initial_indent=f"  {label:<8} ", subsequent_indent=" " * 11)
    return "\n".join(lines)


def as_csv(claims: Sequence[Claim]) -> str:
    """The claims as comma-separated values, with a header."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["name", "title", "statement", "value", "verdict", "comment"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(claim.row() for claim in claims)
    return buffer.getvalue()


def as_json(claims: Sequence[Claim], seed: int, unchecked: int = 0) -> str:
    """The claims as JSON, with what they are about."""
    from importlib.metadata import version

    rows = [claim.row() for claim in claims]
    content = {
        "paper": PAPER, "version": version("almostsure"), "seed": seed, "complete": not unchecked, "claims": rows,
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


# ---------------------------------------------------------------------- files


def _made(folder: str | PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder {os.fspath(folder)!r}: {error.strerror}. Choose another one.", path=folder
        ) from error
    return path


def _write(path: Path, content: bytes) -> Path:
    with atomic_write(path) as file:
        file.write(content)
    return path
