"""Memory: how much is available, refusing runs that need more, and arrays that use it well."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import NotEnoughMemory

CGROUP = Path("/sys/fs/cgroup")
SMALL = 2**16  # bytes that are never refused: what the system says is available is not that exact


def available() -> int | None:
    """The available memory in bytes, or None if the system does not say."""
    return min((limit for limit in (_from_meminfo(), _from_cgroup()) if limit is not None), default=None)


def _from_meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _from_cgroup() -> int | None:
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text()) - _cached()
        return None if limit == "max" else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return None


def _cached() -> int:
    """Bytes of the page cache, which the system frees when it needs them."""
    lines = (line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    return sum(int(size) for name, size in lines if name in ("active_file", "inactive_file"))


def require(needed: int, what: str, remedy: str) -> None:
    """Refuse a run that would not fit, before the system kills it halfway."""
    have = available()
    if have is not None and needed > max(have, SMALL):
        raise NotEnoughMemory(f"{what} needs about {show(needed)} of memory; {show(have)} is available. {remedy}")


def show(size: int) -> str:
    """A size in MiB or GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def side_by_side(kind: type[np.generic], *sizes: int) -> list[npt.NDArray[Any]]:
    """Uninitialised arrays of given sizes in one block of memory: large blocks get large pages, which are faster."""
    return np.split(np.empty(sum(sizes), kind), np.cumsum(sizes)[:-1])


def untouched(size: int) -> npt.NDArray[np.float64]:
    """Zeros that take memory only where they are written; NumPy's may reuse freed memory, and clear all of it."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}  # not on Windows
    return np.frombuffer(mmap.mmap(-1, 8 * max(size, 1), **private), np.float64, size)
