"""Logs in CSV and Parquet files: read piece by piece, and refused if they are damaged."""

import csv
import sys
import tracemalloc

import numpy as np
import pytest

from almostsure.errors import CorruptFile, FileError, MissingExtra, ModelError, UnknownName
from almostsure.learn import learn_from_logs
from almostsure.learn.logs import parquet, tables

FIELDS = ("choice", "next_state", "damage", "count", "reward", "samples")
HEADER = "episode,step,s,a,s',r,d,terminated\n"


def learn(log, **options):
    return learn_from_logs(log, **{"mu": 0.2, "delta": 0.05} | options)


def same(first, second):
    first, second = first.kernel, second.kernel
    return first.blank == second.blank and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in FIELDS
    )


def write_csv(path, log):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(log)
        writer.writerows(zip(*(values.tolist() for values in log.values()), strict=True))
    return path


def write_parquet(path, log, **options):
    pyarrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    writer.write_table(pyarrow.table(log), path, **options)
    return path


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(tables, "CHUNK", 64)
    monkeypatch.setattr(parquet, "CHUNK", 64)


@pytest.mark.usefixtures("small_pieces")
def test_files_give_the_same_as_arrays(tmp_path, make_log, hazard):
    log = make_log(hazard, 1000, 5)
    straight = learn(log)
    assert same(learn(write_csv(tmp_path / "log.csv", log)), straight)
    assert same(learn(write_parquet(tmp_path / "log.parquet", log, row_group_size=150)), straight)
    halves = [{name: values[half] for name, values in log.items()} for half in (slice(430), slice(430, None))]
    paths = [write_csv(tmp_path / "1.csv", halves[0]), write_parquet(tmp_path / "2.pq", halves[1])]
    assert same(learn(paths), straight)  # an episode goes on in the second file
    pyarrow = pytest.importorskip("pyarrow")
    assert same(learn(pyarrow.table(log)), straight)


def test_text_in_files(tmp_path):
    log = {"s": ["up", "down"], "a": [0, 1], "s'": ["down", "up"], "d": [0, 1], "episode": ["x", "x"]}
    arrays = {name: np.array(values) for name, values in log.items()}
    plain = learn(log | {"s": [0, 1], "s'": [1, 0]})
    for path in (write_csv(tmp_path / "log.csv", arrays), write_parquet(tmp_path / "log.parquet", log)):
        assert same(learn(path, encode=["up", "down"].index), plain)
        with pytest.raises(ModelError, match=r"state must be an integer, 0 or more; got 'up' at .*Pass encode="):
            learn(path)
    cells = {"s": [[0, 1], [1, 1]], "a": [0, 1], "s'": [[1, 1], [0, 1]], "d": [0, 1]}
    path = write_parquet(tmp_path / "lists.parquet", cells)
    assert same(learn(path, encode=lambda cell: cell[0]), plain)
    with pytest.raises(ModelError, match=r"state must be an integer, 0 or more; got an array of shape \[2\]"):
        learn(path)


def test_memory_follows_what_was_seen(tmp_path):
    size = 1_000_000
    state = np.arange(size) % 50
    log = {"s": state, "a": np.arange(size) % 3, "s'": (state + 1) % 50, "d": np.zeros(size, np.int64)}
    path = write_parquet(tmp_path / "log.parquet", log)
    del log, state
    tracemalloc.start()
    learned = learn(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert learned.samples == size
    assert peak < 12_000_000  # the columns together are 32 MB


# ---------------------------------------------------------------------- bad files


def refused(tmp_path, text, error, match):
    path = tmp_path / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(error, match=match):
        learn(path)


def test_bad_csv_files(tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*No such file"):
        learn(tmp_path / "nowhere.csv")
    refused(tmp_path, "", CorruptFile, "is empty; its first line must name its columns")
    refused(tmp_path, HEADER, ModelError, "a log must hold at least one step")
    refused(
        tmp_path, HEADER + "0,0,0,0,1,0.5,0,0\n0,1,1,0", CorruptFile, "line 3 .* 8 entries.*got 4. Is the file trun"
    )
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,0,0,9\n", CorruptFile, "line 2 .* must have 8 entries.*got 9")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,,0\n", ModelError, "damage must be .*; got nothing at line 2 of ")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,1.5,0\n", ModelError, r"damage must be .*; got 1.5 at line 2 of ")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,nan,0\n", ModelError, "damage must be .*; got NaN at line 2 of ")
    refused(tmp_path, HEADER + "0,0,x,0,1,0.5,0,0\n", ModelError, "state must be .*; got 'x' at line 2 of ")
    refused(
        tmp_path, HEADER + "0,0,0,0,1,0.5,0,perhaps\n", ModelError, "terminated must be true or false; got 'perhaps'"
    )
    refused(tmp_path, HEADER + "0,0,0,0,1,0,0,0\n\n0,2,1,0,1,0,0,0\n", ModelError, "got 2 after 0 at line 4")
    refused(tmp_path, b"\xff\xfe\x00s,a", CorruptFile, "is no CSV file, or is damaged")
    refused(tmp_path, 'state,action,next_state,damage\n0,0,1,"0\n', CorruptFile, "is no CSV file, or is damaged")
    refused(tmp_path, "stat,action,next_state,damage\n", UnknownName, "unknown column 'state'. Did you mean 'stat'")
    refused(tmp_path, "s;a;s';d\n0;0;0;0\n", UnknownName, "has: s;a;s';d")


def test_a_byte_order_mark_and_spaces(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfs, a, s', d, terminated\r\n0, 0, 1, 0, False\r\n1, 1, 0, 2, TRUE\r\n")
    kernel = learn(path).kernel
    assert kernel.damage.tolist() == [0, 2]
    assert kernel.end == 2


def test_bad_parquet_files(tmp_path, make_log, hazard, monkeypatch):
    path = write_parquet(tmp_path / "log.parquet", make_log(hazard, 300, 5))
    content = path.read_bytes()
    for damaged in (content[:-20], content[: len(content) // 2], b"", b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile, match="is no Parquet file, or is damaged or truncated"):
            learn(path)
    with pytest.raises(FileError, match=r"cannot read .*No such file"):
        learn(tmp_path / "nowhere.parquet")
    holes = write_parquet(tmp_path / "holes.parquet", {"s": [0, 0], "a": [0, None], "s'": [0, 0], "d": [0, 1]})
    with pytest.raises(ModelError, match="action must be an integer, 0 or more; got nothing at row 1 of "):
        learn(holes)
    with pytest.raises(UnknownName, match=r"unknown column 'harms'.*has: s, a, s', d"):
        learn(holes, columns={"damage": "harms"})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[logs\]'"):
        learn(holes)
