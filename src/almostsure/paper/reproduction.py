"""``reproduce``: run every check, draw every figure, write tables and a report, in one call."""

from __future__ import annotations

import csv
import io
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, final

from almostsure.errors import ArgumentError, FileError, Interrupted
from almostsure.files import atomic_write
from almostsure.model.source import Model, as_model
from almostsure.paper import experiments, memory, minimal, sampling
from almostsure.paper.claim import FAILS, HOLDS, LOOSE, Check, Claim, checked_seed, find
from almostsure.plots import require
from almostsure.progress import Bar

PAPER = "Castellano, Min, Bazerque, Mallada: Reinforcement Learning with Almost Sure Constraints (L4DC 2022)"

CLAIMS: tuple[Check, ...] = (  # in the order of the paper
    memory.termination, memory.definition_1, memory.proposition_1, memory.definition_2, memory.definition_3,
    memory.lemma_1, memory.lemma_2, minimal.lemma_3_decomposition, minimal.lemma_3_bellman, minimal.monotonicity,
    minimal.definition_4, minimal.theorem_1, minimal.theorem_2, minimal.definition_5, minimal.algorithm_1,
    minimal.theorem_3, sampling.definition_6, sampling.algorithm_2, sampling.lemma_4, sampling.lemma_5,
    sampling.remark_1, sampling.remark_2,
    experiments.experiment_1_assured, experiments.experiment_1_expected, experiments.experiment_1_variability,
    experiments.experiment_2_minimum, experiments.experiment_2_concentration, experiments.experiment_2_policy,
    experiments.experiment_2_expected, experiments.experiment_2_sensitivity, experiments.experiment_2_damage,
    experiments.conclusions, minimal.definition_7, minimal.proposition_2,
)  # fmt: skip


def check(claim: str, mdp: Model | None = None, *, seed: int = 0) -> Claim:
    """Check one claim of the paper, on random models and the paper's example, or on a model of yours.

    Parameters
    ----------
    claim
        Its name, ``"Theorem 2"``, or its key, ``"theorem_2"``; ``CLAIMS`` lists them.
    mdp
        A model of at most 500 states, an example's name, or a file.

    Examples
    --------
    >>> check("Theorem 2", "quicksand").verdict
    'holds'
    """
    return find(CLAIMS, claim)(mdp, seed=seed)


@final
@dataclass(slots=True, kw_only=True, eq=False)
class Reproduction:
    """What became of the paper's claims, and where tables, figures and report lie.  Print it."""

    folder: Path
    seed: int
    checks: tuple[Check, ...]  # that were asked for
    claims: list[Claim] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)
    report: Path | None = None  # None if it was interrupted before, and for a model of the user's

    @property
    def passed(self) -> bool:
        """Whether all was done and no claim fails; a loose text passes if what we put in its place holds."""
        return not self.unchecked and all(claim.passed for claim in self.claims)

    @property
    def unchecked(self) -> int:
        """How many claims an interruption left out."""
        return len(self.checks) - len(self.claims)

    def counts(self) -> dict[str, int]:
        """How many claims have which verdict."""
        return {verdict: sum(c.verdict == verdict for c in self.claims) for verdict in (HOLDS, LOOSE, FAILS)}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{number} {verdict}" for verdict, number in self.counts().items())
        return f"<Reproduction: {len(self.claims)} claims, {numbers}; in {self.folder}>"

    def __str__(self) -> str:
        return as_text(self.claims, self.unchecked)

    def write(self, name: str, content: bytes) -> Path:
        """Write a file into the folder, all of it or nothing."""
        with atomic_write(self.folder / name) as file:
            file.write(content)
        return self.folder / name

    def write_tables(self) -> None:
        """The claims as text, as comma-separated values and as JSON."""
        rows = [claim.row() for claim in self.claims]
        content = {"paper": PAPER, "version": version("almostsure"), "seed": self.seed}
        content |= {"complete": not self.unchecked, "claims": rows}
        contents = {"txt": str(self), "csv": as_csv(self.claims)}
        contents["json"] = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        self.tables = [self.write(f"claims.{kind}", text.encode()) for kind, text in contents.items()]


def reproduce(
    folder: str | PathLike[str], *, mdp: Model | None = None, seed: int = 0, progress: bool = True
) -> Reproduction:
    """Check every claim of the paper, draw its figures, and write all of it to a folder.

    Writes ``claims.txt``, ``claims.csv`` and ``claims.json``; each figure as ``.pdf`` and ``.png``; and
    ``report.html``.  The same seed gives the same files, with the same versions.

    Parameters
    ----------
    folder
        Is created where it does not exist; files in it are replaced one by one, each all at once.
    mdp
        A model of at most 500 states: the claims that can be are checked on it, and there are tables only.
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
    model = None if mdp is None else as_model(mdp)
    if model is None:
        require()
    checks = CLAIMS if model is None else tuple(check for check in CLAIMS if _applies(check, model))
    seed = checked_seed(seed)
    result = Reproduction(folder=_made(folder), seed=seed, checks=checks)
    try:
        with Bar("reproducing the paper", len(checks) + 4) as bar:
            for number, one in enumerate(checks):
                if progress:
                    bar.update(number, one.key.replace("_", " "))
                result.claims.append(one(model, seed=seed))
            result.write_tables()
            if model is None:
                _draw(result, bar if progress else None)
    except KeyboardInterrupt:
        result.write_tables()
        done = f"{len(result.claims)} of {len(checks)} claims"
        raise Interrupted(f"interrupted after {done}; they are in {result.folder}", kept=result) from None
    return result


def _applies(one: Check, mdp: Any) -> bool:
    """Whether a claim can be checked on a model; one that is too large for any is an error."""
    try:
        one.accept(mdp)
    except ArgumentError as error:
        if "states; got" in str(error):
            raise
        return False
    return True


def _draw(result: Reproduction, bar: Bar | None) -> None:
    """The figures, and the report of the second experiment with the figures inside."""
    from almostsure.paper.figures import CAPTIONS, as_pdf, as_png
    from almostsure.report import write_report

    drawn = []
    for number, (name, draw) in enumerate(figures_of(result.seed).items(), start=len(result.checks)):
        if bar is not None:
            bar.update(number, name)
        figure = draw()
        png = as_png(figure)
        result.figures += [result.write(f"{name}.pdf", as_pdf(figure)), result.write(f"{name}.png", png)]
        title, caption = CAPTIONS[name]
        drawn.append((title, png, caption))
    result.report = write_report(
        experiments.experiment(2, result.seed).mdp,
        result.folder / "report.html",
        budget=experiments.BUDGET,
        limit=float(experiments.BUDGET),
        seed=result.seed,
        command=f"almostsure paper --seed {result.seed}",
        name="the paper's second experiment",
        figures=drawn,
    )


def figures_of(seed: int) -> dict[str, Callable[[], Any]]:
    """The figures by name, to be drawn."""
    from almostsure.paper.figures import experiment_figure, sample_figure

    return {
        "damage-per-episode": lambda: experiment_figure(experiments.experiment(1, seed)),
        "return-per-episode": lambda: experiment_figure(experiments.experiment(2, seed)),
        "sample-bound": lambda: sample_figure(sampling.sample_curve(seed)),
    }


def _made(folder: str | PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the folder {os.fspath(folder)!r}: {error.strerror}. Choose another one."
        raise FileError(why, path=folder) from error
    return path


# ---------------------------------------------------------------------- tables


def as_text(claims: Sequence[Claim], unchecked: int = 0) -> str:
    """The claims as text, one after the other, and how many hold."""
    failing = [claim.name for claim in claims if not claim.passed]
    loose = sum(claim.verdict == LOOSE for claim in claims)
    done = f"{len(claims)} of {len(claims) + unchecked} claims, interrupted" if unchecked else f"{len(claims)} claims"
    fail = f"{len(failing)} FAIL: {', '.join(failing)}" if failing else "none fails"
    end = f"{done}: {len(claims) - loose - len(failing)} hold, {loose} hold but are loosely put, {fail}"
    return "\n\n".join([PAPER, *map(_block, claims), end]) + "\n"


def _block(claim: Claim) -> str:
    lines = [f"{claim.name}: {claim.title}  [{claim.verdict}]"]
    for label, text in (("paper", claim.statement), ("ours", claim.value), ("comment", claim.comment)):
        lines += textwrap.wrap(text, 100, initial_indent=f"  {label:<8} ", subsequent_indent=" " * 11)
    return "\n".join(lines)


def as_csv(claims: Sequence[Claim]) -> str:
    """The claims as comma-separated values, with a header."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["name", "title", "statement", "value", "verdict", "comment"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(claim.row() for claim in claims)
    return buffer.getvalue()
