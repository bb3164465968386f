"""Telling people, once, why they wait: kernels are compiled at their first use on a machine, and then cached."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

DELAY = 1.0  # seconds: what is cached is loaded before that


@contextlib.contextmanager
def compiling(what: str) -> Iterator[None]:
    """Around a first use of compiled code: if it takes long, say on a terminal that it is compiled just once."""

    def tell() -> None:
        print(f"compiling {what}; this happens once on this machine …", file=sys.stderr, flush=True)

    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(DELAY, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
