"""How a command ends: its exit code, and an error in words instead of a traceback.

====  =====================================================================================================
0     done, and the answer is positive
1     done, and the answer is negative: infeasible, no finite budget, unbounded return, certificate rejected
2     the command line is wrong: an unknown command or option, a number out of range
3     the model, a name in it, or a file is bad: unknown, unreadable, corrupt, of another model, not writable
4     it cannot be done here: an extra is missing, memory would not suffice, a limit was reached
70    a mistake in almostsure itself; please report it
130   Ctrl-C; nothing is half-written
141   the reader of the output went away, as in ``almostsure demo | head -1``
====  =====================================================================================================
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from almostsure.errors import (
    AlmostSureError,
    ArgumentError,
    CertificateError,
    Infeasible,
    Interrupted,
    LimitReached,
    MissingExtra,
    NoSafeAction,
    NotEnoughMemory,
    UnboundedReturn,
)

FINE, NEGATIVE, USAGE, BAD_MODEL, CANNOT, INTERNAL, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 70, 130, 141

NOTHING = "interrupted; nothing was written."
OWN_WORDS = ("learn", "compare", "paper")  # whose message says itself what was written

CODES: tuple[tuple[type[BaseException], int], ...] = (  # the first that fits
    (Infeasible, NEGATIVE),
    (UnboundedReturn, NEGATIVE),
    (CertificateError, NEGATIVE),
    (NoSafeAction, NEGATIVE),
    (ArgumentError, USAGE),
    (MissingExtra, CANNOT),
    (NotEnoughMemory, CANNOT),
    (LimitReached, CANNOT),
    (AlmostSureError, BAD_MODEL),
)


class Asked(NamedTuple):
    """How to fail."""

    json: bool
    debug: bool


class Rejected(Exception):
    """A negative answer that has been printed already: only the exit code is left to give."""


def guarded(command: str, body: Callable[[], None], asked: Asked) -> int:
    """Run a command, and turn whatever happens into an exit code."""
    try:
        body()
        sys.stdout.flush()
    except Rejected:
        return NEGATIVE
    except BrokenPipeError:
        return broken_pipe()
    except KeyboardInterrupt as error:
        return fail(command, error, INTERRUPTED, asked, message=_interruption(command, error))
    except AlmostSureError as error:
        code = next(code for kind, code in CODES if isinstance(error, kind))
        return fail(command, error, code, asked)
    except MemoryError as error:
        return fail(command, error, CANNOT, asked, message="the memory of this machine does not suffice.")
    except OSError as error:
        return fail_of_system(command, error, asked)
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return fail(
            command, error, INTERNAL, asked,
            message=f"almostsure made a mistake ({what}). Please report it, with what --debug shows.",
        )  # fmt: skip
    return FINE


def _interruption(command: str, error: KeyboardInterrupt) -> str:
    """What Ctrl-C leaves behind, for whoever has no Python object of it."""
    kept = getattr(error, "kept", None)
    cap, budget = getattr(kept, "cap", None), getattr(getattr(kept, "constraint", None), "budget", None)
    if command in OWN_WORDS and isinstance(error, Interrupted) and not hasattr(kept, "cap"):
        return str(error)
    if command == "budget" and cap is not None:
        return f"{NOTHING} The budgets up to {cap} were known by then: --cap {cap} asks for no more."
    if command == "solve" and budget is not None:
        return (
            f"{NOTHING} The best policy for a budget of {budget} was known by then: --budget {budget} asks for no more."
        )
    return NOTHING


def fail(command: str, error: BaseException, code: int, asked: Asked, *, message: str = "") -> int:
    """Say what went wrong: on standard error, or as a JSON object on standard output if that was asked for."""
    from almostsure.cli.terminal import clean_lines, console

    text = message or str(error)
    if asked.debug:
        import traceback

        sys.stderr.write(clean_lines("".join(traceback.format_exception(error))) + "\n")
    try:
        if asked.json:
            from almostsure.cli.machine import emit

            emit(command, None, error={"kind": type(error).__name__, "message": text, "exit": code})
        else:
            from rich.text import Text

            line = Text.assemble(("error: ", "bold red"), clean_lines(text))
            console(stderr=True).print(line, soft_wrap=True)
    except BrokenPipeError:
        return broken_pipe()
    except OSError:  # a full disk, say: the code is all that can be given
        _silence()
    return code


def fail_of_system(command: str, error: OSError, asked: Asked) -> int:
    """The operating system refused something that nobody foresaw."""
    named = f"{error.filename!r}: " if error.filename else ""
    return fail(command, error, BAD_MODEL, asked, message=f"{named}{error.strerror or error}.")


def broken_pipe() -> int:
    """Nobody reads any more."""
    _silence()
    return BROKEN_PIPE


def _silence() -> None:
    """Let nothing be written at exit either."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage(error: Any, arguments: list[str]) -> int:
    """A command line that could not be understood."""
    context = getattr(error, "ctx", None)
    path = "almostsure" if context is None else context.command_path
    message = _in_words(error.format_message())
    if not message:  # the help was shown instead: no command was given
        return USAGE
    hint = f"Try: {path} --help"
    return fail(path.rpartition(" ")[2], error, USAGE, asked_for(arguments), message=f"{message}\n{hint}")


def _in_words(message: str) -> str:
    """The message, with what the parser of numbers says in words."""
    for kind, words in (("integer", "a whole number"), ("number", "a number")):
        message = re.sub(f"Input should be a (valid|finite) {kind}.*", f"must be {words}.", message)
    return message


def asked_for(arguments: list[str]) -> Asked:
    """How to fail, as far as a command line that was not understood tells."""
    return Asked("--json" in arguments, "--debug" in arguments)
