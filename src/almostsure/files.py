"""Files: which kinds there are, and how they are written and read.

A file is written all at once, so that readers see the old content or the new one and never half of it.

Minimal budgets, shields, policies and what was learned are safetensors files: arrays and a few strings, nothing that
could run when it is read.  Each carries what it holds (``format``), a ``version``, the fingerprint of its ``model``,
and a checksum (``sha256``) of all this, of its other strings and of its arrays.  A file whose content does not have
its checksum is refused.
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
STORM = (*PRISM, *JANI, *DRN)  # what from_prism reads
MODELS = (*UMB, *MAPS, *STORM)
TENSORS = (".safetensors",)  # minimal budgets, shields, policies and what was learned
LOGS = (".csv", ".parquet", ".pq")
HTML = (".html", ".htm")
NOT_TENSORS = (  # endings by which people and programs would take our arrays for something else
    *MODELS, *LOGS, *HTML, ".tsv", ".json", ".jsonl", ".npy", ".npz", ".pkl", ".pickle", ".zip", ".py", ".h", ".c",
    ".png", ".pdf", ".svg",
)  # fmt: skip
OTHERS = {  # what a file holds, where the kind alone does not tell who reads it
    "upper": "the budgets of a continuous system, which UpperBudget.load of almostsure.abstract reads",
    "cell policy": "the policy of a continuous system, which CellPolicy.load of almostsure.abstract reads",
}

VERSION = "2"  # 1 had no checksum
CHECKSUM = "sha256"
TEMPORARY = (".almostsure-", ".tmp")  # how the names of files that are being written begin and end
MINUTE = 60.0  # seconds
LARGE = 1 << 24  # bytes


def file_name(path: object, order: str = "") -> str:
    """``path`` as text; anything else is refused, a model for example where arguments were swapped.

    ``order`` is how the arguments are to be given, for the message.
    """
    name = os.fspath(path) if isinstance(path, PathLike) else path
    if not isinstance(name, str):
        remedy = f" Write {order}." if order else ""
        raise ArgumentError(f"path must be the name of a file; got {type(path).__name__}.{remedy}")
    return name


def give_back(size: int) -> None:
    """Return freed memory to the system after so many bytes were used, if that is much: the C library may keep half.

    Looking for it takes milliseconds, which small models are not worth.  It is here and not in ``memory.py`` since what
    checks certificates reads files, and loads no more than it needs.
    """
    if size < LARGE:
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open ``path`` for writing; it changes only when the block ends without an error.

    The bytes go to a new file in the same folder, which is flushed to the disk and then takes the place of the
    old one.  After any failure, Ctrl-C included, the old file is as it was and the new one is gone; what a killed
    process has left there is removed by the next one that writes to the folder.  A symbolic link stays a link: the
    file that it points to is replaced.

    Raises
    ------
    FileError
        The folder does not exist or is not writable, the disk is full, or ``path`` is a folder or a device.
    """
    target = os.path.realpath(file_name(path))
    if os.path.lexists(target) and not os.path.isfile(target):
        raise FileError(f"cannot write {os.fspath(path)!r}: it is not a file. Choose another name.", path=path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileError(f"cannot write {os.fspath(path)!r}: there is no folder {folder!r}. Make it first.", path=path)
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
                f"cannot write {os.fspath(path)!r}: {error.strerror or error}. What was there before is unchanged.",
                path=path,
            ) from error
        raise


def _lock(file: BinaryIO) -> bool:
    """Lock a file until it is closed or its process ends; False if another process has done so."""
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
    """Remove new files that nobody has written to for a minute, and nobody has open: their processes were killed."""
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
    """SHA-256 of names, types, shapes and contents, whatever order they have in a file."""
    described = [[name, arrays[name].dtype.str, arrays[name].shape] for name in sorted(arrays)]
    told = {name: header[name] for name in sorted(header) if name != CHECKSUM}
    result = hashlib.sha256(json.dumps([told, described]).encode())
    for name in sorted(arrays):
        result.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return result.hexdigest()


def tensors_kind(path: str | PathLike[str]) -> str | None:
    """What a file of :func:`save_tensors` holds ("budget", "shield", "policy"); None for any other file."""
    from safetensors import SafetensorError, safe_open

    try:
        with open(path, "rb") as file:
            if file.read(9)[8:] != b"{":  # a header follows its length
                return None
        with safe_open(os.fspath(path), framework="np") as tensors:
            package, _, kind = (tensors.metadata() or {}).get("format", "").partition(" ")
    except (SafetensorError, OSError):
        return None
    return kind if package == "almostsure" else None


def load_tensors(
    path: str | PathLike[str], *, kind: str, model: str | None
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Read arrays and strings of a file of the given kind that belongs to the model with this fingerprint.

    With None, whoever reads it must call :func:`check_fingerprint` once the model is known.
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
    """Refuse a file whose strings say that it belongs to a model with another fingerprint."""
    if strings.get("model") != model:
        raise ModelMismatch(
            f"the {kind} in {os.fspath(path)!r} belongs to another model ({str(strings.get('model'))[:16]}) "
            f"than the one given ({model[:16]}). Load the model that it was made for, or make it anew."
        )


@contextlib.contextmanager
def must_hold(path: str | PathLike[str] | None, what: str) -> Iterator[None]:
    """Around code that makes ``what`` of the content of a file: CorruptFile if it does not hold that."""
    try:
        yield
    except (ValueError, LookupError, CertificateError, Infeasible) as error:
        raise CorruptFile(f"{path!s} does not hold {what}: {error}", path=path) from error


def _other_kind(path: str | PathLike[str], kind: str, told: str) -> CorruptFile:
    package, _, other = told.partition(" ")
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
        raise FileError(f"cannot read {os.fspath(path)!r}: {_why(path, error)}.", path=path) from error


def _why(path: str | PathLike[str], error: OSError) -> str:
    """Why a file cannot be read, in words."""
    if os.path.isdir(path):
        return "it is a folder, not a file"
    return "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
