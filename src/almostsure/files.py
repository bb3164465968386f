"""Files: their kinds, and how they are written and read.

Files are written atomically: readers see the old content or the new content, never a part of it.

Minimal budgets, shields, policies and learned results are safetensors files: arrays and a few strings, and no code that
reading could run.  Each has its kind (``format``), a ``version``, the fingerprint of its ``model``, and a checksum
(``sha256``) of all these, of its other strings and of its arrays.  A file whose checksum is wrong is refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, CertificateError, CorruptFile, FileError, Infeasible, ModelMismatch

UMB = (".umb",)
MAPS = (".txt", ".map")
PRISM, JANI, DRN = (".prism", ".pm", ".nm", ".sm"), (".jani",), (".drn", ".drn.gz")
STORM = (*PRISM, *JANI, *DRN)  # read by from_prism
MODELS = (*UMB, *MAPS, *STORM)
TENSORS = (".safetensors",)  # minimal budgets, shields, policies and learned results
LOGS = (".csv", ".parquet", ".pq")
HTML = (".html", ".htm")
NOT_TENSORS = (  # endings that would be misleading for safetensors files
    *MODELS, *LOGS, *HTML, ".tsv", ".json", ".jsonl", ".npy", ".npz", ".pkl", ".pickle", ".zip", ".py", ".h", ".c",
    ".png", ".pdf", ".svg",
)  # fmt: skip
OTHERS = {  # descriptions of the kinds whose name alone does not tell which function reads them
    "upper": "the budgets of a continuous system, which UpperBudget.load of almostsure.abstract reads",
    "cell policy": "the policy of a continuous system, which CellPolicy.load of almostsure.abstract reads",
}

VERSION = "2"  # 1 had no checksum
CHECKSUM = "sha256"
TEMPORARY = (".almostsure-", ".tmp")  # the beginning and the end of the names of files that are being written
MINUTE = 60.0  # seconds
LONGEST_NAME = 255  # the most bytes of a file name
LARGE = 1 << 24  # bytes from which freed memory is returned to the system


def file_name(path: object, order: str = "") -> str:
    """``path`` as text; anything else is refused, such as a model if arguments were swapped.

    ``order`` is the call with its arguments in the right order, for the message.
    """
    name = os.fspath(path) if isinstance(path, PathLike) else path
    if not isinstance(name, str):
        remedy = f" Write {order}." if order else ""
        raise ArgumentError(f"path must be the name of a file; got {type(path).__name__}.{remedy}")
    try:
        possible = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise FileError(f"{name!r} cannot be the name of a file.", path=name)
    return name


def give_back(size: int) -> None:
    """Return freed memory to the system if ``size`` bytes, used before, are many: the C library may keep half of it.

    This takes milliseconds, so it is not done for small models.  It is here and not in ``memory.py`` because checkers
    of certificates read files, and import no more than they need.
    """
    if size < LARGE:
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def target_of(path: str | PathLike[str]) -> str:
    """The file that would be written at ``path``, with links followed; FileError if that would fail."""
    target = os.path.realpath(file_name(path))
    folder, name = os.path.split(target)
    why = ""
    if os.path.lexists(target) and not os.path.isfile(target):
        why = "it is not a file. Choose another name"
    elif not os.path.isdir(folder):
        why = f"there is no folder {folder!r}. Make it first"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder!r} is not writable"
    elif len(os.fsencode(name)) > LONGEST_NAME:
        why = "the name is too long"
    if why:
        raise FileError(f"cannot write {os.fspath(path)!r}: {why}.", path=path)
    return target


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open ``path`` for writing; it only changes when the block ends without an error.

    The content is written to a temporary file in the same folder, which is flushed to disk and then replaces the old
    file.  After any failure, Ctrl-C included, the old file is unchanged and the temporary one removed; the one of a
    killed process is removed by the next process that writes to the folder.  A symbolic link stays a link: the file
    that it points to is replaced.

    Raises
    ------
    FileError
        The folder does not exist or is not writable, the disk is full, or ``path`` is a folder or a device.
    """
    target = target_of(path)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f"{TEMPORARY[0]}{secrets.token_hex(8)}{TEMPORARY[1]}")
    try:
        _remove_leftovers(folder)
        # Not the tempfile module: its files are readable by their owner only, and stay so.
        with open(temporary, "xb") as file:
            _lock(file)
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
                f"cannot write {os.fspath(path)!r}: {error.strerror or error}. Any earlier file is unchanged.",
                path=path,
            ) from error
        raise


def _lock(file: BinaryIO) -> bool:
    """Lock a file until it is closed or the process ends; False if it is locked already, or cannot be."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_leftovers(folder: str) -> None:
    """Remove the temporary files of killed processes: those that are not locked, and unchanged for a minute."""
    with os.scandir(folder) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(TEMPORARY[0])]
    for name in names:
        with contextlib.suppress(OSError), open(name, "rb") as file:
            if name.endswith(TEMPORARY[1]) and time.time() - os.stat(name).st_mtime > MINUTE and _lock(file):
                os.unlink(name)


def save_tensors(
    path: str | PathLike[str],
    *,
    kind: str,
    model: str,
    arrays: Mapping[str, npt.NDArray[Any]],
    strings: Mapping[str, str],
) -> None:
    """Write ``arrays`` and ``strings`` as a file of the given kind ("budget", "shield", "policy")."""
    from safetensors.numpy import save

    if file_name(path).lower().endswith(NOT_TENSORS):
        raise ArgumentError(f"the name of a {kind} file must end in {TENSORS[0]}; got {os.fspath(path)!r}.")
    header = {"format": f"almostsure {kind}", "version": VERSION, "model": model, **strings}
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = save(tensors, {**header, CHECKSUM: checksum(tensors, header)})
    with atomic_write(path) as file:
        file.write(content)


def checksum(arrays: Mapping[str, npt.NDArray[Any]], header: Mapping[str, str]) -> str:
    """SHA-256 of names, types, shapes and contents, independent of their order in the file."""
    described = [[name, arrays[name].dtype.str, arrays[name].shape] for name in sorted(arrays)]
    strings = {name: header[name] for name in sorted(header) if name != CHECKSUM}
    result = hashlib.sha256(json.dumps([strings, described]).encode())
    for name in sorted(arrays):
        result.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return result.hexdigest()


def tensors_kind(path: str | PathLike[str]) -> str | None:
    """The kind of a file written by :func:`save_tensors` ("budget", "shield", "policy"); None for any other file."""
    from safetensors import SafetensorError, safe_open

    try:
        with open(path, "rb") as file:
            if file.read(9)[8:] != b"{":  # the header, after its length
                return None
        with safe_open(os.fspath(path), framework="np") as tensors:
            package, _, kind = (tensors.metadata() or {}).get("format", "").partition(" ")
    except (SafetensorError, OSError):
        return None
    return kind if package == "almostsure" else None


def load_tensors(
    path: str | PathLike[str], *, kind: str, model: str | None
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Read the arrays and strings of a file of the given kind, for the model with the fingerprint ``model``.

    If that is None, the caller must call :func:`check_fingerprint` once the model is known.
    """
    shown = file_name(path)
    arrays, strings = _read(path, kind)
    if strings.get("format") != f"almostsure {kind}":
        raise _other_kind(path, kind, strings.get("format", ""))
    if strings.get("version") != VERSION:
        raise _other_version(path, strings.get("version", ""))
    if strings.get(CHECKSUM) != checksum(arrays, strings):
        raise CorruptFile(
            f"{shown!r} is damaged: its content does not have the checksum that was stored with it. "
            "Write it again, or use an undamaged copy.",
            path=path,
        )
    if model is not None:
        check_fingerprint(path, strings, kind=kind, model=model)
    return arrays, strings


def check_fingerprint(path: str | PathLike[str], strings: Mapping[str, str], *, kind: str, model: str) -> None:
    """Raise ModelMismatch if a file belongs to a model with another fingerprint."""
    if strings.get("model") != model:
        raise ModelMismatch(
            f"the {kind} in {os.fspath(path)!r} belongs to another model ({str(strings.get('model'))[:16]}) "
            f"than the given one ({model[:16]}). Load the model that it was made for, or make it anew."
        )


@contextlib.contextmanager
def must_hold(path: str | PathLike[str] | None, what: str) -> Iterator[None]:
    """A context manager for code that builds ``what`` from a file's content: CorruptFile if the content is invalid."""
    try:
        yield
    except (ValueError, LookupError, CertificateError, Infeasible) as error:
        raise CorruptFile(f"{path!s} does not hold {what}: {error}", path=path) from error


def _other_kind(path: str | PathLike[str], kind: str, stored: str) -> CorruptFile:
    package, _, other = stored.partition(" ")
    what = f"it holds {OTHERS.get(other, 'a ' + other)}"
    if package != "almostsure" or not other:
        what = "almostsure did not write it"
    return CorruptFile(f"{os.fspath(path)!r} is not a {kind} file; {what}.", path=path)


def _other_version(path: str | PathLike[str], version: str) -> FileError:
    older = version.isdecimal() and int(version) < int(VERSION)
    age, remedy = ("an older", "Make it anew.") if older else ("a newer", "Update almostsure.")
    return FileError(
        f"{os.fspath(path)!r} was written by {age} version of almostsure (format {version!r}; this one reads "
        f"{VERSION!r}). {remedy}",
        path=path,
    )


def _read(path: str | PathLike[str], kind: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError) as error:  # the latter two: a type that NumPy does not have
        raise CorruptFile(f"{os.fspath(path)!r} is damaged or not a {kind} file: {error}", path=path) from error
    except OSError as error:
        raise FileError(f"cannot read {os.fspath(path)!r}: {_reason(path, error)}.", path=path) from error


def _reason(path: str | PathLike[str], error: OSError) -> str:
    """The reason why a file cannot be read, for a message."""
    if os.path.isdir(path):
        return "it is a folder, not a file"
    return "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
