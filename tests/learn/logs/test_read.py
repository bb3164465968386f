"""Logs in CSV and Parquet files: read in pieces, and refused if they are damaged."""

import csv
import sys
import tracemalloc

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import (
    AlmostSureError,
    ArgumentError,
    CorruptFile,
    FileError,
    LimitReached,
    MissingExtra,
    ModelError,
    UnknownName,
)
from almostsure.learn import learn_from_logs
from almostsure.learn.logs import read

from ..alike import same

HEADER = "episode,step,s,a,s',r,d,terminated\n"


def learn(log, **options):
    return learn_from_logs(log, **{"mu": 0.2, "delta": 0.05} | options)


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
    monkeypatch.setattr(read, "CHUNK", 64)


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
        named = learn(path)
        assert named.mdp.state_names[:2] == ("down", "up")  # in alphabetical order
        assert named.counts.times.tolist() == [1, 1]
    cells = {"s": [[0, 1], [1, 1]], "a": [0, 1], "s'": [[1, 1], [0, 1]], "d": [0, 1]}
    path = write_parquet(tmp_path / "lists.parquet", cells)
    assert same(learn(path, encode=lambda cell: cell[0]), plain)
    with pytest.raises(ModelError, match=r"state must be an integer, 0 or more; got an array of shape \[2\]"):
        learn(path)


def test_memory_grows_with_outcomes_not_rows(tmp_path):
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
    refused(tmp_path, "", CorruptFile, "is not a CSV file, or damaged or truncated: .*[Ee]mpty")
    refused(tmp_path, HEADER, ModelError, "a log must hold at least one step")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,0,0\n0,1,1,0", CorruptFile, "Row #3: Expected 8 columns, got 4")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,0,0,9\n", CorruptFile, "Row #2: Expected 8 columns, got 9")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,,0\n", ModelError, "damage must be .*; got nothing at row 0 of ")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,1.5,0\n", ModelError, r"damage must be .*; got 1.5 at row 0 of ")
    refused(tmp_path, HEADER + "0,0,0,0,1,0.5,nan,0\n", ModelError, "damage must be .*; got nothing at row 0 of ")
    refused(tmp_path, HEADER + "0,0,x,0,1,0.5,0,0\n", ModelError, "numbers or names, not both; they were names")
    refused(
        tmp_path, HEADER + "0,0,0,0,1,much,0,0\n", ModelError, "reward must be a finite number; got 'much' at row 0"
    )
    refused(
        tmp_path, HEADER + "0,0,0,0,1,0.5,0,perhaps\n", ModelError, "terminated must be true or false; got 'perhaps'"
    )
    refused(tmp_path, HEADER + "0,0,0,0,1,0,0,0\n\n0,2,1,0,1,0,0,0\n", ModelError, "got 2 after 0 at row 1")
    refused(tmp_path, b"\xff\xfe\x00s,a", CorruptFile, "is not a CSV file, or damaged")
    refused(tmp_path, 'state,action,next_state,damage\n0,0,1,"0\n', ModelError, "damage must be")
    refused(tmp_path, "stat,action,next_state,damage\n", UnknownName, "unknown column 'state'. Did you mean 'stat'")
    refused(tmp_path, "s;a;s';d\n0;0;0;0\n", UnknownName, "separator of .* seems to be ';'")


def test_amounts_in_late_rows_of_csv_files_may_be_fractions(tmp_path):
    rows = "".join(f"{episode},0,0,0,0,1,1,0\n" for episode in range(80_000))  # types are those of the first megabyte
    path = tmp_path / "log.csv"
    path.write_text(f"{HEADER}{rows}80000,0,0,0,0,0.5,1.0,0\n")
    assert learn(path).counts.damage.tolist() == [1]
    refused(tmp_path, f"{HEADER}{rows}80000,0,0,0,0,1,0.5,0\n", ModelError, "got 0.5 at row 80,000 of ")


def test_no_file_counts_twice(tmp_path):
    path, linked, copy = (tmp_path / name for name in ("log.csv", "link.csv", "copy.csv"))
    for one in (path, copy):
        one.write_text("s,a,s',d\n0,0,0,0\n")
    linked.symlink_to(path)
    assert learn([path, copy]).counts.total == 2
    for again in (path, str(path), linked):
        with pytest.raises(ModelError, match=r"each file of a log must be named once; got '.*\.csv' twice"):
            learn([path, copy, again])


def test_a_byte_order_mark_and_spaces(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfs, a, s', d, terminated\r\n0, 0, 1, 0, False\r\n1, 1, 0, 2, TRUE\r\n")
    counts = learn(path).counts
    assert counts.damage.tolist() == [0, 2]
    assert counts.space.end == 2


def test_bad_parquet_files(tmp_path, make_log, hazard, monkeypatch):
    path = write_parquet(tmp_path / "log.parquet", make_log(hazard, 300, 5))
    content = path.read_bytes()
    for damaged in (content[:-20], content[: len(content) // 2], b"", b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile, match="is not a Parquet file, or damaged or truncated"):
            learn(path)
    with pytest.raises(FileError, match=r"cannot read .*No such file"):
        learn(tmp_path / "nowhere.parquet")
    holes = write_parquet(tmp_path / "holes.parquet", {"s": [0, 0], "a": [0, None], "s'": [0, 0], "d": [0, 1]})
    with pytest.raises(ModelError, match="action must be an integer, 0 or more; got nothing at row 1 of "):
        learn(holes)
    with pytest.raises(UnknownName, match=r"unknown column 'harms'.* Columns that .* has: s, a, s', d"):
        learn(holes, columns={"damage": "harms"})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[logs\]'"):
        learn(holes)


# ---------------------------------------------------------------------- names and invalid numbers


def test_names_of_states_and_actions(tmp_path):
    log = {"s": ["b", "a"] * 40, "a": ["stay", "go"] * 40, "s'": ["a", "b"] * 40, "d": [0, 1] * 40}
    for given in (log, write_csv(tmp_path / "log.csv", {name: np.array(values) for name, values in log.items()})):
        learned = learn(given, actions=["stay", "go"])
        assert learned.mdp.state_names[:2] == ("a", "b")
        assert learned.mdp.action_names == ("stay", "go")
        assert learned.minimal.of("b", "stay") == asure.INFINITE  # in "a", "stay" is unknown and "go" does damage
    named = learn(log, actions=["stay", "go", "jump"])
    assert named.mdp.action_names == ("stay", "go", "jump")
    assert learn(log).mdp.action_names == ("go", "stay")
    with pytest.raises(ModelError, match="actions must name all actions of the log; it shows 'go', too"):
        learn(log, actions=["stay", "jump"])
    with pytest.raises(ArgumentError, match="actions must be names, as in the log; got numbers"):
        learn(log, actions=2)
    with pytest.raises(ArgumentError, match="num_states is for states that are numbers"):
        learn(log, num_states=2)


def test_text_that_is_almost_a_number_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("s,a,s',d\n1_0,0,1_0,0\n1,0,1,0\n")
    with pytest.raises(ModelError, match="state must be an integer, as in other rows; got '1_0' at row 0"):
        learn(path)
    path.write_text("s,a,s',d\n0,0,0,1_0\n")
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got '1_0' at row 0"):
        learn(path)
    with pytest.raises(ModelError, match="numbers or names, not both; they were numbers"):
        learn([{"s": [0], "a": [0], "s'": [0], "d": [0]}, {"s": ["x"], "a": [0], "s'": ["x"], "d": [0]}])


def test_a_small_file_cannot_make_us_allocate_much(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("s,a,s',d,terminated\n0,0,1,0,0\n1,0,30000000,0,0\n30000000,0,0,0,1\n")
    with pytest.raises(LimitReached, match=r"shows 3 different states, .* number 30,000,000.*num_states=30,000,001"):
        learn(path)
    path.write_text("s,a,s',d\n0,999999999,0,0\n")
    with pytest.raises(LimitReached, match=r"shows 1 different actions, .* number 999,999,999"):
        learn(path)


def test_text_that_is_not_utf8(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    text = pyarrow.array([b"a", b"\xff\xfe"], pyarrow.binary()).view(pyarrow.string())
    zero = pyarrow.array([0, 0])
    parquet.write_table(pyarrow.table({"s": text, "a": zero, "s'": text, "d": zero}), tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_bytes(b"s,a,s',d\na,0,a,0\n\xff,0,\xff,0\n")
    for name in ("log.parquet", "log.csv"):
        with pytest.raises(AlmostSureError, match=r"(?i)utf-?8|bytes-like|got b"):
            learn(tmp_path / name)


def test_a_small_parquet_file_cannot_make_us_allocate_much(tmp_path):
    columns = {"s": [0, 1, 30_000_000], "a": [0] * 3, "s'": [1, 30_000_000, 0], "d": [0] * 3}
    write_parquet(tmp_path / "log.parquet", columns)
    with pytest.raises(LimitReached, match=r"shows 3 different states, .* number 30,000,000"):
        learn(tmp_path / "log.parquet")


def test_true_is_damage_one():
    log = {"s": [0, 0] * 40, "a": [0, 0] * 40, "s'": [0, 0] * 40}
    assert same(learn(log | {"d": [True, False] * 40}), learn(log | {"d": [1, 0] * 40}))
