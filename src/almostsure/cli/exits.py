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
from typing import Any

import typer

from almostsure.cli import NOTHING
from almostsure.errors import (
    AlmostSureError,
    ArgumentError,
    CertificateError,
    Infeasible,
    Interrupted,
    LimitReached,
    MissingExtra,
    ModelError,
    NoSafeAction,
    NotEnoughMemory,
    UnboundedReturn,
)

FINE, NEGATIVE, USAGE, BAD_MODEL, CANNOT, INTERNAL, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 70, 130, 141
CODES: tuple[tuple[tuple[type[AlmostSureError], ...], int], ...] = (  # the first that fits
    ((Infeasible, UnboundedReturn, CertificateError, NoSafeAction), NEGATIVE),
    ((ArgumentError,), USAGE),
    ((MissingExtra, NotEnoughMemory, LimitReached), CANNOT),
    ((AlmostSureError,), BAD_MODEL),
)
DEBUG = "--debug"  # an option of every command, which concerns this file only
OWN_WORDS = ("learn", "compare", "paper")  # whose message says itself what was written
RIGHT_WORDS = {  # what people type who come from elsewhere
    "--total": "The budget Δ is --budget",
    "-t": "The budget Δ is --budget, or -b for short",
    "--delta": "The budget Δ is --budget",
    "--cost-limit": "The budget Δ is --budget",
    "--gamma": "The discount is --discount",
    "--horizon": "budget, solve, simulate and export have it; an episode is cut by --max-steps, of simulate",
    "--epsilon": "The probability of overspending is --risk",
}
DISCOUNT = "a discount below 1", "--discount below 1"  # in messages of the library, and here
PARAMETERS = ", or name those that are to stay unknown with parameters="  # which no command has
PYTHON = "In Python: "  # in messages of commands: what follows is no command line
OPTION = re.compile(r"\b(damage|reward|cost|goal|scale|constants)=([^=\d])")
FINDERS = {
    "budget": "finds the budget. To stop at one, use --cap",
    "suggest": "suggests one. The largest to look at is --most",
}
BUDGETS = ("--budget", "-b", "--total", "-t", "--delta", "--cost-limit")
# What typer raises on a wrong command line; where it is defined changes with its version.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def run_to_exit(body: Callable[[], Any], arguments: list[str]) -> int:
    """Run a command line, and turn whatever happens into an exit code."""
    failure = _Failure(arguments)
    try:
        result = body()
        sys.stdout.flush()
    except ClickException as error:
        return failure.of_usage(error)
    except (KeyboardInterrupt, typer.Abort) as error:
        stopped = error.__cause__ or error
        return failure.tell(stopped, INTERRUPTED, failure.interruption(stopped))
    except SystemExit as error:  # how the help ends where nobody reads it, and how completion ends
        if isinstance(error.__context__, BrokenPipeError):
            return _broken_pipe()
        raise
    except BrokenPipeError:
        return _broken_pipe()
    except AlmostSureError as error:
        code = next(code for kinds, code in CODES if isinstance(error, kinds))
        return failure.tell(error, code, _as_typed(error))
    except MemoryError as error:
        return failure.tell(error, CANNOT, "this machine does not have enough memory.")
    except OSError as error:  # nobody foresaw it
        named = f"{error.filename!r}: " if error.filename else ""
        return failure.tell(error, BAD_MODEL, f"{named}{error.strerror or error}.")
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return failure.tell(
            error, INTERNAL, f"almostsure made a mistake ({what}). Please report it, with what --debug shows."
        )
    return result if isinstance(result, int) else FINE


class _Failure:
    """How to fail, as the arguments ask for: they may not have been understood."""

    def __init__(self, arguments: list[str]) -> None:
        self.command = next((word for word in arguments if not word.startswith("-")), "almostsure")
        self.json, self.debug = "--json" in arguments, DEBUG in arguments

    def tell(self, error: BaseException, code: int, message: str) -> int:
        """Say what went wrong: on standard error, or as a JSON object on standard output if that was asked for."""
        from almostsure.cli.output import clean_lines, console, emit

        if self.debug:
            import traceback

            sys.stderr.write(clean_lines("".join(traceback.format_exception(error))) + "\n")
        try:
            if self.json:
                needed = {"needed": error.needed} if isinstance(error, Infeasible) else {}
                told = {"kind": type(error).__name__, "message": message, "exit": code, **needed}
                emit(self.command, None, error=told)
            else:
                from rich.text import Text

                line = Text.assemble(("error: ", "bold red"), clean_lines(message))
                console(stderr=True).print(line, soft_wrap=True)
        except BrokenPipeError:
            return _broken_pipe()
        except OSError:  # a full disk, say: the code is all that can be given
            _silence()
        return code

    def of_usage(self, error: Any) -> int:
        """A command line that could not be understood."""
        context = getattr(error, "ctx", None)
        path = f"almostsure {self.command}" if context is None else context.command_path
        self.command = path.rpartition(" ")[2]
        message = _in_words(error.format_message())
        if not message:  # the help was shown instead: no command was given
            return USAGE
        wrong = getattr(error, "option_name", None)
        if wrong in RIGHT_WORDS:
            message = f"there is no option {wrong}. {RIGHT_WORDS[wrong]}."
        if self.command in FINDERS and wrong in BUDGETS:
            message = f"{self.command} has no option {wrong}: it {FINDERS[self.command]}."
        return self.tell(error, USAGE, f"{message}\nTry: {path} --help")

    def interruption(self, error: BaseException) -> str:
        """What Ctrl-C leaves behind, for whoever has no Python object of it."""
        kept = getattr(error, "kept", None)
        cap = getattr(kept, "cap", None)
        if self.command in OWN_WORDS and isinstance(error, Interrupted) and not hasattr(kept, "cap"):
            return str(error)
        if self.command == "budget" and cap is not None:
            return f"{NOTHING} Minimal budgets up to {cap} were known by then: --cap {cap} asks for no more."
        return NOTHING


def _as_typed(error: AlmostSureError) -> str:
    """The message of the library, with its arguments named as they are typed here."""
    message = str(error).replace(*DISCOUNT)
    if not isinstance(error, ModelError):
        return message
    words, python, code = message.replace(PARAMETERS, "").partition(PYTHON)
    return OPTION.sub(lambda found: f"--{found[1]}{'' if found[2] in ' ,.' else ' '}{found[2]}", words) + python + code


def _in_words(message: str) -> str:
    """The message, with what the parser of numbers, or that of older versions of typer, says in words."""
    for kinds, words in (("integer", "a whole number"), ("number|float", "a number")):
        parsed = f"(Input should be a (valid|finite)|'[^']*' is not a valid) ({kinds}).*"
        message = re.sub(parsed, f"must be {words}.", message)
    return message


def _broken_pipe() -> int:
    """Nobody reads any more."""
    _silence()
    return BROKEN_PIPE


def _silence() -> None:
    """Let nothing be written at exit either."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
