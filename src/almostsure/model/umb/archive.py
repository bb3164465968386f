"""A tar archive of arrays, read array by array without unpacking it on disk.

:class:`Archive` reads the headers first, and each array on demand.  Compressed archives (gzip or xz) and small ones are
read into memory at once.  Files are not memory-mapped: a file that is truncated while it is read is an error, not a
crash, and a file that changes between two reads is refused.

Contents are untrusted.  Members must be plain files with harmless, unique names, must lie inside the file, and must
have exactly the expected size.  Every header up to the end mark must be valid, so that a damaged header cannot hide the
members after it.

After the end mark, where other programs stop reading, :class:`Writer` adds a *seal*: a block with the SHA-256 of all
bytes before it.  A wrong seal is refused.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from os import PathLike
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from almostsure.errors import AlmostSureError, CorruptFile, FileError, NotEnoughMemory
from almostsure.model.arrays import CHUNK, ptr_of

BLOCK = 512
SMALL = 1 << 20  # bytes; a file below this is read at once
MANY_MEMBERS = 1 << 16
SEAL = b"almostsure sha256 "  # the beginning of a seal
PART = 1 << 22  # bytes read at a time
UNPACKED, TIMES = 1 << 28, 100  # a compressed file may unpack to this many bytes, or this many times its size
MAGIC = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}

Path = str | PathLike[str]
DType = str | np.dtype[Any]


class Archive:
    """The members of a tar archive, by name.

    Parameters
    ----------
    path
        The file to open.
    shown
        The name of the file in messages, by default its path.
    """

    def __init__(self, path: Path, *, shown: str | None = None) -> None:
        self.path, self.shown = path, os.fspath(path) if shown is None else shown
        self.owners: set[str] = set()  # of the members: some programs write their name there
        self._place: dict[str, tuple[int, int]] = {}  # name → (first byte, number of bytes)
        with self._file() as file:
            self._stamp = _stamp(file)
            self._buffer = self._read_at_once(file)  # None if arrays are read one by one
            stream: BinaryIO = file if self._buffer is None else BytesIO(self._buffer)
            self._length = stream.seek(0, os.SEEK_END)
            self.sealed = self._check_seal(stream)
            stream.seek(self._list(stream))
            end = stream.read(BLOCK)
        if end != bytes(BLOCK):
            self.fail("a header or the end mark is damaged or missing; the file is truncated or corrupt")

    def fail(self, what: str, remedy: str = "Write the file again, or fetch an undamaged copy.") -> NoReturn:
        """Raise CorruptFile with the file's name and a remedy."""
        raise CorruptFile(f"{self.shown}: {what}. {remedy}", path=self.shown)

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def read(self, name: str, *, limit: int | None = None) -> bytes:
        """The bytes of a member."""
        begin, size = self._find(name)
        if limit is not None and size > limit:
            self.fail(f"member {name!r} must have at most {limit:,} bytes; it has {size:,}")
        return self._numbers(begin, "u1", size).tobytes()

    def array(self, name: str, dtype: DType, count: int) -> npt.NDArray[Any]:
        """A member as a new array of ``count`` numbers."""
        self.expect(name, dtype, count)
        return self._numbers(self._find(name)[0], dtype, count)

    def _numbers(self, begin: int, dtype: DType, count: int) -> npt.NDArray[Any]:
        if self._buffer is not None:
            return np.frombuffer(self._buffer, dtype, count, begin).copy()
        with self._file() as file:
            result = np.fromfile(file, dtype, count, offset=begin)
            if _stamp(file) != self._stamp or result.size != count:
                self.fail("the file was changed while it was read", "Load it again.")
        return result

    def expect(self, name: str, dtype: DType, count: int) -> None:
        """Check that a member exists and has the size of ``count`` numbers, without reading it."""
        size, wanted = self._find(name)[1], count * np.dtype(dtype).itemsize
        if size != wanted:
            self.fail(f"member {name!r} must have {wanted:,} bytes, as the index says; it has {size:,}")

    def bits(self, name: str, count: int) -> npt.NDArray[np.bool_]:
        """A member with one bit for each of ``count`` items, padded to 64-bit words."""
        packed = self.array(name, "u1", (count + 63) // 64 * 8)
        return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)

    def strings(self, folder: str, count: int) -> list[str]:
        """``count`` strings, from a folder's ``strings.bin`` and the offsets in its ``string-mapping.bin``."""
        text = self.read(f"{folder}/strings.bin")
        name = f"{folder}/string-mapping.bin"
        offsets = self.array(name, "<i8", count + 1)
        self.check_offsets(name, offsets, len(text))
        ends = offsets.tolist()
        try:
            return [text[i:j].decode() for i, j in pairwise(ends)]
        except UnicodeDecodeError as error:
            self.fail(f"member {folder + '/strings.bin'!r} must be UTF-8 text; {error.reason}")

    def check_offsets(self, name: str, offsets: npt.NDArray[Any], length: int) -> None:
        """Check that offsets run from 0 to ``length`` and never decrease."""
        if offsets[0] != 0 or offsets[-1] != length:
            self.fail(f"member {name!r} must run from 0 to {length}; it runs from {offsets[0]} to {offsets[-1]}")
        decreases = offsets[1:] < offsets[:-1]
        if decreases.any():
            at = int(np.argmax(decreases))
            self.fail(f"member {name!r} must not decrease; entry {at + 1} is {offsets[at + 1]} after {offsets[at]}")

    # ------------------------------------------------------------------ opening

    @contextlib.contextmanager
    def _file(self) -> Iterator[BinaryIO]:
        try:
            with open(self.path, "rb") as file:
                yield file
        except OSError as error:
            raise FileError(f"cannot read {self.shown!r}: {error.strerror or error}.", path=self.shown) from None

    def _read_at_once(self, file: BinaryIO) -> bytes | None:
        """All bytes of a compressed or small archive; None for other archives."""
        start = file.read(BLOCK)
        unpack = next((f for magic, f in MAGIC.items() if start.startswith(magic)), None)
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        if unpack is not None:
            with unpack(file, "rb") as stream:  # type: ignore[operator]
                return self._unpacked(stream, size)
        if start[257:262] != b"ustar":
            self.fail(
                "this is not a UMB file (it is not a tar archive)", "Pass a file written by save, Storm or PRISM."
            )
        return file.read() if size < SMALL else None

    def _unpacked(self, stream: Any, size: int) -> bytes:
        """The content of a compressed file of ``size`` bytes, refused if implausibly large or too large for memory."""
        from almostsure.memory import available, show  # not needed to check certificates

        most = max(UNPACKED, TIMES * size)
        have = available()
        result = bytearray()
        try:
            while part := stream.read(PART):
                result += part
                if len(result) > most:
                    self.fail(
                        f"the file has {size:,} bytes and unpacks to more than {show(most)}, unlike any model",
                        "The file may be hostile. If you trust it, decompress it on disk first.",
                    )
                if have is not None and 2 * len(result) > have:
                    raise NotEnoughMemory(
                        f"{self.shown}: unpacked, this file needs more than half of the available memory "
                        f"({show(have)}). Decompress it on disk: an uncompressed file is read array by array."
                    )
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            self.fail(f"the compressed data are damaged ({error})")
        return bytes(result)

    def _check_seal(self, stream: BinaryIO) -> bool:
        """Whether the archive has a seal; raises if it is wrong."""
        body = max(self._length - BLOCK, 0)
        stream.seek(body)
        seal = stream.read(BLOCK)
        if not seal.startswith(SEAL):
            return False
        stream.seek(0)
        digest = hashlib.sha256()
        while body and (part := stream.read(min(PART, body))):
            digest.update(part)
            body -= len(part)
        if seal != _seal(digest.hexdigest()):
            self.fail("it is damaged: its content does not have the checksum stored with it")
        return True

    def _list(self, stream: BinaryIO) -> int:
        """Store the position of each member; return the position after the last one."""
        try:
            stream.seek(0)
            with tarfile.open(fileobj=stream, mode="r:", errorlevel=2) as tar:
                for member in tar:
                    self._note(member)
                return tar.offset
        except AlmostSureError:
            raise
        except Exception as error:  # hostile headers make tarfile raise more than its own errors
            self.fail(f"the archive is truncated or damaged ({error})")

    def _note(self, member: tarfile.TarInfo) -> None:
        name = member.name.removeprefix("./")
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name:
            self.fail(f"member {member.name!r} points outside the archive", "The file may be hostile: do not use it.")
        if member.size < 0 or member.offset_data + member.size > self._length:
            self.fail(f"member {name!r} claims {member.size:,} bytes, more than the file has")
        if member.isdir():
            return
        if not member.isreg() or member.issparse():
            self.fail(f"member {member.name!r} must be a plain file; it is a link, a device or a sparse file")
        if name in self._place:
            self.fail(f"member {name!r} occurs twice")
        if len(self._place) >= MANY_MEMBERS:
            self.fail(f"an archive must have at most {MANY_MEMBERS:,} members")
        self._place[name] = (member.offset_data, member.size)
        self.owners.add(member.uname)

    # ------------------------------------------------------------------ helpers

    def _find(self, name: str) -> tuple[int, int]:
        if name not in self._place:
            self.fail(f"member {name!r} is missing")
        return self._place[name]


class Writer:
    """Writes a tar archive of arrays, member by member; :meth:`finish` completes it."""

    def __init__(self, file: BinaryIO, owner: str) -> None:
        self._file, self._owner, self._digest = file, owner, hashlib.sha256()

    def text(self, name: str, data: bytes) -> None:
        """Add a member that holds ``data``."""
        self._add(name, len(data), iter((data,)))

    def array(self, name: str, values: npt.NDArray[Any], dtype: DType) -> None:
        """Add a member that holds ``values``, converted to ``dtype`` a chunk at a time."""
        chunks = (
            np.ascontiguousarray(values[begin : begin + CHUNK], dtype).view("u1").data
            for begin in range(0, values.size, CHUNK)
        )
        self._add(name, values.size * np.dtype(dtype).itemsize, chunks)

    def bits(self, name: str, values: npt.NDArray[np.bool_]) -> None:
        """Add a member that holds one bit per value, padded to 64-bit words."""
        packed = np.packbits(values, bitorder="little")
        self.array(name, np.pad(packed, (0, -packed.size % 8)), "u1")

    def strings(self, folder: str, values: tuple[str, ...]) -> None:
        """Add strings as ``strings.bin`` and their offsets as ``string-mapping.bin``."""
        encoded = [value.encode() for value in values]
        self.array(f"{folder}/string-mapping.bin", ptr_of([len(value) for value in encoded]), "<u8")
        self.text(f"{folder}/strings.bin", b"".join(encoded))

    def finish(self) -> None:
        """Write the end mark, and the seal after it."""
        self._put(bytes(2 * BLOCK))
        self._file.write(_seal(self._digest.hexdigest()))

    def _put(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)

    def _add(self, name: str, size: int, chunks: Iterator[bytes | memoryview]) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.uname = size, self._owner
        self._put(member.tobuf(tarfile.PAX_FORMAT))
        for chunk in chunks:
            self._put(chunk)
        self._put(bytes(-size % BLOCK))


def _seal(digest: str) -> bytes:
    """The block after an archive with this hash."""
    return (SEAL + digest.encode()).ljust(BLOCK, b"\0")


def _stamp(file: BinaryIO) -> tuple[int, ...]:
    """Values that change if a file is written to or replaced."""
    about = os.fstat(file.fileno())
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
