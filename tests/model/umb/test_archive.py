"""Archives: read whole or array by array, and refused where they are damaged or hostile."""

from __future__ import annotations

import gzip
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from almostsure.errors import CorruptFile, FileError, NotEnoughMemory
from almostsure.model.files import load, save
from almostsure.model.umb import archive
from almostsure.model.umb.index import Umb

from .members import (
    assert_same,
    example,
    foreign_members,
    write_members,
)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files_load(path: Path, compress: Callable[[bytes], bytes]) -> None:
    save(example(), path)
    path.write_bytes(compress(path.read_bytes()))
    assert_same(load(path), example())


def test_a_file_may_be_replaced_or_deleted_while_its_model_is_in_use(path: Path, reading: None) -> None:
    save(example(), path)
    mdp = load(path)
    save(example(initial=1), path)
    assert load(path).initial_state == 1
    path.unlink()
    assert_same(mdp, example())


def cut(path: Path) -> None:
    os.truncate(path, 4096)


def touch(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    save(example(initial=1), path)


@pytest.mark.parametrize("change", [cut, touch, replace, Path.unlink])
def test_a_file_that_changes_while_it_is_read_is_an_error_not_a_crash(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(archive, "SMALL", 0)
    save(example(), path)
    umb = Umb(path)
    umb.successor()
    change(path)
    with pytest.raises(FileError, match=r"was changed while it was read\. Load it again|No such file"):
        umb.successor()


def test_archives_of_very_many_members_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = foreign_members()
    monkeypatch.setattr(archive, "MANY_MEMBERS", len(members))
    load(write_members(path, members), damage="damage")
    with pytest.raises(FileError, match=f"an archive must have at most {len(members)} members"):
        load(write_members(path, members | {"one more": b""}))


def test_every_missing_member_is_named(path: Path) -> None:
    members = foreign_members()
    for name in members:
        write_members(path, {k: v for k, v in members.items() if k != name})
        with pytest.raises(CorruptFile, match=f"'{name}' is missing"):
            load(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(path: Path, kind: bytes) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("index.json")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(CorruptFile, match="must be a plain file; it is a link, a device"):
        load(path)


def test_duplicates_are_refused(path: Path) -> None:
    write_members(path, foreign_members())
    os.truncate(path, path.stat().st_size - 512)  # the seal
    with tarfile.open(path, "a") as tar:
        tar.addfile(tarfile.TarInfo("./index.json"))
    with pytest.raises(CorruptFile, match=r"'index.json' occurs twice"):
        load(path)


@pytest.mark.parametrize("size", [10**9, 2**62, -1024])
def test_a_member_with_a_wrong_size(path: Path, size: int) -> None:
    member = tarfile.TarInfo("index.json")
    member.size = size
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(CorruptFile, match=r"more than the file has|truncated or damaged"):
        load(path)


def test_every_truncation_is_detected(path: Path) -> None:
    save(example(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1024, 256):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match=r"model\.umb: .*(truncated|damaged|missing|not a UMB|does not have)"):
            load(path)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_truncated_compressed_files(path: Path, compress: Callable[[bytes], bytes]) -> None:
    save(example(), path)
    whole = compress(path.read_bytes())
    for part in (whole[:40], whole[:-20], whole[: len(whole) // 2] + bytes(8) + whole[len(whole) // 2 + 8 :]):
        path.write_bytes(part)
        with pytest.raises(CorruptFile, match="compressed data are damaged"):
            load(path)


def test_a_compressed_file_must_fit_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(example(), path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr("almostsure.memory.available", lambda: 1000)
    with pytest.raises(NotEnoughMemory, match=r"more than half of the available memory.*Decompress it on disk"):
        load(path)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_small_file_cannot_unpack_to_gigabytes(
    path: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(archive, "UNPACKED", 1 << 22)
    monkeypatch.setattr(archive, "PART", 1 << 20)
    save(example(), path)
    path.write_bytes(compress(path.read_bytes() + bytes(1 << 26)))
    with pytest.raises(CorruptFile, match=r"bytes and unpacks to more than \d+ MiB, unlike any model\. .*hostile"):
        load(path)


def test_files_that_are_no_archives(path: Path, tmp_path: Path) -> None:
    path.write_text("mdp\nmodule m\n")
    with pytest.raises(CorruptFile, match="not a UMB file"):
        load(path)
    with pytest.raises(FileError, match=r"cannot read.*No such file"):
        load(tmp_path / "absent.umb")
    with pytest.raises(FileError, match=r"cannot read.*directory"):
        load(tmp_path)


def test_limits_are_kept_to_the_byte(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(example(), path)
    whole = path.read_bytes()
    packed = gzip.compress(whole)
    path.write_bytes(packed)
    for unpacked, times, have, error in (
        (len(whole), 0, None, None),
        (len(whole) - 1, 0, None, "unlike any model"),
        (0, -(-len(whole) // len(packed)), None, None),
        (0, len(whole) // len(packed) - 1, None, f"the file has {len(packed):,} bytes and unpacks to more than"),
        (len(whole), 0, 2 * len(whole), None),
        (len(whole), 0, 2 * len(whole) - 1, "needs more than half of the"),
    ):
        monkeypatch.setattr(archive, "UNPACKED", unpacked)
        monkeypatch.setattr(archive, "TIMES", times)
        monkeypatch.setattr("almostsure.memory.available", lambda have=have: have)
        if error is None:
            assert_same(load(path), example())
            continue
        with pytest.raises((CorruptFile, NotEnoughMemory), match=error):
            load(path)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128])
def test_bits_arrays_and_strings_are_restored(path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(archive, "CHUNK", 5)
    numbers = np.arange(count)
    bits, words = numbers % 3 == 1, tuple("é" * (n % 4) for n in numbers.tolist())
    with path.open("wb") as file:
        writer = archive.Writer(file, "us")
        writer.bits("bits", bits)
        writer.array("numbers", numbers, "<i4")
        writer.strings("words", words)
        writer.finish()
    found = archive.Archive(path)
    assert (found.sealed, found.owners) == (True, {"us"})
    assert found.bits("bits", count).tolist() == bits.tolist()
    assert found.array("numbers", "<i4", count).tolist() == numbers.tolist()
    assert tuple(found.strings("words", count)) == words
    assert len(found.read("bits")) == (8 if count <= 64 else 16)
    size = 4 * count
    assert len(found.read("numbers", limit=size)) == size
    with pytest.raises(CorruptFile, match=f"'numbers' must have at most {size - 1:,} bytes; it has {size:,}"):
        found.read("numbers", limit=size - 1)


def test_offsets_run_from_0_to_the_end_and_do_not_decrease(path: Path) -> None:
    found = archive.Archive(write_members(path, {"x": b""}))
    found.check_offsets("x", np.array([0, 2, 2, 3]), 3)
    for offsets, message in (
        ([1, 2, 3], "member 'x' must run from 0 to 3; it runs from 1 to 3"),
        ([0, 2, 4], "member 'x' must run from 0 to 3; it runs from 0 to 4"),
        ([0, 2, 1, 3], "member 'x' must not decrease; entry 2 is 1 after 2"),
    ):
        with pytest.raises(CorruptFile, match=message):
            found.check_offsets("x", np.array(offsets), 3)
