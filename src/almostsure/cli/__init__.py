"""The ``almostsure`` command.  ``docs/command-line.md`` shows it in use; :mod:`almostsure.cli.exits` has exit codes."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from almostsure.exports import package_version

NOTHING = "interrupted; nothing was written."


def main() -> None:
    """Run the command line, and exit with its code.

    During imports, Ctrl-C ends the process at once: an exception inside an import may be mistaken for another one.
    After the command, when its code is known, Ctrl-C is ignored.  If SIGINT was ignored from the start, it stays so.
    """
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if heard:
            signal.signal(signal.SIGINT, _stop)
        from almostsure.cli.app import run

        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:  # outside ``run``, which handles it
        _stop()
    sys.exit(code)


def _stop(*_: object) -> NoReturn:
    """End the process with the message, or the JSON object, of every interrupted command."""
    if "--json" in sys.argv:
        import json

        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "almostsure")
        error = {"kind": "KeyboardInterrupt", "message": NOTHING, "exit": 130}
        content = {"command": command, "version": package_version(), "model": None, "error": error}
        os.write(1, (json.dumps(content, indent=2) + "\n").encode())
    else:
        os.write(2, f"error: {NOTHING}\n".encode())
    os._exit(130)
