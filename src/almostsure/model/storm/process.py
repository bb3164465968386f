"""Running Storm in a child process (``child.py``), with limits for its time and memory.

Storm is a large C++ program in an extension module.  A division by zero in a model kills the interpreter that parses
it, and a build that has become too large can only be stopped by killing its process.  The parent process survives both.
The model is returned as an uncompressed UMB file, which is read array by array.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from almostsure.arguments import check_real, whole
from almostsure.errors import ArgumentError, LimitReached, MissingExtra, ModelError, NotEnoughMemory, UnknownName
from almostsure.memory import available, show
from almostsure.model.umb.index import listed

CHILD = Path(__file__).with_name("child.py")
LEAST_MEMORY = 1 << 28  # bytes


class ChildLimits(NamedTuple):
    """Limits of the child process."""

    seconds: float | None
    memory: int | None  # bytes of address space


def limits(seconds: float | None, memory: int | None) -> ChildLimits:
    """The limits given by the user; by default all available memory."""
    if seconds is not None and check_real("time_limit", seconds) <= 0:
        raise ArgumentError(f"time_limit must be a positive number of seconds; got {seconds!r}")
    if memory is not None and whole("memory_limit", memory) < LEAST_MEMORY:
        raise ArgumentError(f"memory_limit must be at least {LEAST_MEMORY:,} bytes, for Storm itself; got {memory!r}")
    return ChildLimits(seconds, available() if memory is None else int(memory))


def run_storm(request: dict[str, Any], shown: str, limit: ChildLimits) -> dict[str, Any]:
    """The child's answer to a request; raises if the child reports a problem, crashes or hits a limit."""
    if importlib.util.find_spec("stormpy") is None:
        raise MissingExtra("stormpy", "storm")
    code = _run(json.dumps(request | {"memory_limit": limit.memory}), shown, limit)
    answer = Path(request["folder"], "answer.json")
    if code != 0 or not answer.exists():
        _explain_end(code, shown, limit)
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "problem" in found:
        _refuse(found["problem"], shown, limit)
    return found


def _run(request: str, shown: str, limit: ChildLimits) -> int:
    """The child's exit status.  If waiting is interrupted, such as by Ctrl-C, the child is killed."""
    # -P: the folder of child.py must not come first in its sys.path
    process = subprocess.Popen(
        [sys.executable, "-P", str(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,  # Ctrl-C only reaches this process, which kills the child
    )
    try:
        process.communicate(request.encode(), timeout=limit.seconds)
    except subprocess.TimeoutExpired:
        raise LimitReached(
            f"{shown}: Storm has not built the model within {limit.seconds:g} s. "
            "Pass a larger time_limit=, or smaller constants."
        ) from None
    finally:
        process.kill()  # no effect if it has ended
        process.wait()
    return process.returncode


def _explain_end(code: int, shown: str, limit: ChildLimits) -> NoReturn:
    if code == -signal.SIGFPE:
        raise ModelError(f"{shown}: Storm divided by zero while it read the model. Look for a division such as 1/0.")
    if code in (-signal.SIGKILL, -signal.SIGABRT):
        raise _out_of_memory(shown, limit)
    what = signal.Signals(-code).name if code < 0 else f"status {code}"
    raise ModelError(
        f"{shown}: Storm crashed while it built the model ({what}). Try a smaller model, or another export."
    )


def _refuse(problem: dict[str, Any], shown: str, limit: ChildLimits) -> NoReturn:
    """Raise the exception for a problem that the child reports."""
    if "memory" in problem:
        raise _out_of_memory(shown, limit)
    if "known" in problem:
        known = problem["known"]
        raise UnknownName(problem["what"], problem["name"], known, f"{shown} has: {', '.join(known) or 'none'}.")
    if "names" in problem:
        known = [name for names in problem["names"].values() for name in names]
        raise UnknownName(problem["what"], problem["name"], known, listed(shown, problem["names"]))
    raise ModelError(f"{shown}: {problem['message']}")


def _out_of_memory(shown: str, limit: ChildLimits) -> NotEnoughMemory:
    allowed = "" if limit.memory is None else f" (the limit was {show(limit.memory)})"
    return NotEnoughMemory(
        f"{shown}: Storm ran out of memory{allowed}. Pass a larger memory_limit=, or smaller constants."
    )
