"""How a command ends: its exit code, and error messages instead of tracebacks.

====  =====================================================================================================
0     done, and the answer is positive
1     done, and the answer is negative: infeasible, no finite budget, unbounded return, certificate rejected
2     the command line is wrong: an unknown command or option, a number out of range
3     the model, a name in it, or a file is bad: unknown, unreadable, corrupt, of another model, not writable
4     it cannot be done here: an extra is missing, memory would not suffice, a limit was reached
70    a bug in almostsure; please report it
130   Ctrl-C; no file is left half-written
141   the reader of the output has closed the pipe, as in ``almostsure demo | head -1``
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
CODES: tuple[tuple[tuple[type[AlmostSureError], ...], int], ...] = (  # the first match counts
    ((Infeasible, UnboundedReturn, CertificateError, NoSafeAction), NEGATIVE),
    ((ArgumentError,), USAGE),
    ((MissingExtra, NotEnoughMemory, LimitReached), CANNOT),
    ((AlmostSureError,), BAD_MODEL),
)
DEBUG = "--debug"  # an option of every command, which is handled in this file
OWN_WORDS = ("learn", "compare", "paper")  # commands whose own message says what was written on Ctrl-C
RIGHT_WORDS = {  # options under the names that other tools use
    "--total": "The budget Δ is --budget",
    "-t": "The budget Δ is --budget, or -b for short",
    "--delta": "The budget Δ is --budget",
    "--cost-limit": "The budget Δ is --budget",
    "--gamma": "The discount is --discount",
    "--horizon": "It is an option of budget, solve, simulate and export. To cut episodes, use simulate --max-steps",
    "--epsilon": "The probability of overspending is --risk",
}
DISCOUNT = "a discount below 1", "--discount below 1"  # in messages of the library, and on the command line
PARAMETERS = ", or list those of a parametric model in parameters="  # an argument that no command has
PYTHON = "In Python: "  # in messages of commands: Python code follows
OPTION = re.compile(r"\b(damage|reward|cost|goal|scale|constants)=([^=\d])")
FINDERS = {
    "budget": "finds the budget. To stop at one, use --cap",
    "suggest": "suggests one. The largest to look at is --most",
}
BUDGETS = ("--budget", "-b", "--total", "-t", "--delta", "--cost-limit")
# The exception of typer for a wrong command line; its module depends on the version of typer.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def run_to_exit(body: Callable[[], Any], arguments: list[str]) -> int:
    """Run a command line; returns its exit code, whatever is raised."""
    failure = _Failure(arguments)
    try:
        result = body()
        sys.stdout.flush()
    except ClickException as error:
        return failure.of_usage(error)
    except (KeyboardInterrupt, typer.Abort) as error:
        stopped = error.__cause__ or error
        return failure.tell(stopped, INTERRUPTED, failure.interruption(stopped))
    except SystemExit as error:  # raised by the help on a closed pipe, and by completion
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
    except OSError as error:  # not converted to an error of this package
        named = f"{error.filename!r}: " if error.filename else ""
        return failure.tell(error, BAD_MODEL, f"{named}{error.strerror or error}.")
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return failure.tell(
            error, INTERNAL, f"this is a bug in almostsure ({what}). Please report it, with the output of --debug."
        )
    return result if isinstance(result, int) else FINE


class _Failure:
    """Reports a failure in the form that the raw arguments ask for, since they may not have been parsed."""

    def __init__(self, arguments: list[str]) -> None:
        self.command = next((word for word in arguments if not word.startswith("-")), "almostsure")
        self.json, self.debug = "--json" in arguments, DEBUG in arguments

    def tell(self, error: BaseException, code: int, message: str) -> int:
        """Print the message, on standard error or with --json as a JSON object on standard output; returns the code."""
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
        except OSError:  # such as a full disk: only the code can be returned
            _silence()
        return code

    def of_usage(self, error: Any) -> int:
        """Report a command line that could not be parsed."""
        context = getattr(error, "ctx", None)
        path = f"almostsure {self.command}" if context is None else context.command_path
        self.command = path.rpartition(" ")[2]
        message = _in_words(error.format_message())
        if not message:  # no command was given, and the help was printed
            return USAGE
        wrong = getattr(error, "option_name", None)
        if wrong in RIGHT_WORDS:
            message = f"there is no option {wrong}. {RIGHT_WORDS[wrong]}."
        if self.command in FINDERS and wrong in BUDGETS:
            message = f"{self.command} has no option {wrong}: it {FINDERS[self.command]}."
        return self.tell(error, USAGE, f"{message}\nTry: {path} --help")

    def interruption(self, error: BaseException) -> str:
        """The message after Ctrl-C."""
        kept = getattr(error, "kept", None)
        cap = getattr(kept, "cap", None)
        if self.command in OWN_WORDS and isinstance(error, Interrupted) and not hasattr(kept, "cap"):
            return str(error)
        if self.command == "budget" and cap is not None:
            return f"{NOTHING} Minimal budgets up to {cap} had been found: to get only these, pass --cap {cap}."
        return NOTHING


def _as_typed(error: AlmostSureError) -> str:
    """The message of the library, with its arguments written as options."""
    message = str(error).replace(*DISCOUNT)
    if not isinstance(error, ModelError):
        return message
    words, python, code = message.replace(PARAMETERS, "").partition(PYTHON)
    return OPTION.sub(lambda found: f"--{found[1]}{'' if found[2] in ' ,.' else ' '}{found[2]}", words) + python + code


def _in_words(message: str) -> str:
    """The message, with the errors of number parsers (which depend on the version of typer) in plain words."""
    for kinds, words in (("integer", "a whole number"), ("number|float", "a number")):
        parsed = f"(Input should be a (valid|finite)|'[^']*' is not a valid) ({kinds}).*"
        message = re.sub(parsed, f"must be {words}.", message)
    return message


def _broken_pipe() -> int:
    """The exit code for a closed pipe, with no further output."""
    _silence()
    return BROKEN_PIPE


def _silence() -> None:
    """Discard all further output, also that at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
