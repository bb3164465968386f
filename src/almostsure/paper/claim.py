"""A claim of the paper, and how it is checked.

A check is a function of a :class:`Trial` whose docstring states the claim in our words, and in a second paragraph what
there is to say about it.  It tries cases on the models of the trial and calls :meth:`Trial.expect` for each; a case
that is not as it should be makes the verdict *fails*, and is named.
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
LOOSE = "loose"  # the idea is right, but not as it is printed: the comment says what is
FAILS = "fails"
EXAMPLES = ("paper", "corridor", "quicksand")  # on which claims are checked where no model is given
LARGEST_SEED = 2**32 - 1
MOST_STATES = 1_000  # of a model on which a claim is checked: everything is tried
CLOSE = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row of the table: what the paper claims, what we found, and what there is to say about it.

    Examples
    --------
    >>> from almostsure import paper
    >>> paper.check("Theorem 2").verdict
    'holds'
    """

    name: str  # as the paper calls it; statements of a kind are numbered in their order there
    title: str
    statement: str  # in our words
    value: str  # ours: the evidence, or the number
    verdict: str  # holds, loose or fails
    comment: str

    @property
    def passed(self) -> bool:
        """Whether all was as it should be; a *loose* text of the paper passes if our correction of it holds."""
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
    """What a check works with: its random numbers, its models, and the cases that it has tried."""

    def __init__(self, key: str, seed: int, mdp: MDP | None) -> None:
        self.seed = seed
        self.rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
        self.models = tuple(map(as_model, EXAMPLES)) if mdp is None else (mdp,)
        self.where = f"{len(EXAMPLES)} models" if mdp is None else "the given model"
        self.cases = 0
        self.counterexample: str | None = None  # the first one

    def actions(self, mdp: MDP, rows: int) -> list[list[int]]:
        """A random policy: so many rows of one action per state."""
        return [[int(self.rng.choice(mdp.actions(s))) for s in range(mdp.num_states)] for _ in range(rows)]

    def expect(self, right: bool | np.bool_, otherwise: str) -> None:
        """Count a case; where it is not ``right``, remember the first that was not."""
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
    function: Callable[[Trial], str]  # tries the cases and returns what it found

    @property
    def key(self) -> str:
        """The name as a word of code: theorem_2."""
        return self.function.__name__

    def __call__(self, mdp: Model | None = None, *, seed: int = 0) -> Claim:
        """Try it, on the paper's example and two more or on ``mdp``."""
        if mdp is not None and not self.takes_model:
            raise ArgumentError(f"{self.name} ({self.title}) is about the paper's own example; leave out the model.")
        value, wrong = self._tried(Trial(self.key, checked_seed(seed), None if mdp is None else small_model(mdp)))
        # The two paragraphs of the function's docstring, as one line each.
        statement, comment = (" ".join(part.split()) for part in f"{self.function.__doc__}\n\n".split("\n\n", 1))
        verdict, comment = (FAILS, wrong) if wrong else (self.verdict, comment)
        told = {"name": self.name, "title": self.title, "statement": statement}
        return Claim(**told, value=value, verdict=verdict, comment=comment)

    def _tried(self, trial: Trial) -> tuple[str, str]:
        """What was found, and what is wrong with it: an error of the library refutes a claim as a wrong answer does."""
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
    """Make a check of a function."""
    return lambda function: Check(name, title, verdict, takes_model, function)


def find(checks: tuple[Check, ...], name: str) -> Check:
    """The check with that key or name."""
    found = [check for check in checks if name in (check.key, check.name)]
    if not found:
        raise UnknownName("claim", name, [word for check in checks for word in (check.name, check.key)])
    if len(found) > 1:
        raise ArgumentError(f"{name} has several parts: {', '.join(check.key for check in found)}. Name one of them.")
    return found[0]


def small_model(given: Model) -> MDP:
    """A model on which claims can be checked."""
    mdp = as_model(given)
    if mdp.num_states > MOST_STATES:
        raise ArgumentError(
            f"claims are checked by trying everything, on models of at most {MOST_STATES:,} states; got "
            f"{mdp.num_states:,}. check_minimal_budget proves minimal budgets of any size."
        )
    return mdp


def checked_seed(seed: object) -> int:
    """A seed that leaves room for those which are derived from it."""
    return count("seed", seed, least=0, most=LARGEST_SEED)
