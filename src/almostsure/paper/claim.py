"""A claim of the paper, and how it is checked.

A check is a function of a :class:`Trial` whose docstring states the claim in our words.  It tries cases, on random
models or on the one that the user gave, and calls :meth:`Trial.expect` for each; a case that is not as it should be
makes the verdict *fails*, and is named.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import final

import numpy as np

from almostsure.arguments import whole
from almostsure.errors import ArgumentError, UnknownName
from almostsure.model.build.examples import example
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.paper.small import is_acyclic, random_models

HOLDS = "holds"
LOOSE = "loose"  # the idea is right, but not as it is printed: the comment says what is
FAILS = "fails"
LARGEST_SEED = 2**32 - 1
MOST_STATES = 500  # of a model on which a claim is checked: everything is tried
CLOSE = 1e-9


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
        lines = [f"{self.name} ({self.title}): {self.verdict}", f"  claim    {self.statement}"]
        lines.append(f"  ours     {self.value}")
        return "\n".join([*lines, f"  comment  {self.comment}"] if self.comment else lines)


@final
class Trial:
    """What a check works with: its random numbers, its models, and the cases that it has tried."""

    def __init__(self, name: str, seed: int, mdp: MDP | None) -> None:
        self.seed, self.mdp = seed, mdp
        self.rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self.where = "the given model"
        self.cases = 0
        self.counterexample: str | None = None  # the first one

    def expect(self, right: bool | np.bool_, otherwise: str) -> None:
        """Count a case; where it is not ``right``, remember the first that was not."""
        self.cases += 1
        if not right and self.counterexample is None:
            self.counterexample = otherwise

    def close(self, one: float, other: float, otherwise: str) -> None:
        """Expect two numbers to be equal up to rounding."""
        self.expect(one == other or abs(one - other) < CLOSE, f"{otherwise}: {one} and {other}")

    def models(self, count: int, *, examples: tuple[str, ...] = (), **kind: int) -> Iterator[MDP]:
        """Random models and examples, or the one that the user gave."""
        if self.mdp is not None:
            yield self.mdp
            return
        self.where = f"{count} random models" + (f" and {len(examples)} examples" if examples else "")
        yield from random_models(self.rng, count, **kind)
        yield from map(example, examples)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The check of one claim; call it."""

    key: str  # as a word of code: theorem_2
    name: str
    title: str
    comment: str
    verdict: str
    takes_model: bool  # rather than being about the paper's own example
    follows: bool  # every trajectory, so that no state may be visited twice
    function: Callable[[Trial], str]

    @property
    def statement(self) -> str:
        """The first paragraph of the function's docstring, as one line."""
        return " ".join((self.function.__doc__ or "").strip().split("\n\n")[0].split())

    def __call__(self, mdp: Model | None = None, *, seed: int = 0) -> Claim:
        """Try it, on random models or on ``mdp``."""
        given = None if mdp is None else self.accept(as_model(mdp))
        trial = Trial(self.key, checked_seed(seed), given)
        value, wrong = self._tried(trial)
        return Claim(
            name=self.name,
            title=self.title,
            statement=self.statement,
            value=value,
            verdict=FAILS if wrong else self.verdict,
            comment=wrong or self.comment,
        )

    def accept(self, mdp: MDP) -> MDP:
        """The model, if the claim can be checked on it."""
        if not self.takes_model:
            raise ArgumentError(f"{self.name} ({self.title}) is about the paper's own example; leave out the model.")
        if mdp.num_states > MOST_STATES:
            raise ArgumentError(
                f"claims are checked by trying everything, on models of at most {MOST_STATES} states; got "
                f"{mdp.num_states:,}. check_minimal_budget proves minimal budgets of any size."
            )
        if self.follows and not is_acyclic(mdp):
            raise ArgumentError(
                f"{self.name} ({self.title}) is checked by following every trajectory, so no state of the model may be "
                "visited twice; this one has cycles."
            )
        return mdp

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
    name: str, title: str, *, comment: str = "", verdict: str = HOLDS, takes_model: bool = True, follows: bool = False
) -> Callable[[Callable[[Trial], str]], Check]:
    """Make a check of a function that tries the cases of a claim and returns what it found."""

    def decorate(function: Callable[[Trial], str]) -> Check:
        return Check(
            key=function.__name__, name=name, title=title, comment=comment, verdict=verdict,
            takes_model=takes_model, follows=follows, function=function,
        )  # fmt: skip

    return decorate


def find(checks: tuple[Check, ...], name: str) -> Check:
    """The check with that key or name."""
    found = [check for check in checks if name in (check.key, check.name)]
    if not found:
        raise UnknownName("claim", name, [word for check in checks for word in (check.name, check.key)])
    if len(found) > 1:
        raise ArgumentError(f"{name} has several parts: {', '.join(check.key for check in found)}. Name one of them.")
    return found[0]


def checked_seed(seed: object) -> int:
    """A seed that leaves room for those which are derived from it."""
    number = whole("seed", seed)
    if not 0 <= number <= LARGEST_SEED:
        raise ArgumentError(f"seed must be between 0 and {LARGEST_SEED}; got {number}")
    return number
