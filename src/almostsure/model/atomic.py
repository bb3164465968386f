"""Writing a file all at once: readers see the old content or the new one, never half of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from os import PathLike
from typing import BinaryIO

from almostsure.errors import FileError


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open ``path`` for writing; it changes only when the block ends without an error.

    The bytes go to a new file in the same folder, which is flushed to the disk and then takes the place of the
    old one.  After any failure, Ctrl-C included, the old file is as it was and the new one is gone.  A symbolic
    link stays a link: the file that it points to is replaced.

    Raises
    ------
    FileError
        The folder does not exist or is not writable, the disk is full, or ``path`` is a folder or a device.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise FileError(f"cannot write {os.fspath(path)!r}: it is not a file. Choose another name.", path=path)
    temporary = os.path.join(os.path.dirname(target), f".almostsure-{secrets.token_hex(8)}.tmp")
    try:
        # Not the tempfile module: its files are readable by their owner only, and stay so.
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise FileError(
                f"cannot write {os.fspath(path)!r}: {error.strerror or error}. What was there before is unchanged.",
                path=path,
            ) from error
        raise
