"""``reproduce``: runs all checks, draws the figures, and writes tables and a report."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import final

from almostsure.arguments import names_right_word
from almostsure.errors import FileError, Interrupted
from almostsure.exports import package_version
from almostsure.files import atomic_write
from almostsure.model.source import Model
from almostsure.paper import experiments, memory, minimal, sampling
from almostsure.paper.claim import FAILS, HOLDS, LOOSE, Check, Claim, checked_seed, find, small_model
from almostsure.plots import require
from almostsure.progress import Bar

PAPER = "Castellano, Min, Bazerque, Mallada: Reinforcement Learning with Almost Sure Constraints (L4DC 2022)"

FIGURES = {"damage-per-episode": 1, "return-per-episode": 2}  # the experiment of each

CLAIMS: tuple[Check, ...] = (  # in the order of the paper
    memory.termination, memory.proposition_1, memory.lemma_1, memory.lemma_2,
    minimal.lemma_3_decomposition, minimal.lemma_3_bellman, minimal.monotonicity, minimal.definition_4,
    minimal.theorem_1, minimal.theorem_2, minimal.algorithm_1, minimal.theorem_3,
    sampling.algorithm_2, sampling.lemma_4, sampling.lemma_5, sampling.remark_1, sampling.remark_2,
    experiments.experiment_1_assured, experiments.experiment_1_expected, experiments.experiment_2_assured,
    experiments.experiment_2_policy, experiments.experiment_2_expected, experiments.experiment_2_damage,
    experiments.conclusions, minimal.proposition_2,
)  # fmt: skip


@names_right_word
def check(claim: str, mdp: Model | None = None, *, seed: int = 0) -> Claim:
    """Check a claim of the paper, on the paper's example and two larger ones, or on your own model.

    Parameters
    ----------
    claim
        The name, ``"Theorem 2"``, or the key, ``"theorem_2"``; ``CLAIMS`` lists them.
    mdp
        A model of at most 1,000 states, an example's name, or a file.

    Examples
    --------
    >>> check("Theorem 2", "quicksand").verdict
    'holds'
    """
    return find(CLAIMS, claim)(mdp, seed=seed)


@final
@dataclass(slots=True, kw_only=True, eq=False)
class Reproduction:
    """The results of all checks, and the paths of tables, figures and report.  Print it.

    Examples
    --------
    >>> result = reproduce("claims", mdp="paper", progress=False)
    >>> result.passed, len(result.tables)
    (True, 3)
    """

    folder: Path
    seed: int
    unchecked: int  # claims that an interruption left out
    claims: list[Claim] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)
    report: Path | None = None  # None if it was interrupted before, and for the user's own model

    @property
    def passed(self) -> bool:
        """Whether all claims were checked and none fails; a loose one passes if the corrected statement holds."""
        return not self.unchecked and all(claim.passed for claim in self.claims)

    def counts(self) -> dict[str, int]:
        """The number of claims per verdict."""
        return {verdict: sum(c.verdict == verdict for c in self.claims) for verdict in (HOLDS, LOOSE, FAILS)}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{number} {verdict}" for verdict, number in self.counts().items())
        return f"<Reproduction: {len(self.claims)} claims, {numbers}; in {self.folder}>"

    def __str__(self) -> str:
        hold, loose, _ = self.counts().values()
        failing = [claim.name for claim in self.claims if not claim.passed]
        cut = f" of {len(self.claims) + self.unchecked} claims, interrupted" if self.unchecked else " claims"
        fail = f"{len(failing)} FAIL: {', '.join(failing)}" if failing else "none fails"
        end = f"{len(self.claims)}{cut}: {hold} hold, {loose} hold but are loosely stated, {fail}"
        return "\n\n".join([PAPER, *map(str, self.claims), end]) + "\n"

    def write(self, name: str, content: bytes) -> Path:
        """Write a file to the folder, atomically."""
        with atomic_write(self.folder / name) as file:
            file.write(content)
        return self.folder / name

    def write_tables(self) -> None:
        """Write the claims as text, as comma-separated values and as JSON."""
        rows = [claim.row() for claim in self.claims]
        content = {"paper": PAPER, "version": package_version(), "seed": self.seed}
        content |= {"complete": not self.unchecked, "claims": rows}
        comma_separated = io.StringIO()
        writer = csv.DictWriter(comma_separated, [column.name for column in fields(Claim)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        contents = {"txt": str(self), "csv": comma_separated.getvalue()}
        contents["json"] = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        self.tables = [self.write(f"claims.{kind}", text.encode()) for kind, text in contents.items()]


@names_right_word
def reproduce(
    folder: str | PathLike[str], *, mdp: Model | None = None, seed: int = 0, progress: bool = True
) -> Reproduction:
    """Check all claims of the paper, draw its figures, and write the results to a folder.

    It writes ``claims.txt``, ``claims.csv`` and ``claims.json``; each figure as ``.pdf`` and ``.png``; and
    ``report.html``.  The same seed gives the same files, with the same versions.

    Parameters
    ----------
    folder
        Created if it does not exist; each file in it is replaced atomically.
    mdp
        A model of at most 1,000 states on which the claims are checked instead; then only tables are written.
    seed
        Seed of the random policies and samples, and of the simulated episodes.
    progress
        Show a progress bar on a terminal.

    Raises
    ------
    MissingExtra
        If Matplotlib, of the extra ``plot``, is not installed.
    FileError
        If the folder cannot be written to.
    Interrupted
        On Ctrl-C.  The results so far are written, and are in ``kept``, a Reproduction.

    Examples
    --------
    >>> reproduce("claims", mdp="corridor", progress=False).passed
    True
    """
    model = None if mdp is None else small_model(mdp)
    if model is None:
        require()
    checks = CLAIMS if model is None else tuple(check for check in CLAIMS if check.takes_model)
    seed = checked_seed(seed)
    result = Reproduction(folder=_made(folder), seed=seed, unchecked=len(checks))
    try:
        with Bar("reproducing the paper", len(checks)) as bar:
            for number, one in enumerate(checks):
                if progress:
                    bar.update(number, one.key.replace("_", " "))
                result.claims.append(one(model, seed=seed))
                result.unchecked -= 1
            result.write_tables()
            if model is None:
                _draw(result)
    except KeyboardInterrupt:
        result.write_tables()
        done = f"{len(result.claims)} of {len(checks)} claims"
        raise Interrupted(f"interrupted after {done}; they are in {result.folder}", kept=result) from None
    return result


def _draw(result: Reproduction) -> None:
    """Draw the figures, and write the report of the second experiment, which contains them."""
    from almostsure.paper.figures import CAPTIONS, experiment_figure, saved
    from almostsure.report import write_report

    drawn = []
    for name, number in FIGURES.items():
        figure = experiment_figure(experiments.experiment(number, result.seed))
        png = saved(figure, "png")
        result.figures += [result.write(f"{name}.pdf", saved(figure, "pdf")), result.write(f"{name}.png", png)]
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


def _made(folder: str | PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the folder {os.fspath(folder)!r}: {error.strerror}. Choose another one."
        raise FileError(why, path=folder) from error
    return path
