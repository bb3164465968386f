"""The ``almostsure`` command; ``docs/command-line.md`` shows it at work, and :mod:`almostsure.cli.exits` ends it."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from almostsure.exports import package_version

NOTHING = "interrupted; nothing was written."


def main() -> None:
    """Run the command line, and exit with its code.

    While it is loaded, Ctrl-C ends the process at once: an exception in the middle of an import may be taken for
    another one.  Once the code is known, Ctrl-C has nothing left to stop.  Where it is ignored it stays so.
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
    except KeyboardInterrupt:  # just before or after what runs to its exit
        _stop()
    sys.exit(code)


def _stop(*_: object) -> NoReturn:
    """End the process with the words, or the JSON object, that every interrupted command ends with."""
    if "--json" in sys.argv:
        import json

        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "almostsure")
        error = {"kind": "KeyboardInterrupt", "message": NOTHING, "exit": 130}
        content = {"command": command, "version": package_version(), "model": None, "error": error}
        os.write(1, (json.dumps(content, indent=2) + "\n").encode())
    else:
        os.write(2, f"error: {NOTHING}\n".encode())
    os._exit(130)
