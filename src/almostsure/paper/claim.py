"""Claims of the paper, and their checks.

A check is a function of a :class:`Trial`.  Its docstring states the claim in our words, and comments on it in a second
paragraph.  It tries cases on the models of the trial and calls :meth:`Trial.expect` for each.  A case that violates the
claim makes the verdict *fails*, and the first one is named.
"""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import final

import numpy as np

from almostsure.arguments import count
from almostsure.errors import ArgumentError, UnknownName
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model

HOLDS = "holds"
LOOSE = "loose"  # the idea is right, but not as printed; the comment has the right statement
FAILS = "fails"
EXAMPLES = ("paper", "corridor", "quicksand")  # claims are checked on these if no model is given
LARGEST_SEED = 2**32 - 1
MOST_STATES = 1_000  # of a model on which a claim is checked, since checks are exhaustive
CLOSE = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the table: what the paper claims, what the check found, and a comment.

    Examples
    --------
    >>> from almostsure import paper
    >>> paper.check("Theorem 2").verdict
    'holds'
    """

    name: str  # as in the paper; statements of a kind are numbered in the order of the paper
    title: str
    statement: str  # in our words
    value: str  # the result of the check: the evidence, or the number
    verdict: str  # holds, loose or fails
    comment: str

    @property
    def passed(self) -> bool:
        """Whether the claim passed; a *loose* one passes if the corrected statement holds."""
        return self.verdict != FAILS

    def row(self) -> dict[str, str]:
        """The claim as a row of a table."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.title}): {self.verdict}"]
        for label, text in (("claim", self.statement), ("ours", self.value), ("comment", self.comment)):
            lines += textwrap.wrap(text, 100, initial_indent=f"  {label:<8} ", subsequent_indent=" " * 11)
        return "\n".join(lines)


@final
class Trial:
    """The context of a check: its random numbers, its models, and the cases tried so far."""

    def __init__(self, key: str, seed: int, mdp: MDP | None) -> None:
        self.seed = seed
        self.rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
        self.models = tuple(map(as_model, EXAMPLES)) if mdp is None else (mdp,)
        self.where = f"{len(EXAMPLES)} models" if mdp is None else "the given model"
        self.cases = 0
        self.counterexample: str | None = None  # the first one

    def actions(self, mdp: MDP, rows: int) -> list[list[int]]:
        """A random policy: rows of one action per state."""
        return [[int(self.rng.choice(mdp.actions(s))) for s in range(mdp.num_states)] for _ in range(rows)]

    def expect(self, right: bool | np.bool_, otherwise: str) -> None:
        """Count a case; ``otherwise`` describes the counterexample if it is not ``right``; the first one is kept."""
        self.cases += 1
        if not right and self.counterexample is None:
            self.counterexample = otherwise

    def close(self, one: float, other: float, otherwise: str) -> None:
        """Expect two numbers to be equal up to rounding."""
        right = one == other or abs(one - other) < CLOSE * max(1, abs(one))
        self.expect(right, f"{otherwise}: {one} and {other}")


@final
@dataclass(frozen=True, slots=True)
class Check:
    """The check of one claim; call it.

    Examples
    --------
    >>> from almostsure import paper
    >>> paper.CLAIMS[0].name
    'Assumption'
    """

    name: str
    title: str
    verdict: str
    takes_model: bool  # rather than being about the paper's own example
    function: Callable[[Trial], str]  # tries the cases, and returns its finding

    @property
    def key(self) -> str:
        """The name as an identifier: theorem_2."""
        return self.function.__name__

    def __call__(self, mdp: Model | None = None, *, seed: int = 0) -> Claim:
        """Check the claim on ``mdp``, or on the paper's example and two more models."""
        if mdp is not None and not self.takes_model:
            raise ArgumentError(f"{self.name} ({self.title}) is about the paper's own example; leave out the model.")
        value, wrong = self._try(Trial(self.key, checked_seed(seed), None if mdp is None else small_model(mdp)))
        # The two paragraphs of the function's docstring, as one line each.
        statement, comment = (" ".join(part.split()) for part in f"{self.function.__doc__}\n\n".split("\n\n", 1))
        verdict, comment = (FAILS, wrong) if wrong else (self.verdict, comment)
        return Claim(
            name=self.name, title=self.title, statement=statement, value=value, verdict=verdict, comment=comment
        )

    def _try(self, trial: Trial) -> tuple[str, str]:
        """The finding, and why the claim fails, or "": errors of the library refute a claim like wrong answers."""
        try:
            value = self.function(trial)
        except Exception as error:
            return f"stopped after {trial.cases:,} cases", f"{type(error).__name__}: {error}"
        if trial.cases == 0:
            return value, "nothing was checked"
        return value, "" if trial.counterexample is None else f"counterexample: {trial.counterexample}"


def claim(
    name: str, title: str, *, verdict: str = HOLDS, takes_model: bool = True
) -> Callable[[Callable[[Trial], str]], Check]:
    """A decorator that makes a check of a function."""
    return lambda function: Check(name, title, verdict, takes_model, function)


def find(checks: tuple[Check, ...], name: str) -> Check:
    """The check with this key or name."""
    found = [check for check in checks if name in (check.key, check.name)]
    if not found:
        raise UnknownName("claim", name, [word for check in checks for word in (check.name, check.key)])
    if len(found) > 1:
        raise ArgumentError(f"{name} has several parts: {', '.join(check.key for check in found)}. Name one of them.")
    return found[0]


def small_model(given: Model) -> MDP:
    """The model, if it is small enough for the checks."""
    mdp = as_model(given)
    if mdp.num_states > MOST_STATES:
        raise ArgumentError(
            f"claims are checked exhaustively, so a model must have at most {MOST_STATES:,} states; got "
            f"{mdp.num_states:,}. check_minimal_budget verifies minimal budgets of models of any size."
        )
    return mdp


def checked_seed(seed: object) -> int:
    """A validated seed, small enough for the seeds that are derived from it."""
    return count("seed", seed, least=0, most=LARGEST_SEED)
