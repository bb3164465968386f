"""The ``almostsure`` command; ``docs/command-line.md`` shows it at work, and :mod:`almostsure.cli.guard` ends it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, and exit with its code."""
    try:
        from almostsure.cli.app import run
    except KeyboardInterrupt:  # while it is loaded; the same words as in the guard, which may not be there yet
        sys.stderr.write("error: interrupted; nothing was written.\n")
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
