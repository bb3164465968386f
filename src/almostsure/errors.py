"""All exceptions of the package, in one tree.

    AlmostSureError
    ├── ModelError (ValueError)          a model, or the data for one, is malformed
    │   ├── UnknownName (LookupError)    a state, action, label, file or example that does not exist
    │   └── PolicyError                  a policy plays an action that a state does not have, or is not a distribution
    ├── ArgumentError (ValueError)       a number is outside its range: a budget, risk, discount, tolerance, …
    │   └── WrongWord (TypeError)        an argument has another name here, such as discount instead of gamma
    ├── FileError                        a file cannot be read or written
    │   └── CorruptFile                  … because its contents are damaged, foreign or hostile
    ├── ModelMismatch                    a budget, shield or policy belongs to another model
    ├── CertificateError                 a budget fails the check of its certificate
    ├── NoSafeAction                     no action keeps the remaining budget; there is never a default action
    ├── Infeasible                       the constraint cannot be met from the initial state
    ├── UnboundedReturn                  the return is unbounded above
    ├── LimitReached                     a limit was reached before the answer was exact
    ├── NotEnoughMemory (MemoryError)    a run would need more memory than the machine has
    └── MissingExtra (ImportError)       an optional dependency is not installed

    KeyboardInterrupt
    └── Interrupted                      Ctrl-C, with the partial result

``Interrupted`` is neither an AlmostSureError nor an Exception, so ``except Exception`` and ``except AlmostSureError``
do not swallow Ctrl-C.

Messages have the form *what* must *rule*; got *value* at *place*. *Remedy.*  The pieces are fields too:
``err.state``, ``err.action``, ``err.choice`` and so on, ``None`` if they do not apply.
"""

from __future__ import annotations

import contextlib
import difflib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import FrameType
from typing import Any, final


class AlmostSureError(Exception):
    """Base class of all errors that this package raises on purpose."""


class ModelError(AlmostSureError, ValueError):
    """A model, or the data from which one is built, is malformed."""

    def __init__(
        self,
        message: str,
        *,
        state: int | None = None,
        action: int | None = None,
        choice: int | None = None,
        outcome: int | None = None,
    ) -> None:
        super().__init__(message)
        self.state = state
        self.action = action
        self.choice = choice
        self.outcome = outcome


class UnknownName(ModelError, LookupError):
    """A name or index that the model, file or registry does not have."""

    def __init__(self, what: str, name: object, known: Iterable[object], remedy: str = "") -> None:
        self.name = name
        self.nearest = nearest(str(name), (str(k) for k in known))
        hint = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"unknown {what} {name!r}.{hint}{' ' + remedy if remedy else ''}")


class PolicyError(ModelError):
    """A policy plays an action that its state does not have, or is not a distribution."""


class ArgumentError(AlmostSureError, ValueError):
    """An argument of a function is outside its range, or of a wrong type."""


class WrongWord(ArgumentError, TypeError):
    """An argument has another name here; ``word`` is that name."""

    def __init__(self, function: str, given: str, word: str) -> None:
        super().__init__(f"{function} has no argument {given}: pass {word + '=' * word.isidentifier()}")
        self.word = word


class FileError(AlmostSureError):
    """A file cannot be read or written."""

    def __init__(self, message: str, *, path: object = None) -> None:
        super().__init__(message)
        self.path = path


class CorruptFile(FileError):
    """A file is truncated or damaged, was written by another program, or contradicts itself."""


class ModelMismatch(AlmostSureError):
    """A budget, shield or policy belongs to a model other than the given one."""


class CertificateError(AlmostSureError):
    """A budget fails the check of its certificate; ``state`` and ``choice`` are the first that violate it."""

    def __init__(self, message: str, *, state: int | None = None, choice: int | None = None) -> None:
        super().__init__(message)
        self.state = state
        self.choice = choice


class NoSafeAction(AlmostSureError):
    """No action of a state keeps the remaining budget.  There is never a default action."""

    def __init__(self, message: str, *, state: int | None = None, remaining: int | None = None) -> None:
        super().__init__(message)
        self.state = state
        self.remaining = remaining


class Infeasible(AlmostSureError):
    """The constraint cannot be met from the initial state; ``needed`` is the least budget or limit that suffices."""

    def __init__(self, message: str, *, needed: float | None = None) -> None:
        super().__init__(message)
        self.needed = needed


class UnboundedReturn(AlmostSureError):
    """The return is unbounded above; ``cycle`` has the states of a cycle that collects reward indefinitely."""

    def __init__(self, message: str, *, cycle: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.cycle = cycle


class LimitReached(AlmostSureError):
    """A limit was reached before the answer was exact; ``solution`` is the best one found, with its bounds, or None."""

    def __init__(self, message: str, *, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a long run; ``kept`` is the usable part of its result."""

    def __init__(self, message: str, *, kept: Any = None) -> None:
        super().__init__(message)
        self.kept = kept


class NotEnoughMemory(AlmostSureError, MemoryError):
    """A run would need more memory than the machine has; raised before it starts."""


class MissingExtra(AlmostSureError, ImportError):
    """An optional dependency is not installed; the message has the install command."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"this needs {module}, which is not installed. Run: pip install 'almostsure[{extra}]'")
        self.extra = extra


def optional(module: str, extra: str, *parts: str) -> Any:
    """Import a module of an optional dependency, and the listed submodules; MissingExtra if it is not installed."""
    try:
        for part in parts:
            import_module(f"{module}.{part}")
        return import_module(module)
    except ImportError:
        raise MissingExtra(module, extra) from None


@final
class Blame:
    """A context manager for calls of users' code: turns their errors into a ModelError whose message begins ``what()``.

    Errors of this package and Ctrl-C pass.  ``what`` is a function, since the text is only needed after an error.
    """

    __slots__ = ("what", "where")

    def __init__(self, what: Callable[[], str], **where: int) -> None:
        self.what, self.where = what, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, AlmostSureError):
            raise ModelError(f"{self.what()}: {type(error).__name__}: {error}", **self.where) from error


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to ``name``, or None if none is close."""
    names = list(known)
    by_lower = {k.lower(): k for k in reversed(names)}
    given = name.lower()
    close = difflib.get_close_matches(given, by_lower, n=3, cutoff=0.6)

    def likeness(k: str) -> tuple[float, bool]:  # of two that are equally similar, the one with the same first letter
        return difflib.SequenceMatcher(None, k, given).ratio(), k[0] == given[0]

    return by_lower[max(close, key=likeness)] if close else None


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that it leaves nothing half-written."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C is raised in the main thread only
        return
    pressed: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
    if pressed:
        signal.raise_signal(signal.SIGINT)
