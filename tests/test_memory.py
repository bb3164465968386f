"""The available memory, and refusing runs that need more."""

from __future__ import annotations

import pytest

from almostsure import memory
from almostsure.errors import NotEnoughMemory

GIB = 2**30


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """Pretends to be a container; returns a function that sets its limit, use and file cache."""
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_from_meminfo", lambda: 64 * GIB)

    def write(limit, used, cached=0):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
        (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\nactive_file 0\n")

    return write


def test_a_container_limit_counts(cgroup):
    cgroup(8 * GIB, 3 * GIB)
    assert memory.available() == 5 * GIB


def test_the_page_cache_counts_as_available(cgroup):
    cgroup(8 * GIB, 7 * GIB, cached=6 * GIB)
    assert memory.available() == 7 * GIB


def test_a_container_without_limit(cgroup):
    cgroup("max", 3 * GIB)
    assert memory.available() == 64 * GIB


def test_a_container_beyond_its_limit_has_nothing(cgroup):
    cgroup(GIB, 2 * GIB)
    assert memory.available() == 0


@pytest.mark.parametrize("text", ["", "what", "-"])
def test_nonsense_in_the_container_files_is_not_a_limit(cgroup, tmp_path, text):
    cgroup(text, 0)
    assert memory.available() == 64 * GIB


def test_no_container(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "nowhere")
    have = memory.available()
    assert have is None or have > 0


def test_refusing(monkeypatch):
    memory.require(1, "nothing", "")
    with monkeypatch.context() as full:
        full.setattr(memory, "available", lambda: 0)
        memory.require(1000, "a grid of 8 cells", "")
    with pytest.raises(
        NotEnoughMemory, match=r"all of it needs about 1048576.0 GiB of memory; .* is available. Give up."
    ):
        memory.require(2**50, "all of it", "Give up.")


@pytest.mark.parametrize(("size", "text"), [(0, "0 MiB"), (5 * 2**20, "5 MiB"), (3 * GIB // 2, "1.5 GiB")])
def test_sizes_as_text(size, text):
    assert memory.show(size) == text


def test_untouched_memory_is_zero_and_can_be_written_to():
    zeros = memory.untouched(1000)
    zeros[7] = 1.0
    assert zeros.shape == (1000,)
    assert zeros.sum() == 1.0
    assert memory.untouched(0).size == 0
