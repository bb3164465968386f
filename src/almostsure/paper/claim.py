"""A claim of the paper, checked: what a check is given, and what it returns.

A check is a function ``check(seed=0) -> Claim`` whose docstring states the claim in our words.  Inside, it tries cases
and calls :meth:`Trial.expect` for each; one that is not as it should be makes the verdict *fails*, and is named.
"""

from __future__ import annotations

import functools
import inspect
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol, final

import numpy as np

from almostsure.errors import ArgumentError
from almostsure.learn.bounds import count

HOLDS = "holds"
LOOSE = "loose"  # the idea is right, but not as it is printed: the comment says what is
FAILS = "fails"
LARGEST_SEED = 2**32 - 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row of the table: what the paper claims, what we found, and what there is to say about it."""

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
        lines = [
            f"{self.name} ({self.title}): {self.verdict}",
            f"  claim    {self.statement}",
            f"  ours     {self.value}",
        ]
        return "\n".join([*lines, f"  comment  {self.comment}"] if self.comment else lines)


@final
class Trial:
    """What a check works with: its seed and random numbers, and the cases that it has tried."""

    def __init__(self, name: str, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self.cases = 0
        self.counterexample: str | None = None  # the first one

    def expect(self, right: bool | np.bool_, otherwise: str) -> None:
        """Count a case; where it is not ``right``, remember the first that was not."""
        self.cases += 1
        if not right and self.counterexample is None:
            self.counterexample = otherwise


class Check(Protocol):
    """A check of one claim; its name is the claim's, in code."""

    __name__: str

    def __call__(self, seed: int = 0) -> Claim:
        """Run it."""
        ...


def check(
    name: str, title: str, *, comment: str = "", verdict: str = HOLDS
) -> Callable[[Callable[[Trial], str]], Check]:
    """Make a check of a function that tries the cases of a claim and returns what it found."""

    def decorate(function: Callable[[Trial], str]) -> Check:
        @functools.wraps(function)
        def run(seed: int = 0) -> Claim:
            trial = Trial(function.__name__, checked_seed(seed))
            value, wrong = _try(function, trial)
            return Claim(
                name=name, title=title, statement=_statement(function), value=value,
                verdict=FAILS if wrong else verdict, comment=wrong or comment,
            )  # fmt: skip

        run.__signature__ = SIGNATURE  # type: ignore[attr-defined]
        return run

    return decorate


SIGNATURE = inspect.Signature(
    [inspect.Parameter("seed", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=0)], return_annotation=Claim
)


def checked_seed(seed: object) -> int:
    """A seed that leaves room for those which are derived from it."""
    number = count("seed", seed, least=0)
    if number > LARGEST_SEED:
        raise ArgumentError(f"seed must be at most {LARGEST_SEED}; got {number}")
    return number


def _try(function: Callable[[Trial], str], trial: Trial) -> tuple[str, str]:
    """What was found, and what is wrong with it: an error of the library refutes a claim as a wrong answer does."""
    try:
        value = function(trial)
    except Exception as error:
        return f"stopped after {trial.cases:,} cases", f"{type(error).__name__}: {error}"
    if trial.cases == 0:
        return value, "nothing was checked"
    return value, "" if trial.counterexample is None else f"counterexample: {trial.counterexample}"


def _statement(function: Callable[[Trial], str]) -> str:
    """The first paragraph of the docstring, as one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())
